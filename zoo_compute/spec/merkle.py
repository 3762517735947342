"""The Merkle roots of openings, in plain SHA-256, written from the text of docs/protocol/ ("Commitment bytes")."""

from collections.abc import Sequence
from functools import reduce
from hashlib import sha256

PADDING: bytes = bytes(32)
LEAF_BYTES: int = 512
GROUP_LEAVES: int = 8


def climb(leaf: bytes, index: int, path: tuple[bytes, ...]) -> bytes:
    """The root under which `leaf` is number `index` modulo the width of the tree that the path proves."""
    node = leaf
    for sibling in path:
        node = sha256(b"\x01" + (sibling + node if index & 1 else node + sibling)).digest()
        index >>= 1
    return node


def root_of(leaves: list[bytes]) -> bytes:
    """The root of a power of two of leaves."""
    level = leaves
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return level[0]


def root_of_shares(roots: Sequence[bytes]) -> bytes:
    """Of what several aggregators posted, or execute: each root is the right sibling of all before it."""
    return reduce(lambda left, right: sha256(b"\x01" + left + right).digest(), roots)


def group_root(chunk: bytes, *, below: bool) -> bytes:
    """The root of up to eight leaves: a whole tree, or with `below` a subtree of a larger one, padded to eight."""
    level = [sha256(b"\x00" + chunk[at : at + LEAF_BYTES]).digest() for at in range(0, len(chunk), LEAF_BYTES)]
    width = GROUP_LEAVES if below else 1
    while width < len(level):
        width *= 2
    return root_of(level + [PADDING] * (width - len(level)))


def tensor_root(head: bytes, elements: bytes) -> bytes:
    return sha256(b"\x02" + head + elements).digest()


def state_leaf(name: bytes, tensor: bytes) -> bytes:
    return sha256(b"\x03" + len(name).to_bytes(4, "little") + name + tensor).digest()


def segment_leaf(step: int, state_root: bytes) -> bytes:
    return sha256(b"\x04" + step.to_bytes(4, "little") + state_root).digest()


def result_root(slot: int, start: bytes, segment: bytes, end: bytes, update: bytes) -> bytes:
    return sha256(b"\x04result" + slot.to_bytes(4, "little") + start + segment + end + update).digest()
