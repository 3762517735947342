"""A graph's items, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence

from repops.graph import Graph, needed
from repops.plan import lowering
from repops.plan.fuse import Fuser
from repops.plan.ir import Item
from repops.plan.order import Step, whole_step


def plan(graph: Graph, roots: Sequence[int], *, fused: bool) -> list[Item]:
    """What computes `roots` and everything they need, into memory."""
    if fused:
        return Fuser(graph, roots).run()
    wanted = needed(graph.nodes, roots)
    return [item for at in range(len(graph.nodes)) if wanted[at] for item in lowering.items_of(graph.nodes, at)]


def step(graph: Graph, *, fused: bool) -> Step:
    """What computes the loss and brings the state from before to after."""
    roots = [graph.loss, *(entry.after for entry in graph.state)]
    return whole_step(graph, plan(graph, roots, fused=fused))


def elements(graph: Graph, node: int) -> int:
    """Words of a node's memory; a number beyond the nodes is a copy of one."""
    return graph.nodes[node % len(graph.nodes)].elements
