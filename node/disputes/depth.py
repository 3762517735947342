"""How deep a game can go, from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from repops.graph import STATE_ROLE, Graph, Node
from repops.parts import part_count
from zoo_compute.spec.frames import height_of
from zoo_compute.spec.params import MAX_SPAN, WORDS_A_LEAF

Sizes = tuple[int, int]  # of a node: its elements, the parts of each
NONE = -1  # the height of a tree that there is not: an element of one part has none of parts, a segment of one step none of steps


@dataclass(frozen=True)
class Depth:
    """The longest game about a program. Heights of the trees; pairs: moves of the committer, each with its answer."""

    segments: int
    steps: int
    state: int
    nodes: int
    elements: int
    parts: int
    pairs: int


def depth(inner_steps: int, segment_steps: int, states: int, nodes: int, sizes: Iterable[Sizes]) -> Depth:
    """Of a training game. states, nodes: how many entries and nodes the program has; sizes: of the nodes that may be deepest."""
    segments = height_of(-(-inner_steps // segment_steps) + 1)
    inside = min(segment_steps, inner_steps)
    steps = height_of(inside + 1) if inside > 1 else NONE
    state, trace = height_of(states), height_of(nodes)
    heights = ((_leaves(count), _leaves(each) if each > 1 else NONE) for count, each in sizes)
    elements, parts = max(heights, key=lambda each: _words(*each))
    # A tree's first children come with the move that enters it, but for SEGMENTS and STATE, which are revealed.
    down = _groups(segments) + _groups(steps) + _groups(trace)
    return Depth(
        segments, steps, state, trace, elements, parts, down + max(_groups(state or NONE), _words(elements, parts))
    )


def depth_of(graph: Graph, inner_steps: int, segment_steps: int) -> Depth:
    return depth(inner_steps, segment_steps, len(graph.state), len(graph.nodes), map(_sizes, graph.nodes))


def _sizes(node: Node) -> Sizes:
    """A tensor that must be another one's is judged by its root, however large it is."""
    if node.op == "constant" or (node.op == "input" and node.attributes[0] == STATE_ROLE):
        return 1, 1
    return node.elements, 1 if node.op == "input" else part_count(node)


def _words(elements: int, parts: int) -> int:
    """The committer's moves in ELEMENTS and PARTS, of these heights: the last one shows a leaf."""
    return sum(_groups(height) + (height > 0) for height in (elements, parts))


def _groups(height: int) -> int:
    """The committer's moves that reveal children; a tree that is its root alone takes one to enter."""
    return 0 if height == NONE else max(1, -(-height // MAX_SPAN))


def _leaves(words: int) -> int:
    """The height of their tree."""
    return height_of(-(-words // WORDS_A_LEAF))
