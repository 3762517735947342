"""Functions of torch said more simply while a module is traced, because what torch calls is one opaque kernel, draws its
own random numbers, or looks at data. Each gives what torch's documentation says it gives.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decompositions
from torch.nn import functional
from torch.nn.modules import transformer
from torch.utils import checkpoint

from repops.tracing.refusals import TraceRefused


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """scaled_dot_product_attention as its documentation defines it, the scale applied to the queries.

    query (..., H, T, D), key and value (..., Hkv, S, D).
    """
    query = query * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        key, value = (_repeated(x, query.shape[-3] // x.shape[-3]) for x in (key, value))
    scores = query @ key.transpose(-2, -1)
    if is_causal:
        rows, columns = scores.shape[-2:]
        future = torch.arange(columns) > torch.arange(rows).unsqueeze(1)
        scores = scores.masked_fill(future, float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    # Only a mask of the user's can hide a whole row, which then gives zeros.
    weights = scores.softmax(-1) if attn_mask is None else torch._safe_softmax(scores, -1)
    if dropout_p:
        weights = torch.native_dropout(weights, dropout_p, True)[0]
    return weights @ value


def _repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    """(..., H, T, D) as (..., H * times, T, D), each head `times` in a row; without a copy once lowered."""
    *batch, heads, length, width = x.shape
    return x.unsqueeze(-3).expand(*batch, heads, times, length, width).reshape(*batch, heads * times, length, width)


def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    return torch.native_dropout(input, p, True)[0] if training and p else input


def _dropout_module(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return dropout(input, p, train)


# --- layers that are one kernel each


def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """torch._weight_norm: v at the length g along every axis but dim (-1: as a whole)."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


def embedding_bag(
    input: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> torch.Tensor:
    """Sums, means or maxima of rows of `weight`; of bags of one size, a row of `input` each."""
    if offsets is not None or input.dim() != 2:
        raise TraceRefused(
            "an embedding bag with offsets", hint="bags of one size, as input (bags, size); padding_idx fills"
        )
    if max_norm is not None or scale_grad_by_freq:
        raise TraceRefused("an embedding bag with max_norm or scale_grad_by_freq", hint="leave them out")
    rows = functional.embedding(input, weight, padding_idx)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    kept = None if padding_idx is None else (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    if mode == "max":
        best = (rows if kept is None else rows.masked_fill(~kept, float("-inf"))).max(1).values
        return best if kept is None else torch.where(kept.any(1), best, 0.0)
    added = (rows if kept is None else torch.where(kept, rows, 0.0)).sum(1)
    if mode == "sum":
        return added
    return added / (input.shape[1] if kept is None else kept.sum(1).clamp(min=1))


def cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: Any = None) -> torch.Tensor:
    """Distances of all pairs of rows, from their differences. Equal rows have gradient 0."""
    away = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 1:
        return away.abs().sum(-1)
    if p == float("inf"):
        return away.abs().amax(-1)
    powers = (away * away if p == 2 else away.abs() ** p).sum(-1)
    same = powers == 0
    root = torch.where(same, 1.0, powers)
    return torch.where(same, 0.0, root.sqrt() if p == 2 else root ** (1.0 / p))


def pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    count = x.shape[0]
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    first, second = (torch.tensor([pair[side] for pair in pairs]) for side in (0, 1))
    return cdist(x[first].unsqueeze(1), x[second].unsqueeze(1), p).flatten()


def bilinear(
    x1: torch.Tensor, x2: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x1 (..., I), x2 (..., J), weight (O, I, J): (..., O)."""
    out = torch.einsum("...i,oij,...j->...o", x1, weight, x2)
    return out if bias is None else out + bias


def rrelu(
    input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> torch.Tensor:
    slope = torch.rand_like(input) * (upper - lower) + lower if training else (lower + upper) / 2
    return torch.where(input >= 0, input, input * slope)


def grid_sampler(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool) -> torch.Tensor:
    """torch's own definition in simple operators, which differentiates by itself."""
    if x.dim() != 4:
        raise TraceRefused("grid_sample of volumes", hint="grid_sample of images (N, C, H, W), slice by slice")
    return decompositions._grid_sampler_2d(x, grid, mode, padding, corners)


# --- what torch's own Python looks up by name


def _causal_as_said(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """torch compares the mask's numbers; they are applied anyway, so that only the hint counts."""
    return bool(is_causal)


def _kept(*rest: Any, **named: Any) -> Iterator[None]:
    """A checkpoint that keeps everything: a program plans its own memory, and dropout must not be drawn twice."""
    yield


def _no_choice(*rest: Any, **named: Any) -> Any:
    raise TraceRefused(
        "torch.cond chooses by data", hint="torch.where on both results; a program is the same for all data"
    )


class _Kept:
    """The same for `use_reentrant=True`."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        return function(*arguments)


# By function, for whoever holds one; by place, for torch's own Python, which a torch function mode does not see inside.
SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: attention,
    functional.dropout: dropout,
    torch.dropout: _dropout_module,
    torch._weight_norm: weight_norm,
    functional.embedding_bag: embedding_bag,
    functional.bilinear: bilinear,
    functional.rrelu: rrelu,
    torch.bilinear: bilinear,
    torch.cdist: cdist,
    torch.pdist: pdist,
    functional.pdist: pdist,
}
_PLACES: list[tuple[Any, str, Any]] = [
    (functional, "scaled_dot_product_attention", attention),
    (functional, "dropout", dropout),
    (torch, "grid_sampler", grid_sampler),
    (torch, "cond", _no_choice),
    (transformer, "_detect_is_causal_mask", _causal_as_said),
    (checkpoint, "_checkpoint_without_reentrant_generator", _kept),
    (checkpoint, "CheckpointFunction", _Kept),
]

# Hugging Face's models look at the batch for a warning, and for a shortcut that they leave out while something compiles.
_OF_TRANSFORMERS = [
    (
        "transformers.modeling_utils",
        "PreTrainedModel",
        "warn_if_padding_and_no_attention_mask",
        lambda *rest, **named: None,
    ),
    ("transformers.modeling_attn_mask_utils", "", "is_torchdynamo_compiling", lambda: True),
]


def _places() -> Iterator[tuple[Any, str, Any]]:
    yield from _PLACES
    for module, holder, name, plain in _OF_TRANSFORMERS:
        owner = getattr(sys.modules.get(module), "__dict__", {}).get(holder) if holder else sys.modules.get(module)
        if hasattr(owner, name):
            yield owner, name, plain


@contextmanager
def substituted() -> Iterator[None]:
    """Torch's modules with the plain functions in place, until the end."""
    before = [(owner, name, getattr(owner, name), plain) for owner, name, plain in _places()]
    for owner, name, _, plain in before:
        setattr(owner, name, plain)
    try:
        yield
    finally:
        for owner, name, own, _ in before:
            setattr(owner, name, own)
