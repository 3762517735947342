"""Applies the loss to a module's output. Hugging Face models return an output with `logits`, classes on the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from repops.tracing.refusals import TraceRefused

Loss = Callable[[Any, Any], Tensor]
_LOSSES = [function for name, function in vars(functional).items() if name.endswith("_loss") or "cross_entropy" in name]
LAST_AXIS = (
    "the loss `lambda out, y: torch.nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())`; "
    "torch's cross entropy expects the classes on axis 1, (N, V, T)"
)


def loss_of(loss_fn: Loss | None, output: Any, targets: Any) -> Any:
    """loss_fn(output, targets). Raises TraceRefused.

    A loss of torch's own, which takes tensors, is given an output's `logits`. None: what a module that returns its loss
    returned, or the cross entropy of its logits.
    """
    if loss_fn is None:
        if isinstance(output, Tensor) and not output.dim():
            return output
        if logits_of(output) is None:
            raise TraceRefused(
                f"no loss, and the module returns {_named(output)}",
                hint="a loss, such as torch.nn.functional.cross_entropy",
            )
        loss_fn = functional.cross_entropy
    if not _is_torchs(loss_fn):
        return _called(loss_fn, output, targets)
    logits = logits_of(output)
    if logits is not None and _is_cross_entropy(loss_fn):
        # Classes are on the last axis whatever the sizes; torch expects them on axis 1.
        output, targets = logits.flatten(0, -2), targets.flatten() if isinstance(targets, Tensor) else targets
    elif logits is not None:
        output = logits
    elif _is_cross_entropy(loss_fn) and _has_classes_last(output, targets):
        shapes = f"{tuple(output.shape)} and targets {tuple(targets.shape)}"
        raise TraceRefused(f"cross entropy of outputs {shapes}", hint=LAST_AXIS)
    return _called(loss_fn, output, targets)


def logits_of(output: Any) -> Tensor | None:
    """The logits of an output object or a dict; None for anything else."""
    logits = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) else None


def _called(loss_fn: Loss, output: Any, targets: Any) -> Any:
    try:
        return loss_fn(output, targets)
    except (TypeError, AttributeError) as error:
        if isinstance(output, Tensor):
            raise
        what = f"the loss does not take what the module returns, {_named(output)} ({str(error).splitlines()[0]})"
        raise TraceRefused(what, hint=_taking(output)) from error


def _taking(output: Any) -> str:
    if logits_of(output) is not None:
        return "a loss of `out.logits`, or torch.nn.functional.cross_entropy itself, or None"
    if isinstance(output, (tuple, list)):
        return "a loss of one part of it, such as lambda out, y: loss(out[0], y)"
    return "a loss that picks a tensor of it, such as lambda out, y: loss(out.last_hidden_state, y)"


def _is_torchs(loss_fn: Any) -> bool:
    return any(loss_fn is each for each in _LOSSES) or type(loss_fn).__module__ == torch.nn.modules.loss.__name__


def _is_cross_entropy(loss_fn: Any) -> bool:
    return loss_fn is functional.cross_entropy or isinstance(loss_fn, torch.nn.CrossEntropyLoss)


def _has_classes_last(output: Any, targets: Any) -> bool:
    """Whether outputs are (N, ..., V) for targets (N, ...). torch refuses these: it reads (N, V, ...)."""
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor) or output.dim() != targets.dim() + 1:
        return False
    return output.dim() > 2 and output.shape[:-1] == targets.shape and output.shape[2:] != targets.shape[1:]


def _named(output: Any) -> str:
    if isinstance(output, Tensor):
        return f"{output.dtype} of shape {tuple(output.shape)}"
    name = type(output).__name__
    parts = list(output) if isinstance(output, dict) and len(output) < 9 else []
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}" + (f" of {', '.join(map(str, parts))}" if parts else "")
