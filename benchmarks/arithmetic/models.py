"""The modules and the data that benchmarks/repops.py measures on.

Shape legend: B batch, T positions, D width, H heads, K width of a head, V vocabulary.
"""

from __future__ import annotations

import math
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Size:
    """layers, width, heads, positions, examples a step, width of the MLP."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    positions: int = 64
    batch: int = 8
    hidden: int = 344
    vocab: int = 256
    sdpa: bool = False
    rope: bool = False
    groups: int = 1

    def with_sdpa(self) -> Size:
        return replace(self, sdpa=True)


SMALL = Size()
MEDIUM = Size(width=512, heads=8, positions=256, batch=4, hidden=1376)
LLAMA = Size(layers=2, rope=True, groups=2)
TINY = Size(layers=2, width=64, positions=32, batch=4, hidden=172)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Causal; explicit, or by scaled_dot_product_attention. groups: query heads to one head of keys and values."""

    cos: Tensor
    sin: Tensor

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, self.head = size, size.width // size.heads
        pairs = size.heads // size.groups
        self.q = nn.Linear(size.width, size.width, bias=False)
        self.kv = nn.Linear(size.width, 2 * pairs * self.head, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.register_buffer("mask", torch.triu(torch.ones(size.positions, size.positions, dtype=torch.bool), 1))
        waves = 10000.0 ** (-torch.arange(0, self.head, 2) / self.head)
        angles = torch.arange(size.positions)[:, None] * waves
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def turn(self, x_BHTK: Tensor) -> Tensor:
        if not self.size.rope:
            return x_BHTK
        left, right = x_BHTK.chunk(2, -1)
        return x_BHTK * self.cos + torch.cat([-right, left], -1) * self.sin

    def forward(self, x_BTD: Tensor) -> Tensor:
        batch, positions, width = x_BTD.shape
        q = self.q(x_BTD).view(batch, positions, -1, self.head).transpose(1, 2)
        k, v = self.kv(x_BTD).view(batch, positions, 2, -1, self.head).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.turn(q), self.turn(k)
        if self.size.groups > 1:
            k, v = (z.repeat_interleave(self.size.groups, 1) for z in (k, v))
        if self.size.sdpa:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-1, -2)) * self.head**-0.5
            y = scores.masked_fill(self.mask, -math.inf).softmax(-1) @ v
        out: Tensor = self.out(y.transpose(1, 2).reshape(batch, positions, width))
        return out


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = RMSNorm(size.width), RMSNorm(size.width)
        self.attention = Attention(size)
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        z = self.norm_2(x)
        out: Tensor = x + self.down(functional.silu(self.gate(z)) * self.up(z))
        return out


class Decoder(nn.Module):
    """A small language model: 0.9M parameters at SMALL, 13M at MEDIUM; Llama-style with `rope` and `groups`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocab, size.width)
        self.positions = None if size.rope else nn.Parameter(torch.zeros(size.positions, size.width))
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm, self.head = RMSNorm(size.width), nn.Linear(size.width, size.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x_BT: Tensor) -> Tensor:
        x = self.tokens(x_BT)
        if self.positions is not None:
            x = x + self.positions
        out: Tensor = self.head(self.norm(self.blocks(x)))
        return out


class ConvNet(nn.Module):
    """For 8 x 8 digits: two convolutions with BatchNorm, max pooling, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(128, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return out


def token_loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    return functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.reshape(-1))


@dataclass(frozen=True)
class Task:
    """module: makes it anew from a seed. batch: of a step. rate: AdamW's."""

    name: str
    module: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    batch: Callable[[int], Batch]
    rate: float = 1e-3

    def start(self, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        module = self.module()
        return module, torch.optim.AdamW(module.parameters(), lr=self.rate, fused=True)


def text() -> Tensor:
    """Bytes of the standard library's source, in the order of names."""
    library = Path(sysconfig.get_path("stdlib"))
    return torch.frombuffer(
        bytearray(b"".join(p.read_bytes() for p in sorted(library.glob("*.py")))), dtype=torch.uint8
    )


def language(name: str, size: Size) -> Task:
    corpus = text()

    def batch(step: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 + step)
        starts = torch.randint(0, len(corpus) - size.positions - 1, (size.batch,), generator=generator)
        rows = torch.stack([corpus[at : at + size.positions + 1] for at in starts.tolist()]).long()
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    return Task(name, lambda: Decoder(size), token_loss, batch)


def digits() -> Task:
    from sklearn.datasets import load_digits

    dataset = load_digits()
    images = torch.tensor(dataset.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(dataset.target)

    def batch(step: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 + step)
        rows = torch.randint(0, len(images), (32,), generator=generator)
        return images[rows], labels[rows]

    return Task("digits", ConvNet, functional.cross_entropy, batch)
