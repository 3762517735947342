"""Interpolation, and pooling whose windows overhang or differ: each axis by a small fixed matrix, backwards by its transpose.

The matrices are made with sums, products and quotients of float64 and committed as constants, so they are the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from repops.tracing.lower import Context, lowers, meta
from repops.tracing.value import Value

Matrix = npt.NDArray[np.float64]  # (out, in)


def resampled(c: Context, x: Value, matrices: Sequence[Matrix]) -> Value:
    """The last axes of x, each times its matrix."""
    first = x.rank - len(matrices)
    for at, matrix in enumerate(matrices):
        axis = first + at
        if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
            continue
        order = [a for a in range(x.rank) if a != axis] + [axis]
        turned = x.permute(order)
        rows = c.reshape(turned, [math.prod(turned.shape[:-1]), turned.shape[-1]])
        weights = Value.of(c.builder.constant(matrix.T.astype(np.float32)))
        out = c.reshape(c.dot(rows, weights), (*turned.shape[:-1], matrix.shape[0]))
        x = out.permute([order.index(a) for a in range(x.rank)])
    return x


# --- interpolation


def _origins(extent: int, out: int, scale: float | None, corners: bool, cut: bool) -> list[float]:
    """The position on the input's axis of each output. cut: clamp positions to 0 from below."""
    if corners:
        step = (extent - 1) / (out - 1) if out > 1 else 0.0
        return [step * at for at in range(out)]
    step = 1.0 / scale if scale else extent / out
    origins = [step * (at + 0.5) - 0.5 for at in range(out)]
    return [max(0.0, each) for each in origins] if cut else origins


def linear(extent: int, out: int, scale: float | None, corners: bool) -> Matrix:
    matrix = np.zeros((out, extent))
    for at, origin in enumerate(_origins(extent, out, scale, corners, True)):
        left = min(math.floor(origin), extent - 1)
        share = min(max(origin - left, 0.0), 1.0)
        matrix[at, left] += 1.0 - share
        matrix[at, min(left + 1, extent - 1)] += share
    return matrix


def cubic(extent: int, out: int, scale: float | None, corners: bool) -> Matrix:
    """Keys' kernel with A = -0.75, as torch's; beyond the edge, the edge."""
    matrix = np.zeros((out, extent))
    for at, origin in enumerate(_origins(extent, out, scale, corners, False)):
        left = math.floor(origin)
        for tap in range(-1, 3):
            matrix[at, min(max(left + tap, 0), extent - 1)] += _keys(abs(origin - left - tap), -0.75)
    return matrix


def _keys(x: float, a: float) -> float:
    if x <= 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return ((x - 5.0) * x + 8.0) * a * x - 4.0 * a if x < 2.0 else 0.0


def nearest(extent: int, out: int, scale: float | None, corners: bool, shift: float = 0.0) -> Matrix:
    """In float32, as torch computes it, so that rounding picks the same nearest element."""
    matrix = np.zeros((out, extent))
    step = np.float32(1.0 / scale if scale else np.float32(extent) / np.float32(out))
    for at in range(out):
        matrix[at, min(int(np.floor(np.float32(at + shift) * step)), extent - 1)] = 1.0
    return matrix


def exact_nearest(extent: int, out: int, scale: float | None, corners: bool) -> Matrix:
    return nearest(extent, out, scale, corners, 0.5)


def _smoothed(kernel: Callable[[float], float], reach: float) -> Callable[..., Matrix]:
    """A kernel as wide as what one output replaces, its weights divided by their sum (`antialias=True`)."""

    def made(extent: int, out: int, scale: float | None, corners: bool) -> Matrix:
        step = (extent - 1) / (out - 1) if corners and out > 1 else 1.0 / scale if scale else extent / out
        width = max(step, 1.0)
        matrix = np.zeros((out, extent))
        for at in range(out):
            center = step * (at + 0.5)
            low = max(int(center - reach * width + 0.5), 0)
            high = min(int(center + reach * width + 0.5), extent)
            weights = [kernel(abs((place - center + 0.5) / width)) for place in range(low, high)]
            matrix[at, low:high] = np.array(weights) / sum(weights)
        return matrix

    return made


KINDS: dict[str, tuple[Callable[..., Matrix], int, bool]] = {
    # name: how a matrix is made, axes, whether align_corners is among the arguments
    "upsample_nearest1d": (nearest, 1, False),
    "upsample_nearest2d": (nearest, 2, False),
    "upsample_nearest3d": (nearest, 3, False),
    "_upsample_nearest_exact1d": (exact_nearest, 1, False),
    "_upsample_nearest_exact2d": (exact_nearest, 2, False),
    "_upsample_nearest_exact3d": (exact_nearest, 3, False),
    "upsample_linear1d": (linear, 1, True),
    "upsample_bilinear2d": (linear, 2, True),
    "upsample_trilinear3d": (linear, 3, True),
    "upsample_bicubic2d": (cubic, 2, True),
    "_upsample_bilinear2d_aa": (_smoothed(lambda x: max(0.0, 1.0 - x), 1.0), 2, True),
    "_upsample_bicubic2d_aa": (_smoothed(lambda x: _keys(x, -0.5), 2.0), 2, True),
}


def _matrices(name: str, extents: Sequence[int], out: Sequence[int], rest: Sequence[Any]) -> list[Matrix]:
    make, rank, has_corners = KINDS[name]
    corners = bool(rest[0]) if has_corners else False
    scales = list(rest[1:] if has_corners else rest)
    if scales and (scales[0] is None or isinstance(scales[0], (list, tuple))):  # the overload that takes a list
        scales = list(scales[0] or ()) if len(scales) == 1 else scales
    scales = (scales + [None] * rank)[:rank]
    return [make(e, o, s, corners) for e, o, s in zip(extents[-rank:], out[-rank:], scales, strict=True)]


for _name in KINDS:

    def _forward(c: Context, node: Any, x: Value, size: Any, *rest: Any, name: str = _name) -> Value:
        return resampled(c, x, _matrices(name, x.shape, meta(node).shape, rest))

    def _backward(
        c: Context, node: Any, g: Value, size: Any, extents: Sequence[int], *rest: Any, name: str = _name
    ) -> Value:
        return resampled(c, g, [matrix.T for matrix in _matrices(name, extents, g.shape, rest)])

    lowers(_name)(_forward)
    lowers(f"{_name}_backward")(_backward)


# --- means over windows


def adaptive(extent: int, out: int) -> Matrix:
    """Windows from floor(i * extent / out) to ceil((i + 1) * extent / out)."""
    matrix = np.zeros((out, extent))
    for at in range(out):
        start, stop = at * extent // out, -(-(at + 1) * extent // out)
        matrix[at, start:stop] = 1.0 / (stop - start)
    return matrix


def averaging(extent: int, out: int, kernel: int, stride: int, padding: int, counts_padding: bool) -> Matrix:
    """Windows that may overhang: padding counts if requested; the positions that ceil_mode adds beyond it never do."""
    matrix = np.zeros((out, extent))
    for at in range(out):
        start = at * stride - padding
        stop = min(start + kernel, extent + padding)
        inside = slice(max(start, 0), min(stop, extent))
        matrix[at, inside] = 1.0 / (stop - start if counts_padding else inside.stop - inside.start)
    return matrix
