"""Splits nodes along an axis of their shape, each piece on its own rank; never along a reduced axis.

A piece reads one piece of an operand if its view lies within it; otherwise it gathers the whole tensor first. Among
several possible axes the cheapest to send wins. Large tensors of the state are split along their first axis, together
with the nodes that compute their new values, so a rank has them whole only while it reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from repops.graph import I32, STATE_ROLE, Graph, Node, Operand, Shape, StateEntry, contiguous, coordinates, span
from repops.operators import domain
from repops.parallel.placement import (
    NotParallel,
    Piece,
    PlacedProgram,
    ancestors,
    check_ranks,
    is_free,
    labels,
    node_cost,
    same_size_makers,
    whole_copy,
    with_copied_sources,
    with_state_owners,
)
from repops.parallel.schedule import MESSAGE, WORD

LEAST = 256  # words


@dataclass(frozen=True)
class Price:
    """message: cost of a message before its first word, in operations. least: words below which nothing is split."""

    message: int = MESSAGE
    least: int = LEAST


def tensor(graph: Graph, ranks: int, parts: int = 1, price: Price = Price()) -> PlacedProgram:
    """Any axis of any node."""
    return _Splitter(with_copied_sources(graph), ranks, parts, price, rows=False).placed()


def rows(graph: Graph, ranks: int, parts: int = 1, price: Price = Price()) -> PlacedProgram:
    """First axes only: examples for what has them, rows of weights for their gradients. Data-parallel without micro-batches."""
    return _Splitter(with_copied_sources(graph), ranks, parts, price, rows=True).placed()


Section = tuple[int, bool]  # a micro-batch, and whether its forward pass: between them, gathered weights are let go


@dataclass(frozen=True)
class SplitValue:
    """A node after the split: one node of the new graph, or one a rank, cut along `axis` at `bounds`."""

    nodes: tuple[int, ...]
    axis: int = -1
    bounds: tuple[int, ...] = ()


def piece_view(value: SplitValue, source: Shape, shape: Shape, operand: Operand) -> tuple[int, Operand] | None:
    """The piece of `source` that contains a view, and the view on it; None if the view may touch several pieces."""
    if value.axis == 0:
        size = math.prod(source[1:])
        least, most = span(shape, operand)
        for number, (start, stop) in enumerate(pairwise(value.bounds)):
            if start * size <= least and most < stop * size:
                return number, replace(operand, node=value.nodes[number], offset=operand.offset - start * size)
    steps = _along(source, shape, operand)
    if steps is None:
        return None
    first = list(coordinates(source, operand.offset))
    low = high = first[value.axis]
    for extent, (axis, step) in zip(shape, steps, strict=True):
        if axis == value.axis:
            low, high = low + min(0, (extent - 1) * step), high + max(0, (extent - 1) * step)
    for number, (start, stop) in enumerate(pairwise(value.bounds)):
        if start <= low and high < stop:
            own = contiguous((*source[: value.axis], stop - start, *source[value.axis + 1 :]))
            first[value.axis] -= start
            offset = sum(place * stride for place, stride in zip(first, own, strict=True))
            return number, Operand(value.nodes[number], offset, tuple(step * own[axis] for axis, step in steps))
    return None


def _along(source: Shape, shape: Shape, operand: Operand) -> list[tuple[int, int]] | None:
    """Each axis of a view as steps along one axis of its source; None if it runs over the end of one."""
    strides = contiguous(source)
    reach = [(place, place) for place in coordinates(source, operand.offset)]
    out: list[tuple[int, int]] = []
    for extent, stride in zip(shape, operand.strides, strict=True):
        if stride == 0 or extent <= 1:
            out.append((0, 0))
            continue
        fitting = [axis for axis, own in enumerate(strides) if source[axis] > 1 and stride % own == 0]
        if not fitting:
            return None
        axis = max(fitting, key=lambda axis: (strides[axis] <= abs(stride), strides[axis]))
        step = stride // strides[axis]
        low, high = reach[axis]
        reach[axis] = (low + min(0, (extent - 1) * step), high + max(0, (extent - 1) * step))
        out.append((axis, step))
    inside = all(low >= 0 and high < extent for (low, high), extent in zip(reach, source, strict=True))
    return out if inside else None


class _Splitter:
    def __init__(self, graph: Graph, ranks: int, parts: int, price: Price, *, rows: bool) -> None:
        check_ranks(ranks)
        self.graph, self.ranks, self.parts, self.price, self.rows = graph, ranks, parts, price, rows
        self.nodes: list[Node] = []
        self.owner: list[int | None] = []
        self.constants: dict[int, bytes] = {}
        self.values: list[SplitValue] = []
        self.there: set[tuple[int, int]] = set()  # (new node, rank) that it was sent to
        self.gathered: dict[tuple[int, int, Section], int] = {}  # (node, rank) -> the whole of it there
        self.again: dict[tuple[int, Section], int] = {}  # piece of the state -> what is sent of it for a section
        self.section: Section = (0, False)
        self.shifted: dict[tuple[int, int], int] = {}
        self.before = {entry.before: entry for entry in graph.state}
        makers = same_size_makers(graph, labels(graph, parts), parts)
        self.with_state = {
            at
            for entry in graph.state
            for at in makers[entry.name]
            if graph.nodes[at].shape == graph.nodes[entry.before].shape
        }

    def placed(self) -> PlacedProgram:
        forward, label = ancestors(self.graph, [self.graph.loss]), labels(self.graph, self.parts)
        for at, node in enumerate(self.graph.nodes):
            self.section = (label[at], forward[at])
            self.values.append(self._value(at, node))
        state, pieces = self._state()
        if not any(len(parts) > 1 for parts in pieces.values()):
            least = f"at least {self.price.least} words and {self.ranks} rows"
            raise NotParallel(f"split: no tensor of the state has {least}; take fewer ranks, or one process")
        at_position = {entry.before: position for position, entry in enumerate(state)}
        nodes = [
            replace(node, attributes=(STATE_ROLE, at_position[at])) if at in at_position else node
            for at, node in enumerate(self.nodes)
        ]
        batch = tuple((name, self.values[at].nodes[0]) for name, at in self.graph.batch)
        loss = self.values[self.graph.loss].nodes[0]
        graph, owner = with_state_owners(Graph(tuple(nodes), state, batch, loss, self.constants), self.owner)
        return PlacedProgram(graph, owner, pieces, self.ranks, self.parts)

    def _add(self, node: Node, owner: int | None) -> int:
        self.nodes.append(node)
        self.owner.append(owner)
        return len(self.nodes) - 1

    def _value(self, at: int, node: Node) -> SplitValue:
        if is_free(node):
            made = self._add(node, None)
            if at in self.graph.constants:
                self.constants[made] = self.graph.constants[at]
            return SplitValue((made,))
        if at in self.before:
            return self._made(at, node, 0) if self._is_large(node) else SplitValue((self._add(node, 0),))
        axis, rank = self._choice(at, node)
        if axis >= 0:
            return self._made(at, node, axis)
        operands = tuple(self._view(at, number, rank) for number in range(len(node.operands)))
        return SplitValue((self._add(replace(node, operands=operands), rank),))

    def _made(self, at: int, node: Node, axis: int) -> SplitValue:
        """Its pieces. A piece of a scatter along the split axis sees indices from its own first row on."""
        bounds = self._bounds(node.shape[axis])
        out = []
        for rank, (start, stop) in enumerate(pairwise(bounds)):
            cut = (axis, start, stop)
            operands = [self._view(at, number, rank, cut) for number in range(len(node.operands))]
            if node.op in ("scatter", "scatter_add") and node.attributes[0] == axis and start:
                operands[1] = replace(operands[1], node=self._less(operands[1].node, start, rank))
            shape = (*node.shape[:axis], stop - start, *node.shape[axis + 1 :])
            out.append(self._add(replace(node, shape=shape, operands=tuple(operands)), rank))
        return SplitValue(tuple(out), axis, bounds)

    def _is_large(self, node: Node) -> bool:
        """Whether a tensor of the state is cut, and what has its shape and makes its new value with it."""
        return bool(node.shape) and node.elements >= self.price.least and node.shape[0] >= self.ranks

    def _bounds(self, extent: int) -> tuple[int, ...]:
        return tuple(extent * rank // self.ranks for rank in range(self.ranks + 1))

    def _less(self, at: int, start: int, rank: int) -> int:
        """The indices of node `at`, less `start`: none that was outside comes inside, for extents are below 2^31."""
        if (at, start) not in self.shifted:
            node = self.nodes[at]
            first = self._add(Node("scalar", I32, (), attributes=(start,)), None)
            operands = (_whole(at, node.shape), Operand(first, 0, (0,) * len(node.shape)))
            self.shifted[at, start] = self._add(Node("isub", I32, node.shape, (), operands), rank)
        return self.shifted[at, start]

    # --- operands

    def _view(self, at: int, number: int, rank: int, cut: tuple[int, int, int] | None = None) -> Operand:
        """An operand in the new graph, as `rank` reads it; gathers pieces that the rank lacks."""
        operand, shape = _restricted(self.graph.nodes[at], number, cut)
        value = self.values[operand.node]
        if len(value.nodes) == 1:
            view = replace(operand, node=self._sent_as(value.nodes[0], rank))
        else:
            hit = piece_view(value, self.graph.nodes[operand.node].shape, shape, operand)
            read = self._sent_as(hit[1].node, rank) if hit else self._gather(operand.node, rank)
            view = replace(hit[1] if hit else operand, node=read)
        self.there.add((view.node, rank))
        strides = tuple(0 if extent <= 1 else stride for extent, stride in zip(shape, view.strides, strict=True))
        return replace(view, strides=strides)

    def _sent_as(self, at: int, rank: int) -> int:
        """A node, or what another rank is sent of a tensor of the state in this section."""
        node = self.nodes[at]
        if self.owner[at] in (None, rank) or node.op != "input":
            return at
        key = (at, self.section)
        if key not in self.again:
            self.again[key] = self._add(whole_copy(node, at), self.owner[at])
        return self.again[key]

    def _gathered(self, at: int, rank: int) -> tuple[int, int, Section]:
        return (at, rank, self.section if at in self.before else (0, False))

    def _gather(self, at: int, rank: int) -> int:
        key = self._gathered(at, rank)
        if key not in self.gathered:
            node, value = self.graph.nodes[at], self.values[at]
            read = [self._sent_as(piece, rank) for piece in value.nodes]
            operands = tuple(_whole(piece, self.nodes[piece].shape) for piece in read)
            extents = tuple(stop - start for start, stop in pairwise(value.bounds))
            made = Node("concat", node.dtype, node.shape, (), operands, (value.axis, *extents))
            self.gathered[key] = self._add(made, rank)
            self.there |= {(piece, rank) for piece in read}
        return self.gathered[key]

    # --- the choice

    def _choice(self, at: int, node: Node) -> tuple[int, int]:
        """The cheapest of (axis, -1) and (-1, rank); the same choice as for the tensor of the state it belongs to."""
        if at in self.with_state:
            return (0, -1) if self._is_large(node) else (-1, 0)
        costs = [(node_cost(node) + self._sent(at, rank), (-1, rank)) for rank in range(self.ranks)]
        for axis in self._axes(node):
            cuts = [(axis, start, stop) for start, stop in pairwise(self._bounds(node.shape[axis]))]
            sent = sum(self._sent(at, rank, cut) for rank, cut in enumerate(cuts))
            costs.append(((node_cost(node) + sent) // self.ranks, (axis, -1)))
        return min(costs, key=lambda each: each[0])[1]

    def _axes(self, node: Node) -> list[int]:
        if not node.elements or node.elements < self.price.least:
            return []
        taken = node.attributes[0] if node.op in ("rank", "concat") else -1
        axes = range(min(1, len(node.shape))) if self.rows else range(len(node.shape))
        return [axis for axis in axes if node.shape[axis] >= self.ranks and axis != taken]

    def _sent(self, at: int, rank: int, cut: tuple[int, int, int] | None = None) -> int:
        """The cost of bringing the operands of a node or piece to a rank."""
        total = 0
        for number in range(len(self.graph.nodes[at].operands)):
            operand, shape = _restricted(self.graph.nodes[at], number, cut)
            value = self.values[operand.node]
            wanted = value.nodes
            if len(wanted) > 1:
                if self._gathered(operand.node, rank) in self.gathered:
                    continue
                hit = piece_view(value, self.graph.nodes[operand.node].shape, shape, operand)
                wanted = (hit[1].node,) if hit else wanted
            for piece in wanted:
                sent = self.again.get((piece, self.section), piece)
                if self.owner[piece] not in (None, rank) and (sent, rank) not in self.there:
                    total += self.price.message + WORD * self.nodes[piece].elements
        return total

    # --- the state

    def _state(self) -> tuple[tuple[StateEntry, ...], dict[str, tuple[Piece, ...]]]:
        """Entries of the new graph, in ascending order: `0003.001` is the second piece of the fourth tensor."""
        entries: list[StateEntry] = []
        pieces: dict[str, tuple[Piece, ...]] = {}
        for position, entry in enumerate(self.graph.state):
            value = self.values[entry.before]
            shape = self.graph.nodes[entry.before].shape
            bounds = value.bounds or (0, shape[0] if shape else 1)
            names = [f"{position:06d}.{number:03d}" for number in range(len(value.nodes))]
            after = value.nodes if entry.after == entry.before else self._afters(entry, value)
            entries += [
                StateEntry(name, entry.kind, old, new) for name, old, new in zip(names, value.nodes, after, strict=True)
            ]
            pieces[entry.name] = tuple(Piece(n, *rows) for n, rows in zip(names, pairwise(bounds), strict=True))
        return tuple(entries), pieces

    def _afters(self, entry: StateEntry, value: SplitValue) -> tuple[int, ...]:
        """The new values, cut as the old ones are."""
        new = self.values[entry.after]
        if (new.axis, new.bounds) == (value.axis, value.bounds):
            return new.nodes
        node = self.graph.nodes[entry.after]
        ends = list(pairwise(value.bounds))
        copy = Node("copy", node.dtype, node.shape, (), (_whole(entry.after, node.shape),))
        out = []
        for rank, (start, stop) in enumerate(ends or [(0, 0)]):
            cut = (0, start, stop) if ends else None
            operand, shape = _restricted(copy, 0, cut)
            hit = piece_view(new, node.shape, shape, operand) if new.bounds else None
            view = hit[1] if hit else replace(operand, node=self._at(entry.after, rank))
            out.append(self._add(replace(copy, shape=shape, operands=(view,)), rank))
        return tuple(out)

    def _at(self, at: int, rank: int) -> int:
        """A node that holds the whole of `at`, for `rank` to read."""
        value = self.values[at]
        return value.nodes[0] if len(value.nodes) == 1 else self._gather(at, rank)


def _whole(at: int, shape: Shape) -> Operand:
    return Operand(at, 0, tuple(0 if e <= 1 else s for e, s in zip(shape, contiguous(shape), strict=True)))


def _restricted(node: Node, number: int, cut: tuple[int, int, int] | None) -> tuple[Operand, Shape]:
    """An operand, and what its view ranges over, for the rows from start to stop along an axis."""
    operand, shape = node.operands[number], domain(node, number)
    if cut is None:
        return operand, shape
    axis, start, stop = cut
    offset = operand.offset + start * operand.strides[axis]
    return replace(operand, offset=offset), (*shape[:axis], stop - start, *shape[axis + 1 :])
