"""Finds the line of the user's source for each operator, forward and backward."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

from repops.tracing.substitutes import SUBSTITUTES

GRADIENT = "the gradient of the loss"
_OWN = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.abspath(torch.__file__)), "<frozen ")


class SourceMode(TorchFunctionMode):
    """Tags traced operators with their source line, and replaces some of torch's functions by plain ones.

    site: the line that ran last, as `blocks.0.mlp (model.py:12, in forward: x = self.up(x))`.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.site = ""
        self._names = {id(child): name for name, child in module.named_modules()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.mark(sys._getframe(1))
        site = self.site
        plain = SUBSTITUTES.get(func)
        if plain is None:
            result = func(*args, **(kwargs or {}))
        else:
            with self:  # its calls are traced too, with this site
                result = plain(*args, **(kwargs or {}))
        _note(result, site)
        return result

    def mark(self, frame: FrameType | None) -> None:
        """Note the innermost frame of the user's, and the module whose method it is; of a module of torch's alone, its name."""
        owner = None
        while frame is not None and frame.f_code.co_filename.startswith(_OWN):
            own = frame.f_locals.get("self")
            owner = own if owner is None and id(own) in self._names else owner
            frame = frame.f_back
        if frame is not None and not _is_make_fx(frame):
            self._say(self._describe(frame))
        elif owner is not None:
            name = self._names[id(owner)]
            self._say(f"{name} ({type(owner).__name__})" if name else type(owner).__name__)

    def _describe(self, frame: FrameType) -> str:
        name = self._names.get(id(frame.f_locals.get("self")), "")
        file = os.path.basename(frame.f_code.co_filename)
        source = _line(frame.f_code.co_filename, frame.f_lineno)
        place = f"{file}:{frame.f_lineno}, in {frame.f_code.co_name}" + (f": {source}" if source else "")
        return f"{name} ({place})" if name else place

    def backward(self, loss: torch.Tensor) -> None:
        """From now on, operators come from differentiating the loss; tag them with the line that they differentiate, if known."""
        self._say(GRADIENT)
        for node, site in _backward_nodes(loss.grad_fn):
            node.register_prehook(
                lambda gradients, site=site: self._say(f"the gradient of {site}" if site else GRADIENT)
            )

    def _say(self, site: str) -> None:
        self.site = site
        fx_traceback.current_meta["stack_trace"] = site


def _note(result: Any, site: str) -> None:
    """Tag the backward nodes that a call added with its line: all that have no tag yet."""
    waiting: list[Any] = [each.grad_fn for each in _tensors(result)]
    while waiting:
        node = waiting.pop()
        notes: Any = {} if node is None else node.metadata
        if node is None or "site" in notes:
            continue
        notes["site"] = site
        waiting += [before for before, _ in node.next_functions]


def _tensors(result: Any) -> Iterable[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return (result,)
    return (each for each in result if isinstance(each, torch.Tensor)) if isinstance(result, (tuple, list)) else ()


def _backward_nodes(start: Any) -> list[tuple[Any, str]]:
    """All nodes that differentiation visits, each with its line ("" without a tag)."""
    seen: dict[Any, str] = {}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen[node] = node.metadata.get("site", "")
            waiting += [before for before, _ in node.next_functions]
    return list(seen.items())


def _is_make_fx(frame: FrameType) -> bool:
    """The function that make_fx writes around what it traces: no line of the user's lies further out."""
    return frame.f_code.co_filename == "<string>" and "fn" in frame.f_globals


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()
