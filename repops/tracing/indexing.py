"""Reading and writing at indices: embedding, gather, scatter, and the loss that picks one class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from repops.graph import F32, MAX_RANK
from repops.tracing.lower import Context, lowers
from repops.tracing.reduction import reduced
from repops.tracing.refusals import TraceRefused
from repops.tracing.shaping import pad
from repops.tracing.value import Axis, Value
from repops.words import signed


def bounds_of(c: Context, index: Value) -> tuple[int, int] | None:
    """Least and greatest element of an index that depends on no data, else None."""
    node = c.builder.nodes[index.node]
    if node.op == "scalar":
        value = signed(node.attributes[0])
        return value, value
    if node.op == "constant":
        words = np.frombuffer(c.builder.constants[index.node], np.int32)
        return (int(words.min()), int(words.max())) if words.size else (0, 0)
    return positions(c, index)


def positions(c: Context, index: Value) -> tuple[int, int] | None:
    """Least and greatest element if the index is a view of `iota`, else None."""
    node = c.builder.nodes[index.node]
    if node.op != "iota" or not index.elements:
        return None
    ends = [(extent - 1) * stride for axis in index.axes for extent, stride in axis]
    return index.offset + sum(min(e, 0) for e in ends), index.offset + sum(max(e, 0) for e in ends)


def checked(c: Context, index: Value, extent: int, legal: Value | None = None) -> None:
    """Check indices in the program only if they depend on data."""
    known = bounds_of(c, index)
    if known is None or legal is not None:
        c.check(index, extent, legal)
    elif not 0 <= known[0] <= known[1] < extent:
        raise TraceRefused(
            f"an index reaches from {known[0]} to {known[1]}, outside 0 to {extent - 1}",
            hint="a larger table, or smaller indices",
        )


@lowers("embedding")
def embedding(c: Context, node: Any, weight: Value, index: Value, *rest: Any) -> Value:
    return rows(c, weight, index)


def rows(c: Context, table: Value, index: Value) -> Value:
    """table (V, rest...) at index (...): (..., rest...). Counting indices are strides."""
    checked(c, index, table.shape[0])
    if positions(c, index) is not None and len(table.axes[0]) == 1:
        stride = table.axes[0][0][1]
        axes: tuple[Axis, ...] = tuple(tuple((e, s * stride) for e, s in axis) for axis in index.axes)
        return Value(table.node, table.dtype, table.offset + index.offset * stride, axes + table.axes[1:])
    spread = table.permute([*range(1, table.rank), 0])
    for _ in range(index.rank):
        spread = spread.unsqueeze(0)
    for _ in range(table.rank - 1):
        index = index.unsqueeze(index.rank)
    return take(c, spread, index)


def take(c: Context, table: Value, index: Value) -> Value:
    """table (..., V) at index (...), broadcast against each other."""
    shape = np.broadcast_shapes(table.shape[:-1], index.shape)
    if len(shape) >= MAX_RANK:
        flat, wide = math.prod(shape), table.expand((*shape, table.shape[-1]))
        rows = take(c, c.reshape(wide, [flat, table.shape[-1]]), c.reshape(index.expand(shape), [flat]))
        return c.reshape(rows, shape)
    table, index = c.plain(table), c.plain(index)
    return Value.of(c.builder.take(table.expand((*shape, table.shape[-1])).view, index.expand(shape).view))


@lowers("embedding_dense_backward")
def embedding_backward(c: Context, node: Any, g: Value, index: Value, count: int, padding: int, scales: bool) -> Value:
    if scales:
        raise TraceRefused("Embedding(scale_grad_by_freq=True)", hint="leave it False")
    known = positions(c, index)
    if known is not None and padding < 0:
        # Counting indices: positions repeated over the batch are summed, the rest is a slice.
        repeated = [axis for axis in range(index.rank) if index.axes[axis] in (((index.shape[axis], 0),),)]
        step = [axis for axis in index.axes if axis != ((math.prod(e for e, _ in axis), 0),)]
        if len(step) == 1 and len(step[0]) == 1 and step[0][0][1] == 1:
            summed = (
                reduced(c, "sum", g, repeated, False)
                if repeated and math.prod(index.shape[a] for a in repeated) > 1
                else c.reshape(g, [step[0][0][0], g.shape[-1]])
            )
            return pad(c, summed, 0, known[0], count - known[1] - 1)
    if padding >= 0:
        index = c.map("where", c.map("ieq", index, padding), -1, index)
    return scatter_rows(c, c.scalar(0.0, F32).expand((count, g.shape[-1])), index, g)


def scatter_rows(c: Context, base: Value, index: Value, terms: Value, *, adds: bool = True) -> Value:
    """base (V, rest...); row index[r] takes (or is added) terms[r], r over the index's axes in order."""
    index, terms = c.plain(index), c.plain(terms)
    return Value.of(c.builder.scatter(c.plain(base).view, 0, index.view, terms.view, adds=adds))


# --- one class of many


@lowers("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(c: Context, node: Any, x: Value, target: Value, weight: Any, reduction: int, ignored: int) -> Any:
    """x: logarithms (N, C), (C) or (N, C, ...). Gives the loss and the total weight."""
    axis = 0 if x.rank == 1 else 1
    used = c.map("ieq", c.map("ieq", target, ignored), 0)
    checked(c, target, x.shape[axis], legal=c.map("ieq", target, ignored))
    losses = c.map("neg", _picked(c, x, target, axis))
    share = _class_weights(c, target, weight)
    if share is None:
        losses = c.map("where", used, losses, 0.0)
        total = c.map("to_float", _count(c, used))
    else:
        losses = c.map("where", used, c.map("mul", losses, share), 0.0)
        share = c.map("where", used, share, 0.0)
        total = reduced(c, "sum", share, None, False)
    if reduction == 0:
        return losses, c.scalar(0.0, F32)
    added = reduced(c, "sum", losses, None, False)
    return (c.map("div", added, total) if reduction == 1 else added), total


def _count(c: Context, used: Value) -> Value:
    return reduced(c, "isum", used, None, False)


def _class_weights(c: Context, target: Value, weight: Any) -> Value | None:
    return None if weight is None else take(c, weight, target)


def _picked(c: Context, x: Value, target: Value, axis: int) -> Value:
    """The logarithm at the target. After a log_softmax only that one logarithm is computed."""
    order = [*(a for a in range(x.rank) if a != axis), axis]
    known = c.facts.get(("log_softmax", x))
    if known is None or known[0] != axis:
        return take(c, x.permute(order), target)
    _, away, _, _, logarithm = known
    return c.map("sub", take(c, away.permute(order), target), logarithm.squeeze(axis))


@lowers("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    c: Context, node: Any, g: Value, x: Value, target: Value, weight: Any, reduction: int, ignored: int, total: Value
) -> Value:
    axis = 0 if x.rank == 1 else 1
    each = c.map("neg", c.map("div", g, total) if reduction == 1 else g)
    share = _class_weights(c, target, weight)
    each = each if share is None else c.map("mul", each, share)
    each = c.map("where", c.map("ieq", target, ignored), 0.0, each).unsqueeze(axis)
    place = Value.of(c.builder.iota(x.shape[axis]))
    for _ in range(x.rank - axis - 1):
        place = place.unsqueeze(1)
    hit = c.map("ieq", target.unsqueeze(axis), place)
    result = c.map("where", hit, each, 0.0)
    c.facts["picked", result] = (axis, hit, each)
    return result


# --- along an axis


@lowers("gather")
def gather(c: Context, node: Any, x: Value, dim: int, index: Value, *rest: Any, **named: Any) -> Value:
    if not x.rank:
        return x
    axis = dim % x.rank
    checked(c, index, x.shape[axis])
    for other in range(x.rank):
        if other != axis:
            x = c.slice(x, other, 0, index.shape[other])
    spread = x.unsqueeze(axis).permute([*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1])
    return take(c, spread.expand((*index.shape, x.shape[axis])), index)


@lowers("index_select")
def index_select(c: Context, node: Any, x: Value, dim: int, index: Value) -> Value:
    axis = dim % x.rank
    front = x.permute([axis, *(a for a in range(x.rank) if a != axis)])
    taken = rows(c, front, index)
    return taken.permute([*range(1, axis + 1), 0, *range(axis + 1, x.rank)])


# --- tensors as indices


def wrapped(c: Context, index: Value, extent: int) -> Value:
    """An index that may count from the end, as torch's square brackets allow."""
    known = bounds_of(c, index)
    if known is not None and known[0] >= 0:
        return index
    return c.map("where", c.map("ilt", index, 0), c.map("iadd", index, extent), index)


def joined(c: Context, x: Value, indices: Sequence[Any]) -> tuple[Value, Value, list[int], int]:
    """x with its indexed axes in front as one; the joint index; which axes they are; before which other axis its own go."""
    at = [axis for axis, index in enumerate(indices) if index is not None]
    own = {axis: wrapped(c, indices[axis], x.shape[axis]) for axis in at}
    for axis in at:
        checked(c, own[axis], x.shape[axis])
    linear = own[at[0]]
    for axis in at[1:]:
        linear = c.map("iadd", c.map("imul", linear, x.shape[axis]), own[axis])
    rest = [axis for axis in range(x.rank) if axis not in at]
    front = x.permute([*at, *rest])
    flat = c.reshape(front, [math.prod(x.shape[axis] for axis in at), *(x.shape[axis] for axis in rest)])
    neighbours = at == list(range(at[0], at[-1] + 1))
    return flat, linear, at, at[0] if neighbours else 0


@lowers("index", "_unsafe_index")
def index(c: Context, node: Any, x: Value, indices: Sequence[Any]) -> Value:
    flat, linear, _, first = joined(c, x, indices)
    taken = rows(c, flat, linear)
    before = range(linear.rank, linear.rank + first)
    return taken.permute([*before, *range(linear.rank), *range(linear.rank + first, taken.rank)])


@lowers("take")
def take_flat(c: Context, node: Any, x: Value, index: Value) -> Value:
    index = wrapped(c, index, x.elements)
    return rows(c, checked_row(c, x, index), index)


def checked_row(c: Context, x: Value, index: Value) -> Value:
    checked(c, index, x.elements)
    return c.reshape(x, [x.elements])
