"""Chunks of a state: eight leaves of one tensor at a time, with the paths that lead from their bytes to the state's root.

Places are numbered as in `Availability.demand` (docs/protocol/). Every pair of numbers is a place of every state, since
both are taken modulo the width of their tree. Where a tree has only padding, the chunk proves that it is padding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repops.commitments import (
    DTYPE_CODES,
    LEAF_BYTES,
    Array,
    canonical,
    merkle_roots,
    sorted_names,
    state_leaves,
    tensor_head,
    tensor_leaves,
    tensor_roots,
)
from repops.merkle import PADDING, Tree, merkle_proof, merkle_root

GROUP = 8  # leaves
GROUP_BYTES = GROUP * LEAF_BYTES


@dataclass(frozen=True)
class Chunk:
    """One place of a state. name and head (dtype code, rank, dimensions) are empty where the state has no tensor, and so are
    the rest; chunk is empty where the tensor has no such group. Paths go from the leaves upwards, tensor_path from the group's root.
    """

    name: bytes
    head: bytes
    state_path: tuple[bytes, ...]
    chunk: bytes
    tensor_path: tuple[bytes, ...]


def chunk_of(state: Mapping[str, Array], tensor: int, group: int) -> Chunk:
    """The chunk at tensor number `tensor`, in ascending order of names, and group number `group` of it."""
    names, leaves = sorted_names(state), _padded(state_leaves(tensor_roots(state)))
    at = tensor % len(leaves)
    state_path = tuple(merkle_proof(leaves, at))
    if at >= len(names):
        return Chunk(b"", b"", state_path, b"", ())
    return chunk_below(names[at], state[names[at]], state_path, group)


def chunk_below(name: str, array: Array, state_path: tuple[bytes, ...], group: int) -> Chunk:
    """The chunk at group number `group` of this tensor, whose leaf this path leads from."""
    head, data, hashes = _head(array), canonical(array).tobytes(), tensor_leaves(array)
    if len(hashes) <= GROUP:
        return Chunk(name.encode(), head, state_path, data, ())
    tree = _padded(hashes)
    start = group % (len(tree) // GROUP) * GROUP
    path = tuple(merkle_proof(tree, start)[GROUP.bit_length() - 1 :])
    chunk = data[start * LEAF_BYTES : start * LEAF_BYTES + GROUP_BYTES]
    return Chunk(name.encode(), head, state_path, chunk, path)


@dataclass(frozen=True)
class Place:
    """Where a chunk is in its state's data, which files have in ascending order of names, and the rest of it."""

    start: int
    end: int
    chunk: Chunk  # without its bytes

    def filled(self, data: bytes) -> Chunk:
        """The chunk with its bytes."""
        return replace(self.chunk, chunk=data)


class ChunkTrees:
    """The hashes above all chunks of a state, a 64th of its size: with them a chunk takes its own bytes, and not the whole state."""

    def __init__(self, state: Mapping[str, Array]) -> None:
        names = sorted_names(state)
        self._leaves = Tree(_padded(state_leaves(tensor_roots(state))))
        self._tensors: list[tuple[bytes, bytes, int, int, Tree | None]] = []  # name, head, start, bytes, of groups
        self.groups = start = 0
        for name in names:
            array = state[name]
            roots = _group_roots(array)
            tree = Tree(roots) if array.nbytes > GROUP_BYTES else None
            self._tensors.append((name.encode(), _head(array), start, array.nbytes, tree))
            self.groups += len(roots)
            start += array.nbytes
        self.bytes = start

    def place(self, tensor: int, group: int) -> Place:
        """Of the chunk at these numbers, as `chunk_of` has them."""
        at = tensor % (1 << self._leaves.height)
        state_path = self._leaves.path(at)
        if at >= len(self._tensors):
            return Place(0, 0, Chunk(b"", b"", state_path, b"", ()))
        name, head, start, size, tree = self._tensors[at]
        if tree is None:
            return Place(start, start + size, Chunk(name, head, state_path, b"", ()))
        number = group % (1 << tree.height)
        first, end = (min(size, place * GROUP_BYTES) for place in (number, number + 1))
        return Place(start + first, start + end, Chunk(name, head, state_path, b"", tree.path(number)))


def _group_roots(array: Array) -> list[bytes]:
    """The roots of a tensor's groups, and those of padding up to a power of two."""
    data = canonical(array).reshape(-1).view(np.uint8)
    whole = len(data) // GROUP_BYTES * GROUP_BYTES
    roots = merkle_roots([data[at : at + GROUP_BYTES] for at in range(0, whole, GROUP_BYTES)])
    if len(data) > whole:
        leaves = tensor_leaves(data[whole:])
        roots.append(merkle_root([*leaves, *[PADDING] * (GROUP - len(leaves))]))
    return [*roots, *[merkle_root([PADDING] * GROUP)] * ((1 << max(len(roots) - 1, 0).bit_length()) - len(roots))]


def _head(array: Array) -> bytes:
    return tensor_head(DTYPE_CODES[array.dtype.name], array.shape)


def chunk_at_byte(shapes: Mapping[str, Sequence[int]], offset: int) -> tuple[int, int]:
    """Tensor and group that hold byte `offset` of all tensors' words in ascending order of names, as files have them."""
    for at, name in enumerate(sorted_names(shapes)):
        size = 4 * math.prod(shapes[name])
        if offset < size:
            return at, offset // GROUP_BYTES
        offset -= size
    raise ValueError("the offset lies behind the last tensor")


def _padded(leaves: Sequence[bytes]) -> list[bytes]:
    """The leaves with their padding written out, so that every place has a path."""
    return [*leaves, *[PADDING] * ((1 << max(len(leaves) - 1, 0).bit_length()) - len(leaves))]
