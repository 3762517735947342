"""Arithmetic: each torch operator as few elementwise nodes as possible."""

from __future__ import annotations

import math
from typing import Any

import torch

from repops.builder import Scalar
from repops.graph import F32, I32
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value

Argument = Value | Scalar
NARROW = (torch.int8, torch.int16, torch.uint8)  # a batch may hold them; sums would not wrap as they do
INTEGER_OPS = {"add": "iadd", "sub": "isub", "mul": "imul"}


def joint(c: Context, node: Any, *arguments: Argument) -> tuple[str, list[Argument]]:
    """The arguments of arithmetic in the word type of its result."""
    if meta(node).dtype in NARROW:
        raise TraceRefused(f"arithmetic in {meta(node).dtype}", hint="cast to int32 or float32 first")
    dtype = dtype_of(meta(node).dtype)
    return dtype, [c.number(argument, dtype) for argument in arguments]


def binary(c: Context, op: str, dtype: str, a: Argument, b: Argument) -> Value:
    return c.map(op if dtype == F32 else INTEGER_OPS[op], a, b)


@lowers("add", "sub", "rsub")
def add(c: Context, node: Any, a: Argument, b: Argument, alpha: Scalar = 1) -> Argument:
    name = node.target._schema.name.removeprefix("aten::")
    dtype, (a, b) = joint(c, node, a, b)
    if name == "rsub":
        a, b = b, a
    if alpha != 1:
        b = binary(c, "mul", dtype, b, c.number(alpha, dtype))
    if name == "add" and dtype == F32:
        return sum_of(c, a, b)
    return binary(c, "add" if name == "add" else "sub", dtype, a, b)


def sum_of(c: Context, a: Argument, b: Argument) -> Value:
    """a + b; where one is a product, with one rounding instead of two, and one node fewer."""
    for product, other in ((b, a), (a, b)):
        factors = c.facts.get(("product", product)) if isinstance(product, Value) else None
        if factors is not None:
            return c.map("fma", *factors, other)
    return c.map("add", a, b)


@lowers("mul")
def mul(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    if meta(node).dtype == torch.bool:
        return c.map("and", a, b)
    dtype, (a, b) = joint(c, node, a, b)
    if dtype == F32:
        return product_of(c, a, b)
    return c.map("imul", a, b)


def product_of(c: Context, a: Argument, b: Argument) -> Value:
    """a * b. A scalar factor of the larger operand moves to the smaller one (such factors come from squares)."""
    for small, large in ((a, b), (b, a)):
        if not isinstance(small, Value) or not isinstance(large, Value):
            break
        factors = c.facts.get(("product", large))
        if factors is None or small.without_broadcast.elements >= large.without_broadcast.elements:
            continue
        values = [factor for factor in factors if isinstance(factor, Value)]
        if len(values) == 1 and factors[1] in (2.0, -2.0, 0.5, -0.5):  # exact, whichever comes first
            return c.map("mul", c.map("mul", small, factors[1]), values[0])
    return c.map("mul", a, b)


def divide(c: Context, a: Argument, b: Argument) -> Value:
    """Float division; by a power of two it is a product, which gives the same bits."""
    if isinstance(b, float) and b and math.frexp(b)[0] in (0.5, -0.5) and 2.0**-100 < abs(b) < 2.0**100:
        return c.map("mul", a, 1.0 / b)
    return c.map("div", a, b)


@lowers("div", "true_divide")
def div(c: Context, node: Any, a: Argument, b: Argument, rounding_mode: str | None = None) -> Value:
    dtype, (a, b) = joint(c, node, a, b)
    if dtype == I32:
        below = c.map("idiv", a, b)
        if rounding_mode == "floor":
            return below
        # Towards zero: add one where the quotient is negative and the remainder is not zero.
        left = c.map("ieq", c.map("imul", below, b), a)
        lifts = c.map("and", c.map("ilt", below, 0), c.map("ieq", left, 0))
        return c.map("iadd", below, lifts)
    quotient = divide(c, a, b)
    if rounding_mode == "floor":
        return c.map("floor", quotient)
    return truncated(c, quotient) if rounding_mode == "trunc" else quotient


@lowers("floor_divide")
def floor_divide(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    return div(c, node, a, b, rounding_mode="floor")


@lowers("remainder")
def remainder(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    dtype, (a, b) = joint(c, node, a, b)
    if dtype == I32:
        return c.map("imod", a, b)
    return c.map("sub", a, c.map("mul", c.map("floor", divide(c, a, b)), b))


def truncated(c: Context, x: Value) -> Value:
    return c.map("where", c.map("lt", x, 0.0), c.map("neg", c.map("floor", c.map("neg", x))), c.map("floor", x))


@lowers("trunc")
def trunc(c: Context, node: Any, x: Value) -> Value:
    return truncated(c, x)


@lowers("ceil")
def ceil(c: Context, node: Any, x: Value) -> Value:
    return c.map("neg", c.map("floor", c.map("neg", x)))


for _name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "floor", "round"):

    def _same(c: Context, node: Any, x: Value, op: str = _name) -> Value:
        return c.map(op, c.number(x, F32))

    lowers(_name)(_same)


@lowers("neg")
def neg(c: Context, node: Any, x: Value) -> Value:
    return c.map("neg", x) if x.dtype == F32 else c.map("isub", 0, x)


@lowers("abs")
def absolute(c: Context, node: Any, x: Value) -> Value:
    return c.map("abs", x) if x.dtype == F32 else c.map("where", c.map("ilt", x, 0), c.map("isub", 0, x), x)


@lowers("sign", "sgn")
def sign(c: Context, node: Any, x: Value) -> Value:
    if x.dtype == I32:
        return c.map("isub", c.map("ilt", 0, x), c.map("ilt", x, 0))
    return c.map("to_float", c.map("isub", c.map("lt", 0.0, x), c.map("lt", x, 0.0)))


@lowers("reciprocal")
def reciprocal(c: Context, node: Any, x: Value) -> Value:
    return c.map("div", 1.0, c.number(x, F32))


@lowers("rsqrt")
def rsqrt(c: Context, node: Any, x: Value) -> Value:
    return c.map("div", 1.0, c.map("sqrt", c.number(x, F32)))


@lowers("square")
def square(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul" if x.dtype == F32 else "imul", x, x)


@lowers("log2")
def log2(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul", c.map("log", c.number(x, F32)), 1.4426950408889634)


@lowers("log1p")
def log1p(c: Context, node: Any, x: Value) -> Value:
    return log_of_one_more(c, x)


def log_of_one_more(c: Context, x: Value) -> Value:
    """log(u) * x / (u - 1) with u = 1 + x, which corrects the rounding of u (Kahan)."""
    u = c.map("add", 1.0, x)
    exact = c.map("eq", u, 1.0)
    ratio = c.map("div", x, c.map("where", exact, 1.0, c.map("sub", u, 1.0), dtype=F32))
    scaled = c.map("mul", c.map("log", u), ratio)
    return c.map("where", exact, x, c.map("where", c.map("eq", u, math.inf), u, scaled))


@lowers("expm1")
def expm1(c: Context, node: Any, x: Value) -> Value:
    return exp_less_one(c, x)


def exp_less_one(c: Context, x: Value) -> Value:
    """tanh(x / 2) * (exp(x) + 1) where the difference would cancel."""
    power = c.map("exp", x)
    near = c.map("mul", c.map("tanh", c.map("mul", x, 0.5)), c.map("add", power, 1.0))
    return c.map("where", c.map("lt", c.map("abs", x), 0.5), near, c.map("sub", power, 1.0))


@lowers("pow")
def power(c: Context, node: Any, base: Argument, exponent: Argument) -> Argument:
    """Whole exponents by products, halves by roots, others by exp(exponent * log(base))."""
    dtype, (base, exponent) = joint(c, node, base, exponent)
    if not isinstance(exponent, Value) or dtype == I32:
        return fixed_power(c, dtype, base, node.args[1])
    logarithm = c.map("log", base if isinstance(base, Value) else c.scalar(base, F32))
    return c.map("exp", c.map("mul", exponent, logarithm))


def fixed_power(c: Context, dtype: str, base: Argument, exponent: Any) -> Argument:
    if not isinstance(exponent, (int, float)):
        raise TraceRefused("an integer power with a tensor as exponent", hint="cast the base to float32")
    times = "mul" if dtype == F32 else "imul"
    size = abs(exponent)
    if size != int(size) and size * 2 == int(size * 2) and size < 16:
        result: Argument = c.map("sqrt", base)
        if int(size):
            result = c.map("mul", result, _whole_power(c, times, base, int(size)))
    elif size == int(size) and size <= 64:
        result = _whole_power(c, times, base, int(size)) if size else c.map("add", c.map("mul", base, 0.0), 1.0)
    else:
        return c.map("exp", c.map("mul", c.map("log", base), float(exponent)))
    return c.map("div", 1.0, result) if exponent < 0 else result


def _whole_power(c: Context, times: str, base: Argument, exponent: int) -> Argument:
    if exponent == 1:
        return base
    half = _whole_power(c, times, base, exponent // 2)
    whole = c.map(times, half, half)
    return c.map(times, whole, base) if exponent % 2 else whole


@lowers("bitwise_left_shift", "__lshift__", "bitwise_right_shift", "__rshift__")
def shift(c: Context, node: Any, x: Argument, by: Argument) -> Value:
    """Integers; to the right keeping the sign."""
    x, by = (c.number(each, I32) for each in (x, by))
    if node.target._schema.name in ("aten::__lshift__", "aten::bitwise_left_shift"):
        return c.map("shl", x, by)
    flipped = c.map("isub", 0, c.map("ilt", x, 0)) if isinstance(x, Value) else -int(x < 0)
    return c.map("xor", c.map("shr", c.map("xor", x, flipped), by), flipped)
