"""Faults to inject, for tests and the demo's liar: `run_shard(..., tamper=flip_bit(...))`. Nothing else imports this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from node.training import ShardResult


@dataclass
class FlipBit:
    """Flip one bit of one update and commit to the result; counts how often it fired."""

    round: int
    slot: int
    tensor: str
    element: int = 0
    bit: int = 0
    fired: int = field(default=0, init=False)

    def __call__(self, result: ShardResult) -> ShardResult:
        if (result.round, result.slot) != (self.round, self.slot):
            return result
        self.fired += 1
        values = result.update[self.tensor].copy()
        values.reshape(-1).view(np.uint32)[self.element] ^= np.uint32(1 << self.bit)
        return result.with_update({**result.update, self.tensor: values})


def flip_bit(
    *, round: int, slot: int, tensor: str, element: int = 0, bit: int = 0
) -> Callable[[ShardResult], ShardResult]:
    return FlipBit(round, slot, tensor, element, bit)
