"""SGD, Adam, AdamW, RMSprop and Adagrad as nodes: torch's arithmetic with every scalar of a step precomputed and rounded once to float32.

What depends on the step (rates, bias corrections) comes from committed tables, made with products, quotients and roots
of float64 alone, which every platform rounds alike. A table ends where its last entry holds for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch

from repops.builder import Builder, View
from repops.graph import F32
from repops.tracing.refusals import TraceRefused
from repops.words import word

MAX_TABLE = 1 << 18
OTHERS = "use torch.optim.SGD, Adam, AdamW, RMSprop or Adagrad"


@dataclass(frozen=True)
class Group:
    """One parameter group. rates: of its first steps; the last one applies to all later steps."""

    rates: tuple[float, ...]
    settings: dict[str, Any]
    update: Callable[[Step, Group, View, View, dict[str, View]], View]
    slots: tuple[str, ...]  # prefixes of its entries in the state: m, v


@dataclass
class Step:
    """State shared by updates: the builder, the number of steps done, and of a scheduled step the factor of its rates."""

    builder: Builder
    done: View
    factor: View | None = None
    _tables: dict[Any, View] = field(default_factory=dict)

    def table(self, entries: Callable[..., Sequence[float]], *arguments: Any) -> View:
        """The entry of this step in entries(*arguments), the last one beyond the end. Each table is made once."""
        key = (entries, *arguments)
        if key not in self._tables:
            self._tables[key] = self._looked_up(entries(*arguments))
        return self._tables[key]

    def rate(self, entries: Callable[..., Sequence[float]], *arguments: Any) -> View:
        """The same of a table that is proportional to the rates, times the step's factor."""
        entry, key = self.table(entries, *arguments), ("factor", entries, *arguments)
        if self.factor is None:
            return entry
        if key not in self._tables:
            self._tables[key] = self.builder.map("mul", entry, self.factor)
        return self._tables[key]

    def survival(self, rates: tuple[float, ...], decay: float) -> View:
        """The factor of decoupled weight decay on a parameter in this step."""
        if self.factor is None:
            return self.table(survivals, rates, decay)
        lost = self.rate(losses_by_decay, rates, decay)
        if (key := ("survival", rates, decay)) not in self._tables:
            self._tables[key] = self.builder.map("add", lost, 1.0)
        return self._tables[key]

    def _looked_up(self, entries: Sequence[float]) -> View:
        words = np.array([word(entry) for entry in entries], np.uint32)
        last = len(words) - 1
        while last and words[last - 1] == words[last]:
            last -= 1
        if not last:
            return self.builder.scalar(entries[-1], F32)
        index = self.builder.map("where", self.builder.map("ilt", self.done, last), self.done, last)
        return self.builder.take(self.builder.constant(words[: last + 1].view(np.float32)), index)


def groups_of(
    optimizer: torch.optim.Optimizer, names: dict[int, str], learning_rates: Sequence[float] | None
) -> dict[str, Group]:
    """The group of each parameter by name. names: id of a parameter -> its name. Raises TraceRefused.

    learning_rates: of the first group, step by step; other groups keep their proportion to it.
    """
    kind = type(optimizer)
    if kind not in _RULES:
        raise TraceRefused(f"the optimizer {kind.__name__}", hint=OTHERS)
    first = _rate(optimizer.param_groups[0])
    if learning_rates is not None and not len(learning_rates):
        raise TraceRefused("an empty table of learning rates", hint="give at least one, or none at all")
    if not all(math.isfinite(rate) for rate in learning_rates or ()):
        raise TraceRefused("a learning rate that is not finite", hint="finite numbers")
    out: dict[str, Group] = {}
    for settings in optimizer.param_groups:
        _allowed(kind, settings)
        rate = _rate(settings)
        rates: tuple[float, ...] = (rate,)
        if learning_rates is not None:
            if first == 0 and rate != first:
                raise TraceRefused(
                    "a table of rates beside groups whose rates have no proportion", hint="a first group with a rate"
                )
            rates = tuple(float(each) if rate == first else float(each) * (rate / first) for each in learning_rates)
        group = _RULES[kind](rates, settings)
        for parameter in settings["params"]:
            if id(parameter) not in names:
                raise TraceRefused("the optimizer has a tensor that is not a parameter of the module", hint=OTHERS)
            out[names[id(parameter)]] = group
    return out


def _rate(settings: dict[str, Any]) -> float:
    return float(settings["lr"])


def _allowed(kind: type, settings: dict[str, Any]) -> None:
    for flag, hint in (
        ("maximize", "negate the loss"),
        ("differentiable", "leave it False"),
        ("lr_decay", "leave it 0; the job's own table of rates falls as you like"),
        ("initial_accumulator_value", "leave it 0; an optimiser starts at zero"),
    ):
        if settings.get(flag):
            raise TraceRefused(f"{kind.__name__}({flag}={settings[flag]})", hint=hint)


# --- stochastic gradient descent


def _sgd(rates: tuple[float, ...], settings: dict[str, Any]) -> Group:
    return Group(rates, settings, _update_sgd, ("m",) if settings["momentum"] else ())


def _update_sgd(step: Step, group: Group, p: View, g: View, state: dict[str, View]) -> View:
    """New parameter; `state` takes the new momentum."""
    b, settings = step.builder, group.settings
    momentum, dampening = float(settings["momentum"]), float(settings["dampening"])
    if settings["weight_decay"]:
        g = b.map("fma", p, float(settings["weight_decay"]), g)
    if momentum:
        # The first step uses the whole gradient, whatever the dampening.
        share = b.map("where", b.map("ieq", step.done, 0), 1.0, 1.0 - dampening, dtype=F32)
        fresh = b.map("mul", g, share) if dampening else g
        state["m"] = b.map("fma", state["m"], momentum, fresh)
        g = b.map("fma", state["m"], momentum, g) if settings["nesterov"] else state["m"]
    return b.map("fma", g, step.rate(falls, group.rates), p)


def falls(rates: Sequence[float]) -> list[float]:
    return [-rate for rate in rates]


# --- Adam


def _adam(rates: tuple[float, ...], settings: dict[str, Any]) -> Group:
    for beta in settings["betas"]:
        if not 0.0 <= float(beta) < 1.0:
            raise TraceRefused(f"Adam's beta {beta}", hint="betas from 0 to below 1")
    return Group(rates, settings, _update_adam, ("m", "v", "top") if settings.get("amsgrad") else ("m", "v"))


def _adamw(rates: tuple[float, ...], settings: dict[str, Any]) -> Group:
    return _adam(rates, {**settings, "decoupled_weight_decay": True})


def step_sizes(rates: Sequence[float], beta: float) -> list[float]:
    """-rate / (1 - beta^t) for t = 1, 2, ... until the correction is 1 and the last rate reached."""
    out: list[float] = []
    power = 1.0
    for done in count():
        power *= beta
        rate = rates[min(done, len(rates) - 1)]
        out.append(-rate / (1.0 - power))
        if done >= len(rates) - 1 and word(out[-1]) == word(-rate):
            return out
        _bounded(len(out), beta)
    raise AssertionError


def survivals(rates: Sequence[float], decay: float) -> list[float]:
    """The factor of decoupled weight decay on a parameter, step by step."""
    return [1.0 - rate * decay for rate in rates]


def losses_by_decay(rates: Sequence[float], decay: float) -> list[float]:
    """What decoupled weight decay adds to that factor, step by step."""
    return [-rate * decay for rate in rates]


def root_corrections(beta: float) -> list[float]:
    """1 / sqrt(1 - beta^t) for t = 1, 2, ... until float32 has no digit left for the difference to 1."""
    out: list[float] = []
    power = 1.0
    while not out or word(out[-1]) != word(1.0):
        power *= beta
        out.append(1.0 / math.sqrt(1.0 - power))
        _bounded(len(out), beta)
    return out


def _bounded(entries: int, beta: float) -> None:
    if entries > MAX_TABLE:
        raise TraceRefused(
            f"beta {beta} or the table of rates needs more than {MAX_TABLE:,} entries", hint="betas up to 0.9999"
        )


def _update_adam(step: Step, group: Group, p: View, g: View, state: dict[str, View]) -> View:
    """New parameter; `state` takes the new moments. Ten operations an element."""
    b, settings = step.builder, group.settings
    beta1, beta2 = (float(beta) for beta in settings["betas"])
    decay = float(settings["weight_decay"])
    if decay and not settings.get("decoupled_weight_decay"):
        g = b.map("fma", p, decay, g)
    elif decay:
        p = b.map("mul", p, step.survival(group.rates, decay))
    state["m"] = b.map("fma", b.map("sub", g, state["m"]), 1.0 - beta1, state["m"])
    state["v"] = b.map("fma", b.map("mul", g, g), 1.0 - beta2, b.map("mul", state["v"], beta2))
    spread = state["v"]
    if settings.get("amsgrad"):
        spread = state["top"] = b.map("max", state["top"], spread)
    correction = step.table(root_corrections, beta2)
    root = b.map("fma", b.map("sqrt", spread), correction, float(settings["eps"]))
    size = step.rate(step_sizes, group.rates, beta1)
    return b.map("fma", b.map("div", state["m"], root), size, p)


# --- rules that divide by the root of past squares


def _rmsprop(rates: tuple[float, ...], settings: dict[str, Any]) -> Group:
    slots = ("v", *(("a",) if settings["centered"] else ()), *(("m",) if settings["momentum"] else ()))
    return Group(rates, settings, _update_rmsprop, slots)


def _update_rmsprop(step: Step, group: Group, p: View, g: View, state: dict[str, View]) -> View:
    """New parameter; `state` takes the mean square v, the mean gradient a (centered), the momentum m."""
    b, settings = step.builder, group.settings
    alpha = float(settings["alpha"])
    if settings["weight_decay"]:
        g = b.map("fma", p, float(settings["weight_decay"]), g)
    state["v"] = spread = b.map("fma", b.map("mul", g, g), 1.0 - alpha, b.map("mul", state["v"], alpha))
    if settings["centered"]:
        state["a"] = b.map("fma", b.map("sub", g, state["a"]), 1.0 - alpha, state["a"])
        spread = b.map("fma", b.map("neg", state["a"]), state["a"], spread)
    way = b.map("div", g, b.map("add", b.map("sqrt", spread), float(settings["eps"])))
    if settings["momentum"]:
        state["m"] = way = b.map("fma", state["m"], float(settings["momentum"]), way)
    return b.map("fma", way, step.rate(falls, group.rates), p)


def _adagrad(rates: tuple[float, ...], settings: dict[str, Any]) -> Group:
    return Group(rates, settings, _update_adagrad, ("v",))


def _update_adagrad(step: Step, group: Group, p: View, g: View, state: dict[str, View]) -> View:
    b, settings = step.builder, group.settings
    if settings["weight_decay"]:
        g = b.map("fma", p, float(settings["weight_decay"]), g)
    state["v"] = b.map("fma", g, g, state["v"])
    root = b.map("add", b.map("sqrt", state["v"]), float(settings["eps"]))
    return b.map("fma", b.map("div", g, root), step.rate(falls, group.rates), p)


_RULES: dict[type, Callable[[tuple[float, ...], dict[str, Any]], Group]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
    torch.optim.RMSprop: _rmsprop,
    torch.optim.Adagrad: _adagrad,
}
