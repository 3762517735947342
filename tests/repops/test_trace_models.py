"""Whole models under their optimizers: the program's steps against torch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import repops
from tests.support.programs import models

Optimizer = Callable[[Any], torch.optim.Optimizer]
# Adam's eps is large enough to damp gradients that are zero but for rounding (a key's bias, a bias before batch norm).
ADAMW: Optimizer = lambda p: torch.optim.AdamW(p, lr=1e-2, eps=1e-4)  # noqa: E731
ADAM: Optimizer = lambda p: torch.optim.Adam(p, lr=1e-2, eps=1e-4, weight_decay=0.1, betas=(0.8, 0.95))  # noqa: E731
SGD: Optimizer = lambda p: torch.optim.SGD(p, lr=0.1)  # noqa: E731
MOMENTUM: Optimizer = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)  # noqa: E731
DAMPED: Optimizer = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5)  # noqa: E731


@dataclass
class Case:
    module: Callable[[], nn.Module]
    batch: Callable[[int], Any] = models.text
    loss: Callable[[Any, Tensor], Tensor] = models.next_token
    optimizer: Optimizer = ADAMW
    options: dict[str, Any] = field(default_factory=dict)


def _gpt2(attention: str) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": models.VOCABULARY, "n_positions": 16, "n_embd": 12, "n_layer": 2, "n_head": 3}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **still, attn_implementation=attention)).train()


def _llama(attention: str) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=models.VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        attn_implementation=attention,
    )
    return LlamaForCausalLM(config).train()


def _logits(out: Any, targets: Tensor) -> Tensor:
    return models.next_token(out.logits, targets)


CASES: dict[str, Case] = {
    "mlp": Case(models.mlp, models.vectors, functional.cross_entropy),
    "mlp_sgd": Case(models.mlp, models.vectors, functional.cross_entropy, SGD),
    "mlp_momentum": Case(models.mlp, models.vectors, functional.cross_entropy, MOMENTUM),
    "mlp_dampening": Case(models.mlp, models.vectors, functional.cross_entropy, DAMPED),
    "mlp_adam": Case(models.mlp, models.vectors, functional.cross_entropy, ADAM),
    "mlp_clipped": Case(models.mlp, models.vectors, functional.cross_entropy, MOMENTUM, {"clip_norm": 0.3}),
    "mlp_barely_clipped": Case(models.mlp, models.vectors, functional.cross_entropy, ADAM, {"clip_norm": 1e6}),
    "convolutional": Case(models.ConvNet, models.images, functional.cross_entropy),
    "convolutional_momentum": Case(
        models.ConvNet, models.images, functional.cross_entropy, MOMENTUM, {"clip_norm": 0.5}
    ),
    "lstm": Case(models.Recurrent),
    "gru": Case(lambda: models.Recurrent("GRU", 2), lambda seed: models.text(seed, length=4)),
    "gpt": Case(models.GPT),
    "gpt_sdpa_erf": Case(lambda: models.GPT(attention="sdpa", gelu="none", layers=1)),
    "llama_style": Case(models.Llama),
    "gpt2": Case(lambda: _gpt2("sdpa"), loss=_logits),
    "gpt2_eager": Case(lambda: _gpt2("eager"), loss=_logits),
    "llama": Case(lambda: _llama("sdpa"), loss=_logits),
    "llama_eager": Case(lambda: _llama("eager"), loss=_logits),
}


def _called(module: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, tuple):
        return module(*inputs)
    return module(**inputs) if isinstance(inputs, dict) else module(inputs)


def torch_step(case: Case, module: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Any]) -> float:
    """What a user would write: micro-batches, their mean gradient, clipping, a step. Gives the loss."""
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in batches:
        loss = case.loss(_called(module, inputs), targets) / len(batches)
        loss.backward()
        total += loss.item()
    if "clip_norm" in case.options:
        torch.nn.utils.clip_grad_norm_(module.parameters(), case.options["clip_norm"])
    optimizer.step()
    return total


def agree(state: Any, module: nn.Module, optimizer: torch.optim.Optimizer, *, atol: float = 2e-6) -> None:
    """Every tensor of the state is the module's, or the optimizer's."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    slots = {"m": ("exp_avg", "momentum_buffer"), "v": ("exp_avg_sq",)}
    for name, tensor in state.items():
        if name in ("step", "seed"):
            continue
        if name in tensors:
            expected = tensors[name].detach()
        else:
            slot, parameter = name.split("/", 1)
            own = optimizer.state[tensors[parameter]]
            expected = next(own[key] for key in slots[slot] if key in own)
        np.testing.assert_allclose(
            tensor.numpy(), expected.numpy().astype(tensor.numpy().dtype), rtol=2e-4, atol=atol, err_msg=name
        )


@pytest.mark.parametrize("name", CASES)
def test_model__three_steps__agree_with_torch(name: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    module = case.module()
    program = repops.trace(module, case.loss, case.optimizer(module.parameters()), case.batch(0), **case.options)
    state = program.initial_state(module)
    reference = copy.deepcopy(module)
    optimizer = case.optimizer(reference.parameters())
    for number in range(3):
        batch = case.batch(number)
        state, loss = program.step(state, batch)
        expected = torch_step(case, reference, optimizer, [batch])
        np.testing.assert_allclose(float(loss), expected, rtol=2e-6)
        assert int(state["step"]) == number + 1
    agree(state, reference, optimizer, atol=3e-5 if "convolutional" in name else 2e-6)


def test_schedule__shorter_than_training__keeps_its_last_rate() -> None:
    module = models.mlp()
    case = Case(models.mlp, models.vectors, functional.cross_entropy)
    rates = [0.0, 0.02, 0.005]
    program = repops.trace(module, case.loss, ADAMW(module.parameters()), case.batch(0), learning_rates=rates)
    state, optimizer = program.initial_state(module), ADAMW(module.parameters())
    for number in range(5):
        optimizer.param_groups[0]["lr"] = rates[min(number, 2)]
        state, _ = program.step(state, case.batch(number))
        torch_step(case, module, optimizer, [case.batch(number)])
        agree(state, module, optimizer)


RMSPROP: Optimizer = lambda p: torch.optim.RMSprop(p, lr=1e-2, eps=1e-3, centered=True, momentum=0.5)  # noqa: E731
ADAGRAD: Optimizer = lambda p: torch.optim.Adagrad(p, lr=1e-2, eps=1e-4)  # noqa: E731


@pytest.mark.parametrize("make", [ADAMW, ADAM, MOMENTUM, RMSPROP, ADAGRAD])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_scheduled_step__multiplies_its_rate_by_the_batchs_factor(make: Optimizer, accumulate: int) -> None:
    """Whatever number of steps the optimizer has done: the batch alone says the factor."""
    module, case = models.mlp(), Case(models.mlp, models.vectors, functional.cross_entropy)

    def batch(number: int, factor: float) -> tuple[Any, ...]:
        parts = [case.batch(accumulate * number + part) for part in range(accumulate)]
        inputs, targets = (torch.stack(each) if accumulate > 1 else each[0] for each in zip(*parts, strict=True))
        lead = inputs.shape[: 1 + (accumulate > 1)]
        return inputs, targets, torch.full(lead, factor)

    pair = batch(0, 1.0)[:2]
    options: dict[str, Any] = {"accumulate": accumulate, "scheduled": True}
    program = repops.trace(module, case.loss, make(module.parameters()), pair, **options)
    assert [name for name, _ in program.graph.batch] == ["inputs", "targets", "rate"]
    state, optimizer = program.initial_state(module), make(module.parameters())
    base = optimizer.param_groups[0]["lr"]
    for number, factor in enumerate([0.0, 0.5, 1.0, 0.25]):
        optimizer.param_groups[0]["lr"] = base * factor
        state, _ = program.step(state, batch(number, factor))
        torch_step(case, module, optimizer, [case.batch(accumulate * number + part) for part in range(accumulate)])
        agree({name: state[name] for name, _ in module.named_parameters()}, module, optimizer)


def test_groups__with_their_own_settings__keep_them() -> None:
    def grouped(parameters: Any) -> torch.optim.Optimizer:
        every = list(parameters)
        first = {"params": [p for p in every if p.dim() > 1], "weight_decay": 0.3, "lr": 1e-2}
        second = {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0, "lr": 3e-2, "betas": (0.5, 0.9)}
        return torch.optim.AdamW([first, second], eps=1e-4)

    module = models.mlp()
    case = Case(models.mlp, models.vectors, functional.cross_entropy)
    program = repops.trace(module, case.loss, grouped(module.parameters()), case.batch(0))
    state, optimizer = program.initial_state(module), grouped(module.parameters())
    for number in range(3):
        state, _ = program.step(state, case.batch(number))
        torch_step(case, module, optimizer, [case.batch(number)])
    agree(state, module, optimizer)


def test_accumulation__three_micro_batches__is_the_step_of_their_mean() -> None:
    module = models.ConvNet()  # its running statistics move with every micro-batch
    case = Case(models.ConvNet, models.images, functional.cross_entropy, MOMENTUM, {"clip_norm": 1.0})
    parts = [case.batch(seed) for seed in range(3)]
    stacked = (torch.stack([x for x, _ in parts]), torch.stack([y for _, y in parts]))
    optimizer = MOMENTUM(module.parameters())
    program = repops.trace(module, case.loss, optimizer, stacked, accumulate=3, **case.options)
    state = program.initial_state(module)
    for _ in range(2):
        state, loss = program.step(state, stacked)
        expected = torch_step(case, module, optimizer, parts)
        np.testing.assert_allclose(float(loss), expected, rtol=2e-6)
    agree(state, module, optimizer)


def test_batch__of_dicts_and_tuples__goes_by_name() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(6, 4)

        def forward(self, x: Tensor, *, mask: Tensor) -> Tensor:
            return self.up(x) * mask

    module = Named()
    batch = ({"x": torch.randn(5, 6), "mask": torch.ones(5, 1, dtype=torch.bool)}, (torch.randn(5, 4), torch.randn(())))
    loss = lambda out, targets: ((out - targets[0]) ** 2).mean() * targets[1]  # noqa: E731
    case = Case(Named, loss=loss, optimizer=SGD)
    program = repops.trace(module, loss, SGD(module.parameters()), batch)
    assert sorted(name for name, _ in program.graph.batch) == ["inputs.mask", "inputs.x", "targets.0", "targets.1"]
    state, _ = program.step(program.initial_state(module), batch)
    optimizer = SGD(module.parameters())
    torch_step(case, module, optimizer, [batch])
    agree(state, module, optimizer)


def test_frozen_and_unused_parameters__stay() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.learns, self.unused = nn.Linear(6, 8), nn.Linear(8, 10), nn.Linear(3, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.learns(self.frozen(x))

    module = Partly()
    program = repops.trace(module, functional.cross_entropy, ADAMW(module.parameters()), models.vectors(0))
    kinds = {entry.name: entry.kind for entry in program.graph.state}
    assert kinds["frozen.weight"] == "buffer"
    assert "m/unused.weight" not in kinds
    assert set(program.exchanged) == {"learns.weight", "learns.bias"}
    before = {name: tensor.clone() for name, tensor in program.initial_state(module).items()}
    state, _ = program.step(program.initial_state(module), models.vectors(1))
    assert torch.equal(state["frozen.weight"], before["frozen.weight"])
    assert torch.equal(state["unused.weight"], before["unused.weight"])
    assert not torch.equal(state["learns.weight"], before["learns.weight"])
