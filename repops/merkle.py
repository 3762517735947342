"""Merkle trees of SHA-256 (docs/protocol/commitment-bytes.md): roots and proofs over given hashes.

Every hashed message starts with a byte for its kind, so no kind can pass for another. No hash equals the padding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

LEAF, NODE, TENSOR, STATE, LIST = b"\x00", b"\x01", b"\x02", b"\x03", b"\x04"
DESCRIPTOR, ENTRY, PROGRAM, TRACE = b"\x05", b"\x06", b"\x07", b"\x08"
PADDING: bytes = bytes(32)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _levels(leaves: Sequence[bytes], empty: bytes = PADDING) -> list[list[bytes]]:
    """All levels of the tree, leaves first, without the padding to the right of the last hash, which is `empty` beside a leaf."""
    if any(len(leaf) != 32 for leaf in leaves):
        raise ValueError("merkle leaf: expected 32 bytes")
    new = hashlib.sha256
    level = list(leaves)
    levels = [level]
    while len(level) > 1:
        if len(level) & 1:
            level.append(empty)
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [new(b"\x01" + left + right).digest() for left, right in pairs]
        empty = sha256(NODE + empty + empty)
        levels.append(level)
    return levels


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Root over leaf hashes, padded to the next power of two; PADDING for none."""
    return _levels(leaves)[-1][0] if leaves else PADDING


def merkle_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings of leaf `index`, from the leaves upwards."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"merkle proof: leaf {index} of {len(leaves)}")
    proof = []
    for level in _levels(leaves)[:-1]:
        proof.append(level[index ^ 1])
        index >>= 1
    return proof


class Tree:
    """Every hash of the tree over some leaf hashes, for callers that open many of them. padding: beside the last of them."""

    def __init__(self, leaves: Sequence[bytes], padding: bytes = PADDING) -> None:
        self._levels = _levels(leaves, padding) if leaves else [[padding]]
        self._padding = [padding]
        for _ in self._levels[1:]:
            self._padding.append(sha256(NODE + 2 * self._padding[-1]))

    @property
    def height(self) -> int:
        return len(self._levels) - 1

    @property
    def root(self) -> bytes:
        return self._levels[-1][0]

    def node(self, height: int, index: int) -> bytes:
        """Of the subtree number `index` of this height."""
        level = self._levels[height]
        return level[index] if index < len(level) else self._padding[height]

    def below(self, height: int, index: int, depth: int) -> tuple[bytes, ...]:
        """The hashes `depth` levels below a node."""
        return tuple(self.node(height - depth, at) for at in range(index << depth, (index + 1) << depth))

    def path(self, leaf: int) -> tuple[bytes, ...]:
        """The siblings of a leaf, from the leaves upwards."""
        return tuple(self.node(height, (leaf >> height) ^ 1) for height in range(self.height))
