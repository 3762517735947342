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
from torch.nn import functional
from torch.nn.modules import transformer
from torch.utils import checkpoint

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


# --- what torch's own Python looks up by name


def _causal_as_said(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """torch compares the mask's numbers; they are applied anyway, so that only the hint counts."""
    return bool(is_causal)


def _kept(*rest: Any, **named: Any) -> Iterator[None]:
    """A checkpoint that keeps everything: a program plans its own memory, and dropout must not be drawn twice."""
    yield


class _Kept:
    """The same for `use_reentrant=True`."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        return function(*arguments)


# By function, for whoever holds one; by place, for torch's own Python, which a torch function mode does not see inside.
PLAIN: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: attention,
    functional.dropout: dropout,
    torch.dropout: _dropout_module,
}
_PLACES: list[tuple[Any, str, Any]] = [
    (functional, "scaled_dot_product_attention", attention),
    (functional, "dropout", dropout),
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
