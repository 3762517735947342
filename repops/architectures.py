"""The architectures a program may name. Typed and closed: a node never runs a submitter's code.

Shape legend: B batch, T positions, W width, H heads, D width of a head, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from repops.specs import GPTConfig

State = dict[str, Tensor]


class Attention(nn.Module):
    """Causal self-attention, written out: a matmul, a softmax and a matmul, the same on every device."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.scale = 1.0 / math.sqrt(config.width // config.heads)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.projection = nn.Linear(config.width, config.width)

    def forward(self, x_BTW: Tensor, mask_TT: Tensor) -> Tensor:
        batch, positions, width = x_BTW.shape
        qkv = self.qkv(x_BTW).view(batch, positions, 3, self.heads, width // self.heads)
        q_BHTD, k_BHTD, v_BHTD = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores_BHTT = (q_BHTD * self.scale) @ k_BHTD.transpose(-2, -1) + mask_TT
        y_BHTD = torch.softmax(scores_BHTT, dim=-1) @ v_BHTD
        out: Tensor = self.projection(y_BHTD.transpose(1, 2).reshape(batch, positions, width))
        return out


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm_2 = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)

    def forward(self, x_BTW: Tensor, mask_TT: Tensor) -> Tensor:
        x_BTW = x_BTW + self.attention(self.norm_1(x_BTW), mask_TT)
        out: Tensor = x_BTW + self.contract(functional.gelu(self.expand(self.norm_2(x_BTW)), approximate="tanh"))
        return out


class GPT(nn.Module):
    """Token and position embeddings, blocks, a last norm, and the head."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = None if config.tied else nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, x_BT: Tensor) -> Tensor:
        """Logits (B, T, V) for int64 tokens (B, T)."""
        positions = x_BT.shape[1]
        x_BTW = self.tokens(x_BT) + self.positions.weight[:positions]
        mask_TT = torch.full((positions, positions), -math.inf, device=x_BT.device).triu(1)
        for block in self.blocks:
            x_BTW = block(x_BTW, mask_TT)
        head = self.tokens.weight if self.head is None else self.head.weight
        return functional.linear(self.norm(x_BTW), head)


def build_module(config: GPTConfig) -> nn.Module:
    """The module, without storage: its parameters come from a state at every call."""
    with torch.device("meta"):
        return GPT(config)


def initial_parameters(config: GPTConfig, seed: int) -> State:
    """Seeded initial weights: matrices N(0, 1/sqrt(fan in)), those that write to the residual stream scaled by
    1/sqrt(2 layers), norms 1, biases 0; embeddings as below.

    A tied token embedding is the head too and must start small. A free one starts at unit scale, positions then as
    sinusoids: after 160 steps of 8 examples of the demo's text, at two layers of 192, the held-out loss was 2.26 nats
    a byte (amplitude 1), against 2.37 with random positions and 2.58 with everything N(0, 0.02).
    Drawn on the CPU from one generator, in the module's order; what counts is the state a job commits to.
    """
    generator = torch.Generator(device="cpu").manual_seed(seed)
    small = {"tokens.weight": 0.02, "positions.weight": 0.02}
    embeddings = small if config.tied else {"tokens.weight": 1.0, "head.weight": 0.02}
    state: State = {}
    for name, parameter in build_module(config).named_parameters():
        shape = parameter.shape
        if parameter.dim() == 1:
            is_gain = "norm" in name and name.endswith("weight")
            state[name] = torch.ones(shape) if is_gain else torch.zeros(shape)
            continue
        if name == "positions.weight" and not config.tied:
            state[name] = _sinusoids(*shape)
            continue
        scale = embeddings.get(name, 1.0 / math.sqrt(shape[-1]))
        if name.endswith(("projection.weight", "contract.weight")):
            scale /= math.sqrt(2 * config.layers)
        state[name] = torch.randn(shape, generator=generator, dtype=torch.float32) * scale
    return state


def _sinusoids(positions: int, width: int) -> Tensor:
    """1.5 times sin and cos of each position, at wavelengths from 2 pi to 200 pi (positions, width)."""
    waves = 100.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * waves
    return (1.5 * torch.cat([angles.sin(), angles.cos()], dim=1))[:, :width].to(torch.float32)
