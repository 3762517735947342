"""Traces a torch module, and to train it a loss and an optimizer, into a graph. The functions are `repops.trace` and `trace_map`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from repops.program import Program
from repops.tracing.losses import Loss
from repops.tracing.mapping import map_graph
from repops.tracing.refusals import TraceRefused
from repops.tracing.step import trace_graph

__all__ = ["TraceRefused", "trace", "trace_map"]


def trace(
    module: torch.nn.Module,
    loss_fn: Loss | None,
    optimizer: torch.optim.Optimizer,
    example: tuple[Any, Any],
    *,
    clip_norm: float | None = None,
    learning_rates: Sequence[float] | None = None,
    accumulate: int = 1,
    scheduled: bool = False,
) -> Program:
    """The program of one step that minimises loss_fn(module(inputs), targets). Raises TraceRefused.

    example: (inputs, targets) of the shapes every batch will have; its values do not matter. A tuple of inputs becomes
    positional arguments, a dict keyword arguments. The module is traced in the mode it is in (train or eval).
    loss_fn: a loss of torch's own takes a Hugging Face output's `logits`, classes last. None: the cross entropy of such an
    output, or what a module that returns its own loss returned.
    clip_norm: greatest L2 norm of all gradients together, as torch.nn.utils.clip_grad_norm_.
    learning_rates: the rate of each step, the last one for ever, instead of the optimizer's; parameter groups keep
    their proportion to the first. accumulate: micro-batches in a step, along a leading axis of every tensor of the
    batch; their gradients are averaged in order. scheduled: batches are (inputs, targets, rate), and the first number of
    `rate` (float32, one for each example) multiplies the step's learning rate.
    """
    graph = trace_graph(
        module,
        loss_fn,
        optimizer,
        example,
        clip_norm=clip_norm,
        learning_rates=learning_rates,
        accumulate=accumulate,
        scheduled=scheduled,
    )
    return Program(graph)


def trace_map(module: torch.nn.Module, inputs: Any, steps: int = 1, *, fresh: Collection[str] = ()) -> Program:
    """The program of one step that maps module(inputs) over items, a batch each step. Raises TraceRefused.

    inputs: a batch of the shapes every batch will have, items along the first axis of every tensor; its values do not matter. A tuple
    becomes positional arguments, a dict keyword arguments. The module is traced in the mode it is in (train or eval); it returns
    float32 tensors, one or in a tuple or dict, with a row for each item; of a Hugging Face output its `logits` are taken. After step s (from 0) of so many `steps`, row s of the
    state's `outputs` (steps, items, ...) has what the module returned; of several tensors, `outputs.NAME`. The rows of a batch with an index
    out of range are NaN. fresh: names of buffers that begin at zero, whatever the module has there, and that are no part of a
    checkpoint.
    """
    return Program(map_graph(module, inputs, steps, fresh))
