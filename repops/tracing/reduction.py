"""Sums, means, extremes and softmax: reductions along axes, except matmuls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from repops.graph import F32
from repops.tracing.choice import negation, truth
from repops.tracing.elementwise import divide, fixed_power
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value


def axes_of(value: Value, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(value.rank))
    return sorted(axis % value.rank for axis in ([dim] if isinstance(dim, int) else dim))


def reduced(c: Context, op: str, x: Value, dim: Any, keepdim: bool) -> Value:
    """op over the axes `dim` (None: all)."""
    if not x.rank:
        return x
    axes = axes_of(x, dim)
    result = c.reduce(op, x, axes)
    for axis in axes if keepdim else ():
        result = result.unsqueeze(axis)
    return result


@lowers("sum")
def total(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    word = dtype_of(meta(node).dtype)
    converted = c.typed(x, word)
    if word == F32 and all(converted.shape[axis] == 1 for axis in axes_of(converted, dim)):
        return c.reshape(converted, meta(node).shape)
    return reduced(c, "sum", converted, dim, keepdim)


@lowers("mean")
def mean(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    added = total(c, node, x, dim, keepdim)
    return divide(c, added, float(x.elements // max(1, added.elements)))


@lowers("var", "var_mean")
def variance(
    c: Context,
    node: Any,
    x: Value,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    lost = (1 if unbiased is None else int(unbiased)) if correction is None else correction
    axes = axes_of(x, dim)
    count = math.prod(x.shape[axis] for axis in axes)
    center = divide(c, reduced(c, "sum", x, axes, True), float(count))
    away = c.map("sub", x, center)
    spread = divide(c, reduced(c, "sum", c.map("mul", away, away), axes, keepdim), float(max(0, count - lost)))
    if node.target._schema.name == "aten::var":
        return spread
    return spread, center if keepdim else c.reshape(center, spread.shape)


@lowers("amax", "amin")
def extreme(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(c, x, dim, keepdim, node.target._schema.name == "aten::amax")


def _extreme(c: Context, x: Value, dim: Any, keepdim: bool, largest: bool) -> Value:
    if x.dtype == F32:
        top = reduced(c, "reduce_max", x if largest else c.map("neg", x), dim, keepdim)
        return top if largest else c.map("neg", top)
    top = reduced(c, "reduce_imax", x if largest else c.map("xor", x, -1), dim, keepdim)
    return top if largest else c.map("xor", top, -1)


def first_place(c: Context, x: Value, top: Value, axis: int, among: Value | None = None) -> Value:
    """The first place of the extreme `top` (kept axis) along `axis`; NaN's place if it is NaN. among: 1 where allowed."""
    extent = x.shape[axis]
    hit = c.map("eq", x, top) if x.dtype == F32 else c.map("ieq", x, top)
    if x.dtype == F32:
        hit = c.map("or", hit, negation(c, c.map("eq", x, x)))
    hit = hit if among is None else c.map("and", hit, among)
    back = Value.of(c.builder.iota(extent))
    back = c.map("isub", extent - 1, back)
    for _ in range(x.rank - 1 - axis):
        back = back.unsqueeze(back.rank)
    furthest = c.reduce("reduce_imax", c.map("where", hit, back, -1), [axis])
    return c.map("isub", extent - 1, furthest)


@lowers("argmax", "argmin")
def place_of_extreme(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    if dim is None:
        x, dim = c.reshape(x, [x.elements]), 0
    axis = dim % x.rank
    top = _extreme(c, x, axis, True, node.target._schema.name == "aten::argmax")
    place = first_place(c, x, top, axis)
    return c.reshape(place, meta(node).shape)


@lowers("max", "min")
def extreme_and_place(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    largest = node.target._schema.name == "aten::max"
    if isinstance(dim, Value):
        raise TraceRefused("max of two tensors in this form", hint="torch.maximum")
    if dim is None:
        return _extreme(c, x, None, False, largest)
    axis = dim % x.rank
    top = _extreme(c, x, axis, True, largest)
    place = first_place(c, x, top, axis)
    return (top, place.unsqueeze(axis)) if keepdim else (top.squeeze(axis), place)


@lowers("any", "all")
def quantifier(c: Context, node: Any, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    wants_all = node.target._schema.name == "aten::all"
    flags = truth(c, x) if meta(node.args[0]).dtype != torch.bool else x
    if not x.rank:
        return flags
    count = math.prod(x.shape[axis] for axis in axes_of(x, dim))
    added = reduced(c, "isum", flags, dim, keepdim)
    return c.map("ieq", added, count) if wants_all else c.map("ilt", 0, added)


@lowers("linalg_vector_norm")
def vector_norm(
    c: Context, node: Any, x: Value, order: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    size = c.map("abs", x)
    if order == 1:
        return reduced(c, "sum", size, dim, keepdim)
    if order in (math.inf, -math.inf):
        return _extreme(c, size, dim, keepdim, order > 0)
    if order == 0:
        return c.map("to_float", reduced(c, "isum", truth(c, x), dim, keepdim))
    if order != 2:
        powers = fixed_power(c, F32, size, float(order))
        assert isinstance(powers, Value)
        root = fixed_power(c, F32, reduced(c, "sum", powers, dim, keepdim), 1.0 / order)
        assert isinstance(root, Value)
        return root
    return c.map("sqrt", reduced(c, "sum", c.map("mul", x, x), dim, keepdim))


# --- softmax


def shifted(c: Context, x: Value, axis: int) -> tuple[Value, Value, Value]:
    """x less its greatest along the axis, exp of that, and its sum (kept axis)."""
    away = c.map("sub", x, reduced(c, "reduce_max", x, axis, True))
    power = c.map("exp", away)
    return away, power, reduced(c, "sum", power, axis, True)


@lowers("_softmax", "_safe_softmax")
def softmax(c: Context, node: Any, x: Value, dim: int, *rest: Any) -> Value:
    _, power, added = shifted(c, x, dim % x.rank)
    result = c.map("div", power, added)
    if node.target._schema.name == "aten::_safe_softmax":
        # A fully masked row gives zeros.
        dead = c.map("eq", reduced(c, "reduce_max", x, dim, True), -math.inf)
        result = c.map("where", dead, 0.0, result)
    if ("masked", x) in c.facts:  # what was -inf is 0 from here on, and so is its gradient
        c.facts["zero", result] = c.facts["masked", x]
    return result


@lowers("_softmax_backward_data")
def softmax_backward(c: Context, node: Any, g: Value, y: Value, dim: int, *rest: Any) -> Value:
    mean_gradient = reduced(c, "sum", c.map("mul", g, y), dim, True)
    result = c.map("mul", y, c.map("sub", g, mean_gradient))
    if ("zero", y) in c.facts:
        c.facts["zero", result] = c.facts["zero", y]
    return result


@lowers("_log_softmax")
def log_softmax(c: Context, node: Any, x: Value, dim: int, *rest: Any) -> Value:
    axis = dim % x.rank
    away, power, added = shifted(c, x, axis)
    logarithm = c.map("log", added)
    result = c.map("sub", away, logarithm)
    c.facts["log_softmax", result] = (axis, away, power, added, logarithm)
    return result


@lowers("_log_softmax_backward_data")
def log_softmax_backward(c: Context, node: Any, g: Value, y: Value, dim: int, *rest: Any) -> Value:
    axis = dim % y.rank
    known = c.facts.get(("log_softmax", y))
    picked = c.facts.get(("picked", g))
    if picked is not None and picked[0] == axis:
        # g is `weight` at each row's target and 0 elsewhere: g - share * sum(g), without the sum.
        _, hit, weight = picked
        fall = c.map("neg", weight)
        even = c.map("mul", known[2], c.map("div", fall, known[3])) if known else c.map("mul", c.map("exp", y), fall)
        return c.map("where", hit, c.map("add", even, weight), even)
    return c.map("sub", g, c.map("mul", c.map("exp", y), reduced(c, "sum", g, axis, True)))
