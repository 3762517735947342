"""Layer, batch and group normalisation, forward and backward, on one pattern: center, scale, and two sums for the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from repops.graph import F32
from repops.tracing.lower import Context, lowers
from repops.tracing.reduction import reduced
from repops.tracing.value import Value


def share(count: int) -> float:
    return 1.0 / count


def moments(c: Context, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value, Value, Value]:
    """x less its mean, the mean, the variance (over the count) and 1 / sqrt(variance + eps), axes kept."""
    count = math.prod(x.shape[axis] for axis in axes)
    mean = c.map("mul", reduced(c, "sum", x, axes, True), share(count))
    away = c.map("sub", x, mean)
    squares = reduced(c, "sum", c.map("mul", away, away), axes, True)
    root = c.map("sqrt", c.map("fma", squares, share(count), float(eps)))
    return away, mean, squares, c.map("div", 1.0, root)


def affine(c: Context, x: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is None:
        return x if bias is None else c.map("add", x, bias)
    return c.map("mul", x, weight) if bias is None else c.map("fma", x, weight, bias)


def centered_gradient(c: Context, g: Value, unit: Value, scale: Value, axes: Sequence[int]) -> Value:
    """Gradient of the input of unit = (x - mean) * scale: scale * (g - mean(g) - unit * mean(g * unit))."""
    part = -share(math.prod(g.shape[axis] for axis in axes))
    level = c.map("mul", reduced(c, "sum", g, axes, True), part)
    slope = c.map("mul", reduced(c, "sum", c.map("mul", g, unit), axes, True), part)
    return c.map("mul", c.map("fma", unit, slope, c.map("add", g, level)), scale)


@lowers("native_layer_norm")
def layer_norm(
    c: Context, node: Any, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> Any:
    away, mean, _, scale = moments(c, x, range(x.rank - len(shape), x.rank), eps)
    return affine(c, c.map("mul", away, scale), weight, bias), mean, scale


@lowers("native_layer_norm_backward")
def layer_norm_backward(
    c: Context,
    node: Any,
    g: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    scale: Value,
    weight: Value | None,
    bias: Value | None,
    wanted: Sequence[bool],
) -> Any:
    axes = range(x.rank - len(shape), x.rank)
    leading = range(x.rank - len(shape))
    unit = c.map("mul", c.map("sub", x, mean), scale)
    inner = g if weight is None else c.map("mul", g, weight)
    return (
        centered_gradient(c, inner, unit, scale, axes) if wanted[0] else None,
        _summed(c, c.map("mul", g, unit), leading) if wanted[1] and weight is not None else None,
        _summed(c, g, leading) if wanted[2] and bias is not None else None,
    )


def _summed(c: Context, x: Value, axes: Sequence[int]) -> Value:
    return c.reduce("sum", x, axes) if len(axes) else x


@lowers("_fused_rms_norm")
def rms_norm(c: Context, node: Any, x: Value, shape: Sequence[int], weight: Value | None, eps: float | None) -> Any:
    axes = range(x.rank - len(shape), x.rank)
    squares = reduced(c, "sum", c.map("mul", x, x), axes, True)
    # torch's default: the epsilon of float32
    mean = c.map("fma", squares, share(math.prod(shape)), 2.0**-23 if eps is None else float(eps))
    scale = c.map("div", 1.0, c.map("sqrt", mean))
    return affine(c, c.map("mul", x, scale), weight, None), scale


@lowers("_fused_rms_norm_backward")
def rms_norm_backward(
    c: Context,
    node: Any,
    g: Value,
    x: Value,
    shape: Sequence[int],
    scale: Value,
    weight: Value | None,
    wanted: Sequence[bool],
) -> Any:
    axes = range(x.rank - len(shape), x.rank)
    unit = c.map("mul", x, scale)
    inner = g if weight is None else c.map("mul", g, weight)
    slope = c.map("mul", reduced(c, "sum", c.map("mul", inner, unit), axes, True), -share(math.prod(shape)))
    own = c.map("mul", c.map("fma", unit, slope, inner), scale)
    return own, None if weight is None else _summed(c, c.map("mul", g, unit), range(x.rank - len(shape)))


# --- batch and group normalisation: channels are axis 1


def along(value: Value, rank: int) -> Value:
    """(C,) as (C, 1, ...): it broadcasts along axis 1."""
    for _ in range(rank - 2):
        value = value.unsqueeze(1)
    return value


@lowers("native_batch_norm")
def batch_norm(
    c: Context,
    node: Any,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_variance: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Writes the running statistics where torch does: into the arguments that hold them."""
    axes = [0, *range(2, x.rank)]
    weight, bias = (None if v is None else along(v, x.rank) for v in (weight, bias))
    if not training:
        assert running_mean is not None
        assert running_variance is not None
        scale = c.map("div", 1.0, c.map("sqrt", c.map("add", running_variance, float(eps))))
        unit = c.map("mul", c.map("sub", x, along(running_mean, x.rank)), along(scale, x.rank))
        return affine(c, unit, weight, bias), c.scalar(0.0, F32).expand((0,)), c.scalar(0.0, F32).expand((0,))
    away, mean, squares, scale = moments(c, x, axes, eps)
    flat = partial(c.reshape, shape=[x.shape[1]])
    if running_mean is not None and running_variance is not None:
        count = x.elements // x.shape[1]
        spread = c.map("mul", flat(squares), 1.0 / max(1, count - 1))
        c.environment[node.args[3]] = _moved(c, running_mean, flat(mean), momentum)
        c.environment[node.args[4]] = _moved(c, running_variance, spread, momentum)
    return affine(c, c.map("mul", away, scale), weight, bias), flat(mean), flat(scale)


def _moved(c: Context, old: Value, new: Value, momentum: float) -> Value:
    return c.map("fma", new, float(momentum), c.map("mul", old, 1.0 - momentum))


@lowers("native_batch_norm_backward")
def batch_norm_backward(
    c: Context,
    node: Any,
    g: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_variance: Value | None,
    mean: Value,
    scale: Value,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    axes = [0, *range(2, x.rank)]
    if not training:
        assert running_mean is not None
        assert running_variance is not None
        mean, scale = running_mean, c.map("div", 1.0, c.map("sqrt", c.map("add", running_variance, float(eps))))
    mean, scale = along(mean, x.rank), along(scale, x.rank)
    unit = c.map("mul", c.map("sub", x, mean), scale)
    inner = g if weight is None else c.map("mul", g, along(weight, x.rank))
    own = centered_gradient(c, inner, unit, scale, axes) if training else c.map("mul", inner, scale)
    return own, c.reduce("sum", c.map("mul", g, unit), axes), c.reduce("sum", g, axes)


@lowers("native_group_norm")
def group_norm(
    c: Context,
    node: Any,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    eps: float,
) -> Any:
    grouped = c.reshape(x, [batch, groups, x.elements // max(1, batch * groups)])
    away, mean, _, scale = moments(c, grouped, [2], eps)
    unit = c.reshape(c.map("mul", away, scale), x.shape)
    weight, bias = (None if v is None else along(v, x.rank) for v in (weight, bias))
    flat = partial(c.reshape, shape=[batch, groups])
    return affine(c, unit, weight, bias), flat(mean), flat(scale)


@lowers("native_group_norm_backward")
def group_norm_backward(
    c: Context,
    node: Any,
    g: Value,
    x: Value,
    mean: Value,
    scale: Value,
    weight: Value | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    shape = [batch, groups, x.elements // max(1, batch * groups)]
    scale = scale.unsqueeze(2)
    unit = c.map("mul", c.map("sub", c.reshape(x, shape), mean.unsqueeze(2)), scale)
    inner = g if weight is None else c.map("mul", g, along(weight, x.rank))
    own = c.reshape(centered_gradient(c, c.reshape(inner, shape), unit, scale, [2]), x.shape)
    axes = [0, *range(2, x.rank)]
    return own, c.reduce("sum", c.map("mul", g, c.reshape(unit, x.shape)), axes), c.reduce("sum", g, axes)
