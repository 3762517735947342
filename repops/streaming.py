"""A step's trace, node by node, in bounded memory.

`Runner.trace` keeps every node in memory. Here the graph is cut into pieces, each a program of its own; its batch is
what it reads from earlier pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from repops import backend
from repops.commitments import Array, canonical
from repops.graph import BATCH_ROLE, F32, Graph, Node, needed
from repops.profile import WORD_BYTES

PIECE_BYTES = 1 << 28  # of the nodes that are computed together
Prepare = Callable[[Graph], backend.Runner]
Values = Iterator[tuple[int, Array]]


@dataclass
class KeptPieces:
    """Pieces of one graph that are ready to run again, for whoever traces several of its steps. Not for several threads.

    A piece is not kept where its values would bring all kept ones above `limit_bytes`: a runner holds the memory of its values.
    """

    limit_bytes: int = 1 << 26
    size_bytes: int = 0
    pieces: dict[tuple[int, ...], tuple[list[int], backend.Runner]] = field(default_factory=dict)

    def ready(
        self, graph: Graph, piece: Sequence[int], make: Callable[[], tuple[list[int], backend.Runner]]
    ) -> tuple[list[int], backend.Runner]:
        """The nodes outside that the piece reads, and its runner."""
        key = tuple(piece)
        if key in self.pieces:
            return self.pieces[key]
        made = make()
        size = WORD_BYTES * sum(graph.nodes[at].elements for at in (*made[0], *piece))
        if self.size_bytes + size <= self.limit_bytes:
            self.size_bytes += size
            self.pieces[key] = made
        return made


def values(
    graph: Graph,
    state: Mapping[str, Array],
    batch: Mapping[str, Array],
    *,
    wanted: Sequence[int] | None = None,
    piece_bytes: int = PIECE_BYTES,
    prepare: Prepare = backend.prepare,
    threads: int = 1,
    kept: KeptPieces | None = None,
) -> Values:
    """Yields (node, value) in the program's order, with canonical NaNs. wanted: only these nodes and their ancestors.

    An input is yielded without a copy if it has no non-canonical NaN.
    """
    nodes = graph.nodes
    takes = [True] * len(nodes) if wanted is None else needed(nodes, wanted)
    last = {operand.node: at for at, node in enumerate(nodes) if takes[at] for operand in node.operands}
    live: dict[int, Array] = {}
    for piece in _pieces(graph, takes, piece_bytes):
        if nodes[piece[0]].op == "input":
            made = [canonical(_input_array(graph, nodes[piece[0]], state, batch))]
        else:
            made = compute(graph, piece, live, prepare=prepare, threads=threads, kept=kept)
        live |= zip(piece, made, strict=True)
        del made
        for at in piece:
            yield at, live[at]
        live = {at: value for at, value in live.items() if last.get(at, -1) > piece[-1]}


def _pieces(graph: Graph, takes: Sequence[bool], limit: int) -> Iterator[list[int]]:
    """Runs of nodes that are computed together. An input forms a run of its own."""
    piece: list[int] = []
    size = 0
    for at, node in enumerate(graph.nodes):
        if not takes[at]:
            continue
        size += WORD_BYTES * node.elements
        if piece and (node.op == "input" or size > limit):
            yield piece
            piece, size = [], WORD_BYTES * node.elements
        piece.append(at)
        if node.op == "input":
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _input_array(graph: Graph, node: Node, state: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    role, position = node.attributes
    return batch[graph.batch[position][0]] if role == BATCH_ROLE else state[graph.state[position].name]


def compute(
    graph: Graph,
    piece: Sequence[int],
    live: Mapping[int, Array],
    *,
    prepare: Prepare = backend.prepare,
    threads: int = 1,
    kept: KeptPieces | None = None,
) -> list[Array]:
    """The values of the nodes in `piece` (ascending, no inputs). live: values of the other nodes that they read."""
    sources, runner = (KeptPieces() if kept is None else kept).ready(graph, piece, lambda: _cut(graph, piece, prepare))
    traced = runner.trace({f"node {at}": live[at] for at in sources}, threads=threads)
    return [np.asarray(value) for value in traced[len(sources) : -1]]


def _cut(graph: Graph, piece: Sequence[int], prepare: Prepare) -> tuple[list[int], backend.Runner]:
    """The nodes outside that a piece reads, and the runner of a program that is the piece."""
    inside = set(piece)
    sources = sorted({operand.node for at in piece for operand in graph.nodes[at].operands} - inside)
    place = {at: number for number, at in enumerate([*sources, *piece])}
    nodes = [
        Node("input", graph.nodes[at].dtype, graph.nodes[at].shape, (), (), (BATCH_ROLE, place[at])) for at in sources
    ]
    for at in piece:
        node = graph.nodes[at]
        operands = tuple(replace(operand, node=place[operand.node]) for operand in node.operands)
        nodes.append(replace(node, operands=operands))
    nodes.append(Node("scalar", F32, (), (), (), (0,)))  # a program has a loss
    constants = {place[at]: graph.constants[at] for at in piece if at in graph.constants}
    named = tuple((f"node {at}", place[at]) for at in sources)
    return sources, prepare(Graph(tuple(nodes), (), named, len(nodes) - 1, constants))
