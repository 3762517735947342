"""Small models of the kinds that tracing supports, written as their users would, and batches for them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 19


class Block(nn.Module):
    """Pre-norm attention and MLP. attention: explicit or sdpa. gelu: tanh or none."""

    def __init__(self, width: int, heads: int, attention: str, gelu: str, dropout: float) -> None:
        super().__init__()
        self.heads, self.attention, self.gelu, self.dropout = heads, attention, gelu, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        if self.attention == "sdpa":
            p = self.dropout if self.training else 0.0
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // self.heads))
            future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            y = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

    def forward(self, x: Tensor) -> Tensor:
        x = x + functional.dropout(self.attend(self.norm1(x)), self.dropout, self.training)
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate=self.gelu))


class GPT(nn.Module):
    """Token and position embeddings, blocks, a head tied to the tokens."""

    def __init__(
        self,
        *,
        width: int = 12,
        heads: int = 3,
        layers: int = 2,
        context: int = 8,
        vocabulary: int = VOCABULARY,
        attention: str = "explicit",
        gelu: str = "tanh",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, attention, gelu, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, c = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = (f(y).view(b, t, self.groups, -1).transpose(1, 2) for f in (self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """RMSNorm, SwiGLU, rotary positions computed in the forward pass, heads in groups."""

    def __init__(
        self, *, width: int = 16, heads: int = 4, groups: int = 2, layers: int = 2, vocabulary: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, size, 2).float() / size))

    def forward(self, tokens: Tensor) -> Tensor:
        angles = torch.arange(tokens.shape[1]).float()[:, None] * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


class ConvNet(nn.Module):
    """Two convolutions (one grouped and strided), batch norm, max and average pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
        self.head = nn.Linear(6, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.first(images))), 2)
        x = functional.relu(self.second(x))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    """kind: LSTM or GRU."""

    def __init__(self, kind: str = "LSTM", layers: int = 1) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 6)
        self.cells = getattr(nn, kind)(6, 5, layers, batch_first=True)
        self.head = nn.Linear(5, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.cells(self.tokens(tokens))[0])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10))


def next_token(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def text(seed: int, batch: int = 2, length: int = 8, vocabulary: int = VOCABULARY) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (batch, length + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def images(seed: int, batch: int = 3, size: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 1, size, size, generator=generator), torch.randint(0, 10, (batch,), generator=generator)


def vectors(seed: int, batch: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 6, generator=generator), torch.randint(0, 10, (batch,), generator=generator)
