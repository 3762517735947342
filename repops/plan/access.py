"""The algebra of strides: maps elements of a domain to words of a source, without enumerating them.

Axes are (extent, stride) pairs, outermost first. A domain of many axes is split into rows and columns. Along each, the
offset is one stride if possible, else a table with an entry per row (or column).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Axes = tuple[tuple[int, int], ...]
Table = npt.NDArray[np.int32]


def axes_of(shape: Sequence[int], strides: Sequence[int]) -> Axes:
    """Drop axes of extent one and join neighbours that are evenly spaced."""
    out: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if out and out[-1][1] == stride * extent:
            out[-1] = (out[-1][0] * extent, stride)
        else:
            out.append((extent, stride))
    return tuple(out)


@lru_cache(maxsize=4096)
def join(axes: Axes) -> Axes:
    return axes_of([extent for extent, _ in axes], [stride for _, stride in axes])


def size(axes: Axes) -> int:
    return math.prod(extent for extent, _ in axes)


def split(axes: Axes, columns: int) -> tuple[Axes, Axes] | None:
    """Rows and columns, with `columns` elements in the latter; None if the cut splits an axis unevenly."""
    left = list(axes)
    inner: list[tuple[int, int]] = []
    while columns > 1:
        if not left:
            return None
        extent, stride = left.pop()
        if columns % extent == 0:
            inner.append((extent, stride))
            columns //= extent
        elif extent % columns == 0:
            inner.append((columns, stride))
            left.append((extent // columns, stride * columns))
            columns = 1
        else:
            return None
    return tuple(left), tuple(reversed(inner))


def uniform(axes: Axes) -> bool:
    """Whether every element reads the same word."""
    return all(stride == 0 for _, stride in axes)


@lru_cache(maxsize=4096)
def stride_of(axes: Axes) -> int | None:
    """The single stride that covers all axes, or None."""
    joined = join(axes)
    if not joined:
        return 0
    if uniform(joined):
        return 0
    return joined[0][1] if len(joined) == 1 else None


@lru_cache(maxsize=4096)
def table_of(axes: Axes) -> Table:
    """Offsets of all elements of some axes, row-major."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in axes:
        offsets = (offsets[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    table = offsets.astype(np.int32)
    table.setflags(write=False)
    return table


def common(shapes: Sequence[Axes]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Several views with axes of equal extents: (extents, strides of each view), with axes joined where all views allow it."""
    extents = [extent for extent, _ in shapes[0]]
    strides = [[stride for _, stride in axes] for axes in shapes]
    kept: list[int] = []
    joined: list[list[int]] = [[] for _ in shapes]
    for at, extent in enumerate(extents):
        if extent == 1:
            continue
        if kept and all(mine[-1] == theirs[at] * extent for mine, theirs in zip(joined, strides, strict=True)):
            kept[-1] *= extent
            for mine, theirs in zip(joined, strides, strict=True):
                mine[-1] = theirs[at]
            continue
        kept.append(extent)
        for mine, theirs in zip(joined, strides, strict=True):
            mine.append(theirs[at])
    return tuple(kept), [tuple(mine) for mine in joined]
