"""A case: a module, a batch, a loss; what tracing makes of it is a row of docs/guides/tracing.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Any, Any], Tensor]
SCALE = torch.tensor(0.5)


def weighted(out: Any, scale: Tensor) -> Tensor:
    """Each element of each output counts differently, so that a wrong order shows."""
    parts = out if isinstance(out, (tuple, list)) else [out]
    return sum((_counted(part) for part in parts if isinstance(part, Tensor)), torch.zeros(())) * scale


def _counted(part: Tensor) -> Tensor:
    return (part * (torch.arange(1, part.numel() + 1).view(part.shape).float() / part.numel())).sum()


@dataclass(frozen=True)
class Case:
    """make: the module. inputs, targets: a batch. expected: the loss in eager torch, where it is written differently.

    chance: it draws random numbers, which eager torch draws otherwise. refused: it is refused, and this is what the user reads.
    """

    make: Callable[[], nn.Module]
    inputs: Any
    targets: Any = SCALE
    loss: Loss | None = weighted
    expected: Loss | None = None
    chance: bool = False
    refused: str = ""
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, lr=1.0)


class Calls(nn.Module):
    """A module called as `call(module, *inputs)` says."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(self.module, *inputs)


class Function(nn.Module):
    """A function of one parameter."""

    def __init__(self, function: Callable[[Tensor], Any], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(7)))
        self.function = function

    def forward(self, scale: Tensor) -> Any:
        return self.function(self.x * scale)


def of(function: Callable[[Tensor], Any], *shape: int, **settings: Any) -> Case:
    """The case of a function of a tensor, (3, 4) unless another shape is given."""
    return Case(lambda: Function(function, shape or (3, 4)), torch.tensor(1.25), **settings)


def calling(make: Callable[[], nn.Module], call: Callable[..., Any], *inputs: Tensor, **settings: Any) -> Case:
    return Case(lambda: Calls(make(), call), inputs, **settings)


def drawn(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, below: int = 11, seed: int = 3) -> Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))
