"""Openings of committed data as the contracts take them, built from the tensors themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from repops import commitments
from repops.chunks import chunk_of
from repops.merkle import merkle_proof, merkle_root
from zoo_compute.disputes.openings import checkpoint_opening

State = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class SlotRound:
    """The result of one slot in a round."""

    slot: int
    start_root: bytes
    steps: tuple[tuple[int, bytes], ...]  # (step, state root), the start first
    update: State

    @property
    def segment_root(self) -> bytes:
        return commitments.segment_root(self.steps)

    @property
    def end_root(self) -> bytes:
        return self.steps[-1][1]

    @property
    def update_root(self) -> bytes:
        return commitments.state_root(self.update)

    @property
    def root(self) -> bytes:
        return commitments.result_root(self.slot, self.start_root, self.segment_root, self.end_root, self.update_root)


def round_root(results: Sequence[SlotRound]) -> bytes:
    return merkle_root([result.root for result in results])


def state_opening(state: State, tensor: int, group: int) -> tuple[Any, ...]:
    """Availability's `Opening` of an aggregation's data."""
    return astuple(checkpoint_opening(chunk_of(state, tensor, group)))


def update_opening(results: Sequence[SlotRound], index: int, tensor: int, group: int) -> tuple[Any, ...]:
    """Availability's `Opening` of the update of result number `index`."""
    result = results[index]
    path = tuple(merkle_proof([each.root for each in results], index))
    return (result.segment_root, result.end_root, path, *state_opening(result.update, tensor, group)[3:])
