"""A tensor while it is lowered: a strided view in which one axis may run over several strides.

Attention joins (batch, heads) of a transposed tensor into one axis, which no single stride says. A `Value` keeps the
runs apart, so that such a reshape costs nothing and the next matmul reads straight through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from repops.builder import View
from repops.graph import Shape

Run = tuple[int, int]  # extent, stride in words
Axis = tuple[Run, ...]  # outermost first


def _axis(runs: Sequence[Run]) -> Axis:
    """Runs that continue each other are one; runs of extent 1 say nothing."""
    out: list[Run] = []
    for extent, stride in runs:
        if extent == 1:
            continue
        if out and out[-1][1] == stride * extent:
            out[-1] = (out[-1][0] * extent, stride)
        else:
            out.append((extent, stride))
    return tuple(out) or ((1, 0),)


def merged(axes: Sequence[Axis]) -> Axis:
    """Runs of all axes in order, as few as there can be."""
    return _axis([run for axis in axes for run in axis])


def _extent(axis: Axis) -> int:
    return math.prod(extent for extent, _ in axis)


def _is_still(axis: Axis) -> bool:
    return all(stride == 0 and extent for extent, stride in axis)


@dataclass(frozen=True)
class Value:
    """node, dtype, offset as in View. axes: for each axis its runs."""

    node: int
    dtype: str
    offset: int
    axes: tuple[Axis, ...]

    @staticmethod
    def of(view: View) -> Value:
        runs = tuple(_axis([run]) for run in zip(view.shape, view.strides, strict=True))
        return Value(view.node, view.dtype, view.offset, runs)

    @property
    def shape(self) -> Shape:
        return tuple(map(_extent, self.axes))

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether every axis is one run."""
        return all(len(axis) == 1 for axis in self.axes)

    @property
    def view(self) -> View:
        """All runs as axes of their own; for a plain value its very shape."""
        runs = [run for axis in self.axes for run in axis]
        return View(self.node, self.dtype, tuple(e for e, _ in runs), self.offset, tuple(s for _, s in runs))

    @property
    def without_broadcast(self) -> Value:
        """Without repetition: axes that it does not vary along have extent 1."""
        return replace(self, axes=tuple(((1, 0),) if _is_still(axis) else axis for axis in self.axes))

    def permute(self, order: Sequence[int]) -> Value:
        return replace(self, axes=tuple(self.axes[at] for at in order))

    def transpose(self, a: int, b: int) -> Value:
        order = list(range(self.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def unsqueeze(self, axis: int) -> Value:
        return replace(self, axes=(*self.axes[:axis], ((1, 0),), *self.axes[axis:]))

    def squeeze(self, axis: int) -> Value:
        return replace(self, axes=(*self.axes[:axis], *self.axes[axis + 1 :]))

    def expand(self, shape: Sequence[int]) -> Value:
        """Broadcast: new axes in front, axes of extent 1 repeated; -1 keeps an extent."""
        new = len(shape) - self.rank
        axes: list[Axis] = [((extent, 0),) for extent in shape[:new]]
        for axis, wanted in zip(self.axes, shape[new:], strict=True):
            extent = _extent(axis)
            if extent == wanted or wanted == -1:
                axes.append(axis)
            elif extent == 1:
                axes.append(((wanted, 0),))
            else:
                raise ValueError(f"expand: {self.shape} does not broadcast to {tuple(shape)}")
        return replace(self, axes=tuple(axes))

    def slice(self, axis: int, start: int, stop: int, step: int = 1) -> Value | None:
        """As in View; None when the axis has several runs that the cut does not respect."""
        runs = self.axes[axis]
        outer, inner = runs[0], runs[1:]
        block = math.prod(extent for extent, _ in inner)
        if (start, stop, step) == (0, _extent(runs), 1):
            return self
        if inner and (step != 1 or start % block or stop % block):
            return None
        extent = max(0, -(-(stop - start) // step)) // block
        cut = _axis([(extent, outer[1] * step), *inner])
        offset = self.offset + (start // block * outer[1] if extent else 0)
        return replace(self, offset=offset, axes=(*self.axes[:axis], cut, *self.axes[axis + 1 :]))

    def reshape(self, shape: Sequence[int]) -> Value | None:
        """The same elements in another shape, or None when the runs do not divide that way."""
        if 0 in shape or 0 in self.shape:
            return replace(self, axes=tuple(((extent, 0),) for extent in shape))
        runs = list(merged(self.axes))
        axes: list[Axis] = []
        for extent in reversed(shape):
            axis: list[Run] = []
            while extent > 1:
                size, stride = runs.pop()
                taken = size if extent % size == 0 else extent
                if size % taken:
                    return None
                axis.insert(0, (taken, stride))
                if size != taken:
                    runs.append((size // taken, stride * taken))
                extent //= taken
            axes.insert(0, _axis(axis))
        return replace(self, axes=tuple(axes))


def refine(axes: Sequence[Axis]) -> list[Axis] | None:
    """The same axis of several values, cut so that the runs have the same extents; None when they do not nest.

    Joined again wherever all of them continue.
    """
    stacks = [list(axis) for axis in axes]
    columns: list[list[Run]] = []
    left = _extent(axes[0])
    if left == 0:
        return [((0, 0),)] * len(axes)
    while left > 1:
        size = min(stack[-1][0] for stack in stacks)
        column = []
        for stack in stacks:
            extent, stride = stack.pop()
            if extent % size:
                return None
            column.append((size, stride))
            if extent != size:
                stack.append((extent // size, stride * size))
        if columns and all(c[1] == inner[1] * inner[0] for c, inner in zip(column, columns[0], strict=True)):
            columns[0] = [(size * inner[0], inner[1]) for inner in columns[0]]
        else:
            columns.insert(0, column)
        left //= size
    if not columns:
        return [((1, 0),)] * len(axes)
    return [tuple(column[at] for column in columns) for at in range(len(axes))]
