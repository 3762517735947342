"""Convolutions as dot products over sliding windows. Windows are strides: nothing is unfolded in memory.

Shape legend: N batch, G groups, O outputs and C inputs of a group, S positions, K taps. Any number of spatial axes for
which the axes of one dot fit the table's limit: two, or three without groups where an axis has one tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repops.graph import MAX_RANK
from repops.tracing.lower import Context, lowers
from repops.tracing.normalisation import along
from repops.tracing.refusals import TraceRefused
from repops.tracing.shaping import pad, spaced
from repops.tracing.value import Value


@dataclass(frozen=True)
class Geometry:
    """Per spatial axis; kernel: number of taps."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @staticmethod
    def of(kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Geometry:
        full = [tuple(extents) * (len(kernel) // len(extents)) for extents in (stride, padding, dilation)]
        return Geometry(tuple(kernel), *full)

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def reach(self) -> tuple[int, ...]:
        """Positions from a window's first tap to its last."""
        return tuple(d * (k - 1) for k, d in zip(self.kernel, self.dilation, strict=True))


def windows(c: Context, x: Value, geometry: Geometry, fill: float = 0.0, after: Sequence[int] | None = None) -> Value:
    """(N, C, S...) padded, as (N, C, windows..., taps...). after: padding behind, where it differs."""
    for axis, width in enumerate(geometry.padding):
        x = pad(c, x, 2 + axis, width, width if after is None else after[axis], fill)
    return _slide(c, x, geometry.kernel, geometry.stride, geometry.dilation)


def _slide(c: Context, x: Value, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Value:
    view = c.plain(x).view
    for axis in range(len(kernel)):
        view = view.window(2 + axis, kernel[axis], stride[axis], dilation[axis])
    return Value.of(view)


def spread_windows(c: Context, g: Value, geometry: Geometry, extents: Sequence[int], fill: float = 0.0) -> Value:
    """For each input position all outputs it took part in: (N, O, S..., taps...), taps in reverse order.

    g (N, O, outputs...) lies on the input's grid, its stride apart; where no output lies there is `fill`.
    """
    for axis in range(geometry.rank):
        length = (g.shape[2 + axis] - 1) * geometry.stride[axis] + 1
        g = spaced(c, g, 2 + axis, geometry.stride[axis], length, fill)
        reach = geometry.reach[axis]
        before = reach - geometry.padding[axis]
        g = pad(c, g, 2 + axis, before, extents[axis] + reach - before - length, fill)
    ones = (1,) * geometry.rank
    return _slide(c, g, geometry.kernel, ones, geometry.dilation)


def _grouped(c: Context, x: Value, axis: int, groups: int) -> Value:
    return c.reshape(x, [*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :]])


def _dot(c: Context, a: Value, b: Value, reduced: int, shape: Sequence[int]) -> Value:
    """Sum of a * b over the last axes; both of one shape, axes of extent 1 left out."""
    kept = [axis for axis in range(a.rank) if a.shape[axis] != 1 or axis == a.rank - 1]
    inner = sum(axis >= a.rank - reduced for axis in kept)
    if len(kept) > MAX_RANK:
        raise TraceRefused("a convolution over more than two axes", hint="conv1d or conv2d")
    views = c.together([value.permute([*kept, *(x for x in range(a.rank) if x not in kept)]) for value in (a, b)])
    for at, view in enumerate(views):
        while view.rank > len(kept):
            view = view.squeeze(view.rank - 1)
        views[at] = view
    return c.reshape(Value.of(c.builder.dot(views[0], views[1], inner)), shape)


def correlate(c: Context, x: Value, w: Value, geometry: Geometry, groups: int) -> Value:
    """x (N, G*C, S), w (G*O, C, K): (N, G*O, S')."""
    rank = geometry.rank
    slid = _grouped(c, windows(c, x, geometry), 1, groups).unsqueeze(2)  # N G 1 C S' K
    slid = slid.permute([0, 1, 2, *range(4, 4 + rank), 3, *range(4 + rank, 4 + 2 * rank)])  # N G 1 S' C K
    kernel = _grouped(c, w, 0, groups)  # G O C K
    for _ in range(rank):
        kernel = kernel.unsqueeze(2)
    full = (x.shape[0], groups, kernel.shape[1], *slid.shape[3:])
    out = (x.shape[0], w.shape[0], *slid.shape[3 : 3 + rank])
    return _dot(c, slid.expand(full), kernel.unsqueeze(0).expand(full), 1 + rank, out)


def spread(c: Context, g: Value, w: Value, geometry: Geometry, groups: int, extents: Sequence[int]) -> Value:
    """The transpose of `correlate`. g (N, G*O, S'), w (G*O, C, K): (N, G*C, S), S as `extents` says."""
    rank = geometry.rank
    slid = _grouped(c, spread_windows(c, g, geometry, extents), 1, groups)  # N G O S K
    slid = slid.permute([0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)]).unsqueeze(2)  # N G 1 S O K
    flipped = c.plain(w).view
    for axis in range(rank):
        flipped = flipped.flip(2 + axis)
    kernel = _grouped(c, Value.of(flipped), 0, groups)  # G O C K
    kernel = kernel.permute([0, 2, 1, *range(3, 3 + rank)])  # G C O K
    for _ in range(rank):
        kernel = kernel.unsqueeze(2)
    full = (g.shape[0], groups, w.shape[1], *extents, *slid.shape[3 + rank :])
    out = (g.shape[0], groups * w.shape[1], *extents)
    return _dot(c, slid.expand(full), kernel.unsqueeze(0).expand(full), 1 + rank, out)


def kernel_gradient(c: Context, g: Value, x: Value, geometry: Geometry, groups: int) -> Value:
    """g (N, G*O, S'), x (N, G*C, S): (G*O, C, K), the batch and S' summed."""
    rank = geometry.rank
    slid = _grouped(c, windows(c, x, geometry), 1, groups)  # N G C S'' K; S'' may exceed S' by what strides skip
    for axis in range(rank):
        slid = c.slice(slid, 3 + axis, 0, g.shape[2 + axis])
    taps = range(3 + rank, 3 + 2 * rank)
    slid = slid.permute([1, 2, *taps, 0, *range(3, 3 + rank)]).unsqueeze(1)  # G 1 C K N S'
    grown = _grouped(c, g, 1, groups).permute([1, 2, 0, *range(3, 3 + rank)])  # G O N S'
    for _ in range(1 + rank):
        grown = grown.unsqueeze(2)
    full = (groups, grown.shape[1], *slid.shape[2:])
    out = (g.shape[1], *slid.shape[2 : 3 + rank])
    return _dot(c, slid.expand(full), grown.expand(full), 1 + rank, out)


@lowers("convolution", "_convolution")
def convolution(
    c: Context,
    node: Any,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *rest: Any,
) -> Value:
    geometry = Geometry.of(w.shape[2:], stride, padding, dilation)
    if transposed:
        result = spread(c, x, w, geometry, groups, node.meta["val"].shape[2:])
    else:
        result = correlate(c, x, w, geometry, groups)
    return result if bias is None else c.map("add", result, along(bias, x.rank))


@lowers("convolution_backward")
def convolution_backward(
    c: Context,
    node: Any,
    g: Value,
    x: Value,
    w: Value,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    geometry = Geometry.of(w.shape[2:], stride, padding, dilation)
    own = weights = None
    if wanted[0]:
        backward = correlate(c, g, w, geometry, groups) if transposed else None
        own = backward or spread(c, g, w, geometry, groups, x.shape[2:])
    if wanted[1]:
        weights = kernel_gradient(c, *((x, g) if transposed else (g, x)), geometry, groups)
    bias = c.reduce("sum", g, [0, *range(2, g.rank)]) if wanted[2] else None
    return own, weights, bias
