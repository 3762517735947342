"""A training step as a pure function of (state, batch): what a slot runs, a verifier repeats and a referee will judge.

A state is a flat dict of float32 tensors: the parameters by name, `m/NAME` and `v/NAME` (AdamW's moments) and `step`.
On one machine, with one thread count, equal inputs give equal bits in every process (`node.device` sets that up).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from repops.architectures import State, build_module, initial_parameters
from repops.specs import GPTConfig, Profile, ProgramSpec

__all__ = ["GPTConfig", "NonFiniteStep", "Profile", "Program", "ProgramSpec", "State", "build"]


class NonFiniteStep(ArithmeticError):
    """The loss, or a gradient's norm, turned infinite or NaN at inner step `step`; the state is as before it."""

    def __init__(self, step: int, what: str) -> None:
        super().__init__(
            f"{what} is not finite at inner step {step}: lower training.learning_rate, or set training.clip_norm"
        )
        self.step = step


def build(spec: ProgramSpec) -> Program:
    return Program(spec)


class Program:
    """One validated ProgramSpec, ready to run on any device: it follows the tensors it is given."""

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.config = spec.model
        self.rule = spec.rule
        self.root: bytes = spec.root
        self.profile: Profile = spec.profile
        self._module = build_module(self.config)
        self.names: list[str] = [name for name, _ in self._module.named_parameters()]
        self._shapes = {name: tuple(p.shape) for name, p in self._module.named_parameters()}

    def initial_state(self, seed: int) -> State:
        """Seeded initial parameters by name, on the CPU."""
        return initial_parameters(self.config, seed)

    def parameters_of(self, state: State) -> State:
        """The parameters in `state`, in the module's order. Raises ValueError when they are not this program's."""
        for name, shape in self._shapes.items():
            if name not in state:
                raise ValueError(f"state: the parameter {name!r} is missing")
            if tuple(state[name].shape) != shape or state[name].dtype != torch.float32:
                found = f"{state[name].dtype} {tuple(state[name].shape)}"
                raise ValueError(f"state: {name!r} is {found}, the program needs torch.float32 {shape}")
        return {name: state[name] for name in self.names}

    def begin(self, parameters: State) -> State:
        """The state of inner step 0: a copy of the parameters, zero moments, step 0.

        The copy also gives every tensor the allocator's alignment, on which a matrix library's bits may depend.
        """
        state = {name: value.detach().clone() for name, value in self.parameters_of(parameters).items()}
        if self.rule.name == "adamw":
            state |= {f"{kind}/{name}": torch.zeros_like(state[name]) for kind in "mv" for name in self.names}
        state["step"] = torch.zeros((), dtype=torch.int64)
        return state

    def step(self, state: State, batch: Tensor) -> tuple[State, Tensor]:
        """One optimiser step on `batch` (B, T+1) of integers; returns the new state and the loss before it.

        The given state is left as it was. Raises NonFiniteStep.
        """
        count = int(state["step"])
        leaves = {name: state[name].detach().requires_grad_() for name in self.names}
        loss = self._loss(leaves, batch)
        if not math.isfinite(loss.item()):
            raise NonFiniteStep(count, "the loss")
        gradients = list(torch.autograd.grad(loss, list(leaves.values())))
        with torch.no_grad():
            self._clip(gradients, count)
            new = self._update(state, gradients, count)
        new["step"] = torch.tensor(count + 1, dtype=torch.int64)
        return new, loss.detach()

    @torch.no_grad()
    def loss(self, parameters: State, batch: Tensor) -> float:
        """Mean loss in nats per token over any number of examples, in chunks of one fixed size."""
        values = self.parameters_of(parameters)
        total = 0.0
        for chunk in torch.split(batch, 32):
            total += float(self._loss(values, chunk)) * len(chunk)
        return total / len(batch)

    @torch.no_grad()
    def generate(self, parameters: State, prompt: bytes, length: int, seed: int, temperature: float = 0.8) -> bytes:
        """Continue `prompt` by `length` bytes, sampled with a seeded generator; temperature 0 takes the likeliest."""
        if self.config.vocab < 256:
            raise ValueError(f"generate: the vocabulary of {self.config.vocab} does not hold bytes")
        values = self.parameters_of(parameters)
        device = values[self.names[0]].device
        generator = torch.Generator(device="cpu").manual_seed(seed)
        text = list(prompt or b"\n")
        for _ in range(length):
            window = torch.tensor([text[-self.config.context :]], dtype=torch.int64, device=device)
            logits = functional_call(self._module, values, (window,))[0, -1, :256].cpu().double()
            if temperature <= 0:
                text.append(int(logits.argmax()))
                continue
            odds = torch.softmax(logits / temperature, dim=-1)
            text.append(int(torch.multinomial(odds, 1, generator=generator)))
        return bytes(text[len(text) - length :]) if length else b""

    def _loss(self, parameters: State, batch: Tensor) -> Tensor:
        tokens = batch.to(device=parameters[self.names[0]].device, dtype=torch.int64)
        logits_BTV = functional_call(self._module, parameters, (tokens[:, :-1],))
        return functional.cross_entropy(logits_BTV.flatten(0, 1), tokens[:, 1:].reshape(-1))

    def _clip(self, gradients: list[Tensor], count: int) -> None:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item()
        if not math.isfinite(norm):
            raise NonFiniteStep(count, "the gradient's norm")
        if 0 < self.rule.clip_norm < norm:
            torch._foreach_mul_(gradients, self.rule.clip_norm / norm)

    def _rate(self, count: int) -> float:
        warmup = self.rule.warmup_steps
        return self.rule.learning_rate * (min(1.0, (count + 1) / warmup) if warmup else 1.0)

    def _update(self, state: State, gradients: list[Tensor], count: int) -> State:
        """The optimiser, out of place."""
        rule, rate = self.rule, self._rate(count)
        values = [state[name] for name in self.names]
        keep = [1.0 - rate * rule.weight_decay if value.dim() > 1 else 1.0 for value in values]
        new = torch._foreach_mul(values, keep)
        if rule.name == "sgd":
            torch._foreach_sub_(new, torch._foreach_mul(gradients, rate))
            return dict(zip(self.names, new, strict=True))
        first = torch._foreach_mul([state[f"m/{name}"] for name in self.names], rule.beta1)
        torch._foreach_add_(first, torch._foreach_mul(gradients, 1.0 - rule.beta1))
        second = torch._foreach_mul([state[f"v/{name}"] for name in self.names], rule.beta2)
        torch._foreach_mul_(gradients, gradients)
        torch._foreach_add_(second, torch._foreach_mul(gradients, 1.0 - rule.beta2))
        divisor = torch._foreach_sqrt(second)
        torch._foreach_div_(divisor, math.sqrt(1.0 - rule.beta2 ** (count + 1)))
        torch._foreach_add_(divisor, rule.epsilon)
        change = torch._foreach_div(first, divisor)
        torch._foreach_mul_(change, -rate / (1.0 - rule.beta1 ** (count + 1)))
        torch._foreach_add_(new, change)
        named = {"": new, "m/": first, "v/": second}
        return {
            f"{kind}{name}": value for kind, many in named.items() for name, value in zip(self.names, many, strict=True)
        }
