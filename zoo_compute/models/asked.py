"""A model whose input lies in its state: what answers a question has the question there, and every batch is zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo_compute.models.decoding_inputs import ASKED

STEP = "asked_step"  # the buffer that counts steps


class Asked(nn.Module):
    """Step s of it is module(asked[s]). shape: of `asked`, (steps, items, ...). Names of the module's tensors stay as they are."""

    asked: Tensor
    asked_step: Tensor

    def __init__(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._parameters, self._buffers, self._modules = module._parameters, {**module._buffers}, module._modules
        self._inner = (module,)  # no child: its tensors are here already
        self.register_buffer(ASKED, torch.zeros(shape, dtype=torch.int64))
        self.register_buffer(STEP, torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, zeros: Tensor) -> Tensor:
        """zeros: int64, of a step's shape (items, ...)."""
        row = self.asked.index_select(0, self.asked_step.reshape(1))[0]
        self.asked_step.add_(1)
        result: Tensor = self._inner[0](row + zeros)
        return result
