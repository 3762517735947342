"""Outer optimisers: one step of a tensor, with the aggregated update as its gradient, as nodes of the aggregation program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from repops.builder import Builder, View
from zoo_compute.formats.aggregation import NO_OUTER, OuterOptimizer

OUTER = "outer/"  # in a checkpoint, the optimiser's state of NAME is `outer/NAME` or `outer/m/NAME`


@dataclass(frozen=True)
class OuterRule:
    """prefixes: names of its state for each tensor. scalars: names of its global state. All are zero before the first round.

    step: (builder, outer, parameter, gradient, *state of the tensor, *scalars) -> (new parameter, new state).
    """

    prefixes: tuple[str, ...]
    scalars: tuple[str, ...]
    step: Callable[..., tuple[View, tuple[View, ...]]]


def nesterov(b: Builder, outer: OuterOptimizer, p: View, g: View, momentum: View) -> tuple[View, tuple[View, ...]]:
    """m' = mu * m + g;  p' = p - lr * (g + mu * m'), each operation rounds separately."""
    kept = b.map("add", b.map("mul", outer.momentum, momentum), g)
    ahead = b.map("add", g, b.map("mul", outer.momentum, kept))
    return b.map("sub", p, b.map("mul", outer.lr, ahead)), (kept,)


def adamw(
    b: Builder, outer: OuterOptimizer, p: View, g: View, m: View, v: View, seen_m: View, seen_v: View
) -> tuple[View, tuple[View, ...]]:
    """AdamW. seen_m, seen_v: m and v if every gradient had been 1. They are the bias corrections 1 - beta^t of the paper."""

    def mean(kept: View, new: View | float, beta: float) -> View:
        return b.map("fma", b.map("sub", new, kept), 1.0 - beta, kept)

    m, v = mean(m, g, outer.momentum), mean(v, b.map("mul", g, g), outer.beta2)
    seen_m, seen_v = mean(seen_m, 1.0, outer.momentum), mean(seen_v, 1.0, outer.beta2)
    root = b.map("add", b.map("sqrt", b.map("div", v, seen_v)), outer.epsilon)
    ahead = b.map("div", b.map("div", m, seen_m), root)
    left = b.map("mul", p, 1.0 - outer.lr * outer.weight_decay)
    return b.map("sub", left, b.map("mul", outer.lr, ahead)), (m, v, seen_m, seen_v)


def unchanged(b: Builder, outer: OuterOptimizer, p: View, g: View) -> tuple[View, tuple[View, ...]]:
    """p' = p."""
    return p, ()


OUTER_RULES = {
    "nesterov": OuterRule((OUTER,), (), nesterov),
    "adamw": OuterRule((OUTER + "m/", OUTER + "v/"), (OUTER + "seen_m", OUTER + "seen_v"), adamw),
    NO_OUTER: OuterRule((), (), unchanged),
}
