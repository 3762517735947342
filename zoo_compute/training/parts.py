"""Parts of tensors: runs of rows that are aggregated by themselves, so that memory follows a part and not the largest tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from repops.builder import View
from repops.commitments import Array

UPDATES = "updates/"  # all slots' rows of a part are `updates/FIRST/NAME` in the batch of an aggregation
FIRST_DIGITS = 10  # FIRST: the part's first element in the tensor NAME, with leading zeros


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop`, along the first axis, of the exchanged tensor `name`, whose element `first` is their first.

    rows: how many the tensor has; 0 if it has no axis, and is one part.
    """

    name: str
    start: int
    stop: int
    first: int
    rows: int

    @property
    def batch_name(self) -> str:
        return f"{UPDATES}{self.first:0{FIRST_DIGITS}d}/{self.name}"

    @property
    def is_whole(self) -> bool:
        return self.stop - self.start == self.rows

    def shape(self, tensor: Sequence[int]) -> tuple[int, ...]:
        """The part's shape, of the tensor's."""
        return (self.stop - self.start, *tensor[1:]) if self.rows else tuple(tensor)

    def of(self, tensor: Array) -> Array:
        """The part's own elements of the tensor, in its memory."""
        return tensor[self.start : self.stop] if self.rows else tensor

    def view_of(self, tensor: View) -> View:
        """As `of`, of a tensor in a program."""
        return tensor if self.is_whole or not self.rows else tensor.slice(0, self.start, self.stop)


def parts_of(name: str, shape: Sequence[int], slots: int, part_size: int) -> tuple[Part, ...]:
    """A tensor's parts, in order: all slots' rows of one have at most `part_size`, but a part has at least one row of the tensor."""
    if not shape or not shape[0]:
        return (Part(name, 0, 0, 0, 0),)
    row = math.prod(shape[1:])
    height = max(1, part_size // max(1, row * slots))
    return tuple(Part(name, at, min(at + height, shape[0]), at * row, shape[0]) for at in range(0, shape[0], height))
