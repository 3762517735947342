"""What a program cannot say is refused where the user can find it: module, line, operator, hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import repops
from repops.tracing import TraceRefused
from tests.support.programs import models

SGD = lambda module: torch.optim.SGD(module.parameters(), lr=0.1)  # noqa: E731


class Inner(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x * self.weight)


class Outer(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Inner(torch.tanh), Inner(function)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def refusal(function: Callable[[Tensor], Any]) -> str:
    module = Outer(function)
    with pytest.raises(TraceRefused) as caught:
        repops.trace(module, lambda out, y: (out.real * y).sum(), SGD(module), (torch.ones(3, 4), torch.ones(())))
    return str(caught.value)


def _branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return -x


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str, str]] = {
    "fourier": (lambda x: torch.fft.fft(x).real, "complex64", "torch.fft.fft"),
    "branch": (_branch, "depend on data", r"if x.sum\(\) > 0"),
    "item": (lambda x: x * x.sum().item(), "depend on data", "item"),
    "tolist": (lambda x: x * x.sum().tolist(), "depend on data", "tolist"),
    "nonzero": (lambda x: x[x.nonzero()[:, 0]], "depend on data", "nonzero"),
    "boolean_index": (lambda x: x[x > 0], "depend on data", "x > 0"),
    "float64": (lambda x: x.double().sin().float(), "float64", "double"),
    "half": (lambda x: x.half().float(), "float16", "half"),
    "bfloat16": (lambda x: x.to(torch.bfloat16).float(), "bfloat16", "bfloat16"),
    "most_frequent": (lambda x: x.mode(dim=-1).values, "mode", r"x\.mode"),
    "singular_values": (lambda x: torch.linalg.svdvals(x), "svd", "svdvals"),
    "determinant": (lambda x: torch.linalg.det(x @ x.t()), "linalg", "det"),
    "large_integer": (lambda x: x * (torch.full((), 2**40) > 3), "32 bits", "2.*40"),
    "index_out_of_range": (lambda x: functional.embedding(torch.arange(9), x), "outside 0 to 2", "embedding"),
    "odd_adaptive_pool": (lambda x: functional.adaptive_max_pool2d(x[None], (2, 2)), "adaptive", "adaptive_max_pool2d"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_module__with_what_no_program_says__is_refused_with_its_line(name: str) -> None:
    function, what, line = REFUSED[name]
    text = refusal(function)
    assert re.search(what, text), text
    assert re.search(r"test_trace_refusals.py:\d+, in \S+: .*" + line, text), text
    assert "Instead: " in text


def test_line__of_a_method__comes_with_the_modules_name() -> None:
    class Transformed(Inner):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.fft(x * self.weight).real

    module = nn.Sequential(models.mlp(), nn.Linear(10, 4))
    module.append(Transformed(torch.tanh))
    with pytest.raises(TraceRefused, match=r"^2 \(test_trace_refusals.py:\d+, in forward: return torch.fft.fft"):
        repops.trace(module, functional.cross_entropy, SGD(module), models.vectors(0))


def test_inputs__changed_in_place__are_refused() -> None:
    assert re.search(r"inputs is changed in place by mul_", _refused_inner(lambda x: x.mul_(2.0)))
    assert re.search(r"inputs is changed in place by copy_", _refused_inner(lambda x: x[0].copy_(x[1]) + x))


def _refused_inner(function: Callable[[Tensor], Tensor]) -> str:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return function(x) * self.weight

    module = Changing()
    with pytest.raises(TraceRefused) as caught:
        repops.trace(module, lambda out, y: (out * y).sum(), SGD(module), (torch.ones(3, 4), torch.ones(())))
    return str(caught.value)


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda out, y: out, r"float32 of shape \(5, 10\)"),
        (lambda out, y: out.argmax(1).sum(), "int64"),
        (lambda out, y: 3.0, "a float"),
        (lambda out, y: out.detach().sum(), "does not depend on any parameter"),
    ],
)
def test_loss__that_is_no_float_of_the_parameters__is_refused(loss: Callable[..., Any], what: str) -> None:
    module = models.mlp()
    with pytest.raises(TraceRefused, match=what):
        repops.trace(module, loss, SGD(module), models.vectors(0))


@pytest.mark.parametrize(
    ("optimizer", "what"),
    [
        (lambda p: torch.optim.Adadelta(p), "Adadelta.*\n.*SGD, Adam, AdamW, RMSprop or Adagrad"),
        (lambda p: torch.optim.SGD(p, lr=0.1, maximize=True), "maximize=True"),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "lr_decay=0.1"),
        (lambda p: torch.optim.AdamW(p, betas=(0.9, 0.9999999)), "entries"),
        (lambda p: torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1), "not a parameter of the module"),
    ],
)
def test_optimizer__beyond_what_is_known__is_refused_with_a_hint(optimizer: Callable[..., Any], what: str) -> None:
    module = models.mlp()
    with pytest.raises(TraceRefused, match=what):
        repops.trace(module, functional.cross_entropy, optimizer(module.parameters()), models.vectors(0))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"clip_norm": 0.0}, "clip_norm is 0.0"),
        ({"clip_norm": float("inf")}, "clip_norm is inf"),
        ({"accumulate": 0}, "accumulate is 0"),
        ({"accumulate": 4}, "does not hold 4 micro-batches"),
        ({"learning_rates": []}, "empty table"),
        ({"learning_rates": [0.1, float("nan")]}, "rate"),
    ],
)
def test_options__without_sense__are_refused(options: dict[str, Any], what: str) -> None:
    module = models.mlp()
    with pytest.raises(TraceRefused, match=what):
        repops.trace(module, functional.cross_entropy, SGD(module), models.vectors(0), **options)


def test_parameters__in_float64__are_refused_by_name() -> None:
    module = models.mlp().double()
    with pytest.raises(TraceRefused, match=r"0\.weight is torch\.float64\n.*float32"):
        repops.trace(module, functional.cross_entropy, SGD(module), models.vectors(0))


def test_parameter__named_like_the_step_counter__is_refused() -> None:
    class Named(Inner):
        def __init__(self) -> None:
            super().__init__(torch.tanh)
            self.step = nn.Parameter(torch.ones(4))

    module = Named()
    with pytest.raises(TraceRefused, match=r"'step'.*\n.*rename"):
        repops.trace(module, lambda out, y: (out * y).sum(), SGD(module), (torch.ones(3, 4), torch.ones(())))


def test_module__after_a_refusal__is_as_before() -> None:
    module = Outer(_branch)
    before = {name: id(p) for name, p in module.named_parameters()}
    with pytest.raises(TraceRefused):
        repops.trace(module, lambda out, y: (out * y).sum(), SGD(module), (torch.ones(3, 4), torch.ones(())))
    assert {name: id(p) for name, p in module.named_parameters()} == before
