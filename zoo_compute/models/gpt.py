"""`architecture: gpt`: a decoder with learned positions, pre-LayerNorm and GELU, as GPT-2. Copy it to start a model of your own.

Shape legend: B batch, T positions, W width, H heads, D width of a head, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_compute.models.decoder import Decoder, Step, refuse_below_one, scale_of
from zoo_compute.models.generation import CacheShape, CacheView, Keep


def build(
    layers: int,
    heads: int,
    width: int,
    context: int,
    vocab: int = 256,
    tied: bool = True,
    learning_rate: float = 1e-3,
    **rule: Any,
) -> Step:
    """The module, its loss and its optimiser. tied: the head is the token embedding. rule: as `Decoder.with_rule`."""
    return GPT(layers, heads, width, context, vocab, tied).with_rule(learning_rate, **rule)


class Attention(nn.Module):
    """Causal self-attention, written out: a matmul, a softmax and a matmul."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x_BTW: Tensor, mask_TT: Tensor, keep: Keep | None = None) -> Tensor:
        """keep: of a decoding step, whose queries see the keys and values of all positions."""
        batch, positions, width = x_BTW.shape
        qkv = self.qkv(x_BTW).view(batch, positions, 3, self.heads, width // self.heads)
        q_BHTD, k_BHTD, v_BHTD = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if keep is not None:
            k_BHTD, v_BHTD = keep(k_BHTD, v_BHTD)
        scores_BHTT = (q_BHTD * self.scale) @ k_BHTD.transpose(-2, -1) + mask_TT
        y_BHTD = torch.softmax(scores_BHTT, dim=-1) @ v_BHTD
        out: Tensor = self.projection(y_BHTD.transpose(1, 2).reshape(batch, positions, width))
        return out


class Block(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(heads, width)
        self.norm_2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x_BTW: Tensor, mask_TT: Tensor, keep: Keep | None = None) -> Tensor:
        x_BTW = x_BTW + self.attention(self.norm_1(x_BTW), mask_TT, keep)
        out: Tensor = x_BTW + self.contract(functional.gelu(self.expand(self.norm_2(x_BTW)), approximate="tanh"))
        return out


class GPT(Decoder):
    """Token and position embeddings, blocks, a last norm, and the head."""

    def __init__(self, layers: int, heads: int, width: int, context: int, vocab: int, tied: bool) -> None:
        super().__init__()
        refuse_below_one({"layers": layers, "heads": heads, "width": width, "context": context, "vocab": vocab})
        if width % heads:
            raise ValueError(f"width: {width} is no multiple of heads = {heads}")
        self.context, self.heads = context, heads
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocab, bias=False)
        self._initialise()

    def forward(self, x_BT: Tensor) -> Tensor:
        """Logits (B, T, V) for integer tokens (B, T)."""
        positions = x_BT.shape[1]
        x_BTW = self.tokens(x_BT) + self.positions.weight[:positions]
        mask_TT = torch.full((positions, positions), -math.inf, device=x_BT.device).triu(1)
        for block in self.blocks:
            x_BTW = block(x_BTW, mask_TT)
        return self._logits(x_BTW)

    def decode(self, x_B: Tensor, cache: CacheView) -> Tensor:
        """Logits (B, V) after one more token of each text."""
        x_B1W, mask_B11T = (self.tokens(x_B) + self.positions(cache.positions_B)).unsqueeze(1), cache.mask()
        for layer, block in enumerate(self.blocks):
            x_B1W = block(x_B1W, mask_B11T, cache.keep(layer))
        return self._logits(x_B1W).squeeze(1)

    @property
    def cache_shape(self) -> CacheShape:
        return CacheShape(((self.heads, self.tokens.embedding_dim // self.heads),) * len(self.blocks), self.context)

    def _logits(self, x_BTW: Tensor) -> Tensor:
        head = self.tokens.weight if self.head is None else self.head.weight
        return functional.linear(self.norm(x_BTW), head)

    @torch.no_grad()
    def _initialise(self) -> None:
        """Matrices N(0, 1/sqrt(fan in)), those that write to the residual stream scaled by 1/sqrt(2 layers), norms 1,
        biases 0; embeddings as below. Drawn from torch's generator, in the module's order.

        A tied token embedding is the head too and must start small. A free one starts at unit scale, positions then as
        sinusoids: after 160 steps of 8 examples of the demo's text, at two layers of 192, the held-out loss was 2.26
        nats a byte (amplitude 1), against 2.37 with random positions and 2.58 with everything N(0, 0.02).
        """
        small = {"tokens.weight": 0.02, "positions.weight": 0.02}
        embeddings = small if self.head is None else {"tokens.weight": 1.0, "head.weight": 0.02}
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            elif name == "positions.weight" and self.head is not None:
                parameter.copy_(_sinusoids(*parameter.shape))
            else:
                outputs = ("projection.weight", "contract.weight")
                parameter.normal_().mul_(
                    scale_of(name, parameter, len(self.blocks), embeddings=embeddings, outputs=outputs)
                )


def _sinusoids(positions: int, width: int) -> Tensor:
    """1.5 times sin and cos of each position, at wavelengths from 2 pi to 200 pi (positions, width)."""
    waves = 100.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * waves
    return (1.5 * torch.cat([angles.sin(), angles.cos()], dim=1))[:, :width].to(torch.float32)
