"""Which node of a program costs most to open in a dispute, from shapes alone."""

from __future__ import annotations

from repops.graph import Graph, Node
from repops.operators import TABLE, steps_per_term, terms

UNCOMPUTED = ("input", "constant", "scalar", "iota")  # their words are given or trivial


def dearest_nodes(graph: Graph) -> list[int]:
    """The node whose leaves are the most to hash, and the one whose element has the most scalar operations; one where they are
    the same, none where the program computes nothing.

    What a word and an operation cost differs from machine to machine, so the two are not weighed here: both are opened.
    """
    computed = [at for at, node in enumerate(graph.nodes) if node.op not in UNCOMPUTED and node.elements]
    if not computed:
        return []
    most_words = max(computed, key=lambda at: _words(graph, graph.nodes[at]))
    most_operations = max(computed, key=lambda at: _operations(graph.nodes[at]))
    return list(dict.fromkeys((most_words, most_operations)))


def describe(graph: Graph, at: int) -> str:
    """A node in a sentence: `node 57 (dot of 4,096 terms, 1,048,576 elements)`."""
    node = graph.nodes[at]
    of = f" of {terms(node):,} terms" if node.reduced else ""
    return f"node {at} ({node.op}{of}, {node.elements:,} elements)"


def _words(graph: Graph, node: Node) -> int:
    """Of its tensor and of those that it reads, whose leaves evidence opens."""
    return node.elements + sum(graph.nodes[at].elements for at in {operand.node for operand in node.operands})


def _operations(node: Node) -> int:
    """Scalar operations of one element."""
    row = TABLE[node.op]
    if row.is_map:
        assert row.recipe is not None
        return len(row.recipe.steps)
    return terms(node) * steps_per_term(node) if row.reduces and node.op != "take" else 1
