"""Outer optimisers: one step of a tensor by the joined updates as its gradient. Nodes of the aggregation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from repops.builder import Builder, View
from zoo_compute.formats.manifest import OuterOptimizer

OUTER = "outer/"  # in a checkpoint: what the outer optimiser keeps of NAME is `outer/NAME`, or `outer/m/NAME`


@dataclass(frozen=True)
class OuterRule:
    """prefixes: of what it keeps of each tensor. scalars: what it keeps once. All are zero before the first round.

    step: (builder, outer, parameter, gradient, what is kept: of the tensor, then the scalars) to the parameter and the kept.
    """

    prefixes: tuple[str, ...]
    scalars: tuple[str, ...]
    step: Callable[..., tuple[View, tuple[View, ...]]]


def nesterov(b: Builder, outer: OuterOptimizer, p: View, g: View, momentum: View) -> tuple[View, tuple[View, ...]]:
    """m' = mu * m + g;  p' = p - lr * (g + mu * m'), each operation rounded by itself."""
    kept = b.map("add", b.map("mul", outer.momentum, momentum), g)
    ahead = b.map("add", g, b.map("mul", outer.momentum, kept))
    return b.map("sub", p, b.map("mul", outer.lr, ahead)), (kept,)


def adamw(
    b: Builder, outer: OuterOptimizer, p: View, g: View, m: View, v: View, seen_m: View, seen_v: View
) -> tuple[View, tuple[View, ...]]:
    """AdamW. seen: what m and v would be, had every gradient been 1: what they are divided by, as 1 - beta^t in the paper."""

    def mean(kept: View, new: View | float, beta: float) -> View:
        return b.map("fma", b.map("sub", new, kept), 1.0 - beta, kept)

    m, v = mean(m, g, outer.momentum), mean(v, b.map("mul", g, g), outer.beta2)
    seen_m, seen_v = mean(seen_m, 1.0, outer.momentum), mean(seen_v, 1.0, outer.beta2)
    root = b.map("add", b.map("sqrt", b.map("div", v, seen_v)), outer.epsilon)
    ahead = b.map("div", b.map("div", m, seen_m), root)
    left = b.map("mul", p, 1.0 - outer.lr * outer.weight_decay)
    return b.map("sub", left, b.map("mul", outer.lr, ahead)), (m, v, seen_m, seen_v)


OUTER_RULES = {
    "nesterov": OuterRule((OUTER,), (), nesterov),
    "adamw": OuterRule((OUTER + "m/", OUTER + "v/"), (OUTER + "seen_m", OUTER + "seen_v"), adamw),
}
