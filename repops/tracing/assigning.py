"""Assignments: a tensor with some of its elements replaced or added to, by slices, strides, masks and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from repops.graph import F32
from repops.tracing.indexing import checked, checked_row, joined, scatter_rows, wrapped
from repops.tracing.lower import Context, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.shaping import bounds, concat, in_a_row, pad, spaced
from repops.tracing.value import Value


@lowers("diagonal_scatter")
def diagonal_scatter(
    c: Context, node: Any, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """x with its diagonal replaced: element i of the source goes to row i, or i - offset below the main diagonal."""
    first, second = dim1 % x.rank, dim2 % x.rank
    order = [axis for axis in range(x.rank) if axis not in (first, second)] + [first, second]
    turned = x.permute(order)
    rows, columns = turned.shape[-2:]
    above = max(0, -offset)
    spread = pad(c, source, source.rank - 1, above, rows - above - source.shape[-1], 0).unsqueeze(source.rank)
    row, column = Value.of(c.builder.iota(rows)).unsqueeze(1), Value.of(c.builder.iota(columns))
    hit = c.map("ieq", c.map("iadd", row, offset), column)
    result = c.map("where", hit, spread, turned)
    return result.permute([order.index(axis) for axis in range(x.rank)])


@lowers("slice_scatter")
def slice_scatter(
    c: Context, node: Any, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    axis = dim % x.rank
    first, last = bounds(x.shape[axis], start, end)
    source = source.expand((*x.shape[:axis], -(-(last - first) // step), *x.shape[axis + 1 :]))
    if step != 1:
        # The source between what stays, then whole positions chosen.
        wide = pad(c, spaced(c, source, axis, step, last - first), axis, first, x.shape[axis] - last)
        place = c.map("isub", Value.of(c.builder.iota(x.shape[axis])), first)
        inside = c.map("and", c.map("ilt", -1, place), c.map("ilt", place, last - first))
        hit = c.map("and", inside, c.map("ieq", c.map("imod", place, step), 0))
        for _ in range(x.rank - axis - 1):
            hit = hit.unsqueeze(1)
        return c.map("where", hit, wide, x)
    pieces = [c.slice(x, axis, 0, first), source, c.slice(x, axis, last, x.shape[axis])]
    return concat(c, [piece for piece in pieces if piece.shape[axis]], axis)


@lowers("select_scatter")
def select_scatter(c: Context, node: Any, x: Value, source: Value, dim: int, index: int) -> Value:
    axis = dim % x.rank
    at = index % x.shape[axis]
    return slice_scatter(c, node, x, source.unsqueeze(axis), axis, at, at + 1)


@lowers("as_strided_scatter")
def as_strided_scatter(
    c: Context,
    node: Any,
    x: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None = None,
) -> Value:
    flat = in_a_row(c, node, x)
    places = np.full(tuple(size), offset or 0, np.int32)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(extent, dtype=np.int32) * step).reshape([-1] + [1] * (len(size) - axis - 1))
    if (places.reshape(-1) == np.arange(x.elements)).all() if places.size == x.elements else False:
        return c.reshape(source, x.shape)
    index = Value.of(c.builder.constant(places.reshape(-1)))
    terms = c.plain(c.reshape(source, [places.size]))
    return c.reshape(Value.of(c.builder.scatter(c.plain(flat).view, 0, index.view, terms.view, adds=False)), x.shape)


# --- at indices


@lowers("scatter", "scatter_add")
def scatter(c: Context, node: Any, x: Value, dim: int, index: Value, source: Any, *rest: Any, **named: Any) -> Value:
    if rest or named:
        raise TraceRefused("scatter with a reduction", hint="scatter_add")
    return _scattered(c, x, dim, index, source, node.target._schema.name == "aten::scatter_add")


def _scattered(c: Context, x: Value, dim: int, index: Value, source: Any, adds: bool) -> Value:
    axis = dim % x.rank
    checked(c, index, x.shape[axis])
    if not isinstance(source, Value):
        source = c.scalar(source, x.dtype).expand(index.shape)
    others = [a for a in range(x.rank) if a != axis]
    for a, extent in enumerate(index.shape):
        source = c.slice(source, a, 0, extent)
    for a in others:  # nothing is written beyond the index
        missing = x.shape[a] - index.shape[a]
        index, source = pad(c, index, a, 0, missing, -1), pad(c, source, a, 0, missing)
    turned = [c.plain(value.permute([axis, *others])).view for value in (index, source)]
    return Value.of(c.builder.scatter(c.plain(x).view, axis, *turned, adds=adds))


@lowers("index_put", "_unsafe_index_put")
def index_put(
    c: Context, node: Any, x: Value, indices: Sequence[Any], source: Value, accumulate: bool = False
) -> Value:
    listed = node.args[1]
    if any(index is not None and meta(index).dtype == torch.bool for index in listed):
        return _masked_put(c, node, x, indices, source, accumulate)
    flat, linear, at, first = joined(c, x, indices)
    rest = [axis for axis in range(x.rank) if axis not in at]
    shape = [x.shape[axis] for axis in rest]
    # source: (before..., index..., after...) and broadcast; terms: (index..., before..., after...)
    full = source.expand((*shape[:first], *linear.shape, *shape[first:]))
    order = [*range(first, first + linear.rank), *range(first), *range(first + linear.rank, full.rank)]
    written = scatter_rows(c, flat, linear, full.permute(order), adds=accumulate)
    front = c.reshape(written, [*(x.shape[axis] for axis in at), *shape])
    order = [*at, *rest]
    return front.permute([order.index(axis) for axis in range(x.rank)])


def _masked_put(c: Context, node: Any, x: Value, indices: Sequence[Any], source: Value, accumulate: bool) -> Value:
    """Write one number where a mask is true, as a `where`."""
    if source.elements != 1 or len([index for index in indices if index is not None]) > 1:
        raise TraceRefused("values assigned by a mask", hint="torch.where(mask, values, x), values of x's shape")
    mask = next(index for index in indices if index is not None)
    for _ in range(x.rank - mask.rank - indices.index(mask)):
        mask = mask.unsqueeze(mask.rank)
    value = c.reshape(source, ())
    return c.map("where", mask, c.map("add", x, value) if accumulate else value, x)


@lowers("put")
def put(c: Context, node: Any, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    index = wrapped(c, index, x.elements)
    flat = checked_row(c, x, index)
    terms = [c.reshape(value, [index.elements]) for value in (index, source)]
    return c.reshape(scatter_rows(c, flat, *terms, adds=accumulate), x.shape)


@lowers("scatter_reduce")
def scatter_reduce(
    c: Context, node: Any, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    if reduce not in ("sum", "mean"):
        raise TraceRefused(
            f"scatter_reduce({reduce!r})", hint="reduce='sum' or 'mean', or amax over a mask of fixed shape"
        )
    ones = c.scalar(1.0, F32)
    base = x
    if not include_self:
        touched = _scattered(c, c.scalar(0.0, F32).expand(x.shape), dim, index, ones.expand(source.shape), False)
        base = c.map("where", c.map("eq", touched, 0.0), x, 0.0)
    added = _scattered(c, base, dim, index, source, True)
    if reduce == "sum":
        return added
    start = c.scalar(1.0 if include_self else 0.0, F32).expand(x.shape)
    count = _scattered(c, start, dim, index, ones.expand(source.shape), True)
    return c.map("div", added, c.map("max", count, 1.0))
