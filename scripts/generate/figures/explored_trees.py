"""The trees that a dispute goes down, with the shapes of the demo's model. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from repops.parts import part_count
from scripts.generate.figures.svg_sheet import ASKER, COMMITTER, FAINT, LIGHT, PADDING, PAPER, RULE, Sheet
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.config_file import read_file
from zoo_compute.spec.exploration import Tree, root_position
from zoo_compute.spec.params import WORDS_A_LEAF

CONFIG = Path(__file__).resolve().parents[2] / "demo" / "demo.yaml"
INNER_STEPS, STEP = 500, 268  # where the lie is
STRIP_X, STRIP_W, STRIP_H, ZOOM_H = 30, 420, 18, 20
NOTE_X = STRIP_X + STRIP_W + 24
RIGHT = "#f4f8fc"  # right of what was asked for: not looked at


@dataclass(frozen=True)
class Level:
    """A tree, and the leaf where the lie is. count: leaves, or words; below: what is asked or judged there."""

    tree: Tree
    over: str
    count: int
    leaf: int
    below: str


def demo_trees() -> list[Level]:
    """Down to one part of the element with most parts."""
    config = read_file(CONFIG).content
    config["training"] = config["training"] | {"inner_steps": INNER_STEPS, "segment_steps": None}
    job = ComputeJob.from_dict(config)
    graph, size = job.traced.graph, job.outline().segment_steps
    sizes = [(1 if node.op in ("input", "constant") else part_count(node), node.elements) for node in graph.nodes]
    at = max(range(len(sizes)), key=lambda number: sizes[number])
    node, (parts, elements) = graph.nodes[at], sizes[at]
    element, segment = elements * 5 // 7, STEP // size
    shape = " x ".join(map(str, node.shape))
    return [
        Level(
            Tree.SEGMENTS,
            f"{-(-INNER_STEPS // size)} segments of {size} steps",
            -(-INNER_STEPS // size) + 1,
            segment + 1,
            f"ask 1, for segment {segment}: the bundle shows that its end is wrong and its begin is right",
        ),
        Level(
            Tree.STEPS,
            f"states in segment {segment}",
            size + 1,
            STEP - segment * size + 1,
            f"for step {STEP}, a heavy ask: the operator computes it again",
        ),
        Level(Tree.NODES, f"nodes of step {STEP}", len(graph.nodes), at, f"for node {at} ({node.op} of {shape})"),
        Level(
            Tree.ELEMENTS,
            f"{elements:,} elements of node {at}, {WORDS_A_LEAF} a leaf",
            elements,
            element // WORDS_A_LEAF,
            f"for element {element:,}, which has {parts} parts",
        ),
        Level(
            Tree.PARTS,
            f"{parts} parts of element {element:,}, {WORDS_A_LEAF} a leaf",
            parts,
            (parts - 1) // WORDS_A_LEAF,
            f"judge: the contract computes part {parts - 1} itself",
        ),
    ]


def descent(level: Level) -> Iterator[tuple[int, int, bool]]:
    """(children or leaves that an answer shows, number of the one with the lie, whether it is asked for), from the root down."""
    position = root_position(level.tree, level.count)
    while position.height > 0:
        depth = position.height if position.shows_words else position.span
        below = position.height - depth
        yield 1 << depth, (level.leaf >> below) - (position.index << depth), not position.shows_words
        if position.shows_words:
            return
        position = replace(position, height=below, index=level.leaf >> below)


def draw_descent() -> str:
    levels = demo_trees()
    ways = {level.tree: list(descent(level)) for level in levels}
    ways[Tree.SEGMENTS] = [(1 << root_position(Tree.SEGMENTS, levels[0].count).height, levels[0].leaf, True)]
    sheet = Sheet(
        930, 84 + sum(66 + (STRIP_H + ZOOM_H) * len(ways[each.tree]) for each in levels), "From a claim to one part"
    )
    sheet.words(STRIP_X, 32, "From a claim to one part", size=16, bold=True)
    asks = sum(is_ask for way in ways.values() for *_, is_ask in way) + 1  # the parts of an element too
    about = f"A lie in the demo's model with {INNER_STEPS} inner steps: {asks} asks, each with one answer, and one judgement."
    sheet.words(STRIP_X, 54, about, fill=FAINT)
    legend = (
        (LIGHT[COMMITTER], "right"),
        (ASKER, "the first difference"),
        (RIGHT, "not looked at"),
        (PADDING, "padding"),
    )
    for (fill, text), x in zip(legend, (30, 130, 310, 450), strict=True):
        sheet.box(x, 68, 14, 14, fill, RULE)
        sheet.words(x + 22, 80, text, fill=FAINT)
    y = 92.0
    for level in levels:
        y = _draw_level(sheet, level, ways[level.tree], y)
    return sheet.svg()


def _draw_level(sheet: Sheet, level: Level, way: list[tuple[int, int, bool]], y: float) -> float:
    """A row of what an answer shows, the place with the lie drawn out into the next row. Where the next tree begins."""
    root = root_position(level.tree, level.count)
    below, first = root.height, 0
    sheet.words(STRIP_X, y + 18, level.tree.name, bold=True, size=13)
    sheet.words(STRIP_X + 100, y + 18, level.over)
    y += 28
    for count, place, is_ask in way:
        below -= count.bit_length() - 1
        each = STRIP_W / count
        for at in range(count):
            fill = PADDING if first * count + at << below >= root.leaves else RIGHT if at > place else LIGHT[COMMITTER]
            sheet.box(STRIP_X + at * each, y, each, STRIP_H, ASKER if at == place else fill, PAPER)
        what = "leaves in the bundle" if level.tree == Tree.SEGMENTS else "children" if is_ask else "leaves of words"
        shows = f"{count} {what}"
        sheet.words(NOTE_X, y + STRIP_H / 2 + 4, shows if count > 1 else "one leaf of words", fill=COMMITTER)
        sheet.words(
            NOTE_X + 180, y + STRIP_H / 2 + 4, f"number {place} {'is asked for' if is_ask else 'is false'}", fill=ASKER
        )
        first, left = first * count + place, STRIP_X + place * each
        y += STRIP_H
        if below:
            sheet.area(
                [(left, y), (left + each, y), (STRIP_X + STRIP_W, y + ZOOM_H), (STRIP_X, y + ZOOM_H)], LIGHT[ASKER]
            )
        y += ZOOM_H
    tip, low = (left + each / 2, y - 8) if way else (STRIP_X + 8, y - 24)
    if way:
        sheet.line([(tip, y - ZOOM_H), (tip, low), (STRIP_X + 8, low), (STRIP_X + 8, y + 4)], ASKER, arrow=True)
    sheet.words(STRIP_X + 20, y + 6, level.below)
    return y + 38
