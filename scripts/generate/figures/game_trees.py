"""The trees of one game, with the shapes of the demo's model. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.disputes.depth import depth_of
from repops.parts import part_count
from scripts.generate.figures.game_moves import descent
from scripts.generate.figures.svg_sheet import CHALLENGER, COMMITTER, FAINT, LIGHT, PADDING, PAPER, RULE, Sheet
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.sections import read_config
from zoo_compute.spec.frames import Phase, height_of
from zoo_compute.spec.params import WORDS_A_LEAF

CONFIG = Path(__file__).resolve().parents[2] / "demo" / "demo.yaml"
INNER_STEPS, STEP = 500, 268  # of benchmarks/disputes/dispute.py's model; where its lie is
STRIP_X, STRIP_W, STRIP_H, ZOOM_H = 30, 420, 18, 20
NOTE_X = STRIP_X + STRIP_W + 24
RIGHT = "#f4f8fc"  # of what was picked: not looked at


@dataclass(frozen=True)
class Tree:
    """A tree that the game descends: its number of leaves and the leaf it reaches. below: the opening of that leaf."""

    phase: Phase
    over: str
    leaves: int
    leaf: int
    below: str


def demo_trees() -> tuple[list[Tree], Tree, int]:
    """A game about one part of the deepest element of the demo's model; the tree of its state; the pairs of moves at most."""
    config = read_config(CONFIG)
    config["training"] = config["training"] | {"inner_steps": INNER_STEPS, "segment_steps": None}
    job = ComputeJob.from_dict(config)
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
            f"open_leaf, convict: the contract executes part {part}",
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
