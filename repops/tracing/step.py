"""A training step as a graph: forward and backward of every micro-batch, guard, clipping, optimizer.

The step leaves the whole state as it was when the loss or any gradient is not finite, or an index leads nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repops.batches import named
from repops.builder import Builder, View
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, OPTIMIZER, PARAMETER, RATE, SEED, STATE_ROLE, STEP, Graph
from repops.tracing.capture import Captured, capture, filled
from repops.tracing.losses import Loss
from repops.tracing.lower import Context, dtype_of, run
from repops.tracing.optimizers import Step, groups_of
from repops.tracing.randomness import Sites
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value


def trace_graph(
    module: torch.nn.Module,
    loss_fn: Loss | None,
    optimizer: torch.optim.Optimizer,
    example: tuple[Any, Any],
    *,
    clip_norm: float | None = None,
    learning_rates: Sequence[float] | None = None,
    accumulate: int = 1,
    scheduled: bool = False,
) -> Graph:
    """The graph behind `repops.trace`, which says what the arguments are. Raises TraceRefused."""
    _check_options(clip_norm, accumulate)
    inputs, targets = example
    if accumulate > 1:
        first = {name: _first(name, tensor, accumulate) for name, tensor in named(example).items()}
        inputs, targets = filled("inputs", inputs, first), filled("targets", targets, first)
    captured = capture(module, loss_fn, inputs, targets)
    names = {id(tensor): name for name, tensor in {**captured.parameters, **captured.buffers}.items()}
    groups = groups_of(optimizer, names, learning_rates)
    return _Assembly(captured, accumulate, scheduled).finish(groups, clip_norm)


def _check_options(clip_norm: float | None, accumulate: int) -> None:
    if clip_norm is not None and not (math.isfinite(clip_norm) and clip_norm > 0):
        raise TraceRefused(f"clip_norm is {clip_norm}", hint="a positive number, or None")
    if accumulate < 1:
        raise TraceRefused(f"accumulate is {accumulate}", hint="1 or more micro-batches")


def _first(name: str, tensor: torch.Tensor, count: int) -> torch.Tensor:
    """The first micro-batch."""
    if not tensor.dim() or tensor.shape[0] != count:
        what = f"{name} of shape {tuple(tensor.shape)} does not hold {count} micro-batches along its first axis"
        raise TraceRefused(what, hint="stack the micro-batches")
    return tensor[0]


@dataclass
class _Entry:
    kind: str
    before: View
    after: View


class _Assembly:
    """Builds the graph of a captured step."""

    def __init__(self, captured: Captured, accumulate: int, scheduled: bool) -> None:
        self.captured, self.accumulate = captured, accumulate
        self.builder = Builder()
        self.state: dict[str, _Entry] = {}
        for kind, tensors in ((PARAMETER, captured.parameters), (BUFFER, captured.buffers)):
            for name, tensor in tensors.items():
                self._add(name, kind, dtype_of(tensor.dtype), tensor.shape)
        self.done = self._add(STEP, OPTIMIZER, I32, ())
        lead = (accumulate,) if accumulate > 1 else ()
        self.batch = {
            name: self.builder.input(dtype_of(tensor.dtype), (*lead, *tensor.shape), BATCH_ROLE, at)
            for at, (name, tensor) in enumerate(captured.batch.items())
        }
        self.factor = self._factor(lead) if scheduled else None

    def _add(self, name: str, kind: str, dtype: str, shape: Sequence[int]) -> View:
        if name in self.state:
            raise TraceRefused(
                f"{name!r} names a tensor of the module and one of the optimizer", hint="rename the module's"
            )
        view = self.builder.input(dtype, shape, STATE_ROLE, len(self.state))
        self.state[name] = _Entry(kind, view, view)
        return view

    def _factor(self, lead: tuple[int, ...]) -> View:
        """The step's factor of the learning rate: the first number of a batch's entry that has one for each example."""
        name, tensor = next(iter(self.captured.batch.items()))
        if not tensor.dim() or not tensor.shape[0]:
            raise TraceRefused(
                f"a schedule with {name} of shape {tuple(tensor.shape)}", hint="examples along the first axis"
            )
        rates = self.rates = self.builder.input(F32, (*lead, tensor.shape[0]), BATCH_ROLE, len(self.batch))
        for _ in rates.shape:
            rates = rates.select(0, 0)
        return rates

    def _seed(self) -> View:
        return self.state[SEED].before if SEED in self.state else self._add(SEED, OPTIMIZER, I32, ())

    def finish(self, groups: dict[str, Any], clip_norm: float | None) -> Graph:
        b = self.builder
        loss, gradients, checks = self._averaged()
        squares = self._squares(gradients)
        sound = b.map("and", _finite(b, loss), _finite(b, squares))
        for check in checks:
            sound = b.map("and", sound, check)
        if clip_norm is not None:
            bound = b.map("div", float(clip_norm), b.map("add", b.map("sqrt", squares), 1e-6))
            factor = b.map("min", bound, 1.0)
            gradients = {name: b.map("mul", g, factor) for name, g in gradients.items()}
        self.state[STEP].after = b.map("iadd", self.done, 1)
        for entry in self.state.values():
            self._guard(sound, entry)
        step = Step(b, self.done, self.factor)
        for name, gradient in gradients.items():
            if name in groups:
                self._update(sound, step, name, groups[name], gradient)
        entries = [(name, entry.kind, entry.before, entry.after) for name, entry in self.state.items()]
        batch = self.batch | ({} if self.factor is None else {RATE: self.rates})
        return b.finish(entries, list(batch.items()), loss)

    def _guard(self, sound: View, entry: _Entry) -> None:
        if entry.after != entry.before:
            entry.after = self.builder.map("where", sound, entry.after, entry.before)

    def _update(self, sound: View, step: Step, name: str, group: Any, gradient: View) -> None:
        """All nodes of one parameter side by side, so that an executor can do them in one pass."""
        shape = self.state[name].before.shape
        slots = {slot: self._add(f"{slot}/{name}", OPTIMIZER, F32, shape) for slot in group.slots}
        new = dict(slots)
        self.state[name].after = group.update(step, group, self.state[name].before, gradient, new)
        for slot in slots:
            self.state[f"{slot}/{name}"].after = new[slot]
        for entry in (name, *(f"{slot}/{name}" for slot in slots)):
            self._guard(sound, self.state[entry])

    def _averaged(self) -> tuple[View, dict[str, View], list[View]]:
        """Loss and gradients, averaged over the micro-batches in order; checks on indices; buffers move along."""
        b = self.builder
        random = Sites(b, self.done, self._seed)
        losses: list[View] = []
        sums: dict[str, View] = {}
        checks: list[View] = []
        for at in range(self.accumulate):
            context = Context(b, random)
            loss, *results = run(self.captured.code, context, self._inputs(at))
            losses.append(loss.view)
            gradients, buffers = results[: len(self.captured.parameters)], results[len(self.captured.parameters) :]
            for name, gradient in zip(self.captured.parameters, gradients, strict=True):
                if gradient is not None:
                    view = context.plain(gradient).view
                    sums[name] = b.map("add", sums[name], view) if name in sums else view
            for name, value in zip(self.captured.buffers, buffers, strict=True):
                self.state[name].after = context.plain(value).view
            checks += [check.view for check in context.checks]
        if self.accumulate == 1:
            return losses[0], sums, checks
        total = losses[0]
        for loss in losses[1:]:
            total = b.map("add", total, loss)
        share = 1.0 / self.accumulate
        return b.map("mul", total, share), {name: b.map("mul", g, share) for name, g in sums.items()}, checks

    def _inputs(self, at: int) -> list[Value]:
        """Parameters, buffers as they are by now, and micro-batch `at`."""
        views = [self.state[name].before for name in self.captured.parameters]
        views += [self.state[name].after for name in self.captured.buffers]
        views += [view.select(0, at) if self.accumulate > 1 else view for view in self.batch.values()]
        return [Value.of(view) for view in views]

    def _squares(self, gradients: dict[str, View]) -> View:
        """Sum of squares of all gradients: rows first, so that rows may run at once; tensors added in order."""
        b = self.builder
        total = None
        for gradient in gradients.values():
            part = b.map("mul", gradient, gradient)
            if part.rank:
                part = b.sum(part, [part.rank - 1])
            if part.rank:
                part = b.sum(part, range(part.rank))
            total = part if total is None else b.map("add", total, part)
        if total is None:
            raise TraceRefused("the loss depends on no parameter")
        return total


def _finite(b: Builder, x: View) -> View:
    return b.map("lt", b.map("abs", x), math.inf)
