"""A step that maps a module over items: a forward pass whose outputs are kept, batch after batch, in the order of the steps.

Nothing is learned, so parameters stay as they are and there is no loss. Buffers that the module changes go on from step to step. Every
step counts, so that a batch's outputs have their place; those of a batch with an index out of range are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import torch

from repops.builder import Builder, View
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, OPTIMIZER, PARAMETER, SEED, STATE_ROLE, STEP, Graph
from repops.tracing.capture import Forward, capture_forward
from repops.tracing.lower import Context, dtype_of, run
from repops.tracing.randomness import Sites
from repops.tracing.refusals import TraceRefused
from repops.tracing.value import Value


def map_graph(module: torch.nn.Module, inputs: Any, steps: int, fresh: Collection[str] = ()) -> Graph:
    """The graph behind `repops.trace_map`, which says what the arguments are. Raises TraceRefused."""
    if steps < 1:
        raise TraceRefused(f"steps is {steps}", hint="1 or more batches")
    captured = capture_forward(module, inputs)
    _check_outputs(captured)
    for name in fresh:
        if name not in captured.buffers:
            raise TraceRefused(f"{name!r} begins at zero and is no buffer", hint="names of the module's buffers")
    return _MapAssembly(captured, steps, fresh).finish()


def _check_outputs(captured: Forward) -> None:
    """That the first axis of every output counts the batch's items, as that of the inputs does."""
    items = {tuple(each.shape[:1]) for each in captured.batch.values()}
    if len(items) != 1 or items == {()}:
        raise TraceRefused("inputs whose first axes differ", hint="items along the first axis of every tensor")
    for name, tensor in captured.outputs.items():
        if tensor.dtype != torch.float32:
            raise TraceRefused(f"{name} is {tensor.dtype}", hint="return float32, such as tensor.float()")
        if tuple(tensor.shape[:1]) not in items:
            what = f"{name} of shape {tuple(tensor.shape)} for a batch of {items.pop()[0]} items"
            raise TraceRefused(what, hint="return one row for each item, along the first axis")


class _MapAssembly:
    """Builds the graph of a captured forward pass."""

    def __init__(self, captured: Forward, steps: int, fresh: Collection[str]) -> None:
        self.captured, self.steps = captured, steps
        self.builder = Builder()
        self.state: dict[str, tuple[str, View, View]] = {}  # by name: kind, before, after
        for name, tensor in captured.state.items():
            kind = OPTIMIZER if name in fresh else PARAMETER if name in captured.parameters else BUFFER
            self._add(name, kind, dtype_of(tensor.dtype), tensor.shape)
        self.done = self._add(STEP, OPTIMIZER, I32, ())
        self.batch = {
            name: self.builder.input(dtype_of(tensor.dtype), tensor.shape, BATCH_ROLE, at)
            for at, (name, tensor) in enumerate(captured.batch.items())
        }

    def _add(self, name: str, kind: str, dtype: str, shape: Sequence[int]) -> View:
        if name in self.state:
            raise TraceRefused(f"{name!r} names a tensor of the module and one of the step", hint="rename the module's")
        view = self.builder.input(dtype, shape, STATE_ROLE, len(self.state))
        self.state[name] = (kind, view, view)
        return view

    def _seed(self) -> View:
        return self.state[SEED][1] if SEED in self.state else self._add(SEED, OPTIMIZER, I32, ())

    def _set_after(self, name: str, after: View) -> None:
        kind, before, _ = self.state[name]
        self.state[name] = (kind, before, after)

    def finish(self) -> Graph:
        b, captured = self.builder, self.captured
        context = Context(b, Sites(b, self.done, self._seed))
        views = [*(self.state[name][1] for name in captured.state), *self.batch.values()]
        results = [context.plain(each).view for each in run(captured.code, context, [Value.of(v) for v in views])]
        outputs, buffers = results[: len(captured.outputs)], results[len(captured.outputs) :]
        for name, view in zip(captured.buffers, buffers, strict=True):
            self._set_after(name, view)
        legal = b.scalar(1, I32)
        for check in context.checks:
            legal = b.map("and", legal, check.view)
        for name, view in zip(captured.outputs, outputs, strict=True):
            self._keep(name, b.map("where", legal, view, math.nan) if context.checks else view)
        self._set_after(STEP, b.map("iadd", self.done, 1))
        entries = [(name, *entry) for name, entry in self.state.items()]
        return b.finish(entries, list(self.batch.items()), b.scalar(0.0, F32))

    def _keep(self, name: str, rows: View) -> None:
        """Write the step's rows (items, ...) to their place in the entry (steps, items, ...)."""
        b = self.builder
        before = self._add(name, OPTIMIZER, F32, (self.steps, *rows.shape))
        place = b.map("ieq", b.iota(self.steps), self.done)
        for _ in rows.shape:
            place = place.unsqueeze(place.rank)
        self._set_after(name, b.map("where", place, rows.unsqueeze(0), before))
