"""sort, topk and operators built on them, from `rank`, the number of elements that precede each one.

Equal elements keep their order, where torch leaves theirs open. Sorting n elements costs n comparisons each.
"""

from __future__ import annotations

from typing import Any

import torch

from repops.graph import F32, I32
from repops.tracing.lower import Context, lowers, meta
from repops.tracing.reduction import first_place, reduced
from repops.tracing.shaping import concat
from repops.tracing.value import Value

ROUND = 16  # comparisons that finding one maximum costs beside one comparison of `rank`
MAX_ROUNDS = 64
SMALL = (torch.bool, torch.uint8, torch.int8, torch.int16)  # float32 holds them


def places(c: Context, x: Value, axis: int, descending: bool) -> Value:
    """The place of each float after sorting along the axis."""
    last = x.shape[axis] - 1
    x = c.plain(c.map("add", x, 0.0))  # -0 and +0 are equal
    if descending:
        return Value.of(c.builder.rank(x.view, axis))
    # The last in descending order from the end is the first in ascending order from the start.
    back = Value.of(c.builder.rank(x.view.flip(axis), axis).flip(axis))
    return c.map("isub", last, back)


def scattered(c: Context, place: Value, terms: Value, axis: int) -> Value:
    """terms at their places along the axis; every place is taken once."""
    order = [axis, *(a for a in range(place.rank) if a != axis)]
    base = c.scalar(0, terms.dtype).expand(place.shape)
    turned = [c.plain(value.permute(order)).view for value in (place, terms.expand(place.shape))]
    return Value.of(c.builder.scatter(c.plain(base).view, axis, *turned, adds=False))


def along(c: Context, extent: int, rank: int, axis: int) -> Value:
    """0, 1, ... along an axis."""
    count = Value.of(c.builder.iota(extent))
    for _ in range(rank - axis - 1):
        count = count.unsqueeze(1)
    return count


def _taken(c: Context, x: Value, index: Value, axis: int) -> Value:
    """x at an index along the axis; both of one shape, the index always in range."""
    table = x.unsqueeze(axis).permute([*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1])
    shape = (*index.shape, x.shape[axis])
    return Value.of(c.builder.take(c.plain(table.expand(shape)).view, c.plain(index).view))


def ordered(c: Context, x: Value, axis: int, descending: bool, small: bool = False) -> tuple[Value, Value]:
    """The sorted values and their original places."""
    count = along(c, x.shape[axis], x.rank, axis)
    if x.dtype == F32 or small:
        place = places(c, c.typed(x, F32), axis, descending)
        return scattered(c, place, x, axis), scattered(c, place, count, axis)
    # Integers of 32 bits: by the lower half, then, keeping that order, by the upper half.
    low = c.map("to_float", c.map("and", x, 0xFFFF))
    first = scattered(c, places(c, low, axis, descending), count, axis)
    once = _taken(c, x, first, axis)
    place = places(c, c.map("to_float", c.map("idiv", once, 1 << 16)), axis, descending)
    return scattered(c, place, once, axis), scattered(c, place, first, axis)


def _is_small(node: Any) -> bool:
    return meta(node.args[0]).dtype in SMALL


@lowers("sort")
def sort(
    c: Context, node: Any, x: Value, *settings: Any, stable: Any = None, dim: int = -1, descending: bool = False
) -> Any:
    if settings and node.target._overloadname == "stable":
        settings = settings[1:]
    dim = settings[0] if settings else dim
    descending = settings[1] if len(settings) > 1 else descending
    if not x.rank:
        return x, c.scalar(0, I32)
    return ordered(c, x, dim % x.rank, bool(descending), _is_small(node))


@lowers("argsort")
def argsort(c: Context, node: Any, x: Value, *settings: Any, **named: Any) -> Value:
    index: Value = sort(c, node, x, *settings, **named)[1]
    return index


@lowers("topk")
def topk(c: Context, node: Any, x: Value, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    axis = dim % max(1, x.rank)
    if not x.rank:
        return x, c.scalar(0, I32)
    if x.dtype == F32 and k <= MAX_ROUNDS and k * ROUND < x.shape[axis]:
        return _in_rounds(c, x, k, axis, largest)
    values, index = ordered(c, x, axis, largest, _is_small(node))
    return c.slice(values, axis, 0, k), c.slice(index, axis, 0, k)


def _in_rounds(c: Context, x: Value, k: int, axis: int, largest: bool) -> tuple[Value, Value]:
    """Take the greatest of the rest, k times: for a small k."""
    left = x if largest else c.map("neg", x)
    count = along(c, x.shape[axis], x.rank, axis)
    tops, spots, free = [], [], None
    for _ in range(k):
        top = reduced(c, "reduce_max", left, axis, True)
        spot = first_place(c, left, top, axis, free).unsqueeze(axis)
        other = c.map("ieq", c.map("ieq", count, spot), 0)
        free = other if free is None else c.map("and", free, other)  # what is -inf itself is found, too
        left = c.map("where", other, left, float("-inf"))
        tops.append(top if largest else c.map("neg", top))
        spots.append(spot)
    return concat(c, tops, axis), concat(c, spots, axis)


@lowers("kthvalue")
def kthvalue(c: Context, node: Any, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _one_of_order(c, node, x, k - 1, dim, keepdim)


@lowers("median")
def median(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower of two in the middle."""
    if dim is None:
        values, _ = ordered(c, c.reshape(x, [x.elements]), 0, False, _is_small(node))
        at = (x.elements - 1) // 2
        return c.slice(values, 0, at, at + 1).squeeze(0)
    return _one_of_order(c, node, x, (x.shape[dim] - 1) // 2, dim, keepdim)


def _one_of_order(c: Context, node: Any, x: Value, at: int, dim: int, keepdim: bool) -> Any:
    axis = dim % x.rank
    parts = [c.slice(part, axis, at, at + 1) for part in ordered(c, x, axis, False, _is_small(node))]
    return tuple(part if keepdim else part.squeeze(axis) for part in parts)


@lowers("searchsorted", "bucketize")
def searchsorted(
    c: Context, node: Any, first: Value, second: Value, *, right: bool = False, side: str | None = None, **named: Any
) -> Value:
    """How many elements of the sorted sequence precede each value."""
    finds = node.target._schema.name == "aten::searchsorted"
    sequence, x = (first, second) if finds else (second, first)
    if sequence.rank == 1:
        sequence = sequence.expand((*(1,) * x.rank, sequence.shape[0]))
    else:
        sequence = sequence.unsqueeze(sequence.rank - 1)
    wide = x.unsqueeze(x.rank)
    dtype = F32 if F32 in (x.dtype, sequence.dtype) else I32
    wide, sequence = c.typed(wide, dtype), c.typed(sequence, dtype)
    upper = right or side == "right"
    if dtype == F32:
        before = c.map("le" if upper else "lt", sequence, wide)
    else:
        before = c.map("ieq", c.map("ilt", wide, sequence), 0) if upper else c.map("ilt", sequence, wide)
    return reduced(c, "isum", before, -1, False)


@lowers("repeat_interleave")
def repeat_interleave(c: Context, node: Any, repeats: Value, output_size: int | None = None, **named: Any) -> Value:
    """The number of each element, as often as `repeats` says: how many ends lie at or before each place."""
    count = repeats.shape[0]
    earlier = c.map("ilt", along(c, count, 2, 0), c.map("iadd", along(c, count, 2, 1), 1))
    ends = c.reduce("isum", c.map("imul", earlier, repeats.unsqueeze(1)), [0])
    place = along(c, meta(node).shape[0], 2, 0)
    return c.reduce("isum", c.map("ieq", c.map("ilt", place, ends), 0), [1])
