"""How the next token follows from logits: the likeliest, or one drawn by the odds from torch's generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """temperature: 0 takes the likeliest token, of several the one with the smallest number."""

    temperature: float = 0.0

    def next_of(self, logits_BV: Tensor) -> Tensor:
        """Tokens (B,). A draw is the greatest of logits / temperature + Gumbel noise, from one uniform number for each token."""
        if self.temperature == 0.0:
            return logits_BV.argmax(-1)
        noise_BV = -torch.log(-torch.log(torch.rand_like(logits_BV)))
        return (logits_BV * (1.0 / self.temperature) + noise_BV).argmax(-1)


GREEDY = Sampling()
