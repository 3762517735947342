"""Roots that a liar crafts: with two results for one slot, or two states for one segment, at different heights."""

from __future__ import annotations

from dataclasses import dataclass

from repops.merkle import merkle_root

GAP = b"\x66" * 32  # where a liar has nothing to show


@dataclass(frozen=True)
class Crafted:
    """A root, and the paths to its two leaves from the same index."""

    root: bytes
    path: list[bytes]  # of as many siblings as the tree is high
    short: list[bytes]  # of one less


def slot_2_of_3(result: bytes, other: bytes) -> Crafted:
    """A claim of slots 0, 1 and 2: `other` is where the parent of slots 0 and 1 belongs, and is number 2 modulo 2."""
    right = merkle_root([result, GAP])
    return Crafted(merkle_root([other, right]), [GAP, other], [right])


def leaf_2_of_5(leaves: list[bytes], other: bytes) -> Crafted:
    """Five leaves: `other` is where the parent of leaves 4 and 5 belongs, and is number 2 modulo 4."""
    first, right = merkle_root(leaves[:4]), merkle_root([other, GAP])
    path = [leaves[3], merkle_root(leaves[:2]), right]
    return Crafted(merkle_root([first, right]), path, [GAP, first])
