"""A tensor's root from its pieces: each rank hashes its own, and words cross only where a leaf spans two ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repops.commitments import LEAF_BYTES, Array, canonical, tensor_root_of
from repops.merkle import LEAF, merkle_root


@dataclass(frozen=True)
class Leaves:
    """A run of a tensor's bytes: bytes before its first whole leaf, hashes of its whole leaves, bytes after."""

    head: bytes
    hashes: tuple[bytes, ...]
    tail: bytes


def leaves_of(array: Array, start: int) -> Leaves:
    """start: the byte of the tensor at which this run begins."""
    data = canonical(array).tobytes()
    first = min(-start % LEAF_BYTES, len(data))
    last = max(first, len(data) - (start + len(data)) % LEAF_BYTES)
    hashes = tuple(_leaf(data[at : at + LEAF_BYTES]) for at in range(first, last, LEAF_BYTES))
    return Leaves(data[:first], hashes, data[last:])


def combine_root(dtype: int, shape: Sequence[int], runs: Iterable[Leaves]) -> bytes:
    """The tensor's root. runs: all of it, in order. dtype: its code."""
    hashes: list[bytes] = []
    rest = b""
    for run in runs:
        rest += run.head
        if len(rest) == LEAF_BYTES:
            hashes.append(_leaf(rest))
            rest = b""
        assert not (rest and run.hashes), "runs are not side by side"
        hashes += run.hashes
        rest += run.tail
    if rest:
        hashes.append(_leaf(rest))
    return tensor_root_of(dtype, shape, merkle_root(hashes))


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(LEAF + data).digest()
