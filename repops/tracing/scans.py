"""Running sums, products and extremes: in log2(n) passes, each joining every element with the one `1, 2, 4, ...` before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from repops.graph import F32
from repops.tracing.elementwise import log_of_one_more
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.shaping import concat, pad
from repops.tracing.sorting import along
from repops.tracing.value import Value

IN_ORDER = 64  # so many are summed one after another, as torch does
Join = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


def scanned(c: Context, parts: Sequence[Value], neutral: Sequence[float | int], axis: int, join: Join) -> list[Value]:
    """Each element joined with all before it. parts: the components of an element; join(earlier, later) is associative."""
    out = list(parts)
    extent, step = out[0].shape[axis], 1
    while step < extent:
        earlier = [pad(c, x, axis, step, -step, value) for x, value in zip(out, neutral, strict=True)]
        out = list(join(earlier, out))
        step *= 2
    return out


@lowers("cumsum")
def cumsum(c: Context, node: Any, x: Value, dim: int, dtype: Any = None) -> Value:
    """Up to IN_ORDER in order, each element the sum of a window that starts before the axis; more of them in passes."""
    word = dtype_of(meta(node).dtype)
    converted = c.typed(x, word)
    if not x.rank or not x.elements:
        return converted
    axis, extent = dim % x.rank, x.shape[dim]
    if extent > IN_ORDER:
        op = "add" if word == F32 else "iadd"
        return scanned(c, [converted], [0], axis, lambda a, b: [c.map(op, a[0], b[0])])[0]
    padded = c.builder.pad(c.plain(converted).view, axis, extent - 1, 0)
    windows = Value.of(padded.window(axis, extent))
    return c.reduce("sum_sequential" if word == F32 else "isum", windows, [windows.rank - 1])


def _times(c: Context, x: Value) -> str:
    return "mul" if x.dtype == F32 else "imul"


@lowers("cumprod")
def cumprod(c: Context, node: Any, x: Value, dim: int, dtype: Any = None) -> Value:
    x = c.typed(x, dtype_of(meta(node).dtype))
    if not x.rank or not x.elements:
        return x
    return scanned(c, [x], [1], dim % x.rank, lambda a, b: [c.map(_times(c, x), a[0], b[0])])[0]


@lowers("prod")
def product(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Halves times halves."""
    x = c.typed(x, dtype_of(meta(node).dtype))
    if dim is None or not x.rank:
        x, dim = c.reshape(x, [x.elements]), 0
    axis = dim % x.rank
    if not x.shape[axis]:
        return c.scalar(1, x.dtype).expand(meta(node).shape)
    while (extent := x.shape[axis]) > 1:
        half = extent // 2
        joined = c.map(_times(c, x), c.slice(x, axis, 0, half), c.slice(x, axis, half, 2 * half))
        x = joined if extent % 2 == 0 else concat(c, [joined, c.slice(x, axis, 2 * half, extent)], axis)
    return c.reshape(x, meta(node).shape)


@lowers("cummax", "cummin", "_cummax_helper", "_cummin_helper")
def running_extreme(c: Context, node: Any, x: Value, dim: int) -> Any:
    """The extreme so far and its place, the latest of equals."""
    if not x.rank:
        return x, c.scalar(0, "i32")
    axis = dim % x.rank
    falls = "cummin" in node.target._schema.name
    floats = x.dtype == F32
    work = x if not falls else c.map("neg", x) if floats else c.map("xor", x, -1)

    def join(earlier: Sequence[Value], later: Sequence[Value]) -> Sequence[Value]:
        older = c.map("lt" if floats else "ilt", later[0], earlier[0])
        return [c.map("where", older, a, b, dtype=b.dtype) for a, b in zip(earlier, later, strict=True)]

    count = along(c, x.shape[axis], x.rank, axis).expand(x.shape)
    top, place = scanned(c, [work, count], [-math.inf if floats else -(1 << 31), 0], axis, join)
    return (top if not falls else c.map("neg", top) if floats else c.map("xor", top, -1)), place


def log_of_sum(c: Context, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)): the greater plus log(1 + exp(-distance)); -inf where both are."""
    top = c.map("max", a, b)
    distance = c.map("abs", c.map("sub", a, b))
    tail = log_of_one_more(c, c.map("exp", c.map("neg", distance)))
    # Equal infinities have no distance.
    return c.map("where", c.map("eq", c.map("abs", top), math.inf), top, c.map("add", top, tail))


@lowers("logcumsumexp")
def logcumsumexp(c: Context, node: Any, x: Value, dim: int) -> Value:
    if not x.rank:
        return x
    return scanned(c, [x], [-math.inf], dim % x.rank, lambda a, b: [log_of_sum(c, a[0], b[0])])[0]
