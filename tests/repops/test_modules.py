"""Modules of every kind: the first step as eager torch's, the bits as the reference interpreter's; docs/guides/tracing.md says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import repops
from repops.backend import backend, prepare
from repops.batches import named_arrays
from repops.graph import OPTIMIZER, SEED
from repops.tracing import TraceRefused
from tests.repops.modules.case import Case
from tests.repops.modules.refused import CASES as REFUSED
from tests.repops.modules.table import ALL, PAGE, page, program_of, row

TRACED = {name: case for name, case in ALL.items() if not case.refused}
# Whole models and attention modules take seconds each: `make test` runs three of them, `make test-long` the others.
WHOLE = re.compile(r"For\w+LM|LMHead|nn\.Transformer|nn\.MultiheadAttention")
FAST_WHOLE = {"GPT2LMHeadModel", "nn.TransformerEncoderLayer", "nn.MultiheadAttention"}


def _marks(name: str) -> list[Any]:
    return [pytest.mark.long] if WHOLE.search(name) and name not in FAST_WHOLE else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in TRACED])
def test_module__first_step__is_eager_torchs_and_has_the_references_bits(name: str) -> None:
    case = TRACED[name]
    module, program = program_of(case)
    arrays = named_arrays((case.inputs, case.targets))
    own, reference = prepare(program.graph), prepare(program.graph, name="reference")
    start = program.initial_state(module)
    for runner in (own, reference):
        for entry, array in runner.state.items():
            array[...] = start[entry].numpy()
    losses = [runner.step(arrays) for runner in (own, reference)]
    assert backend().__name__ != "repops.reference"
    assert np.isfinite(losses[0])
    assert np.float32(losses[0]).view(np.uint32) == np.float32(losses[1]).view(np.uint32)
    for entry, array in own.state.items():
        np.testing.assert_array_equal(array.view(np.uint32), reference.state[entry].view(np.uint32), err_msg=entry)
    assert int(own.state["step"]) == 1, "the step was skipped"
    if case.chance:
        assert SEED in {entry.name for entry in program.graph.state}
    else:
        _as_eager(case, module, losses[0], own.state)


def _as_eager(case: Case, module: nn.Module, loss: float, state: Any) -> None:
    """Loss, parameters after a step (so gradients, where the step is the plain gradient's), buffers."""
    optimizer = case.optimizer(module.parameters())
    inputs = case.inputs
    out = module(*inputs) if isinstance(inputs, tuple) else module(inputs)
    expected = (case.expected or case.loss)(out, case.targets)  # type: ignore[misc]
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    expected.backward()
    optimizer.step()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5, atol=1e-5)
    for name, after in {**dict(module.named_parameters()), **dict(module.named_buffers())}.items():
        if not after.is_floating_point():
            np.testing.assert_array_equal(state[name], after.numpy(), err_msg=name)
            continue
        moved = np.abs((after.detach() - before.get(name, torch.zeros(()))).numpy()).max(initial=0.0)
        np.testing.assert_allclose(
            state[name], after.detach().numpy(), rtol=1e-6, atol=1e-4 * moved + 3e-6, err_msg=name
        )


@pytest.mark.parametrize("name", REFUSED)
def test_module__that_no_program_can_say__is_refused_with_its_line_and_a_way(name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(TraceRefused) as caught:
        program_of(case)
    text = str(caught.value).replace("\n", " ")
    assert re.search(case.refused, text), text
    assert "Instead: " in text
    if "operator" in caught.value.what or "depend" in caught.value.what:
        assert re.search(r"\w+\.py:\d+, in \S+: |^(the gradient of )?[\w.]+( \(\w+\))?$", caught.value.site), text


def test_page__of_what_is_traced__is_what_tracing_does() -> None:
    text = PAGE.read_text() if PAGE.exists() else ""
    rows = {name: row(name, case) if case.refused else _written(name, case) for name, case in ALL.items()}
    assert page(rows) == text, "run `python -m tests.repops.modules`"


def _written(name: str, case: Case) -> str:
    """The row of a case that the test above traces."""
    return f"| `{name}` | {'own chance' if case.chance else 'as eager'} |"


def test_refusal__of_a_gradient__names_the_line_it_is_the_gradient_of() -> None:
    with pytest.raises(TraceRefused) as caught:
        program_of(REFUSED["nn.Embedding(sparse=True)"])
    assert caught.value.site.startswith("the gradient of ")


def test_gradients__of_equal_functions_inside_and_outside_a_checkpoint__are_equal() -> None:
    """Dropout under a checkpoint is drawn once: the backward pass meets the mask of the forward pass."""
    from torch.utils.checkpoint import checkpoint

    class Dropped(nn.Module):
        def __init__(self, kept: bool) -> None:
            super().__init__()
            self.x, self.kept = nn.Parameter(torch.ones(64)), kept

        def forward(self, scale: Tensor) -> Tensor:
            function = lambda x: nn.functional.dropout(x, 0.5) * 3  # noqa: E731
            return function(self.x * scale) if self.kept else checkpoint(function, self.x * scale, use_reentrant=False)

    roots = set()
    for kept in (True, False):
        module = Dropped(kept)
        loss = lambda out, y: (out * out).sum() * y  # noqa: E731
        batch = (torch.ones(()), torch.ones(()))
        roots.add(repops.trace(module, loss, torch.optim.SGD(module.parameters(), lr=0.1), batch).root)
    assert len(roots) == 1


def test_torchs_own_functions__after_tracing__are_torchs_again() -> None:
    before = (
        nn.functional.scaled_dot_product_attention,
        nn.functional.dropout,
        torch.utils.checkpoint.CheckpointFunction,
    )
    program_of(ALL["nn.TransformerEncoderLayer"])
    with pytest.raises(TraceRefused):
        program_of(REFUSED["if on a tensor"])
    after = (
        nn.functional.scaled_dot_product_attention,
        nn.functional.dropout,
        torch.utils.checkpoint.CheckpointFunction,
    )
    assert before == after


def test_state__of_every_optimizer__has_an_entry_a_parameter() -> None:
    _, program = program_of(ALL["Adam(amsgrad=True)"])
    names = {entry.name for entry in program.graph.state if entry.kind == OPTIMIZER}
    assert {"m/0.weight", "v/0.weight", "top/0.weight"} < names
