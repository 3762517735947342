"""A causal model's decoding step: one token of each of B texts in, the next one out, with a cache of keys and values as state.

Shape legend: B texts of a batch, T positions of the context, L layers, K heads of keys and values, D width of a head, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from zoo_compute.documentation import address
from zoo_compute.errors import UserError
from zoo_compute.models.decoding_inputs import OWN
from zoo_compute.models.sampling import GREEDY, Sampling

CACHE = "generation"  # the child module of all that changes from step to step
Keep = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class CacheShape:
    """layers: K and D of each. context: T."""

    layers: tuple[tuple[int, int], ...]
    context: int


class Cache(nn.Module):
    """Keys and values of all positions, one pair of tensors (T, B, K, D) a layer; where each text is, and its last token."""

    positions: Tensor
    last: Tensor

    def __init__(self, shape: CacheShape, batch: int) -> None:
        super().__init__()
        self.shape = shape
        for layer, (heads, width) in enumerate(shape.layers):
            for name in (f"keys_{layer}", f"values_{layer}"):
                self.register_buffer(name, torch.zeros(shape.context, batch, heads, width), persistent=False)
        for name in ("positions", "last"):
            self.register_buffer(name, torch.zeros(batch, dtype=torch.int64), persistent=False)

    def view(self, positions_B: Tensor) -> CacheView:
        return CacheView(self, positions_B)


class CacheView:
    """The cache as a step's attention sees it: with each text at its position."""

    def __init__(self, cache: Cache, positions_B: Tensor) -> None:
        self.cache, self.positions_B = cache, positions_B
        self.kept: set[int] = set()  # layers

    def mask(self) -> Tensor:
        """(B, 1, 1, T): 0 where a text has a token, its newest one included, and -inf beyond."""
        places = torch.arange(self.cache.shape.context, device=self.positions_B.device)
        reached = places <= self.positions_B[:, None]
        return torch.where(reached, 0.0, -math.inf)[:, None, None]

    def keep(self, layer: int) -> Keep:
        """What writes the newest keys and values of a layer (B, K, 1, D), and returns those of all positions (B, K, T, D)."""

        def kept(k_BK1D: Tensor, v_BK1D: Tensor) -> tuple[Tensor, Tensor]:
            self.kept.add(layer)
            return self._written(f"keys_{layer}", k_BK1D), self._written(f"values_{layer}", v_BK1D)

        return kept

    def _written(self, name: str, new_BK1D: Tensor) -> Tensor:
        buffer_TBKD: Tensor = getattr(self.cache, name)
        new_1BKD = new_BK1D.permute(2, 0, 1, 3)
        buffer_TBKD.scatter_(0, self.positions_B[None, :, None, None].expand(new_1BKD.shape), new_1BKD)
        return buffer_TBKD.permute(1, 2, 0, 3)


Decode = Callable[[Tensor, CacheView], Tensor]


def decoding_of(model: Any, context: int) -> tuple[Decode, CacheShape]:
    """The step of a model that has the method `decode` and the property `cache_shape`, and its cache for so many positions.

    Raises UserError for a model without them.
    """
    decode, shape = getattr(model, "decode", None), getattr(model, "cache_shape", None)
    if not callable(decode) or not isinstance(shape, CacheShape):
        raise UserError(
            f"{type(model).__name__} has no decoding step",
            hint=f"take a built-in model or one of `transformers`, or give yours `decode` and `cache_shape`: {address('guides/generation')}",
        )
    if context > shape.context:
        raise UserError(f"prompt and text need {context:,} positions, and the model has {shape.context:,}")
    return decode, replace(shape, context=context)


class Generator(nn.Module):
    """The decoding step of a model. decode: tokens (B,) and the cache's view to logits (B, V).

    Its parameters and buffers have the model's own names, so the model's weights fit; what changes is below `generation`.
    end: the token after which a text repeats it; None: no such token.
    """

    generation: Cache

    def __init__(
        self,
        model: nn.Module,
        decode: Decode,
        shape: CacheShape,
        batch: int,
        sampling: Sampling = GREEDY,
        end: int | None = None,
    ) -> None:
        super().__init__()
        self._parameters, self._buffers = model._parameters, model._buffers
        self._modules = {**model._modules, CACHE: Cache(shape, batch)}
        self._decode, self._sampling, self._end = decode, sampling, end

    @property
    def fresh(self) -> tuple[str, ...]:
        """Names of the buffers that begin at zero."""
        return tuple(f"{CACHE}.{name}" for name, _ in self.generation.named_buffers())

    def forward(self, inputs_B: Tensor) -> Tensor:
        """The next token of each text (B,), as float32. inputs_B: see `decoding_inputs`."""
        cache = self.generation
        begins_B, own_B = inputs_B < OWN, inputs_B == OWN
        tokens_B = torch.where(begins_B, -2 - inputs_B, torch.where(own_B, cache.last, inputs_B))
        positions_B = torch.where(begins_B, 0, cache.positions)
        view = cache.view(positions_B)
        next_B = self._sampling.next_of(self._decode(tokens_B, view))
        if len(view.kept) < len(cache.shape.layers):
            raise ValueError(f"the model keeps keys and values in {len(view.kept)} of {len(cache.shape.layers)} layers")
        if self._end is not None:
            next_B = torch.where(own_B & (tokens_B == self._end), self._end, next_B)
        cache.last.copy_(next_B)
        cache.positions.copy_((positions_B + 1).clamp(max=cache.shape.context - 1))
        return next_B.float()
