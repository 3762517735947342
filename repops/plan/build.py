"""Builds a graph's items, in a valid execution order."""

from __future__ import annotations

from collections.abc import Sequence

from repops.graph import Graph, needed
from repops.plan import lowering
from repops.plan.fuse import Fuser
from repops.plan.ir import Item
from repops.plan.order import Step, whole_step

SOURCES = ("input", "constant", "scalar")  # what is in memory before a step


def plan(graph: Graph, roots: Sequence[int], *, fused: bool) -> list[Item]:
    """Items that compute `roots` and everything they need."""
    if fused:
        return Fuser(graph, roots).run()
    wanted = needed(graph.nodes, roots)
    return [item for at in range(len(graph.nodes)) if wanted[at] for item in lowering.items_of(graph.nodes, at)]


def step(graph: Graph, *, fused: bool) -> Step:
    """Items that compute the loss and update the state."""
    roots = [graph.loss, *(entry.after for entry in graph.state)]
    return whole_step(graph, plan(graph, roots, fused=fused))


def elements(graph: Graph, node: int) -> int:
    """Words of a node's memory. A number beyond the nodes names a copy of a node."""
    return graph.nodes[node % len(graph.nodes)].elements
