"""Random numbers by counter: word i of a site in a step is Philox of (i, step) under a key made of seed and site.

Sites are numbered as the module asks for them. So any element of any mask can be recomputed alone, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from repops.builder import Builder, View
from repops.graph import F32
from repops.tracing.lower import Context, lowers, meta
from repops.tracing.reduction import first_place, reduced
from repops.tracing.refusals import TraceRefused
from repops.tracing.sorting import ordered
from repops.tracing.value import Value
from repops.words import MASK

SPREAD = 0x9E3779B9  # 2^32 / golden ratio: keys of neighbouring sites differ in many bits


@dataclass
class Sites:
    """Generates random words. step: counts done steps. seed: created at the first site, so most programs have none."""

    builder: Builder
    step: View
    seed: Callable[[], View]
    count: int = 0

    def __call__(self, shape: Sequence[int]) -> Value:
        """Words of the next site, as integers."""
        key = self.builder.map("iadd", self.seed(), self.count * SPREAD & MASK)
        self.count += 1
        index = self.builder.iota(math.prod(shape))
        words = Value.of(self.builder.map("random", index, self.step, key)).reshape(shape)
        assert words is not None
        return words


def uniform(c: Context, shape: Sequence[int]) -> Value:
    """Multiples of 2^-24 from 0 to below 1."""
    return c.map("mul", c.map("to_float", c.map("shr", c.random(shape), 8)), 2.0**-24)


def kept(c: Context, shape: Sequence[int], probability: float) -> Value:
    """1 with a probability (to the nearest 2^-32), else 0: the word, as a signed number, below a bound."""
    bound = round(probability * 2**32) - 2**31
    if bound >= 2**31:
        return c.scalar(1, "i32").expand(shape)
    return c.map("ilt", c.random(shape), bound)


@lowers("native_dropout")
def dropout(c: Context, node: Any, x: Value, p: float, train: bool | None) -> Any:
    if train is False or p == 0:
        return x, c.scalar(1, "i32").expand(x.shape)
    if p == 1:
        return c.map("mul", x, 0.0), c.scalar(0, "i32").expand(x.shape)
    keep = kept(c, x.shape, 1.0 - p)
    # One tensor of 0 and 1 / (1 - p) serves both directions.
    noise = c.map("where", keep, 1.0 / (1.0 - p), 0.0, dtype=F32)
    c.facts["noise", keep] = noise
    return c.map("mul", x, noise), keep


@lowers("native_dropout_backward")
def dropout_backward(c: Context, node: Any, g: Value, mask: Value, scale: float) -> Value:
    noise = c.facts.get(("noise", mask))
    return c.map("mul", g, noise if noise is not None else c.map("where", mask, float(scale), 0.0, dtype=F32))


@lowers("bernoulli")
def bernoulli(c: Context, node: Any, x: Value, p: float | None = None, **named: Any) -> Value:
    """0 and 1 as floats; by x's own probabilities without p."""
    if p is None:
        return c.map("to_float", c.map("lt", uniform(c, x.shape), x))
    return c.map("to_float", kept(c, x.shape, p))


@lowers("rand", "rand_like")
def rand(c: Context, node: Any, *rest: Any, **named: Any) -> Value:
    return uniform(c, meta(node).shape)


@lowers("uniform")
def uniform_(c: Context, node: Any, x: Value, low: float = 0.0, high: float = 1.0, **named: Any) -> Value:
    return c.map("fma", uniform(c, x.shape), float(high - low), float(low))


def gaussian(c: Context, shape: Sequence[int]) -> Value:
    """Box and Muller: sqrt(-2 log u) cos(2 pi v), u above 0."""
    u = c.map("add", uniform(c, shape), 2.0**-25)
    radius = c.map("sqrt", c.map("mul", c.map("log", u), -2.0))
    return c.map("mul", radius, c.map("cos", c.map("mul", uniform(c, shape), 2.0 * math.pi)))


@lowers("randn", "randn_like")
def randn(c: Context, node: Any, *rest: Any, **named: Any) -> Value:
    return gaussian(c, meta(node).shape)


@lowers("normal", "normal_functional")
def normal(c: Context, node: Any, x: Any, mean: Any = 0.0, deviation: float = 1.0, **named: Any) -> Value:
    if not isinstance(x, Value) or isinstance(mean, Value):
        raise TraceRefused("torch.normal in this form", hint="torch.randn_like(x) * deviation + mean")
    return c.map("fma", gaussian(c, x.shape), float(deviation), float(mean))


@lowers("randint")
def randint(c: Context, node: Any, *bounds: Any, **named: Any) -> Value:
    """The upper word of word * range: uneven by at most 2^-32 of the range."""
    low, high = (bounds[0], bounds[1]) if isinstance(bounds[1], int) else (0, bounds[0])
    words = c.map("imulh", c.random(meta(node).shape), high - low)
    return c.map("iadd", words, low) if low else words


@lowers("exponential")
def exponential(c: Context, node: Any, x: Value, rate: float = 1.0, **named: Any) -> Value:
    """-log(u) / rate, u above 0 and below 1."""
    return c.map("mul", c.map("log", _inside(c, x.shape)), -1.0 / rate)


def _inside(c: Context, shape: Sequence[int]) -> Value:
    """Uniform above 0 and below 1."""
    return c.map("add", uniform(c, shape), 2.0**-25)


@lowers("randperm")
def randperm(c: Context, node: Any, count: int, **named: Any) -> Value:
    """A random permutation: the ranks of random numbers."""
    return ordered(c, uniform(c, (count,)), 0, False)[1]


@lowers("multinomial")
def multinomial(c: Context, node: Any, weights: Value, count: int, replacement: bool = False, **named: Any) -> Value:
    """Without replacement: the greatest of log(weight) + Gumbel noise. With replacement: one independent draw per sample."""
    axis = weights.rank - 1
    logarithm = c.map("log", weights)
    if not replacement:
        return c.slice(ordered(c, _noisy(c, logarithm, weights.shape), axis, True)[1], axis, 0, count)
    draws = logarithm.unsqueeze(axis).expand((*weights.shape[:-1], count, weights.shape[-1]))
    noisy = _noisy(c, draws, draws.shape)
    top = reduced(c, "reduce_max", noisy, noisy.rank - 1, True)
    return first_place(c, noisy, top, noisy.rank - 1)


def _noisy(c: Context, logarithm: Value, shape: Sequence[int]) -> Value:
    gumbel = c.map("neg", c.map("log", c.map("neg", c.map("log", _inside(c, shape)))))
    return c.map("add", logarithm, gumbel)
