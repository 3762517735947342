"""Reshaping and moving data: nearly all of it is strides. Only concatenation and padding make nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repops.builder import Scalar
from repops.graph import MAX_RANK
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value, refine


@lowers("view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten")
def view(c: Context, node: Any, x: Value, *rest: Any) -> Value:
    return c.reshape(x, meta(node).shape)


@lowers("expand", "expand_as", "broadcast_to")
def expand(c: Context, node: Any, x: Value, *rest: Any, **named: Any) -> Value:
    return x.expand(meta(node).shape)


@lowers("permute")
def permute(c: Context, node: Any, x: Value, dims: Sequence[int]) -> Value:
    return x.permute([axis % x.rank for axis in dims])


@lowers("transpose", "swapaxes")
def transpose(c: Context, node: Any, x: Value, a: int, b: int) -> Value:
    return x.transpose(a % x.rank, b % x.rank) if x.rank else x


@lowers("t", "numpy_T")
def t(c: Context, node: Any, x: Value) -> Value:
    return x.permute(range(x.rank)[::-1])


@lowers("unsqueeze")
def unsqueeze(c: Context, node: Any, x: Value, dim: int) -> Value:
    return x.unsqueeze(dim % (x.rank + 1))


@lowers("squeeze")
def squeeze(c: Context, node: Any, x: Value, dim: Any = None) -> Value:
    return c.reshape(x, meta(node).shape)


@lowers("select")
def select(c: Context, node: Any, x: Value, dim: int, index: int) -> Value:
    axis = dim % x.rank
    at = index % x.shape[axis]
    return c.slice(x, axis, at, at + 1).squeeze(axis)


def bounds(extent: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Python's slice bounds, within the extent."""
    first, last, _ = slice(start, end).indices(extent)
    return first, max(first, last)


@lowers("slice")
def slice_(c: Context, node: Any, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    axis = dim % x.rank
    return c.slice(x, axis, *bounds(x.shape[axis], start, end), step)


@lowers("split", "split_with_sizes", "unsafe_split", "unsafe_chunk", "chunk")
def split(c: Context, node: Any, x: Value, sizes: Any, dim: int = 0) -> list[Value]:
    axis = dim % x.rank
    out, at = [], 0
    for piece in node.meta["val"]:
        out.append(c.slice(x, axis, at, at + piece.shape[axis]))
        at += piece.shape[axis]
    return out


@lowers("unbind")
def unbind(c: Context, node: Any, x: Value, dim: int = 0) -> list[Value]:
    axis = dim % x.rank
    return [c.slice(x, axis, at, at + 1).squeeze(axis) for at in range(x.shape[axis])]


@lowers("flip")
def flip(c: Context, node: Any, x: Value, dims: Sequence[int]) -> Value:
    flipped = c.plain(x).view
    for axis in dims:
        flipped = flipped.flip(axis % x.rank)
    return Value.of(flipped)


@lowers("roll")
def roll(c: Context, node: Any, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        return c.reshape(roll(c, node, c.reshape(x, [x.elements]), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = dim % x.rank
        cut = -shift % max(1, x.shape[axis])
        if cut:
            x = concat(c, [c.slice(x, axis, cut, x.shape[axis]), c.slice(x, axis, 0, cut)], axis)
    return x


@lowers("unfold")
def unfold(c: Context, node: Any, x: Value, dimension: int, size: int, step: int) -> Value:
    return Value.of(c.plain(x).view.window(dimension % x.rank, size, step))


@lowers("diagonal")
def diagonal(c: Context, node: Any, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rows, columns = dim1 % x.rank, dim2 % x.rank
    flat = c.plain(x)
    flat = c.slice(flat, columns, max(0, offset), flat.shape[columns])
    flat = c.slice(flat, rows, max(0, -offset), flat.shape[rows])
    count = min(flat.shape[rows], flat.shape[columns])
    stride = sum(flat.axes[axis][0][1] for axis in (rows, columns) if flat.shape[axis] > 1)
    kept = [axis for at, axis in enumerate(flat.axes) if at not in (rows, columns)]
    return Value(flat.node, flat.dtype, flat.offset, (*kept, ((count, stride),)))


@lowers("repeat")
def repeat(c: Context, node: Any, x: Value, repeats: Sequence[int]) -> Value:
    for _ in range(len(repeats) - x.rank):
        x = x.unsqueeze(0)
    spread, target = x, []
    for axis, (times, extent) in enumerate(zip(repeats, x.shape, strict=True)):
        spread = spread.unsqueeze(2 * axis)
        target += [times, extent]
    return c.reshape(spread.expand(target), meta(node).shape)


@lowers("cat")
def cat(c: Context, node: Any, tensors: Sequence[Value], dim: int = 0) -> Value:
    dtype = dtype_of(meta(node).dtype)
    values = [c.typed(x, dtype) for x in tensors if x.shape != (0,)]
    return concat(c, values, dim % meta(node).dim())


@lowers("stack")
def stack(c: Context, node: Any, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % meta(node).dim()
    return concat(c, [x.unsqueeze(axis) for x in tensors], axis)


def concat(c: Context, values: Sequence[Value], axis: int) -> Value:
    """Side by side along an axis. Where that axis runs in blocks, whole blocks are laid side by side."""
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    parts = _in_blocks(values, axis) or [c.plain(value) for value in values]
    place = sum(len(parts[0].axes[at]) for at in range(axis))
    return c.reshape(Value.of(c.builder.concat([part.view for part in parts], place)), shape)


def _in_blocks(values: Sequence[Value], axis: int) -> list[Value] | None:
    """The values with the axis split into (blocks, block), all alike; None if impossible."""
    if all(value.is_plain for value in values):
        return list(values)
    block = max(math.prod(extent for extent, _ in value.axes[axis][1:]) for value in values)
    split = []
    for value in values:
        extent = value.shape[axis]
        shape = (*value.shape[:axis], extent // block, block, *value.shape[axis + 1 :])
        cut = value.reshape(shape) if extent % block == 0 else None
        if cut is None or len(cut.axes[axis]) > 1:
            return None
        split.append(cut)
    others = [at for at in range(split[0].rank) if at != axis]
    columns = {at: refine([value.axes[at] for value in split]) for at in others}
    if None in columns.values():
        return None
    out = []
    for number, value in enumerate(split):
        axes = tuple(value.axes[at] if at == axis else columns[at][number] for at in range(value.rank))  # type: ignore[index]
        out.append(Value(value.node, value.dtype, value.offset, axes))
    return out if out[0].view.rank <= MAX_RANK else None


def pad(c: Context, x: Value, axis: int, before: int, after: int, value: Scalar = 0.0) -> Value:
    """`value` before and after along an axis; negative widths cut off."""
    if before < 0 or after < 0:
        x = c.slice(x, axis, max(0, -before), x.shape[axis] - max(0, -after))

    def edge(width: int) -> Value:
        return c.scalar(value, x.dtype).expand((*x.shape[:axis], width, *x.shape[axis + 1 :]))

    pieces = [edge(before)] if before > 0 else []
    pieces += [x, edge(after)] if after > 0 else [x]
    return concat(c, pieces, axis) if len(pieces) > 1 else x


def spaced(c: Context, x: Value, axis: int, step: int, length: int, fill: Scalar = 0.0) -> Value:
    """Elements `step` apart along the axis, `fill` between and behind, `length` in all."""
    if step == 1 or x.shape[axis] <= 1:
        return pad(c, x, axis, 0, length - x.shape[axis], fill)
    gap = c.scalar(fill, x.dtype).expand((*x.shape[: axis + 1], step - 1, *x.shape[axis + 1 :]))
    mixed = concat(c, [x.unsqueeze(axis + 1), gap], axis + 1)
    flat = c.reshape(mixed, (*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))
    return pad(c, flat, axis, 0, length - flat.shape[axis], fill)


@lowers("constant_pad_nd")
def constant_pad(c: Context, node: Any, x: Value, widths: Sequence[int], value: Scalar = 0) -> Value:
    for at in range(0, len(widths), 2):
        x = pad(c, x, x.rank - 1 - at // 2, widths[at], widths[at + 1], value)
    return x


@lowers("slice_backward")
def slice_backward(
    c: Context, node: Any, g: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    axis = dim % len(sizes)
    first, _ = bounds(sizes[axis], start, end)
    return pad(c, spaced(c, g, axis, step, sizes[axis] - first), axis, first, 0)


@lowers("select_backward")
def select_backward(c: Context, node: Any, g: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    axis = dim % len(sizes)
    at = index % sizes[axis]
    return pad(c, g.unsqueeze(axis), axis, at, sizes[axis] - at - 1)


@lowers("copy")
def copy(c: Context, node: Any, x: Value, source: Value, *rest: Any) -> Value:
    return c.typed(source, x.dtype).expand(x.shape)


@lowers("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(c: Context, node: Any, g: Value, x: Value, widths: Sequence[int]) -> Value:
    """Add the values that were copied beyond an edge back onto it."""
    for at in range(0, len(widths), 2):
        axis, (before, after) = g.rank - 1 - at // 2, widths[at : at + 2]
        extent = g.shape[axis] - before - after
        for start, stop, edge in ((0, before, 0), (before + extent, g.shape[axis], extent - 1)):
            if stop > start:
                summed = c.reduce("sum", c.slice(g, axis, start, stop), [axis]).unsqueeze(axis)
                onto = pad(c, summed, axis, before + edge, g.shape[axis] - before - edge - 1)
                g = c.map("add", g, onto)
        g = c.slice(g, axis, before, before + extent)
    return g


# --- strides of the user's own


@lowers("as_strided")
def as_strided(
    c: Context, node: Any, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Value:
    """Of a tensor whose elements lie in a row, as torch keeps it."""
    return c.strided(in_a_row(c, node, x), size, stride, offset or 0)


def in_a_row(c: Context, node: Any, x: Value) -> Value:
    tensor = meta(node.args[0])
    if not tensor.is_contiguous() or tensor.storage_offset():
        raise TraceRefused("as_strided of a view", hint="x.unfold, narrow, expand or permute; or x.contiguous() first")
    return c.reshape(x, [x.elements])
