"""The exact cost of one step of a program, computed without running it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from repops import operators
from repops.graph import PARAMETER, Graph, Node, Operand, Shape, span
from repops.parts import LEAF

WORD_BYTES = 4
HASHED_A_LEAF = 1 + WORD_BYTES * LEAF + 1 + 64  # a tag and the leaf; a tag and the two children of a node of the tree
INPUT_OPS = ("input", "constant")  # their words are there before the step


@dataclass(frozen=True)
class Profile:
    """Costs of one step.

    flops: scalar operations; a fused multiply-add counts two. depth: flops on the longest dependent chain.
    bytes: read (each word of a view once) and written by the nodes. parameters: elements of the module's parameters.
    state_bytes: size of the state. activation_bytes: peak memory beside the state, if nodes are computed in order, each is
    freed after its last reader, and the new state is kept until the end.
    """

    flops: int
    depth: int
    bytes: int
    parameters: int
    state_bytes: int
    activation_bytes: int
    nodes: int


def profile(graph: Graph) -> Profile:
    nodes = graph.nodes
    sizes = {entry.name: nodes[entry.before].elements for entry in graph.state}
    return Profile(
        flops=sum(map(operators.flops, nodes)),
        depth=_depth(graph),
        bytes=WORD_BYTES * sum(_words(graph, node) for node in nodes),
        parameters=sum(sizes[entry.name] for entry in graph.state if entry.kind == PARAMETER),
        state_bytes=WORD_BYTES * sum(sizes.values()),
        activation_bytes=WORD_BYTES * _peak(graph),
        nodes=len(nodes),
    )


def trace_bytes(graph: Graph) -> int:
    """Bytes that the commitment to every value of one step hashes: leaves with their tags, and the trees over them."""
    return sum(-(-node.elements // LEAF) * HASHED_A_LEAF for node in graph.nodes)


def _depth(graph: Graph) -> int:
    """The longest chain of dependent operations."""
    done: list[int] = []
    for node in graph.nodes:
        before = max((done[operand.node] for operand in node.operands), default=0)
        done.append(before + (operators.depth(node) if node.elements else 0))
    return max(done)


def _words(graph: Graph, node: Node) -> int:
    """Words read and written by one node."""
    if node.op in INPUT_OPS or not node.elements:
        return 0
    total = node.elements
    for number, operand in enumerate(node.operands):
        read = _distinct(operators.domain(node, number), operand)
        # `take` reads one word an element, wherever in its first operand that is.
        total += min(read, node.elements) if node.op == "take" else read
    return total


def _distinct(shape: Shape, operand: Operand) -> int:
    """Words of a view, repeats counted once; where windows overlap, at most the run they lie in."""
    least, most = span(shape, operand)
    spread = math.prod(extent for extent, stride in zip(shape, operand.strides, strict=True) if stride or not extent)
    return min(spread, most - least + 1)


def _peak(graph: Graph) -> int:
    """Most words alive at once, without the state. Batch and constants are alive throughout."""
    nodes = graph.nodes
    state = {entry.before for entry in graph.state}
    kept = {entry.after for entry in graph.state} | {graph.loss}
    last = list(range(len(nodes)))
    for at, node in enumerate(nodes):
        for operand in node.operands:
            last[operand.node] = at
    ends: list[list[int]] = [[] for _ in nodes]
    live = sum(node.elements for at, node in enumerate(nodes) if node.op in INPUT_OPS and at not in state)
    peak = live
    for at, node in enumerate(nodes):
        if node.op not in INPUT_OPS:
            live += node.elements
            if at not in kept:
                ends[last[at]].append(node.elements)
        peak = max(peak, live)
        live -= sum(ends[at])
    return peak
