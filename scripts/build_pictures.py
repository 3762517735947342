"""Draws the pictures of docs/referee.md from the code: docs/pictures/*.svg.

    python scripts/build_pictures.py [--check]

descent.svg: the trees that a game about the demo's model goes through, with that program's shapes; moves.svg: which move is due
after which, as the specification takes them; clocks.svg: the seconds of one game, as the specification counts them.
`--check` exits 1 when one is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from drawing import CHALLENGER, COMMITTER, FAINT, INK, LIGHT, PADDING, PAPER, RULE, Sheet  # noqa: E402
from game_moves import Edge, Place, beginnings, descent, edges  # noqa: E402

from zoo_compute.spec.games import Awaits, Game, Phase, height_of  # noqa: E402
from zoo_compute.spec.params import MOVE_LATE_PART, PRODUCTION, WORDS_A_LEAF  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
COLOUR = {False: COMMITTER, True: CHALLENGER}  # is_challengers

# --- the trees of one game --------------------------------------------------------------------------------------------

INNER_STEPS, STEP = 500, 268  # of benchmarks/dispute.py's model; where its lie is
STRIP_X, STRIP_W, STRIP_H, ZOOM_H = 30, 420, 18, 20
NOTE_X = STRIP_X + STRIP_W + 24
RIGHT = "#f4f8fc"  # of what was picked: not looked at


@dataclass(frozen=True)
class Tree:
    """One that the game goes down: over how many leaves, to which. below: what the opening of that leaf is."""

    phase: Phase
    over: str
    leaves: int
    leaf: int
    below: str


def demo_trees() -> tuple[list[Tree], Tree, int]:
    """A game about one part of the deepest element of the demo's model; the tree of its state; the pairs of moves at most."""
    from node.disputes.depth import depth_of
    from repops.parts import part_count
    from zoo_compute.job import ComputeJob
    from zoo_compute.sections import read_config

    given = read_config(ROOT / "scripts" / "demo.yaml")
    given["training"] = given["training"] | {"inner_steps": INNER_STEPS, "segment_steps": None}
    job = ComputeJob.from_dict(given)
    graph, segment = job.traced.graph, job.outline().segment_steps
    sizes = [(1 if node.op in ("input", "constant") else part_count(node), node.elements) for node in graph.nodes]
    at = max(range(len(sizes)), key=lambda number: sizes[number])
    node, (parts, elements) = graph.nodes[at], sizes[at]
    element, part, first = elements * 5 // 7, parts - 1, STEP // segment * segment
    shape = " x ".join(map(str, node.shape))
    trees = [
        Tree(
            Phase.SEGMENTS,
            f"states at steps 0, {segment}, {2 * segment}, ..., {INNER_STEPS}",
            -(-INNER_STEPS // segment) + 1,
            STEP // segment + 1,
            f"open_segment: the state at step {first} is agreed, that at {first + segment} is not",
        ),
        Tree(
            Phase.STEPS,
            f"states at steps {first} to {first + segment}",
            segment + 1,
            STEP - first + 1,
            f"open_step: step {STEP} begins with an agreed state",
        ),
        Tree(
            Phase.NODES,
            f"nodes of step {STEP}",
            len(graph.nodes),
            at,
            f"open_node: node {at}, {node.op}, {shape}; what it reads is agreed",
        ),
        Tree(
            Phase.ELEMENTS,
            f"{elements:,} words of node {at}, {WORDS_A_LEAF} a leaf",
            -(-elements // WORDS_A_LEAF),
            element // WORDS_A_LEAF,
            f"open_leaf, ask_parts: element {element:,} is false, and has {parts} parts",
        ),
        Tree(
            Phase.PARTS,
            f"{parts} parts of element {element:,}, {WORDS_A_LEAF} a leaf",
            -(-parts // WORDS_A_LEAF),
            part // WORDS_A_LEAF,
            f"open_leaf, convict: part {part}, 64 scalar operations at most, done by the contract",
        ),
    ]
    end = Tree(
        Phase.STATE,
        f"entries of the state at step {STEP + 1}",
        len(graph.state),
        31,
        "convict: not what the trace ends in",
    )
    return trees, end, depth_of(graph, INNER_STEPS, segment).pairs


def draw_descent() -> str:
    trees, end, pairs = demo_trees()
    every = [*trees, end]
    height = 142 + sum(_tree_height(tree) for tree in every)
    sheet = Sheet(930, height, "The trees of one game")
    sheet.words(STRIP_X, 32, "From a claim to one part", size=16, bold=True)
    about = f"A game about the demo's model with {INNER_STEPS} inner steps: at most {pairs} moves of the committer."
    sheet.words(STRIP_X, 54, about, fill=FAINT)
    legend = (
        (LIGHT[COMMITTER], "agreed"),
        (CHALLENGER, "the first difference"),
        (RIGHT, "not looked at"),
        (PADDING, "padding"),
    )
    for (fill, text), x in zip(legend, (30, 130, 310, 450), strict=True):
        sheet.box(x, 68, 14, 14, fill, RULE)
        sheet.words(x + 22, 80, text, fill=FAINT)
    y = 92.0
    for tree in trees:
        y = _draw_tree(sheet, tree, y)
    sheet.line([(STRIP_X, y + 4), (900, y + 4)], RULE)
    text = (
        "Where the trace is right and the state after it is not: dispute_state at the root of NODES goes here instead."
    )
    sheet.words(STRIP_X, y + 26, text, fill=FAINT)
    _draw_tree(sheet, end, y + 36)
    return sheet.svg()


def _tree_height(tree: Tree) -> float:
    return 66 + (STRIP_H + ZOOM_H) * len(descent(tree.leaves, tree.leaf))


def _draw_tree(sheet: Sheet, tree: Tree, y: float) -> float:
    """A row of the children that a move reveals, the picked one drawn out into the next row. Where the next tree begins."""
    below, index = height_of(tree.leaves), 0
    sheet.words(STRIP_X, y + 18, tree.phase.name, bold=True, size=13)
    sheet.words(STRIP_X + 100, y + 18, f"{tree.over}: {tree.leaves:,} leaves, height {below}")
    y += 28
    for count, place in descent(tree.leaves, tree.leaf):
        below -= count.bit_length() - 1
        first, each = index * count, STRIP_W / count
        for at in range(count):
            fill = PADDING if first + at << below >= tree.leaves else RIGHT if at > place else LIGHT[COMMITTER]
            sheet.box(STRIP_X + at * each, y, each, STRIP_H, CHALLENGER if at == place else fill, PAPER)
        revealed = "its root alone" if count == 1 else f"{count} children revealed"
        sheet.words(NOTE_X, y + STRIP_H / 2 + 4, revealed, fill=COMMITTER)
        sheet.words(NOTE_X + 160, y + STRIP_H / 2 + 4, f"number {place} picked", fill=CHALLENGER)
        index, left = first + place, STRIP_X + place * each
        y += STRIP_H
        if below:
            sheet.area(
                [(left, y), (left + each, y), (STRIP_X + STRIP_W, y + ZOOM_H), (STRIP_X, y + ZOOM_H)], LIGHT[CHALLENGER]
            )
        y += ZOOM_H
    tip, low = left + each / 2, y - 8
    sheet.line([(tip, y - ZOOM_H), (tip, low), (STRIP_X + 8, low), (STRIP_X + 8, y + 4)], CHALLENGER, arrow=True)
    sheet.words(STRIP_X + 20, y + 6, tree.below)
    return y + 38


# --- the moves --------------------------------------------------------------------------------------------------------

ORDER = (Phase.NONE, Phase.SEGMENTS, Phase.STEPS, Phase.NODES, Phase.STATE, Phase.ELEMENTS, Phase.PARTS)
COLUMN = {Awaits.REVEAL: 0, Awaits.PICK: 1, Awaits.OPEN: 2, Awaits.EVIDENCE: 3, Awaits.TRACE: 0, Awaits.PARTS: 4}
CHIP_W, CHIP_H, CHIP_X, STEP_X = 92, 28, 130, 162
SLOT_H = 22


def draw_moves() -> str:
    found = edges()
    places = sorted({*(edge.at for edge in found), *(edge.to for edge in found)})
    ways: dict[tuple[Place, str, Phase], list[Edge]] = {}  # from one tree to another
    for edge in found:
        if edge.at[0] != edge.to[0]:
            ways.setdefault((edge.at, edge.move, edge.to[0]), []).append(edge)
    order = sorted(ways, key=lambda way: (ORDER.index(way[0][0]), ORDER.index(way[2]), way))
    tops, y = {}, 110.0
    for phase in ORDER:
        arriving = sum(way[2] == phase for way in order)
        tops[phase] = y + SLOT_H * arriving + 10
        y = tops[phase] + CHIP_H + 44
    sheet = Sheet(960, y + 66, "The moves of a game")
    sheet.words(30, 32, "Which move is due after which", size=16, bold=True)
    for colour, x, text in ((COMMITTER, 30, "the committer's turn"), (CHALLENGER, 210, "the challenger's turn")):
        sheet.box(x, 46, 14, 14, LIGHT[colour], colour, radius=3)
        sheet.words(x + 22, 58, text, fill=FAINT)
    sheet.words(400, 58, "* a move that anybody may make: it has one right answer", fill=FAINT)
    for phase in ORDER:
        if phase != Phase.NONE:
            sheet.words(30, tops[phase] + CHIP_H / 2 + 4, phase.name, bold=True)
    _draw_ways(sheet, ways, order, tops)
    for edge in {(e.at, e.to): e for e in found if e.at[0] == e.to[0]}.values():
        _draw_inside(sheet, edge, tops)
    for place in places:
        _draw_chip(sheet, place, tops)
    for place in beginnings():
        x, top = _chip(place, tops)
        sheet.line([(x + CHIP_W / 2, top - 24), (x + CHIP_W / 2, top)], arrow=True)
        sheet.words(
            x + CHIP_W / 2 + 8,
            top - 12,
            "challenge" + (", of training" if place[0] else ", of an update or an aggregation"),
        )
    foot = "Wherever the game stands but beyond a tree's last leaf: convict. Whoever is silent when a move is due loses: time_out."
    sheet.words(30, y + 24, foot)
    sheet.words(30, y + 44, "The challenger may concede at any time; a game whose claim fell elsewhere is settled.")
    return sheet.svg()


def _chip(place: Place, tops: dict[Phase, float]) -> tuple[float, float]:
    return CHIP_X + STEP_X * COLUMN[place[1]], tops[place[0]]


def _draw_chip(sheet: Sheet, place: Place, tops: dict[Phase, float]) -> None:
    x, y = _chip(place, tops)
    colour = COLOUR[Game(awaits=place[1]).is_challengers_turn]
    sheet.box(x, y, CHIP_W, CHIP_H, LIGHT[colour], colour, radius=6)
    sheet.words(x + CHIP_W / 2, y + CHIP_H / 2 + 4, place[1].name, anchor="middle", fill=INK)


def _label(edge: Edge) -> str:
    return edge.move + ("*" if edge.by == "anybody" else "")


def _draw_inside(sheet: Sheet, edge: Edge, tops: dict[Phase, float]) -> None:
    """A move that stays in its tree: to the next column straight, further or back below the row."""
    (x, y), (to_x, _) = _chip(edge.at, tops), _chip(edge.to, tops)
    middle = y + CHIP_H / 2
    if to_x - x == STEP_X:
        sheet.line([(x + CHIP_W, middle), (to_x, middle)], arrow=True)
        sheet.words((x + CHIP_W + to_x) / 2, middle - 5, _label(edge), size=10, anchor="middle", fill=FAINT)
        return
    bottom = y + CHIP_H
    is_back = to_x < x
    start, end = (x + 20, to_x + CHIP_W - 20) if is_back else (x + CHIP_W - 20, to_x + 20)
    low = bottom + 18
    sheet.line([(start, bottom), (start, low), (end, low), (end, bottom)], arrow=True)
    at = min(start, end) + (abs(end - start) / 2 if is_back else 50)
    sheet.words(at, low - 4, _label(edge), size=10, anchor="middle", fill=FAINT)


def _draw_ways(
    sheet: Sheet,
    ways: dict[tuple[Place, str, Phase], list[Edge]],
    order: list[tuple[Place, str, Phase]],
    tops: dict[Phase, float],
) -> None:
    """Out of a chip below, into the next row from above; past other rows in a lane on the right."""
    lanes = [way for way in order if ORDER.index(way[2]) - ORDER.index(way[0][0]) > 1]
    for way in order:
        at, _, phase = way
        x, y = _chip(at, tops)
        leaving = [each for each in order if each[0] == at]
        out = x + CHIP_W / 2 + 14 * (leaving.index(way) - (len(leaving) - 1) / 2)
        arriving = [each for each in order if each[2] == phase]
        channel = tops[phase] - 16 - SLOT_H * arriving.index(way)
        targets = [_chip(edge.to, tops)[0] + CHIP_W / 2 + 12 * arriving.index(way) - 12 for edge in ways[way]]
        way_down = [(out, y + CHIP_H), (out, channel)]
        if way in lanes:
            lane, aside = 930 - 16 * lanes.index(way), y + CHIP_H + 26 + 7 * leaving.index(way)
            way_down = [(out, y + CHIP_H), (out, aside), (lane, aside), (lane, channel)]
        ends = [way_down[-1][0], *targets]
        sheet.line([*way_down, (min(ends), channel), (max(ends), channel)], INK, wide=1)
        for target in targets:
            sheet.line([(target, channel), (target, tops[phase])], INK, wide=1, arrow=True)
        sheet.words(min(targets) + 44, channel - 4, _label(ways[way][0]), size=11)


# --- the clocks -------------------------------------------------------------------------------------------------------

GAMES, REEXECUTE_S = 1, 1_800
# How long each move takes, in parts of what it may take at most; the last one is not made.
WAITS = (0.10, 0.30, 0.95, 0.20, 0.60, 0.85, 0.40, 0.30, 0.70, 0.20, 0.97, 0.50, 0.60)
PLOT_X, PLOT_W = 130, 760


@dataclass(frozen=True)
class Turn:
    """One move: the game before it, when it was made, the game after it; none where it was not made."""

    before: Game
    at: int
    after: Game | None


def turns() -> Iterator[Turn]:
    extra = GAMES * REEXECUTE_S
    side = PRODUCTION.side_s + extra
    game = Game(awaits=Awaits.REVEAL, move_s=PRODUCTION.move_s + extra, committer_left=side, challenger_left=side)
    for wait in WAITS:
        at = game.at + int(wait * (game.due - game.at))
        after = replace(game.moved(at), awaits=Awaits.REVEAL if game.is_challengers_turn else Awaits.PICK)
        yield Turn(game, at, after)
        game = after
    yield Turn(game, game.due, None)


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h"


def draw_clocks() -> str:
    played = list(turns())
    end = played[-1].before.due
    sheet = Sheet(930, 470, "The clocks of one game")
    first = played[0].before
    sheet.words(30, 32, "The clocks of one game", size=16, bold=True)
    about = f"Production, {hours(REEXECUTE_S)} for a re-execution: a move within {hours(first.move_s)}, a side within {hours(first.committer_left)} in all."
    sheet.words(30, 54, about, fill=FAINT)
    scale = PLOT_W / end
    for turn in played:
        _draw_turn(sheet, turn, scale)
    _draw_left(sheet, played, scale)
    return sheet.svg()


def _draw_turn(sheet: Sheet, turn: Turn, scale: float) -> None:
    """A bar until the move; what was left of its limit in outline; the last part of the limit darker."""
    game = turn.before
    colour = COLOUR[game.is_challengers_turn]
    y = 112.0 if game.is_challengers_turn else 78.0
    start, made, due = (PLOT_X + scale * at for at in (game.at, turn.at, game.due))
    late = PLOT_X + scale * (game.at + game.move_s * (MOVE_LATE_PART - 1) / MOVE_LATE_PART)
    sheet.box(start, y, due - start, 22, LIGHT[colour])
    if late < due:
        sheet.box(late, y, due - late, 22, "#f2d675")
    sheet.box(start, y + 5, made - start, 12, colour)
    if turn.after is None:
        sheet.line([(due, y - 4), (due, y + 26)], INK, wide=2)
        sheet.words(due, y + 40, "time_out from here on", anchor="end")


def _draw_left(sheet: Sheet, played: list[Turn], scale: float) -> None:
    """What either side has left, over time."""
    low, high = 400.0, 180.0
    most = max(max(turn.before.committer_left, turn.before.challenger_left) for turn in played)
    up = (low - high) / most
    for name, y in (("committer", 93), ("challenger", 127)):
        sheet.words(30, y, name, fill=COLOUR[name == "challenger"])
    tick = 4 * 3600
    for seconds in range(0, most + 1, tick):
        y = low - up * seconds
        sheet.line([(PLOT_X, y), (PLOT_X + PLOT_W, y)], RULE, wide=1)
        sheet.words(PLOT_X - 8, y + 4, hours(seconds) if seconds else "0", anchor="end", fill=FAINT)
    sheet.words(30, high - 6, "left", fill=FAINT)
    for is_challengers, name in ((False, "committer_left"), (True, "challenger_left")):
        points = []
        for turn in played:
            left, x = getattr(turn.before, name), PLOT_X + scale * turn.before.at
            points.append((x, low - up * left))
            if turn.before.is_challengers_turn == is_challengers:
                left -= turn.at - turn.before.at
            points.append((PLOT_X + scale * turn.at, low - up * left))
        sheet.line(points, COLOUR[is_challengers], wide=2)
    for turn in played:
        _draw_gift(sheet, turn, scale, low, up)
    sheet.words(PLOT_X, low + 22, "0", anchor="middle", fill=FAINT)
    sheet.words(PLOT_X + PLOT_W, low + 22, hours(played[-1].before.due), anchor="middle", fill=FAINT)
    sheet.box(PLOT_X, low + 36, 14, 14, "#f2d675")
    sheet.words(
        PLOT_X + 22,
        low + 48,
        "the last quarter of a move's limit: who moves there gives the other side the limit more in all",
    )


def _draw_gift(sheet: Sheet, turn: Turn, scale: float, low: float, up: float) -> None:
    game, after = turn.before, turn.after
    name = "committer_left" if game.is_challengers_turn else "challenger_left"
    if after and getattr(after, name) > getattr(game, name):
        x = PLOT_X + scale * turn.at
        gift = getattr(after, name) - getattr(game, name)
        y = low - up * (getattr(after, name) - gift / 2)
        sheet.words(x - 6, y, f"+ {hours(gift)}", anchor="end", size=11, fill=COLOUR[not game.is_challengers_turn])


PICTURES: dict[str, Callable[[], str]] = {"descent": draw_descent, "moves": draw_moves, "clocks": draw_clocks}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a picture is stale")
    arguments = parser.parse_args()
    stale = 0
    for name, draw in PICTURES.items():
        path, made = FOLDER / f"{name}.svg", draw()
        if not arguments.check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(made)
        elif not path.exists() or path.read_text() != made:
            print(f"docs/pictures/{name}.svg is stale: run `make docs`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
