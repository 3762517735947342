"""Pooling over sliding windows. Where windows tile the input exactly, gradients are broadcasts; else they are summed.

Means over windows that differ are products with small matrices (`resampling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repops.graph import F32
from repops.tracing.convolution import Geometry, spread_windows, windows
from repops.tracing.elementwise import divide
from repops.tracing.lower import Context, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.resampling import Matrix, adaptive, averaging, resampled
from repops.tracing.value import Value


def _batched(c: Context, x: Value, rank: int) -> Value:
    """(N, C, S...) of an input that may lack N."""
    return x.unsqueeze(0) if x.rank == rank + 1 else x


def _geometry(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int] = (1,)
) -> Geometry:
    kernel = tuple(kernel) * (2 // len(kernel))
    return Geometry.of(kernel, stride or kernel, padding or (0,), dilation)


def _tiles(geometry: Geometry, extents: Sequence[int]) -> bool:
    """Whether every input position lies in exactly one window."""
    whole = all(extent % kernel == 0 for extent, kernel in zip(extents, geometry.kernel, strict=True))
    plain = not any(geometry.padding) and (all(d == 1 for d in geometry.dilation))
    return geometry.stride == geometry.kernel and plain and whole


def _behind(geometry: Geometry, extents: Sequence[int], out: Sequence[int]) -> list[int]:
    """Padding behind each axis, so that there are as many windows as `out` says (ceil_mode adds one)."""
    return [
        max(p, (count - 1) * s + reach + 1 - extent - p)
        for p, s, reach, extent, count in zip(
            geometry.padding, geometry.stride, geometry.reach, extents, out, strict=True
        )
    ]


def _interleaved(c: Context, x: Value, kernel: Sequence[int]) -> Value:
    """(N, C, H, W, KH, KW) as (N, C, H * KH, W * KW)."""
    n, channels, height, width = x.shape[:4]
    return c.reshape(x.permute([0, 1, 2, 4, 3, 5]), [n, channels, height * kernel[0], width * kernel[1]])


def _taps(c: Context, kernel: Sequence[int]) -> Value:
    """Number of each tap in its window, (KH, KW)."""
    return c.reshape(Value.of(c.builder.iota(math.prod(kernel))), kernel)


@lowers("max_pool2d_with_indices")
def max_pool(
    c: Context,
    node: Any,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """The greatest of each window and its place in the input (the first of equals)."""
    geometry = _geometry(kernel, stride, padding, dilation)
    out = node.meta["val"][0].shape
    return _max_pool(c, x, geometry, out)


def _max_pool(c: Context, x: Value, geometry: Geometry, out: Sequence[int]) -> Any:
    full = _batched(c, x, 2)
    after = _behind(geometry, full.shape[2:], out[-2:])
    slid = windows(c, full, geometry, -math.inf, after)
    top = c.reduce("reduce_max", slid, [4, 5])
    taps = math.prod(geometry.kernel)
    hit = c.map("eq", slid, top.unsqueeze(4).unsqueeze(5))
    tap = _taps(c, geometry.kernel)
    last = c.reduce("reduce_imax", c.map("where", hit, c.map("isub", taps - 1, tap), -1), [4, 5])
    first = c.map("isub", taps - 1, last)
    place = c.reshape(_places(c, first, geometry, full.shape[3]), out)
    c.facts["tap", place] = (first, geometry)
    return c.reshape(top, out), place


def _places(c: Context, tap: Value, geometry: Geometry, width: int) -> Value:
    """Tap numbers (N, C, H, W) as row * width + column in the input: torch's indices. Rarely needed, then dropped."""
    row_tap = c.map("idiv", tap, geometry.kernel[1])
    column_tap = c.map("imod", tap, geometry.kernel[1])
    lines = []
    for axis, along in enumerate((row_tap, column_tap)):
        start = c.map("imul", Value.of(c.builder.iota(tap.shape[2 + axis])), geometry.stride[axis])
        start = c.map("isub", start, geometry.padding[axis])
        start = start.unsqueeze(1) if axis == 0 else start
        lines.append(c.map("iadd", start, c.map("imul", along, geometry.dilation[axis])))
    return c.map("iadd", c.map("imul", lines[0], width), lines[1])


@lowers("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward")
def max_pool_backward(c: Context, node: Any, g: Value, x: Value, *rest: Any) -> Value:
    first, geometry = c.facts["tap", rest[-1]]
    full = _batched(c, x, 2)
    g = _batched(c, g, 2)
    if _tiles(geometry, full.shape[2:]):
        spots = [value.unsqueeze(4).unsqueeze(5) for value in (first, g)]
        chosen = c.map("where", c.map("ieq", spots[0], _taps(c, geometry.kernel)), spots[1], 0.0)
        return c.reshape(_interleaved(c, chosen, geometry.kernel), x.shape)
    grown = spread_windows(c, g, geometry, full.shape[2:])
    taken = spread_windows(c, first, geometry, full.shape[2:], -1)
    reverse = c.map("isub", math.prod(geometry.kernel) - 1, _taps(c, geometry.kernel))
    chosen = c.map("where", c.map("ieq", taken, reverse), grown, 0.0)
    return c.reshape(c.reduce("sum", chosen, [4, 5]), x.shape)


def _mean_pool(c: Context, x: Value, geometry: Geometry, divisor: float, out: Sequence[int]) -> Value:
    full = _batched(c, x, 2)
    slid = windows(c, full, geometry)
    return c.reshape(divide(c, c.reduce("sum", slid, [4, 5]), divisor), out)


def _mean_pool_backward(c: Context, g: Value, x: Value, geometry: Geometry, divisor: float) -> Value:
    full = _batched(c, x, 2)
    g = _batched(c, divide(c, g, divisor), 2)
    if _tiles(geometry, full.shape[2:]):
        spot = g.unsqueeze(4).unsqueeze(5).expand((*g.shape, *geometry.kernel))
        return c.reshape(_interleaved(c, spot, geometry.kernel), x.shape)
    grown = spread_windows(c, g, geometry, full.shape[2:])
    return c.reshape(c.reduce("sum", grown, [4, 5]), x.shape)


def _completed(settings: Sequence[Any]) -> Sequence[Any]:
    """kernel, stride, padding, ceil_mode, count_include_pad, divisor_override: torch's defaults where they are left out."""
    defaults: list[Any] = [(), (0,), False, True, None]
    return [*settings, *defaults[len(settings) - 1 :]]


def _full(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * (rank // len(sizes))


def _means(extents: Sequence[int], out: Sequence[int], settings: Sequence[Any]) -> tuple[list[Matrix], float]:
    """The matrix of each axis, and what their product is multiplied by (where the divisor is given)."""
    kernel, stride, padding, _, counts, divisor = _completed(settings)
    rank = len(out)
    sizes = _full(kernel, rank)
    sides = zip(extents, out, sizes, _full(stride or kernel, rank), _full(padding, rank), strict=True)
    matrices = [averaging(*side, counts_padding=counts and not divisor) for side in sides]
    if divisor:  # the sum inside the window, over the user's divisor
        matrices = [matrix * (matrix > 0).sum(1, keepdims=True) for matrix in matrices]
    return matrices, 1.0 / divisor if divisor else 1.0


def _averaging(extents: Sequence[int], settings: Sequence[Any]) -> tuple[Geometry, float] | None:
    """The windows and their divisor if all are alike; None if some overhang."""
    kernel, stride, padding, ceil_mode, counts, divisor = _completed(settings)
    if len(extents) != 2 or ceil_mode or (any(padding) and not counts):
        return None
    geometry = _geometry(kernel, stride, padding)
    return geometry, float(divisor or math.prod(geometry.kernel))


@lowers("avg_pool2d", "avg_pool3d")
def avg_pool(c: Context, node: Any, x: Value, *settings: Any) -> Value:
    rank = 3 if "3d" in node.target._schema.name else 2
    even = _averaging(x.shape[-rank:], settings)
    if even is not None:
        return _mean_pool(c, x, *even, meta(node).shape)
    matrices, factor = _means(x.shape[-rank:], meta(node).shape[-rank:], settings)
    out = resampled(c, x, matrices)
    return out if factor == 1.0 else c.map("mul", out, factor)


@lowers("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(c: Context, node: Any, g: Value, x: Value, *settings: Any) -> Value:
    rank = 3 if "3d" in node.target._schema.name else 2
    even = _averaging(x.shape[-rank:], settings)
    if even is not None:
        return _mean_pool_backward(c, g, x, *even)
    matrices, factor = _means(x.shape[-rank:], g.shape[-rank:], settings)
    out = resampled(c, g, [matrix.T for matrix in matrices])
    return out if factor == 1.0 else c.map("mul", out, factor)


def _adaptive(extents: Sequence[int], out: Sequence[int]) -> Geometry | None:
    """The windows if all are alike; None if the sizes do not divide."""
    if len(out) != 2 or any(extent % wanted for extent, wanted in zip(extents, out, strict=True)):
        return None
    return _geometry([extent // wanted for extent, wanted in zip(extents, out, strict=True)], (), ())


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(c: Context, node: Any, x: Value, out: Sequence[int]) -> Value:
    extents = x.shape[-len(out) :]
    geometry = _adaptive(extents, out)
    if geometry is not None:
        return _mean_pool(c, x, geometry, float(math.prod(geometry.kernel)), meta(node).shape)
    return resampled(c, x, [adaptive(*side) for side in zip(extents, out, strict=True)])


@lowers("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(c: Context, node: Any, g: Value, x: Value) -> Value:
    rank = 3 if "3d" in node.target._schema.name else 2
    extents, out = x.shape[-rank:], g.shape[-rank:]
    geometry = _adaptive(extents, out)
    if geometry is not None:
        return _mean_pool_backward(c, g, x, geometry, float(math.prod(geometry.kernel)))
    return resampled(c, g, [adaptive(*side).T for side in zip(extents, out, strict=True)])


@lowers("adaptive_max_pool2d")
def adaptive_max_pool(c: Context, node: Any, x: Value, out: Sequence[int]) -> Any:
    geometry = _adaptive(x.shape[-2:], out)
    if geometry is None:
        raise TraceRefused(
            f"adaptive max pooling from {tuple(x.shape[-2:])} to {tuple(out)}",
            hint="sizes that divide the input's, or adaptive_avg_pool2d, which takes any",
        )
    return _max_pool(c, x, geometry, node.meta["val"][0].shape)


@lowers("max_pool3d_with_indices_backward")
def max_pool3d_backward(c: Context, node: Any, g: Value, x: Value, *rest: Any) -> Value:
    """Each gradient goes to the place of its maximum."""
    place, area = rest[-1], math.prod(x.shape[-3:])
    rows, count = math.prod(x.shape[:-3]), math.prod(g.shape[-3:])
    index, terms = (c.plain(c.reshape(v, [rows, count]).permute([1, 0])) for v in (place, g))
    base = c.plain(c.scalar(0.0, F32).expand((rows, area)))
    added = Value.of(c.builder.scatter(base.view, 1, index.view, terms.view, adds=True))
    return c.reshape(added, x.shape)
