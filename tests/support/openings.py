"""Openings of committed data as the contracts take them, built from the tensors themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Any

import numpy as np

from repops import commitments
from repops.commitments import DTYPE_CODES
from repops.merkle import PADDING, merkle_proof, merkle_root

LEAF_BYTES, GROUP = 512, 8
GROUP_BYTES = LEAF_BYTES * GROUP
State = Mapping[str, np.ndarray[Any, Any]]


def padded(leaves: Sequence[bytes], least: int = 1) -> list[bytes]:
    """With its padding written out, so that there is a path to each of it."""
    width = max(least, 1 << (max(len(leaves), 1) - 1).bit_length())
    return [*leaves, *[PADDING] * (width - len(leaves))]


@dataclass(frozen=True)
class Chunk:
    """What shows one chunk under a state's root."""

    name: bytes
    head: bytes
    state_path: list[bytes]
    chunk: bytes
    tensor_path: list[bytes]


def chunk_of(state: State, tensor: int, group: int) -> Chunk:
    """Of tensor `tensor` mod the width of the state's tree, group `group` mod the width of that tensor's."""
    names = commitments.sorted_names(state)
    leaves = padded([commitments.state_leaf(name, commitments.tensor_root(state[name])) for name in names])
    at = tensor % len(leaves)
    state_path = merkle_proof(leaves, at)
    if at >= len(names):
        return Chunk(b"", b"", state_path, b"", [])
    array = state[names[at]]
    elements = commitments.canonical(array).tobytes()
    hashes = commitments.tensor_leaves(array)
    head = pack(f"<BB{array.ndim}Q", DTYPE_CODES[array.dtype.name], array.ndim, *array.shape)
    if len(hashes) <= GROUP:
        return Chunk(names[at].encode(), head, state_path, elements, [])
    tree = padded(hashes)
    place = group % (len(tree) // GROUP)
    path = merkle_proof(tree, place * GROUP)[3:]
    chunk = elements[place * GROUP_BYTES : (place + 1) * GROUP_BYTES]
    return Chunk(names[at].encode(), head, state_path, chunk, path)


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


def result_path(results: Sequence[SlotRound], index: int) -> list[bytes]:
    return merkle_proof([result.root for result in results], index)


def state_opening(state: State, tensor: int, group: int) -> tuple[Any, ...]:
    """Availability's `Opening` of an aggregation's data."""
    part = chunk_of(state, tensor, group)
    return (bytes(32), bytes(32), [], part.name, part.head, part.state_path, part.chunk, part.tensor_path)


def update_opening(results: Sequence[SlotRound], index: int, tensor: int, group: int) -> tuple[Any, ...]:
    """Availability's `Opening` of the update of result number `index`."""
    result = results[index]
    part = chunk_of(result.update, tensor, group)
    ways = (part.name, part.head, part.state_path, part.chunk, part.tensor_path)
    return (result.segment_root, result.end_root, result_path(results, index), *ways)
