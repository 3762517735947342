"""Comparison, logic, choice and conversion; booleans are the integers 0 and 1."""

from __future__ import annotations

import math
from typing import Any

import torch

from repops.graph import F32, I32
from repops.tracing.elementwise import NARROW, Argument, joint
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value


def compared(c: Context, node: Any, a: Argument, b: Argument) -> tuple[bool, list[Argument]]:
    """Both arguments in the type they promote to, and whether that is float32."""
    operands = [n.meta["val"] if hasattr(n, "meta") else n for n in node.args[:2]]
    dtype = dtype_of(torch.result_type(*operands))
    return dtype == F32, [c.number(a, dtype), c.number(b, dtype)]


def negation(c: Context, x: Value) -> Value:
    return c.map("ieq", x, 0)


@lowers("eq", "ne")
def equal(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    floats, (a, b) = compared(c, node, a, b)
    same = c.map("eq" if floats else "ieq", a, b)
    return negation(c, same) if node.target._schema.name == "aten::ne" else same


@lowers("lt", "gt")
def less(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    floats, (a, b) = compared(c, node, a, b)
    if node.target._schema.name == "aten::gt":
        a, b = b, a
    return c.map("lt" if floats else "ilt", a, b)


@lowers("le", "ge")
def at_most(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    floats, (a, b) = compared(c, node, a, b)
    if node.target._schema.name == "aten::ge":
        a, b = b, a
    return c.map("le", a, b) if floats else negation(c, c.map("ilt", b, a))


def truth(c: Context, x: Value) -> Value:
    """1 where x is not zero (NaN included), else 0."""
    zero = c.map("eq", x, 0.0) if x.dtype == F32 else c.map("ieq", x, 0)
    return negation(c, zero)


def _boolean(c: Context, node: Any, x: Argument) -> Argument:
    if not isinstance(x, Value):
        return int(bool(x))
    return x if meta(node).dtype == torch.bool else truth(c, x)


@lowers("logical_and", "logical_or", "logical_xor")
def logical(c: Context, node: Any, a: Value, b: Value) -> Value:
    op = node.target._schema.name.removeprefix("aten::logical_")
    return c.map(op, _boolean(c, node.args[0], a), _boolean(c, node.args[1], b))


@lowers("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__")
def bitwise(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    op = node.target._schema.name.removeprefix("aten::").removeprefix("bitwise_").strip("_")
    return c.map(op, *(int(x) if isinstance(x, bool) else x for x in (a, b)))


@lowers("logical_not")
def logical_not(c: Context, node: Any, x: Value) -> Value:
    return c.map("eq", x, 0.0) if x.dtype == F32 else negation(c, x)


@lowers("bitwise_not")
def bitwise_not(c: Context, node: Any, x: Value) -> Value:
    return negation(c, x) if meta(node).dtype == torch.bool else c.map("xor", x, -1)


@lowers("isnan")
def isnan(c: Context, node: Any, x: Value) -> Value:
    return negation(c, c.map("eq", x, x))


@lowers("isinf")
def isinf(c: Context, node: Any, x: Value) -> Value:
    return c.map("eq", c.map("abs", x), math.inf)


@lowers("isfinite")
def isfinite(c: Context, node: Any, x: Value) -> Value:
    return c.map("lt", c.map("abs", x), math.inf)


@lowers("where")
def where(c: Context, node: Any, condition: Value, a: Argument, b: Argument) -> Value:
    dtype, (a, b) = joint(c, node, a, b)
    return c.map("where", condition, a, b, dtype=dtype)


@lowers("masked_fill")
def masked_fill(c: Context, node: Any, x: Value, mask: Value, value: Argument) -> Value:
    if value == 0 and c.facts.get(("zero", x)) == mask:
        return x
    result = c.map("where", mask, c.number(value, x.dtype), x)
    if value == -math.inf:
        c.facts["masked", result] = mask
    return result


def extreme(c: Context, op: str, dtype: str, a: Argument, b: Argument) -> Value:
    if dtype == F32:
        return c.map(op, a, b)
    first = c.map("ilt", a, b)
    return c.map("where", first, *((b, a) if op == "max" else (a, b)), dtype=I32)


@lowers("maximum", "minimum")
def maximum(c: Context, node: Any, a: Value, b: Value) -> Value:
    dtype, values = joint(c, node, a, b)
    return extreme(c, node.target._schema.name[6:9], dtype, *values)


@lowers("clamp", "hardtanh")
def clamp(c: Context, node: Any, x: Value, low: Any = None, high: Any = None, **named: Any) -> Value:
    low, high = named.get("min", low), named.get("max", high)
    dtype = dtype_of(meta(node).dtype)
    result = c.typed(x, dtype)
    if low is not None:
        result = extreme(c, "max", dtype, result, c.number(low, dtype))
    if high is not None:
        result = extreme(c, "min", dtype, result, c.number(high, dtype))
    return result


@lowers("clamp_min")
def clamp_min(c: Context, node: Any, x: Value, low: Argument) -> Value:
    dtype, (a, b) = joint(c, node, x, low)
    return extreme(c, "max", dtype, a, b)


@lowers("clamp_max")
def clamp_max(c: Context, node: Any, x: Value, high: Argument) -> Value:
    dtype, (a, b) = joint(c, node, x, high)
    return extreme(c, "min", dtype, a, b)


# --- conversion


@lowers("_to_copy", "to", "_to")
def convert(c: Context, node: Any, x: Value, *rest: Any, **named: Any) -> Value:
    target, source = meta(node).dtype, meta(node.args[0]).dtype
    if target == torch.bool and source != torch.bool:
        return truth(c, x)
    if target in NARROW and source != torch.bool:
        raise TraceRefused(f"a cast to {target}", hint="int32, which does not wrap so soon")
    return c.typed(x, dtype_of(target))


@lowers("clone", "detach", "alias", "lift_fresh", "lift", "contiguous", "_conj", "positive")
def same(c: Context, node: Any, x: Value, **named: Any) -> Value:
    return x
