"""How deep a dispute can go, from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from repops.graph import STATE_ROLE, Graph, Node
from repops.parts import part_count
from zoo_compute.spec.exploration import Tree, TreePosition, root_position, segments_position
from zoo_compute.spec.frames import height_of

Sizes = tuple[int, int]  # of a node: its elements, the parts of each
NONE = -1  # the height of a tree that there is not: an element of one part has none of parts, a segment of one step none of steps


@dataclass(frozen=True)
class Depth:
    """The longest path of a program. Heights of the trees; pairs: asks, each with its answer, from the segments' root down."""

    segments: int
    steps: int
    state: int
    nodes: int
    elements: int
    parts: int
    pairs: int


def depth(inner_steps: int, segment_steps: int, states: int, nodes: int, sizes: Iterable[Sizes]) -> Depth:
    """Of training. states, nodes: how many entries and nodes the program has; sizes: of the nodes that may be deepest."""
    segments = segments_position(inner_steps, segment_steps)
    inside = min(segment_steps, inner_steps)
    steps = root_position(Tree.STEPS, inside + 1) if inside > 1 else None
    state, trace = root_position(Tree.STATE, states), root_position(Tree.NODES, nodes)
    words = [
        (root_position(Tree.ELEMENTS, count), root_position(Tree.PARTS, each) if each > 1 else None)
        for count, each in sizes
    ]
    elements, parts = max(words, key=lambda pair: sum(map(_pairs, pair)))
    below = max(_pairs(state) if state.height else 0, _pairs(elements) + _pairs(parts))
    return Depth(
        segments.height,
        _height(steps),
        height_of(states),
        height_of(nodes),
        _height(elements),
        _height(parts),
        _pairs(segments) + _pairs(steps) + _pairs(trace) + below,
    )


def depth_of(graph: Graph, inner_steps: int, segment_steps: int) -> Depth:
    return depth(inner_steps, segment_steps, len(graph.state), len(graph.nodes), map(_sizes, graph.nodes))


def _sizes(node: Node) -> Sizes:
    """A tensor that must be another one's is judged by its root, however large it is."""
    if node.op == "constant" or (node.op == "input" and node.attributes[0] == STATE_ROLE):
        return 1, 1
    return node.elements, 1 if node.op == "input" else part_count(node)


def _height(position: TreePosition | None) -> int:
    return NONE if position is None else position.height_of_tree


def _pairs(position: TreePosition | None) -> int:
    """Asks from a tree's root to its leaves: the first leads into the tree, and its answer shows the first children, or the words."""
    pairs = 0
    while position is not None:
        pairs += 1
        if position.shows_words or position.span >= position.height:
            return pairs
        position = replace(position, height=position.height - position.span)
    return pairs
