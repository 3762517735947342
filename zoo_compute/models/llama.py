"""`architecture: llama`: a decoder with rotary positions, RMSNorm, SwiGLU and grouped-query attention, without biases.

Its tensors have the names and shapes of `transformers.LlamaForCausalLM`, so what a job trained loads there as it is.

Shape legend: B batch, T positions, W width, H heads, K heads of keys and values, G = H / K, D width of a head, V vocabulary.
Source: Touvron et al. 2023 (LLaMA); Su et al. 2021 (rotary positions); Ainslie et al. 2023 (grouped queries).
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
    hidden: int,
    context: int,
    kv_heads: int | None = None,
    vocab: int = 32_000,
    tied: bool = False,
    theta: float = 10_000.0,
    norm_epsilon: float = 1e-5,
    learning_rate: float = 1e-3,
    **rule: Any,
) -> Step:
    """The module, its loss and its optimiser. kv_heads: as many as heads, unless given. rule: as `Decoder.with_rule`."""
    model = Llama(layers, heads, width, hidden, context, kv_heads or heads, vocab, tied, theta, norm_epsilon)
    return model.with_rule(learning_rate, **rule)


def rotated(x: Tensor, cos_TD: Tensor, sin_TD: Tensor) -> Tensor:
    """Turn each pair of components (i, i + D/2) by its position's angle: x (..., T, D)."""
    low, high = x.chunk(2, dim=-1)
    return x * cos_TD + torch.cat([-high, low], dim=-1) * sin_TD


class Attention(nn.Module):
    """Causal self-attention, written out; each head of keys and values serves G heads of queries."""

    def __init__(self, heads: int, kv_heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.each = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.each, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.each, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, x_BTW: Tensor, cos_TD: Tensor, sin_TD: Tensor, mask_TT: Tensor, keep: Keep | None = None
    ) -> Tensor:
        """keep: of a decoding step, whose queries see the keys and values of all positions."""
        batch, positions, width = x_BTW.shape
        group = self.heads // self.kv_heads
        q_BKGTD = self.q_proj(x_BTW).view(batch, positions, self.kv_heads, group, self.each).permute(0, 2, 3, 1, 4)
        k_BK1TD = self.k_proj(x_BTW).view(batch, positions, self.kv_heads, 1, self.each).permute(0, 2, 3, 1, 4)
        v_BK1TD = self.v_proj(x_BTW).view(batch, positions, self.kv_heads, 1, self.each).permute(0, 2, 3, 1, 4)
        q_BKGTD, k_BK1TD = rotated(q_BKGTD, cos_TD, sin_TD), rotated(k_BK1TD, cos_TD, sin_TD)
        if keep is not None:
            k_BK1TD, v_BK1TD = (each.unsqueeze(2) for each in keep(k_BK1TD.squeeze(2), v_BK1TD.squeeze(2)))
        scores_BKGTT = (q_BKGTD * (1.0 / math.sqrt(self.each))) @ k_BK1TD.transpose(-2, -1) + mask_TT
        y_BKGTD = torch.softmax(scores_BKGTT, dim=-1) @ v_BK1TD
        out: Tensor = self.o_proj(y_BKGTD.permute(0, 3, 1, 2, 4).reshape(batch, positions, width))
        return out


class MLP(nn.Module):
    """SwiGLU: a gate with SiLU times a linear map, back to the width."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x_BTW: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x_BTW)) * self.up_proj(x_BTW))
        return out


class Layer(nn.Module):
    def __init__(self, heads: int, kv_heads: int, width: int, hidden: int, norm_epsilon: float) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=norm_epsilon)
        self.self_attn = Attention(heads, kv_heads, width)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=norm_epsilon)
        self.mlp = MLP(width, hidden)

    def forward(
        self, x_BTW: Tensor, cos_TD: Tensor, sin_TD: Tensor, mask_TT: Tensor, keep: Keep | None = None
    ) -> Tensor:
        x_BTW = x_BTW + self.self_attn(self.input_layernorm(x_BTW), cos_TD, sin_TD, mask_TT, keep)
        out: Tensor = x_BTW + self.mlp(self.post_attention_layernorm(x_BTW))
        return out


class Body(nn.Module):
    """Token embedding, layers and the last norm: `LlamaForCausalLM.model`."""

    def __init__(
        self, layers: int, heads: int, kv_heads: int, width: int, hidden: int, vocab: int, norm_epsilon: float
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(heads, kv_heads, width, hidden, norm_epsilon) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=norm_epsilon)


class Llama(Decoder):
    """The body and the head; tied, the head is the token embedding."""

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        hidden: int,
        context: int,
        kv_heads: int,
        vocab: int,
        tied: bool,
        theta: float,
        norm_epsilon: float,
    ) -> None:
        super().__init__()
        sizes = {"layers": layers, "heads": heads, "width": width, "hidden": hidden, "context": context}
        refuse_below_one({**sizes, "kv_heads": kv_heads, "vocab": vocab})
        if width % (2 * heads):
            raise ValueError(f"width: {width} is no multiple of twice heads = {heads}")
        if heads % kv_heads:
            raise ValueError(f"kv_heads: {kv_heads} do not divide heads = {heads}")
        self.context, self.theta = context, theta
        self.kv_heads, self.each = kv_heads, width // heads
        self.model = Body(layers, heads, kv_heads, width, hidden, vocab, norm_epsilon)
        self.lm_head = None if tied else nn.Linear(width, vocab, bias=False)
        self._initialise()

    def forward(self, x_BT: Tensor) -> Tensor:
        """Logits (B, T, V) for integer tokens (B, T)."""
        positions = x_BT.shape[1]
        cos_TD, sin_TD = self._turns(torch.arange(positions, dtype=torch.float32, device=x_BT.device))
        mask_TT = torch.full((positions, positions), -math.inf, device=x_BT.device).triu(1)
        x_BTW = self.model.embed_tokens(x_BT)
        for layer in self.model.layers:
            x_BTW = layer(x_BTW, cos_TD, sin_TD, mask_TT)
        return self._logits(x_BTW)

    def decode(self, x_B: Tensor, cache: CacheView) -> Tensor:
        """Logits (B, V) after one more token of each text."""
        cos_BD, sin_BD = self._turns(cache.positions_B.float())
        cos_B111D, sin_B111D = (each[:, None, None, None] for each in (cos_BD, sin_BD))
        x_B1W, mask_B111T = self.model.embed_tokens(x_B).unsqueeze(1), cache.mask().unsqueeze(1)
        for at, layer in enumerate(self.model.layers):
            x_B1W = layer(x_B1W, cos_B111D, sin_B111D, mask_B111T, cache.keep(at))
        return self._logits(x_B1W).squeeze(1)

    @property
    def cache_shape(self) -> CacheShape:
        return CacheShape(((self.kv_heads, self.each),) * len(self.model.layers), self.context)

    def _logits(self, x_BTW: Tensor) -> Tensor:
        head = self.model.embed_tokens.weight if self.lm_head is None else self.lm_head.weight
        return functional.linear(self.model.norm(x_BTW), head)

    def _turns(self, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each position's angles (T, D): angle i is position * theta^(-2i/D), twice side by side."""
        powers = torch.arange(0, self.each, 2, dtype=torch.float32, device=positions_T.device) / self.each
        waves = torch.exp(powers * -math.log(self.theta))
        angles = positions_T[:, None] * waves
        angles_TD = torch.cat([angles, angles], dim=-1)
        return angles_TD.cos(), angles_TD.sin()

    @torch.no_grad()
    def _initialise(self) -> None:
        """As the built-in GPT's: a free token embedding at unit scale, a tied one and the head small; norms 1."""
        name_of_tokens = "model.embed_tokens.weight"
        embeddings = {name_of_tokens: 0.02} if self.lm_head is None else {name_of_tokens: 1.0, "lm_head.weight": 0.02}
        outputs = ("o_proj.weight", "down_proj.weight")
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                layers = len(self.model.layers)
                parameter.normal_().mul_(scale_of(name, parameter, layers, embeddings=embeddings, outputs=outputs))
