"""Ways to write a module: torch.func, functions with their own gradient, checkpoints, parametrizations, adapters, optimizers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.repops.modules.case import Case, calling, drawn

X = drawn(3, 4)


def linear() -> nn.Module:
    return nn.Linear(4, 4)


def mlp(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 2))


class Steep(torch.autograd.Function):
    """ReLU with twice its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient * (x > 0) * 2


class LoRA(nn.Module):
    """A frozen layer and a product of two thin matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.base = linear().requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x)) * 0.5


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(x)))


class Moving(nn.Module):
    """A buffer that moves with what it sees."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.layer, self.in_place = linear(), in_place
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        seen = y.detach().mean(0)
        if self.in_place:
            self.mean.mul_(0.9).add_(seen, alpha=0.1)
        else:
            self.mean = 0.9 * self.mean + 0.1 * seen
        return y - self.mean


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()
        self.layer.register_forward_hook(lambda module, inputs, output: output * 2)
        self.layer.weight.register_hook(lambda gradient: gradient * 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def weight_normed_once() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(linear())


def one_step_inside(m: nn.Module, x: Tensor) -> Tensor:
    """The layer after one step of its own (MAML)."""
    (gradient,) = torch.autograd.grad(functional.linear(x, m.weight).tanh().sum(), m.weight, create_graph=True)
    return functional.linear(x, m.weight - 0.1 * gradient)


def under(optimizer: Any) -> Case:
    return Case(mlp, X, drawn(3, 2), functional.mse_loss, optimizer=optimizer)


CASES: dict[str, Case] = {
    "torch.func.functional_call": calling(linear, lambda m, x: functional_call(m, {"weight": m.weight * 2}, (x,)), X),
    "torch.func.vmap": calling(linear, lambda m, x: vmap(lambda row: m(row).tanh())(x), X),
    "torch.func.grad": calling(linear, lambda m, x: grad(lambda z: m(z).tanh().sum())(x), X),
    "vmap(grad), vmap(jacrev)": calling(
        linear,
        lambda m, x: (vmap(grad(lambda z: m(z).tanh().sum()))(x), vmap(jacrev(lambda z: m(z).tanh()))(x)),
        X,
    ),
    "torch.func.jvp": calling(linear, lambda m, x: jvp(lambda z: m(z).tanh(), (x,), (x,))[1], X),
    "torch.autograd.grad(create_graph=True), as in MAML": calling(linear, one_step_inside, X),
    "torch.autograd.Function": calling(linear, lambda m, x: Steep.apply(m(x)), X),
    "straight-through estimate: y + (y.round() - y).detach()": calling(
        linear, lambda m, x: (lambda y: y + (y.round() - y).detach())(m(x) * 3), X
    ),
    "torch.utils.checkpoint(use_reentrant=False)": calling(mlp, lambda m, x: checkpoint(m, x, use_reentrant=False), X),
    "torch.utils.checkpoint(use_reentrant=True)": calling(
        mlp, lambda m, x: checkpoint(m[1:], m[0](x), use_reentrant=True), X
    ),
    "checkpoint_sequential": calling(mlp, lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False), X),
    "a checkpoint with dropout": calling(
        lambda: mlp(0.5), lambda m, x: checkpoint(m, x, use_reentrant=False), X, chance=True
    ),
    "weight tying": Case(Tied, X),
    "a LoRA adapter on a frozen layer": Case(LoRA, X),
    "parametrizations.weight_norm": Case(lambda: parametrizations.weight_norm(linear()), X),
    "parametrizations.spectral_norm": Case(lambda: parametrizations.spectral_norm(linear()), X),
    "nn.utils.weight_norm": Case(weight_normed_once, X),
    "a buffer changed in place": Case(lambda: Moving(True), X),
    "a buffer assigned anew": Case(lambda: Moving(False), X),
    "hooks on modules and parameters": Case(Hooked, X),
    "SGD(momentum, nesterov, weight_decay)": under(
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
    ),
    "Adam(amsgrad=True)": under(lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True)),
    "AdamW": under(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
    "RMSprop": under(lambda p: torch.optim.RMSprop(p, lr=0.01)),
    "RMSprop(centered=True, momentum, weight_decay)": under(
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.9, weight_decay=0.1)
    ),
    "Adagrad(weight_decay)": under(lambda p: torch.optim.Adagrad(p, lr=0.05, weight_decay=0.1)),
}
