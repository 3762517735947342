"""Activations and their gradients, with the fewest nodes: halves and products are shared between both directions."""

from __future__ import annotations

import math
from typing import Any

from repops.graph import F32
from repops.tracing.elementwise import exp_less_one
from repops.tracing.lower import Context, lowers
from repops.tracing.value import Value

TANH_SLOPE = math.sqrt(2.0 / math.pi)
TANH_CUBE = 0.044715 * TANH_SLOPE
# math.sqrt and division are correctly rounded; pi is a literal of the language: the same floats everywhere.
NORMAL_PEAK = 1.0 / math.sqrt(2.0 * math.pi)


@lowers("relu")
def relu(c: Context, node: Any, x: Value) -> Value:
    if x.dtype != F32:
        return c.map("where", c.map("ilt", x, 0), 0, x)
    closed = c.map("le", x, 0.0)  # false for NaN, which passes
    result = c.map("where", closed, 0.0, x)
    c.facts["closed", result] = closed
    return result


@lowers("threshold_backward")
def threshold_backward(c: Context, node: Any, g: Value, x: Value, threshold: float) -> Value:
    closed = c.facts.get(("closed", x)) if threshold == 0 else None
    if closed is None:
        closed = c.map("le", x, float(threshold))
    return c.map("where", closed, 0.0, g)


def sigmoid_of(c: Context, x: Value) -> Value:
    return c.map("div", 1.0, c.map("add", c.map("exp", c.map("neg", x)), 1.0))


@lowers("sigmoid")
def sigmoid(c: Context, node: Any, x: Value) -> Value:
    return sigmoid_of(c, x)


@lowers("sigmoid_backward")
def sigmoid_backward(c: Context, node: Any, g: Value, y: Value) -> Value:
    return c.map("mul", g, c.map("mul", y, c.map("sub", 1.0, y)))


@lowers("tanh_backward")
def tanh_backward(c: Context, node: Any, g: Value, y: Value) -> Value:
    return c.map("mul", g, c.map("sub", 1.0, c.map("mul", y, y)))


@lowers("silu")
def silu(c: Context, node: Any, x: Value) -> Value:
    return c.map("mul", x, sigmoid_of(c, x))


@lowers("silu_backward")
def silu_backward(c: Context, node: Any, g: Value, x: Value) -> Value:
    """s * (1 + x * (1 - s)), s the sigmoid."""
    s = sigmoid_of(c, x)
    slope = c.map("mul", s, c.map("fma", x, c.map("sub", 1.0, s), 1.0))
    return c.map("mul", g, slope)


@lowers("gelu")
def gelu(c: Context, node: Any, x: Value, approximate: str = "none") -> Value:
    half = c.map("mul", x, 0.5)
    return c.map("fma", half, _curve(c, x, approximate), half)


def _curve(c: Context, x: Value, approximate: str) -> Value:
    """The term added to 1: erf(x / sqrt 2), or its approximation by tanh."""
    if approximate == "none":
        return c.map("erf", c.map("mul", x, math.sqrt(0.5)))
    return c.map("tanh", c.map("mul", x, c.map("fma", c.map("mul", x, x), TANH_CUBE, TANH_SLOPE)))


@lowers("gelu_backward")
def gelu_backward(c: Context, node: Any, g: Value, x: Value, approximate: str = "none") -> Value:
    curve, squared = _curve(c, x, approximate), c.map("mul", x, x)
    share = c.map("fma", curve, 0.5, 0.5)
    if approximate == "none":
        bell = c.map("exp", c.map("mul", squared, -0.5))
        slope = c.map("fma", c.map("mul", x, NORMAL_PEAK), bell, share)
    else:
        # share + x/2 * (1 - tanh^2) * inner': both negations are in the constants.
        inner = c.map("fma", squared, -3.0 * TANH_CUBE, -TANH_SLOPE)
        steep = c.map("fma", curve, curve, -1.0)
        slope = c.map("fma", c.map("mul", c.map("mul", x, 0.5), inner), steep, share)
    return c.map("mul", g, slope)


@lowers("leaky_relu")
def leaky_relu(c: Context, node: Any, x: Value, slope: float = 0.01) -> Value:
    return c.map("where", c.map("le", x, 0.0), c.map("mul", x, float(slope)), x)


@lowers("elu")
def elu(c: Context, node: Any, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    inner = x if input_scale == 1 else c.map("mul", x, float(input_scale))
    below = c.map("mul", exp_less_one(c, inner), float(alpha * scale))
    return c.map("where", c.map("lt", 0.0, x), x if scale == 1 else c.map("mul", x, float(scale)), below)


@lowers("softplus")
def softplus(c: Context, node: Any, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """max(x, 0) + log(1 + exp(-|x|)), scaled by beta; x itself beyond the threshold."""
    scaled = x if beta == 1 else c.map("mul", x, float(beta))
    tail = c.map("log", c.map("add", c.map("exp", c.map("neg", c.map("abs", scaled))), 1.0))
    result = c.map("add", c.map("max", scaled, 0.0), tail)
    result = result if beta == 1 else c.map("div", result, float(beta))
    return c.map("where", c.map("lt", float(threshold), scaled), x, result, dtype=F32)


@lowers("softshrink_backward", "hardshrink_backward")
def shrink_backward(c: Context, node: Any, g: Value, x: Value, width: float) -> Value:
    return c.map("where", c.map("le", c.map("abs", x), float(width)), 0.0, g)
