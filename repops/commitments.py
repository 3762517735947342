"""Commitment bytes: Merkle trees over tensors, states, segments and results (docs/protocol.md, 'Commitment bytes').

SHA-256 throughout; tags keep the kinds of hashes apart, and padding is a value no hash equals.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LEAF, NODE, TENSOR, STATE, LIST = b"\x00", b"\x01", b"\x02", b"\x03", b"\x04"
PADDING: bytes = bytes(32)
LEAF_BYTES = 512  # 128 float32 values
MAX_RANK = 255
CANONICAL_NAN = np.uint32(0x7FC00000)

# bf16 (4) and f16 (5) are reserved: they are refused until the protocol fixes their canonical NaN.
DTYPE_CODES: dict[str, int] = {"float32": 0, "int32": 1, "int64": 2, "uint8": 3, "bool": 6}


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """All levels of the tree, leaves first, without the padding to the right of the last hash."""
    if any(len(leaf) != 32 for leaf in leaves):
        raise ValueError("merkle leaf: expected 32 bytes")
    new = hashlib.sha256
    level, empty = list(leaves), PADDING
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


def verify_proof(root: bytes, leaf: bytes, index: int, count: int, proof: Sequence[bytes]) -> bool:
    """True when `leaf` is number `index` of the `count` leaves under `root`."""
    if not 0 <= index < count or len(proof) != (count - 1).bit_length():
        return False
    if any(len(part) != 32 for part in (root, leaf, *proof)):
        return False
    node = leaf
    for sibling in proof:
        node = sha256(NODE + (sibling + node if index & 1 else node + sibling))
        index >>= 1
    return node == root


def canonical(array: Array) -> Array:
    """The array as it is committed and stored: row-major, little-endian, every float32 NaN 0x7fc00000."""
    name = array.dtype.name
    if name not in DTYPE_CODES:
        raise TypeError(f"dtype {name} cannot be committed; expected one of {', '.join(DTYPE_CODES)}")
    if array.ndim > MAX_RANK:
        raise ValueError(f"rank {array.ndim} exceeds {MAX_RANK}")
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if name == "float32":
        nan = np.isnan(array)
        if nan.any():
            array = array.copy()
            array.view(np.uint32)[nan] = CANONICAL_NAN
    return array


def tensor_leaves(array: Array) -> list[bytes]:
    """Leaf hashes of a tensor: 512 bytes each, the last one short."""
    data = canonical(array).tobytes()
    new = hashlib.sha256
    return [new(LEAF + data[at : at + LEAF_BYTES]).digest() for at in range(0, len(data), LEAF_BYTES)]


def tensor_root(array: Array) -> bytes:
    """SHA256(tag, dtype, rank, dims, merkle root of the elements)."""
    code = DTYPE_CODES.get(array.dtype.name)
    leaves = tensor_leaves(array)  # refuses what has no code
    head = struct.pack(f"<BB{array.ndim}Q", code, array.ndim, *array.shape)
    return sha256(TENSOR + head + merkle_root(leaves))


def sorted_names(state: Mapping[str, object]) -> list[str]:
    """Names in ascending order of their UTF-8 bytes."""
    return sorted(state, key=lambda name: name.encode())


def state_leaf(name: str, root: bytes) -> bytes:
    raw = name.encode()
    return sha256(STATE + struct.pack("<I", len(raw)) + raw + root)


def state_root(state: Mapping[str, Array]) -> bytes:
    """Root of a named map of tensors."""
    return state_root_of({name: tensor_root(array) for name, array in state.items()})


def state_root_of(tensor_roots: Mapping[str, bytes]) -> bytes:
    """As `state_root`, when the tensors' roots are known already."""
    return merkle_root([state_leaf(name, tensor_roots[name]) for name in sorted_names(tensor_roots)])


def segment_leaf(step: int, root: bytes) -> bytes:
    return sha256(LIST + struct.pack("<I", step) + root)


def segment_root(steps: Sequence[tuple[int, bytes]]) -> bytes:
    """Root over (step, state root) at steps 0, k, 2k, ..., H."""
    if any(late <= early for (early, _), (late, _) in itertools.pairwise(steps)):
        raise ValueError(f"segment steps must ascend: {[step for step, _ in steps]}")
    return merkle_root([segment_leaf(step, root) for step, root in steps])


def result_root(slot: int, start: bytes, segment: bytes, end: bytes, update: bytes) -> bytes:
    """Root of one slot-round's result."""
    parts = (start, segment, end, update)
    if any(len(part) != 32 for part in parts):
        raise ValueError("result root: expected four roots of 32 bytes")
    return sha256(LIST + b"result" + struct.pack("<I", slot) + b"".join(parts))


def round_root(results: Mapping[int, bytes]) -> bytes:
    """Root of a commitment: result roots by slot, in ascending order of slots."""
    return merkle_root([results[slot] for slot in sorted(results)])
