"""Runs a graph node by node: operands are packed by numpy, kernels work on packed arrays, threads share elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from repops import recipes
from repops.backend import DTYPE, check_batch, room_for_batch
from repops.commitments import Array
from repops.fallback import kernels, recipe_kernels
from repops.float_mode import check_float_mode
from repops.graph import BATCH_ROLE, F32, Graph, Node, Operand, Shape, needed
from repops.operators import TABLE, domain

WORD = np.dtype(np.uint32)
SHARE = 1 << 15  # scalar operations below which another thread costs more than it brings


class NumbaRunner:
    """See `backend.Runner`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.state: dict[str, Array] = {}
        for entry in graph.state:
            node = graph.nodes[entry.before]
            self.state[entry.name] = np.zeros(node.shape, DTYPE[node.dtype])
        self._constants = {
            at: np.frombuffer(data, "<u4")
            .astype(WORD)
            .view(DTYPE[graph.nodes[at].dtype])
            .reshape(graph.nodes[at].shape)
            for at, data in graph.constants.items()
        }

    @cached_property
    def batch(self) -> dict[str, Array]:
        return room_for_batch(self.graph)

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        changed = [entry for entry in self.graph.state if entry.after != entry.before]  # the others may be read-only
        values = self._run(batch, [*(entry.after for entry in changed), self.graph.loss], threads)
        loss = float(values[self.graph.loss])
        # One entry's new value may be what another entry holds now: all are copied before any is overwritten.
        after = [canonical(values[entry.after]) for entry in changed]
        for entry, value in zip(changed, after, strict=True):
            self.state[entry.name][...] = value
        return loss

    def rest(self) -> None:
        """Keeps its memory."""

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return float(self._run(batch, [self.graph.loss], threads)[self.graph.loss])

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        every = list(range(len(self.graph.nodes)))
        values = self._run(batch, every, threads)
        return [canonical(values[at]) for at in every]

    def _run(self, batch: Mapping[str, Array], kept: list[int], threads: int) -> dict[int, Array]:
        """The values of the nodes `kept`; others are freed after their last reader. Raises SubnormalsFlushed."""
        check_float_mode()
        inputs = check_batch(self.graph, batch)
        wanted = needed(self.graph.nodes, kept)
        last = {operand.node: at for at, node in enumerate(self.graph.nodes) if wanted[at] for operand in node.operands}
        last |= dict.fromkeys(kept, len(self.graph.nodes))
        values: dict[int, Array] = {}
        for at, node in enumerate(self.graph.nodes):
            if not wanted[at]:
                continue
            values[at] = (
                self._source(at, node, inputs) if node.op in ("input", "constant") else compute(node, values, threads)
            )
            for source in {operand.node for operand in node.operands}:
                if last[source] == at:
                    del values[source]
        return values

    def _source(self, at: int, node: Node, inputs: Mapping[str, Array]) -> Array:
        if node.op == "constant":
            return self._constants[at]
        role, position = node.attributes
        return (
            inputs[self.graph.batch[position][0]] if role == BATCH_ROLE else self.state[self.graph.state[position].name]
        )


def canonical(value: Array) -> Array:
    """A copy, row-major; of floats, with every NaN 0x7fc00000."""
    if value.dtype != np.float32:
        return value.copy()
    words = _flat(value, WORD)
    out = np.empty_like(words)
    recipe_kernels.map_kernel(recipes.bits)(0, words.size, out, words)
    return out.view(np.float32).reshape(value.shape)


def compute(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    """The node's value, row-major, from its operands' values."""
    row = TABLE[node.op]
    kind = _map if row.is_map else _fold if row.is_fold else _KINDS[node.op]
    out: Array = kind(node, values, threads)
    assert out.shape == node.shape
    assert out.dtype == DTYPE[node.dtype]
    return out


def _flat(value: Array, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(value).reshape(-1).view(dtype)


def _view(node: Node, at: int, values: Mapping[int, Array], dtype: np.dtype[Any]) -> Array:
    """The operand as a numpy view over its domain."""
    operand, shape = node.operands[at], domain(node, at)
    if 0 in shape:
        return np.empty(shape, dtype)
    strides = [4 * stride for stride in operand.strides]
    return np.ndarray(shape, dtype, _flat(values[operand.node], dtype), 4 * operand.offset, strides)


def _packed(node: Node, at: int, values: Mapping[int, Array], dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(_view(node, at, values, dtype))


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "repops")


def _share(threads: int, kernel: recipe_kernels.Kernel, count: int, cost: int, *arguments: object) -> None:
    """kernel(first, last, *arguments) over 0 to `count`, each costing `cost` scalar operations."""
    threads = max(1, min(threads, count, count * cost // SHARE))
    if threads == 1:
        kernel(0, count, *arguments)
        return
    edges = [count * at // threads for at in range(threads + 1)]
    jobs = [_pool(threads).submit(_checked, kernel, a, b, *arguments) for a, b in pairwise(edges)]
    for job in jobs:
        job.result()


def _checked(kernel: recipe_kernels.Kernel, *arguments: object) -> None:
    """The mode is a thread's own: one of the pool keeps that of the thread that started it."""
    check_float_mode()
    kernel(*arguments)


def _map(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    recipe = TABLE[node.op].recipe
    assert recipe is not None
    operands = [_packed(node, at, values, WORD).reshape(-1) for at in range(len(node.operands))]
    if not recipe.steps:  # copy and from_bits: packing was all
        return (
            (operands[0].copy() if _owned(operands[0], node, values) else operands[0])
            .view(DTYPE[node.dtype])
            .reshape(node.shape)
        )
    out = np.empty(node.elements, WORD)
    kernel = recipe_kernels.map_kernel(recipe)
    _share(threads, kernel, node.elements, len(recipe.steps), out, *operands)
    return out.view(DTYPE[node.dtype]).reshape(node.shape)


def _owned(operand: Array, node: Node, values: Mapping[int, Array]) -> bool:
    """Whether the packed operand is the source's own memory, which a step may overwrite."""
    return np.shares_memory(operand, values[node.operands[0].node])


def _fold(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    row = TABLE[node.op]
    assert row.recipe is not None
    assert row.start is not None
    terms = math.prod(node.reduced)
    x = _view(node, 0, values, WORD)
    rank = len(node.shape)
    x = np.ascontiguousarray(x.transpose(*range(rank, x.ndim), *range(rank))).reshape(terms, node.elements)
    out = np.empty(node.elements, WORD)
    kernel = recipe_kernels.fold_kernel(row.recipe, row.start)
    _share(threads, kernel, node.elements, terms, out, x)
    return out.view(DTYPE[node.dtype]).reshape(node.shape)


def _sum(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    terms = math.prod(node.reduced)
    x = _packed(node, 0, values, DTYPE[F32]).reshape(node.elements, terms)
    out = np.empty(node.elements, np.float32)
    _share(threads, kernels.lane_sum, node.elements, terms, out, x)
    return out.reshape(node.shape)


def _dot(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    """As batched matrix products: an output axis that only one operand moves along is a row or a column axis."""
    axes = range(len(node.shape))
    strides = [operand.strides for operand in node.operands]
    batch = [at for at in axes if strides[0][at] and strides[1][at]]
    rows = [at for at in axes if strides[0][at] and not strides[1][at]]
    columns = [at for at in axes if not strides[0][at] and strides[1][at]]
    a, b = (_view(node, at, values, DTYPE[F32]) for at in (0, 1))

    def size(which: list[int]) -> int:
        return math.prod(node.shape[at] for at in which)

    if size(columns) < size(rows):  # columns are what the kernel's vectors run along
        rows, columns, a, b = columns, rows, b, a
    terms, reduced = math.prod(node.reduced), range(len(node.shape), a.ndim)
    if 0 in node.shape or not terms:
        return np.zeros(node.shape, np.float32)
    a = _part(a, [*batch, *rows, *reduced]).reshape(size(batch) * size(rows), terms)
    b = _part(b, [*batch, *reduced, *columns]).reshape(size(batch), terms, size(columns))
    out = np.empty((a.shape[0], b.shape[2]), np.float32)
    _share(threads, kernels.dot, a.shape[0], terms * b.shape[2], out, a, b, size(rows))
    order = [*batch, *rows, *columns]
    order += [at for at in axes if at not in order]  # neither operand moves: one value for all
    moved = [node.shape[at] if strides[0][at] or strides[1][at] else 1 for at in order]
    spread = out.reshape(moved).transpose(np.argsort(order))
    return np.broadcast_to(spread, node.shape).reshape(-1).reshape(node.shape)


def _part(view: Array, axes: list[int]) -> Array:
    """The view along `axes` in that order, at 0 along all others, packed."""
    rest = [at for at in range(view.ndim) if at not in axes]
    return np.ascontiguousarray(view.transpose(*rest, *axes)[(0,) * len(rest)])


def _base(shape: Shape, operand: Operand) -> Array:
    """Where each element of `shape` starts in the operand's source: flat int64, from the first strides."""
    at = np.full(shape, operand.offset, np.int64)
    for axis, extent in enumerate(shape):
        along = np.arange(extent, dtype=np.int64) * operand.strides[axis]
        at += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return at.reshape(-1)


def _rank(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    axis, count = node.attributes[0], node.reduced[0]
    rivals = node.operands[1]
    own = _packed(node, 0, values, WORD).reshape(-1)
    source = _flat(values[rivals.node], WORD)
    places = _along(node.shape, axis).reshape(-1)
    out = np.empty(node.elements, WORD)
    arguments = (own, source, _base(node.shape, rivals), rivals.strides[-1], places, count)
    _share(threads, kernels.rank, node.elements, count, out, *arguments)
    return out.view(np.int32).reshape(node.shape)


def _take(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    rows = node.operands[0]
    source = _flat(values[rows.node], WORD)
    index = _packed(node, 1, values, np.dtype(np.int32)).reshape(-1)
    out = np.empty(node.elements, WORD)
    arguments = (source, _base(node.shape, rows), rows.strides[-1], index, node.reduced[0])
    _share(threads, kernels.take, node.elements, 1, out, *arguments)
    return out.view(DTYPE[node.dtype]).reshape(node.shape)


def _scatter(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    axis, terms, rank = node.attributes[0], math.prod(node.reduced), len(node.shape)
    adds = node.op == "scatter_add"
    dtype = DTYPE[F32] if adds else WORD
    rest = [at for at in range(rank) if at != axis]
    out = np.array(_view(node, 0, values, dtype).transpose(axis, *rest), order="C")
    if 0 in node.shape:
        return np.empty(node.shape, DTYPE[node.dtype])
    lined = [*range(rank, rank + len(node.reduced)), *rest]
    places = out[0].size
    index = _part(_view(node, 1, values, np.dtype(np.int32)), lined).reshape(terms, places)
    updates = _part(_view(node, 2, values, dtype), lined).reshape(terms, places)
    kernel = kernels.scatter_add if adds else kernels.scatter
    _share(threads, kernel, places, terms, out.reshape(node.shape[axis], places), index, updates)
    back = out.transpose(np.argsort([axis, *rest]))
    return np.ascontiguousarray(back).view(DTYPE[node.dtype])


def _concat(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    axis = node.attributes[0]
    dtype = DTYPE[node.dtype]
    return np.concatenate([_view(node, at, values, dtype) for at in range(len(node.operands))], axis)


def _along(shape: Shape, axis: int) -> Array:
    """Each element's coordinate along an axis, int32."""
    line = np.arange(shape[axis], dtype=np.int64).astype(np.int32).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return np.ascontiguousarray(np.broadcast_to(line, shape))


def _iota(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    return _along(node.shape, node.attributes[0])


def _scalar(node: Node, values: Mapping[int, Array], threads: int) -> Array:
    return np.array(node.attributes, WORD).view(DTYPE[node.dtype]).reshape(())


_KINDS = {
    "sum": _sum,
    "dot": _dot,
    "rank": _rank,
    "take": _take,
    "scatter": _scatter,
    "scatter_add": _scatter,
    "concat": _concat,
    "iota": _iota,
    "scalar": _scalar,
}
