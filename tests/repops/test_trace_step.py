"""What every traced step promises: one hash everywhere, no trace on its surroundings, a guard, reproducible chance."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import repops
from repops.words import signed
from tests.support.programs import models

ROOT = Path(__file__).resolve().parents[2]
ROOTS = """
import torch
import repops
from tests.support.programs import models
from tests.repops.test_trace_models import CASES
for name in ("convolutional", "llama_style"):
    case = CASES[name]
    module = case.module()
    print(name, repops.trace(module, case.loss, case.optimizer(module.parameters()), case.batch(0)).root.hex())
module = models.GPT(dropout=0.2, attention="sdpa")
print(repops.trace(module, models.next_token, torch.optim.AdamW(module.parameters()), models.text(0)).root.hex())
"""


def _gpt(**settings: object) -> tuple[nn.Module, repops.Program]:
    torch.manual_seed(3)
    module = models.GPT(layers=1, **settings)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    return module, repops.trace(module, models.next_token, optimizer, models.text(0))


def test_root__in_two_processes_with_other_hash_seeds__is_one() -> None:
    """In this process and in one with another seed. Python draws this one's at random, unless the environment sets it."""
    seed = "77" if os.environ.get("PYTHONHASHSEED") != "77" else "1"
    other = subprocess.Popen(
        [sys.executable, "-c", ROOTS],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        stdout=subprocess.PIPE,
        text=True,
    )
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(ROOTS, {})
    assert other.communicate()[0] == here.getvalue()
    assert len(here.getvalue().split()) == 5


def test_trace__with_other_weights_and_data__has_the_same_root() -> None:
    roots = set()
    for seed in (1, 2):
        torch.manual_seed(seed)
        module = models.ConvNet()
        module.norm.running_mean.normal_()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        roots.add(repops.trace(module, functional.cross_entropy, optimizer, models.images(seed)).root)
    assert len(roots) == 1


def test_trace__leaves_module_optimizer_and_generator_as_they_were() -> None:
    module = models.GPT(layers=1, dropout=0.5)
    optimizer = torch.optim.AdamW(module.parameters())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    generator = torch.get_rng_state()
    repops.trace(module, models.next_token, optimizer, models.text(0))
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("where", ["input", "parameter"])
def test_guard__a_number_that_is_not_finite__leaves_the_state(where: str) -> None:
    module = models.ConvNet()
    program = repops.trace(
        module, functional.cross_entropy, torch.optim.AdamW(module.parameters()), models.images(0), clip_norm=1.0
    )
    state, _ = program.step(program.initial_state(module), models.images(1))
    changed = state.clone()
    inputs, targets = models.images(2)
    if where == "input":
        inputs[1, 0, 3, 3] = float("nan")
    else:
        changed = type(changed)({**dict(changed), "head.weight": torch.full_like(changed["head.weight"], 3e38)})
        state = changed.clone()
    after, loss = program.step(state, (inputs, targets))
    assert not np.isfinite(float(loss)) or where == "parameter"
    for name, tensor in changed.items():
        assert torch.equal(after[name], tensor), name
    sound, _ = program.step(program.initial_state(module), models.images(2))
    assert int(sound["step"]) == 1


@pytest.mark.parametrize(("token", "target"), [(models.VOCABULARY, 0), (-1, 0), (0, models.VOCABULARY), (0, -7)])
def test_guard__an_index_out_of_range__leaves_the_state(token: int, target: int) -> None:
    module, program = _gpt()
    inputs, targets = models.text(1)
    inputs[1, 2], targets[0, 5] = token, target
    start = program.initial_state(module)
    after, _ = program.step(start, (inputs, targets))
    assert all(torch.equal(after[name], start[name]) for name in start)
    inputs[1, 2], targets[0, 5] = models.VOCABULARY - 1, -100  # -100 is what cross_entropy ignores
    after, loss = program.step(start, (inputs, targets))
    expected = models.next_token(module(inputs), targets)
    np.testing.assert_allclose(float(loss), expected.item(), rtol=2e-6)
    assert int(after["step"]) == 1


# --- chance


def test_dropout__of_half__keeps_half_and_changes_with_step_and_seed() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.zeros(4000))

        def forward(self, ones: torch.Tensor) -> torch.Tensor:
            return functional.dropout(ones + self.x, 0.25) * functional.dropout(ones, 0.5)

    module = Dropped()
    batch = (torch.ones(4000), torch.ones(()))
    program = repops.trace(module, lambda out, y: out.sum() * y, torch.optim.SGD(module.parameters(), lr=1.0), batch)
    start = program.initial_state(module, seed=11)
    kept = []
    for state in (
        start,
        start,
        {**dict(start), "step": torch.tensor(1, dtype=torch.int32)},
        program.initial_state(module, 12),
    ):
        after, loss = program.step(state, batch)
        gradient = -after["x"]
        values = set(np.unique(gradient.numpy()).tolist())
        assert values == {0.0, float(np.float32(1 / 0.75)) * 2.0}
        np.testing.assert_allclose(float(loss), gradient.sum().item(), rtol=1e-5)
        kept.append(gradient != 0)
        assert abs(float(kept[-1].float().mean()) - 0.375) < 0.03
    assert torch.equal(kept[0], kept[1])
    assert not torch.equal(kept[0], kept[2])
    assert not torch.equal(kept[0], kept[3])


def test_dropout__first_word__is_philox_of_index_step_and_site() -> None:
    from repops.recipes import random

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.ones(6))

        def forward(self, zero: torch.Tensor) -> torch.Tensor:
            torch.rand(3)  # site 0 is drawn by nobody, and is dropped
            return self.x * torch.rand_like(self.x) + zero

    module = Noisy()
    batch = (torch.zeros(6), torch.zeros(6))
    program = repops.trace(module, lambda out, y: (out + y).sum(), torch.optim.SGD(module.parameters(), lr=1.0), batch)
    start = {**dict(program.initial_state(module, seed=5)), "step": torch.tensor(9, dtype=torch.int32)}
    after, _ = program.step(start, batch)
    sites = [
        [(random.run(at, 9, 5 + site * 0x9E3779B9 & 0xFFFFFFFF) >> 8) * 2.0**-24 for at in range(6)] for site in (0, 1)
    ]
    drawn = (1.0 - after["x"].double()).numpy()
    assert any(np.allclose(drawn, site, atol=1e-7) for site in sites)
    assert signed(0xFFFFFFFF) == -1


def test_random__uniform_and_normal__have_their_moments() -> None:
    class Drawn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.zeros(3, 5000))

        def forward(self, share: torch.Tensor) -> torch.Tensor:
            noise = torch.stack([torch.rand(5000), torch.randn(5000), torch.bernoulli(share.expand(5000))])
            return self.x * noise

    module = Drawn()
    batch = (torch.tensor(0.3), torch.tensor(-1.0))
    program = repops.trace(module, lambda out, y: (out * y).sum(), torch.optim.SGD(module.parameters(), lr=1.0), batch)
    after, _ = program.step(program.initial_state(module, seed=2), batch)
    noise = after["x"].numpy()
    np.testing.assert_allclose(noise.mean(1), [0.5, 0.0, 0.3], atol=0.05)
    np.testing.assert_allclose(noise.std(1), [12**-0.5, 1.0, 0.21**0.5], atol=0.05)
    assert noise[0].min() >= 0
    assert noise[0].max() < 1


# --- economy


def test_nodes__of_a_gpt__are_few_and_copy_nothing() -> None:
    module = models.GPT(layers=4, attention="sdpa")
    program = repops.trace(module, models.next_token, torch.optim.AdamW(module.parameters()), models.text(0))
    operators = [node.op for node in program.graph.nodes]
    assert len(operators) < 1600
    assert "copy" not in operators
    # a block: three linear layers and two products forward, each twice backward, and the qkv layer
    assert operators.count("dot") == 4 * 6 * 3 + 3
