"""What the user's source does while it is traced: which line runs in which module, and two functions said more simply."""

from __future__ import annotations

import linecache
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_OWN = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.abspath(torch.__file__)))


class SourceMode(TorchFunctionMode):
    """Tags what is traced with the line it stems from, and writes attention and dropout in plain operators.

    site: the line that ran last, as `blocks.0.mlp (model.py:12, in forward: x = self.up(x))`.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.site = ""
        self._names = {id(child): name for name, child in module.named_modules()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.mark(sys._getframe(1))
        func = _PLAIN.get(func, func)
        if func in _PLAIN.values():
            with self:  # what it calls is seen too, with this site
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def mark(self, frame: FrameType | None) -> None:
        """Note the innermost frame of the user's, and the module whose method it is."""
        while frame is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        if frame is None:
            return
        self.site = self._describe(frame)
        fx_traceback.current_meta["stack_trace"] = self.site

    def _describe(self, frame: FrameType) -> str:
        name = self._names.get(id(frame.f_locals.get("self")), "")
        file = os.path.basename(frame.f_code.co_filename)
        source = _line(frame.f_code.co_filename, frame.f_lineno)
        place = f"{file}:{frame.f_lineno}, in {frame.f_code.co_name}" + (f": {source}" if source else "")
        return f"{name} ({place})" if name else place

    @contextmanager
    def backward(self) -> Iterator[None]:
        """What follows stems from differentiating, not from the last line."""
        fx_traceback.current_meta["stack_trace"] = "the gradient of the loss"
        yield


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()


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
    weights = scores.softmax(-1)
    if dropout_p:
        weights = torch.native_dropout(weights, dropout_p, True)[0]
    return weights @ value


def _repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    """(..., H, T, D) as (..., H * times, T, D), each head `times` in a row; without a copy once lowered."""
    *batch, heads, length, width = x.shape
    return x.unsqueeze(-3).expand(*batch, heads, times, length, width).reshape(*batch, heads * times, length, width)


def _dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    return torch.native_dropout(input, p, True)[0] if training and p else input


def _dropout_module(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return _dropout(input, p, train)


_PLAIN: dict[Any, Any] = {
    functional.scaled_dot_product_attention: attention,
    functional.dropout: _dropout,
    torch.dropout: _dropout_module,
}
