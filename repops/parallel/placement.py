"""A program whose nodes have owners, and the data that decides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repops.graph import BATCH_ROLE, Graph, Node, Operand, Shape, StateEntry, contiguous, needed, span
from repops.operators import TABLE, domain, flops

MAX_RANKS = 32  # what one `concat` joins


class NotParallel(ValueError):
    """This program cannot be split over these ranks; the message says why and what to change."""


@dataclass(frozen=True)
class Piece:
    """Rows start to stop, along its first axis, of a tensor of the state: the entry `entry` of the placed graph."""

    entry: str
    start: int
    stop: int


@dataclass(frozen=True)
class PlacedProgram:
    """graph: its state entries are pieces. owner: of each node; None if each reader computes it or has it as input.

    pieces: of each tensor of the whole program's state, in order. parts: micro-batches along the batch's first axis.
    """

    graph: Graph
    owner: tuple[int | None, ...]
    pieces: dict[str, tuple[Piece, ...]]
    ranks: int
    parts: int


def check_ranks(ranks: int) -> None:
    if not 2 <= ranks <= MAX_RANKS:
        raise NotParallel(f"{ranks} ranks; expected 2 to {MAX_RANKS}")


def is_free(node: Node) -> bool:
    """Whether every rank has this source: all but the state."""
    return node.op in ("scalar", "constant", "iota") or (node.op == "input" and node.attributes[0] == BATCH_ROLE)


def with_copied_sources(graph: Graph) -> Graph:
    """The same program, where the loss and every tensor that a step changes are computed by a node: sources are copied."""
    nodes, copies = list(graph.nodes), dict[int, int]()

    def made(at: int) -> int:
        node = graph.nodes[at]
        if node.op not in ("input", "scalar", "constant", "iota"):
            return at
        if at not in copies:
            copies[at] = len(nodes)
            nodes.append(whole_copy(node, at))
        return copies[at]

    loss = made(graph.loss)
    state = tuple(e if e.after == e.before else replace(e, after=made(e.after)) for e in graph.state)
    return Graph(tuple(nodes), state, graph.batch, loss, graph.constants)


def with_state_owners(graph: Graph, owner: Sequence[int | None]) -> tuple[Graph, tuple[int | None, ...]]:
    """Compute each new value on its tensor's rank and for that tensor alone; copy the others there."""
    nodes, owners, used = list(graph.nodes), list(owner), set[int]()
    entries: list[StateEntry] = []
    for entry in graph.state:
        if entry.after != entry.before and (entry.after in used or owner[entry.after] != owner[entry.before]):
            entry = replace(entry, after=len(nodes))
            nodes.append(whole_copy(graph.nodes[entry.before], graph.state[len(entries)].after))
            owners.append(owner[entry.before])
        used.add(entry.after)
        entries.append(entry)
    return Graph(tuple(nodes), tuple(entries), graph.batch, graph.loss, graph.constants), tuple(owners)


def whole_copy(node: Node, source: int) -> Node:
    """A node of its own for what `source`, of the same shape, holds."""
    strides = tuple(0 if e <= 1 else s for e, s in zip(node.shape, contiguous(node.shape), strict=True))
    return Node("copy", node.dtype, node.shape, (), (Operand(source, 0, strides),))


def resent(placed: PlacedProgram) -> dict[int, int]:
    """Copies of tensors of the state that only other ranks read -> what they copy. None is made: the tensor is sent again."""
    nodes, owner = placed.graph.nodes, placed.owner
    read: dict[int, set[int | None]] = {}
    for at, node in enumerate(nodes):
        for operand in node.operands:
            read.setdefault(operand.node, set()).add(owner[at])
    ends = {entry.after for entry in placed.graph.state} | {placed.graph.loss}
    out = {}
    for at in read.keys() - ends:
        node = nodes[at]
        if node.op == "copy" and owner[at] not in read[at]:
            source = node.operands[0].node
            if nodes[source].op == "input" and owner[source] == owner[at] and node == whole_copy(nodes[source], source):
                out[at] = source
    return out


def labels(graph: Graph, parts: int) -> list[int]:
    """Which micro-batches each node depends on, as bits; 0 where it depends on none."""
    out: list[int] = []
    for node in graph.nodes:
        label = 0
        for number, operand in enumerate(node.operands):
            source = graph.nodes[operand.node]
            if source.op == "input" and source.attributes[0] == BATCH_ROLE:
                label |= _parts_read(source, domain(node, number), operand, parts)
            else:
                label |= out[operand.node]
        out.append(label)
    return out


def _parts_read(source: Node, shape: Shape, operand: Operand, parts: int) -> int:
    least, most = span(shape, operand)
    if least > most:
        return 0
    size = source.elements // parts
    return (1 << min(most // size, parts - 1) + 1) - (1 << least // size)


def same_size_makers(graph: Graph, labelled: Sequence[int], parts: int) -> dict[str, set[int]]:
    """For each changing tensor of the state: the elementwise nodes of its size that lead up to its new value, and it.

    They run where the tensor is. What belongs to one of several micro-batches is left out: its gradient comes from elsewhere.
    """
    out: dict[str, set[int]] = {}
    for entry in graph.state:
        makers, stack = {entry.before}, [entry.after]
        while stack:
            at = stack.pop()
            node = graph.nodes[at]
            single = parts > 1 and labelled[at].bit_count() == 1
            if at in makers or single or node.elements != graph.nodes[entry.before].elements or is_free(node):
                continue
            if TABLE[node.op].is_map or at == entry.after:
                makers.add(at)
            if TABLE[node.op].is_map:
                stack += [operand.node for operand in node.operands]
        out[entry.name] = makers
    return out


def grouped_tensors(graph: Graph, makers: dict[str, set[int]]) -> list[list[str]]:
    """Groups of tensors with common makers, in order of the state: a parameter and its moments belong on one rank."""
    family: dict[str, int] = {}
    member: dict[int, int] = {}
    joined: list[list[str]] = []
    for entry in graph.state:
        if graph.nodes[entry.before].elements == 1:
            joined.append([entry.name])
            continue
        met = sorted({member[at] for at in makers[entry.name] if at in member})
        target = met[0] if met else len(joined)
        if not met:
            joined.append([])
        for other in met[1:]:
            for name in joined[other]:
                family[name] = target
            joined[target] += joined[other]
            joined[other] = []
            member |= {at: target for at, which in member.items() if which == other}
        joined[target].append(entry.name)
        member |= dict.fromkeys(makers[entry.name], target)
    return [names for names in joined if names]


def node_cost(node: Node) -> int:
    """A rough cost of a node: operations and words moved."""
    return flops(node) + 8 * node.elements


def ancestors(graph: Graph, roots: Sequence[int]) -> list[bool]:
    return needed(graph.nodes, roots)
