"""Requirements of every built-in architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from node.compute.programs import Programs
from zoo_compute.jobs.config import ComputeJob


def assert_training_follows_torch(
    job: ComputeJob, built: tuple[Any, Any, Any], tokens_of: Callable[[int], np.ndarray], rule: dict[str, Any]
) -> None:
    """Six steps of the job's program and of torch's own end in close losses and parameters.

    built: module, loss and optimizer at rate 0.01. tokens_of: step -> int32 (examples, context + 1).
    """
    module, loss_fn, optimizer = built
    assert job.traced.initial is not None
    programs = Programs(job.traced.graph)
    state = programs.begin(job.traced.initial)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in job.traced.initial.items()})
    for step in range(6):
        tokens = tokens_of(step)
        ours, taken = programs.advance({"inputs": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()})
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(1.0, (step + 1) / 3)
        whole = torch.from_numpy(tokens).long()
        loss = loss_fn(module(whole[:, :-1]), whole[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        if "clip_norm" in rule:
            torch.nn.utils.clip_grad_norm_(module.parameters(), rule["clip_norm"])
        optimizer.step()
        assert taken
        assert ours == pytest.approx(loss.item(), rel=2e-5)
    for name, value in module.named_parameters():
        # AdamW's first steps have the size of the rate whatever the gradient, and so carry its last bit's sign.
        close = 1e-5 if rule.get("optimizer") == "sgd" else 3e-3
        torch.testing.assert_close(torch.from_numpy(state[name]), value.detach(), rtol=1e-3, atol=close)
