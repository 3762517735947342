"""Shared by the built-in decoders: the loss, the optimiser, the scale of initial weights, and sampling.

Shape legend: B batch, T positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, AdamW, Optimizer

Step = tuple["Decoder", Callable[[Tensor, Tensor], Tensor], Optimizer]


class Decoder(nn.Module):
    """A causal model of at most `context` tokens: logits (B, T, V) for integer tokens (B, T)."""

    context: int

    def with_rule(self, learning_rate: float, **rule: Any) -> Step:
        """The return value of a job's module function: the module with initial weights, the loss, the optimiser. rule: of `optimizer_of`."""
        return self, next_token_loss, optimizer_of(self, learning_rate, **rule)

    @torch.no_grad()
    def generate(self, prompt: bytes, length: int, seed: int, temperature: float = 0.8) -> bytes:
        """Continue `prompt` by `length` bytes, sampled with a seeded generator; temperature 0 takes the likeliest."""
        generator = torch.Generator(device="cpu").manual_seed(seed)
        text = list(prompt or b"\n")
        for _ in range(length):
            window = torch.tensor([text[-self.context :]], dtype=torch.int64)
            logits = self(window)[0, -1, :256].double()
            if temperature <= 0:
                text.append(int(logits.argmax()))
                continue
            odds = torch.softmax(logits / temperature, dim=-1)
            text.append(int(torch.multinomial(odds, 1, generator=generator)))
        return bytes(text[len(text) - length :]) if length else b""


def optimizer_of(
    module: nn.Module,
    learning_rate: float,
    optimizer: str = "adamw",
    beta1: float = 0.9,
    beta2: float = 0.95,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> Optimizer:
    """The optimiser that keys of `training:` describe. weight_decay: AdamW's, of matrices only."""
    if optimizer == "sgd":
        return SGD(module.parameters(), lr=learning_rate)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    others = [parameter for parameter in trained if parameter.dim() <= 1]
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    return AdamW(groups, lr=learning_rate, betas=(beta1, beta2), eps=epsilon, weight_decay=weight_decay)


def next_token_loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean over all positions, in nats per token."""
    return functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())


def refuse_below_one(sizes: Mapping[str, int]) -> None:
    """Raises ValueError for a size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")


def scale_of(
    name: str, parameter: Tensor, layers: int, *, embeddings: Mapping[str, float], outputs: tuple[str, ...]
) -> float:
    """Standard deviation of a matrix's initial weights: 1/sqrt(fan in), divided by sqrt(2 layers) if it writes to the residual stream.

    embeddings: scales by name that replace it. outputs: name endings of matrices that write to the residual stream.
    """
    scale = embeddings.get(name, 1.0 / math.sqrt(parameter.shape[-1]))
    return scale / math.sqrt(2 * layers) if name.endswith(outputs) else scale
