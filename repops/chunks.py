"""Chunks of a state: eight leaves of one tensor at a time, with the paths that lead from their bytes to the state's root.

Places are numbered as in `Availability.demand` (docs/protocol/). Every pair of numbers is a place of every state, since
both are taken modulo the width of their tree. Where a tree has only padding, the chunk proves that it is padding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repops.commitments import (
    DTYPE_CODES,
    LEAF_BYTES,
    Array,
    canonical,
    sorted_names,
    state_leaves,
    tensor_leaves,
    tensor_roots,
)
from repops.merkle import PADDING, merkle_proof

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
    head = struct.pack(f"<BB{array.ndim}Q", DTYPE_CODES[array.dtype.name], array.ndim, *array.shape)
    data, hashes = canonical(array).tobytes(), tensor_leaves(array)
    if len(hashes) <= GROUP:
        return Chunk(name.encode(), head, state_path, data, ())
    tree = _padded(hashes)
    start = group % (len(tree) // GROUP) * GROUP
    path = tuple(merkle_proof(tree, start)[GROUP.bit_length() - 1 :])
    chunk = data[start * LEAF_BYTES : start * LEAF_BYTES + GROUP_BYTES]
    return Chunk(name.encode(), head, state_path, chunk, path)


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
