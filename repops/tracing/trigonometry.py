"""Angles, hyperbolas and other functions of one or two numbers that the operator table lacks, to a few units in the last place."""

from __future__ import annotations

import math
from typing import Any

from repops.graph import F32
from repops.tracing.elementwise import Argument, divide, exp_less_one, joint, log_of_one_more, truncated
from repops.tracing.lower import Context, lowers
from repops.tracing.scans import log_of_sum
from repops.tracing.value import Value

# The odd polynomial of Cephes' atanf for arguments up to tan(pi / 8), from the highest power down.
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def arctangent(c: Context, x: Value) -> Value:
    """Cephes: arguments beyond tan(3 pi / 8) and tan(pi / 8) are turned by pi / 2 and pi / 4."""
    size = c.map("abs", x)
    large = c.map("lt", math.tan(3 * math.pi / 8), size)
    middle = c.map("lt", math.tan(math.pi / 8), size)
    ratio = c.map("div", c.map("sub", size, 1.0), c.map("add", size, 1.0))
    inner = c.map("where", large, c.map("div", -1.0, size), c.map("where", middle, ratio, size))
    turned = c.map("where", middle, math.pi / 4, 0.0, dtype=F32)
    start = c.map("where", large, math.pi / 2, turned)
    squared = c.map("mul", inner, inner)
    curve: Value = c.map("fma", squared, _ATAN[0], _ATAN[1])
    for factor in _ATAN[2:]:
        curve = c.map("fma", curve, squared, factor)
    angle = c.map("add", start, c.map("fma", c.map("mul", curve, squared), inner, inner))
    return c.map("where", c.map("lt", x, 0.0), c.map("neg", angle), angle)


@lowers("atan")
def atan(c: Context, node: Any, x: Value) -> Value:
    return arctangent(c, c.typed(x, F32))


@lowers("atan2")
def atan2(c: Context, node: Any, y: Value, x: Value) -> Value:
    """Of the smaller over the larger, so that no quotient overflows; 0 at the origin."""
    y, x = c.typed(y, F32), c.typed(x, F32)
    rise, run = c.map("abs", y), c.map("abs", x)
    steep = c.map("lt", run, rise)
    low, high = c.map("min", rise, run), c.map("max", rise, run)
    ratio = c.map("div", low, c.map("where", c.map("eq", high, 0.0), 1.0, high))
    angle = arctangent(c, ratio)
    angle = c.map("where", steep, c.map("sub", math.pi / 2, angle), angle)
    angle = c.map("where", c.map("lt", x, 0.0), c.map("sub", math.pi, angle), angle)
    return c.map("where", c.map("lt", y, 0.0), c.map("neg", angle), angle)


def _cosine_leg(c: Context, x: Value) -> Value:
    """sqrt(1 - x^2) without losing digits near 1."""
    return c.map("sqrt", c.map("mul", c.map("sub", 1.0, x), c.map("add", 1.0, x)))


@lowers("asin")
def asin(c: Context, node: Any, x: Value) -> Value:
    return arctangent(c, c.map("div", x, _cosine_leg(c, x)))


@lowers("acos")
def acos(c: Context, node: Any, x: Value) -> Value:
    half = arctangent(c, c.map("sqrt", c.map("div", c.map("sub", 1.0, x), c.map("add", 1.0, x))))
    return c.map("mul", half, 2.0)


@lowers("tan")
def tan(c: Context, node: Any, x: Value) -> Value:
    return c.map("div", c.map("sin", x), c.map("cos", x))


@lowers("sinh")
def sinh(c: Context, node: Any, x: Value) -> Value:
    less = exp_less_one(c, x)
    return c.map("mul", c.map("add", less, c.map("div", less, c.map("add", less, 1.0))), 0.5)


@lowers("cosh")
def cosh(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul", c.map("add", c.map("exp", x), c.map("exp", c.map("neg", x))), 0.5)


@lowers("asinh")
def asinh(c: Context, node: Any, x: Value) -> Value:
    size = c.map("abs", x)
    squared = c.map("mul", size, size)
    more = c.map("div", squared, c.map("add", c.map("sqrt", c.map("add", squared, 1.0)), 1.0))
    result = log_of_one_more(c, c.map("add", size, more))
    return c.map("where", c.map("lt", x, 0.0), c.map("neg", result), result)


@lowers("acosh")
def acosh(c: Context, node: Any, x: Value) -> Value:
    over = c.map("sub", x, 1.0)
    return log_of_one_more(c, c.map("add", over, c.map("sqrt", c.map("mul", over, c.map("add", x, 1.0)))))


@lowers("atanh")
def atanh(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul", log_of_one_more(c, c.map("div", c.map("mul", x, 2.0), c.map("sub", 1.0, x))), 0.5)


@lowers("log10")
def log10(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul", c.map("log", c.typed(x, F32)), 1.0 / math.log(10.0))


@lowers("exp2")
def exp2(c: Context, node: Any, x: Value) -> Value:
    return c.map("exp", c.map("mul", c.typed(x, F32), math.log(2.0)))


@lowers("erfc", "special_erfc")
def erfc(c: Context, node: Any, x: Value) -> Value:
    """To the absolute precision of erf; the far tail is 0."""
    return c.map("sub", 1.0, c.map("erf", x))


@lowers("hypot")
def hypot(c: Context, node: Any, a: Value, b: Value) -> Value:
    """By the larger, so that no square overflows."""
    a, b = c.map("abs", a), c.map("abs", b)
    low, high = c.map("min", a, b), c.map("max", a, b)
    ratio = c.map("div", low, c.map("where", c.map("eq", high, 0.0), 1.0, high))
    return c.map("mul", high, c.map("sqrt", c.map("fma", ratio, ratio, 1.0)))


@lowers("logaddexp")
def logaddexp(c: Context, node: Any, a: Value, b: Value) -> Value:
    return log_of_sum(c, a, b)


@lowers("copysign")
def copysign(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    _, (a, b) = joint(c, node, a, b)
    size = c.map("abs", a)
    negative = c.map("ilt", c.map("bits", b), 0)
    return c.map("where", negative, c.map("neg", size), size)


@lowers("fmod")
def fmod(c: Context, node: Any, a: Argument, b: Argument) -> Value:
    dtype, (a, b) = joint(c, node, a, b)
    if dtype == F32:
        return c.map("sub", a, c.map("mul", truncated(c, divide(c, a, b)), b))
    below = c.map("imod", a, b)
    # The sign of the dividend, where `imod` has the divisor's.
    other = c.map("and", c.map("ilt", c.map("xor", a, b), 0), c.map("ieq", c.map("ieq", below, 0), 0))
    return c.map("isub", below, c.map("where", other, b, 0))


@lowers("fmax", "fmin")
def fmax(c: Context, node: Any, a: Value, b: Value) -> Value:
    """Of two numbers, where one is NaN the other."""
    op = node.target._schema.name.removeprefix("aten::f")
    extreme = c.map("where", c.map("eq", b, b), c.map(op, a, b), a)
    return c.map("where", c.map("eq", a, a), extreme, b)
