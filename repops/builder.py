"""Builds a graph. Tensors are strided views of nodes, so reshaping and slicing cost nothing.

Tracing, updates, aggregation and benchmarks all build programs here. Equal nodes are made once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from repops import commitments, words
from repops.graph import (
    BATCH_ROLE,
    F32,
    I32,
    STATE_ROLE,
    Graph,
    Node,
    Operand,
    Shape,
    StateEntry,
    contiguous,
    needed,
)
from repops.limits import check_program
from repops.operators import TABLE

Scalar = float | int


@dataclass(frozen=True)
class View:
    """A tensor in a program under construction: strides over one node's words. Immutable; methods give new views."""

    node: int
    dtype: str
    shape: Shape
    offset: int
    strides: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def permute(self, axes: Sequence[int]) -> View:
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def transpose(self, a: int, b: int) -> View:
        axes = list(range(self.rank))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(axes)

    def expand(self, shape: Sequence[int]) -> View:
        """Broadcast: new axes in front, axes of extent 1 repeated."""
        new = len(shape) - self.rank
        strides = [0] * new
        for extent, wanted, stride in zip(self.shape, shape[new:], self.strides, strict=True):
            if extent not in (wanted, 1):
                raise ValueError(f"expand: {self.shape} does not broadcast to {tuple(shape)}")
            strides.append(stride if extent == wanted and extent != 1 else 0)
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def slice(self, axis: int, start: int, stop: int, step: int = 1) -> View:
        """Elements start, start + step, ... before stop along an axis; 0 <= start <= stop <= extent, step >= 1."""
        extent = max(0, -(-(stop - start) // step))
        shape = (*self.shape[:axis], extent, *self.shape[axis + 1 :])
        strides = (*self.strides[:axis], self.strides[axis] * step, *self.strides[axis + 1 :])
        offset = self.offset + (start * self.strides[axis] if extent else 0)
        return replace(self, shape=shape, offset=offset, strides=strides)

    def select(self, axis: int, at: int) -> View:
        return self.slice(axis, at, at + 1).squeeze(axis)

    def flip(self, axis: int) -> View:
        stride, extent = self.strides[axis], self.shape[axis]
        return replace(
            self,
            offset=self.offset + stride * max(extent - 1, 0),
            strides=(*self.strides[:axis], -stride, *self.strides[axis + 1 :]),
        )

    def squeeze(self, axis: int) -> View:
        assert self.shape[axis] == 1
        shape, strides = self.shape, self.strides
        return replace(self, shape=(*shape[:axis], *shape[axis + 1 :]), strides=(*strides[:axis], *strides[axis + 1 :]))

    def unsqueeze(self, axis: int) -> View:
        shape, strides = self.shape, self.strides
        return replace(self, shape=(*shape[:axis], 1, *shape[axis:]), strides=(*strides[:axis], 0, *strides[axis:]))

    def window(self, axis: int, size: int, step: int = 1, dilation: int = 1) -> View:
        """Sliding windows along an axis: that axis becomes their number, a last axis of `size` is added."""
        stride = self.strides[axis]
        count = (self.shape[axis] - dilation * (size - 1) - 1) // step + 1
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :], size)
        strides = (*self.strides[:axis], stride * step, *self.strides[axis + 1 :], stride * dilation)
        return replace(self, shape=shape, strides=strides)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in another shape, or None if strides cannot express it."""
        strides = _restride(self.shape, self.strides, tuple(shape))
        return None if strides is None else replace(self, shape=tuple(shape), strides=strides)


def _restride(old: Shape, strides: tuple[int, ...], new: Shape) -> tuple[int, ...] | None:
    """Strides of `new` over the same words, when each run of old axes it takes apart or joins is evenly spaced."""
    if 0 in old:
        return contiguous(new)
    runs: list[list[int]] = []  # [elements, stride of the innermost], outermost first
    for extent, stride in zip(old, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == stride * extent:
            runs[-1] = [runs[-1][0] * extent, stride]
        else:
            runs.append([extent, stride])
    out: list[int] = []
    for extent in reversed(new):
        if extent == 1:
            out.append(0)
            continue
        if not runs or runs[-1][0] % extent:
            return None
        size, stride = runs[-1]
        out.append(stride)
        runs[-1] = [size // extent, stride * extent]
        if runs[-1][0] == 1:
            runs.pop()
    return tuple(reversed(out))


def broadcast(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes))
    out = []
    for axis in range(rank):
        extents = {s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


class Builder:
    """Collects nodes. A Python scalar in place of a tensor becomes a float32 (or integer) word."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[int, bytes] = {}
        self._made: dict[Node, int] = {}

    # --- sources

    def input(self, dtype: str, shape: Sequence[int], role: int, position: int) -> View:
        """position: a label that distinguishes inputs until `finish` numbers them."""
        return self._whole(Node("input", dtype, tuple(shape), attributes=(role, position)))

    def scalar(self, value: Scalar, dtype: str) -> View:
        word = words.word(float(value)) if dtype == F32 else int(value) & words.MASK
        return self._whole(Node("scalar", dtype, (), attributes=(word,)))

    def constant(self, array: npt.NDArray[np.float32] | npt.NDArray[np.int32]) -> View:
        """A committed tensor; one word repeated becomes a scalar, expanded."""
        dtype = F32 if array.dtype == np.float32 else I32
        data = commitments.canonical(np.asarray(array))
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint32)
        if raw.size and (raw == raw[0]).all():
            return self._whole(Node("scalar", dtype, (), attributes=(int(raw[0]),))).expand(array.shape)
        root = commitments.tensor_root(data)
        attributes = tuple(int.from_bytes(root[i : i + 4], "big") for i in range(0, 32, 4))
        view = self._whole(Node("constant", dtype, array.shape, attributes=attributes))
        self.constants[view.node] = raw.tobytes()
        return view

    def iota(self, extent: int) -> View:
        """0, 1, ..., extent - 1."""
        return self._whole(Node("iota", I32, (extent,), attributes=(0,)))

    # --- elementwise

    def map(self, op: str, *arguments: View | Scalar, dtype: str | None = None) -> View:
        """An elementwise operator on broadcast arguments. dtype: for `copy` and `where`, if the arguments do not fix it."""
        row = TABLE[op]
        own = dtype or next(
            (
                a.dtype
                for a, letter in zip(arguments, row.operands, strict=True)
                if isinstance(a, View) and letter == "w"
            ),
            F32,
        )
        kinds = [{"f": F32, "i": I32, "w": own}[letter] for letter in row.operands]
        views = [a if isinstance(a, View) else self.scalar(a, kind) for a, kind in zip(arguments, kinds, strict=True)]
        shape = broadcast(*(view.shape for view in views))
        result = {"f": F32, "i": I32, "w": own}[row.result]
        return self._whole(Node(op, result, shape, (), tuple(_operand(view.expand(shape)) for view in views)))

    def copy(self, view: View) -> View:
        """The same elements as a row-major node; the view itself if it already is one."""
        if self.is_whole(view):
            return view
        return self._whole(Node("copy", view.dtype, view.shape, (), (_operand(view),)))

    def own(self, view: View) -> View:
        """A node of the view's shape with the view's elements."""
        if self.is_whole(view) and self.nodes[view.node].shape == view.shape:
            return view
        return self._whole(Node("copy", view.dtype, view.shape, (), (_operand(view),)))

    def is_whole(self, view: View) -> bool:
        source = self.nodes[view.node]
        return view.offset == 0 and view.elements == source.elements and view.strides == _normal(view.shape)

    def reshape(self, view: View, shape: Sequence[int]) -> View:
        reshaped = view.reshaped(shape)
        if reshaped is not None:
            return reshaped
        copied = self.copy(view).reshaped(shape)
        assert copied is not None
        return copied

    # --- reductions

    def reduce(self, op: str, view: View, axes: Sequence[int]) -> View:
        """sum, sum_sequential, isum, reduce_max or reduce_imax over `axes`, row-major in their order; axes are dropped."""
        keep = [axis for axis in range(view.rank) if axis not in axes]
        turned = view.permute([*keep, *axes])
        shape, reduced = turned.shape[: len(keep)], turned.shape[len(keep) :]
        return self._whole(Node(op, view.dtype, shape, reduced, (_operand(turned),)))

    def sum(self, view: View, axes: Sequence[int]) -> View:
        """Over trailing axes in lanes, else in sequence; integers mod 2^32."""
        axes = sorted(axis % view.rank for axis in axes)
        if not axes:
            return view
        if view.dtype == I32:
            return self.reduce("isum", view, axes)
        trailing = axes == list(range(view.rank - len(axes), view.rank))
        return self.reduce("sum" if trailing else "sum_sequential", view, axes)

    def dot(self, a: View, b: View, reduced: int) -> View:
        """Sum of a * b over the last `reduced` axes of two views of one shape."""
        assert a.shape == b.shape
        cut = a.rank - reduced
        return self._whole(Node("dot", F32, a.shape[:cut], a.shape[cut:], (_operand(a), _operand(b))))

    def matmul(self, a: View, b: View) -> View:
        """(..., M, K) times (..., K, N), batch axes broadcast."""
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        (m, k), n = a.shape[-2:], b.shape[-1]
        left = a.expand((*batch, m, k)).unsqueeze(len(batch) + 1).expand((*batch, m, n, k))
        right = b.expand((*batch, k, n)).transpose(-2, -1).unsqueeze(len(batch)).expand((*batch, m, n, k))
        return self.dot(left, right, 1)

    def rank(self, view: View, axis: int) -> View:
        """Place of each element along an axis in descending order (0 the largest), ties by index."""
        others = view.unsqueeze(axis).expand((*view.shape[:axis], view.shape[axis], *view.shape[axis:]))
        others = others.permute([a for a in range(others.rank) if a != axis + 1] + [axis + 1])
        operands = (_operand(view), _operand(others))
        return self._whole(Node("rank", I32, view.shape, (view.shape[axis],), operands, (axis,)))

    # --- indexed access

    def take(self, view: View, index: View) -> View:
        """view (..., V) at index (...): word 0 where the index is outside 0 to V - 1."""
        shape, extent = view.shape[:-1], view.shape[-1]
        operands = (_operand(view), _operand(index.expand(shape)))
        return self._whole(Node("take", view.dtype, shape, (extent,), operands))

    def scatter(self, base: View, axis: int, index: View, terms: View, *, adds: bool) -> View:
        """base, where row index[r] along `axis` takes (or is added) terms[r]. terms: (R..., shape without axis).

        index: (R...), the same for a whole row; or of the shape of terms.
        """
        shape, reduced = base.shape, terms.shape[: terms.rank - base.rank + 1]
        node = Node(
            "scatter_add" if adds else "scatter",
            base.dtype,
            shape,
            reduced,
            (_operand(base), *(_spread(view, shape, axis, len(reduced)) for view in (index, terms))),
            (axis,),
        )
        return self._whole(node)

    def concat(self, views: Sequence[View], axis: int) -> View:
        """Concatenate along an axis; more than 32 views are joined in groups."""
        views = [view for view in views if view.shape[axis]] or list(views[:1])
        while len(views) > 1:
            groups = [views[at : at + 32] for at in range(0, len(views), 32)]
            views = [self._concat(group, axis) if len(group) > 1 else group[0] for group in groups]
        return views[0]

    def _concat(self, views: Sequence[View], axis: int) -> View:
        extents = tuple(view.shape[axis] for view in views)
        shape = (*views[0].shape[:axis], sum(extents), *views[0].shape[axis + 1 :])
        operands = tuple(_operand(view) for view in views)
        return self._whole(Node("concat", views[0].dtype, shape, (), operands, (axis, *extents)))

    def pad(self, view: View, axis: int, before: int, after: int, value: Scalar = 0) -> View:
        """`value` before and after along an axis; negative widths cut off."""
        if before < 0 or after < 0:
            view = view.slice(axis, max(0, -before), view.shape[axis] - max(0, -after))
        fill = self.scalar(value, view.dtype)
        front, back = (
            [fill.expand((*view.shape[:axis], width, *view.shape[axis + 1 :]))] if width > 0 else []
            for width in (before, after)
        )
        return self.concat([*front, view, *back], axis)

    # --- the end

    def finish(
        self,
        state: Sequence[tuple[str, str, View, View]],
        batch: Sequence[tuple[str, View]],
        loss: View,
    ) -> Graph:
        """state: (name, kind, before, after). Drops unused nodes and keeps the order of the rest. Raises BadProgram."""
        ordered = sorted(state, key=lambda entry: entry[0].encode())
        afters = [self.own(view).node for _, _, _, view in ordered]
        end = self.own(loss).node
        inputs = [view.node for _, _, view, _ in ordered] + [view.node for _, view in batch]
        roots = [*afters, end, *inputs]
        wanted = needed(self.nodes, roots)
        number: dict[int, int] = {}
        kept: list[Node] = []
        constants: dict[int, bytes] = {}
        roles = {view.node: (STATE_ROLE, at) for at, (_, _, view, _) in enumerate(ordered)}
        roles |= {view.node: (BATCH_ROLE, at) for at, (_, view) in enumerate(batch)}
        for at, node in enumerate(self.nodes):
            if not wanted[at]:
                continue
            number[at] = len(kept)
            if at in self.constants:
                constants[len(kept)] = self.constants[at]
            operands = tuple(replace(operand, node=number[operand.node]) for operand in node.operands)
            attributes = roles.get(at, node.attributes)
            kept.append(replace(node, operands=operands, attributes=attributes))
        entries = tuple(
            StateEntry(name, kind, number[before.node], number[after])
            for (name, kind, before, _), after in zip(ordered, afters, strict=True)
        )
        named = tuple((name, number[view.node]) for name, view in batch)
        graph = Graph(tuple(kept), entries, named, number[end], constants)
        check_program(graph)
        return graph

    def _whole(self, node: Node) -> View:
        at = self._made.get(node)
        if at is None:
            at = self._made[node] = len(self.nodes)
            self.nodes.append(node)
        return View(at, node.dtype, node.shape, 0, _normal(node.shape))


def _normal(shape: Shape) -> tuple[int, ...]:
    """Row-major strides, 0 along axes of extent 1, so that each view is written in one way only."""
    return tuple(0 if extent == 1 else stride for extent, stride in zip(shape, contiguous(shape), strict=True))


def _operand(view: View) -> Operand:
    """Canonical: an axis that has at most one element has stride 0."""
    strides = tuple(0 if extent <= 1 else stride for extent, stride in zip(view.shape, view.strides, strict=True))
    return Operand(view.node, 0 if 0 in view.shape else view.offset, strides)


def _spread(view: View, shape: Shape, axis: int, reduced: int) -> Operand:
    """(R..., rest) as a view over (shape, R...): nothing depends on the row that is hit."""
    if view.rank == reduced:
        turned = View(view.node, view.dtype, (*shape, *view.shape), view.offset, (*(0,) * len(shape), *view.strides))
        return _operand(turned)
    rest = view.strides[reduced:]
    strides = (*rest[:axis], 0, *rest[axis:], *view.strides[:reduced])
    return _operand(View(view.node, view.dtype, (*shape, *view.shape[:reduced]), view.offset, strides))
