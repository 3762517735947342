"""Draws which move of a game follows which, by the specification. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from scripts.generate.figures.game_moves import Edge, Place, beginnings, edges
from scripts.generate.figures.svg_sheet import CHALLENGER, COMMITTER, FAINT, INK, LIGHT, TURN, Sheet
from zoo_compute.spec.frames import Awaits, Game, Phase

ORDER = (Phase.NONE, Phase.SEGMENTS, Phase.STEPS, Phase.NODES, Phase.STATE, Phase.ELEMENTS, Phase.PARTS)
COLUMN = {Awaits.REVEAL: 0, Awaits.PICK: 1, Awaits.OPEN: 2, Awaits.EVIDENCE: 3, Awaits.TRACE: 0, Awaits.PARTS: 4}
CHIP_W, CHIP_H, CHIP_X, STEP_X = 92, 28, 130, 162
SLOT_H = 22


def draw_moves() -> str:
    moves = edges()
    places = sorted({*(edge.at for edge in moves), *(edge.to for edge in moves)})
    ways: dict[tuple[Place, str, Phase], list[Edge]] = {}  # from one tree to another
    for edge in moves:
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
    for edge in {(e.at, e.to): e for e in moves if e.at[0] == e.to[0]}.values():
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
    foot = "At every position but beyond a tree's last leaf: convict. Whoever is silent when a move is due loses: time_out."
    sheet.words(30, y + 24, foot)
    sheet.words(
        30, y + 44, "The challenger may concede at any time. Of a claim that fell elsewhere nobody loses a game."
    )
    return sheet.svg()


def _chip(place: Place, tops: dict[Phase, float]) -> tuple[float, float]:
    return CHIP_X + STEP_X * COLUMN[place[1]], tops[place[0]]


def _draw_chip(sheet: Sheet, place: Place, tops: dict[Phase, float]) -> None:
    x, y = _chip(place, tops)
    colour = TURN[Game(awaits=place[1]).is_challengers_turn]
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
