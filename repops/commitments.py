"""Commitment bytes of tensors, states, segments and results (docs/protocol/commitment-bytes.md).

The trees are those of `repops.merkle`.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from repops.merkle import LEAF, LIST, STATE, TENSOR, TRACE, merkle_root, sha256

Array = npt.NDArray[Any]

LEAF_BYTES = 512  # 128 float32 values
MAX_RANK = 255
CANONICAL_NAN = np.uint32(0x7FC00000)

# bf16 (4) and f16 (5) are reserved: they are refused until the protocol fixes their canonical NaN.
DTYPE_CODES: dict[str, int] = {"float32": 0, "int32": 1, "int64": 2, "uint8": 3, "bool": 6}
_CODES = {
    dtype: code for name, code in DTYPE_CODES.items() for dtype in (np.dtype(name), np.dtype(name).newbyteorder())
}


def row_major(array: Array) -> Array:
    """The array, little-endian and row-major. Raises TypeError or ValueError if it cannot be committed."""
    if array.dtype not in _CODES:
        raise TypeError(f"dtype {array.dtype.name} cannot be committed; expected one of {', '.join(DTYPE_CODES)}")
    if array.ndim > MAX_RANK:
        raise ValueError(f"rank {array.ndim} exceeds {MAX_RANK}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def canonical(array: Array) -> Array:
    """The array as it is committed and stored: row-major, little-endian, every float32 NaN 0x7fc00000."""
    array = row_major(array)
    if array.dtype == np.float32:
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


def tensor_root(array: Array, *, threads: int = 1) -> bytes:
    """SHA256(tag, dtype, rank, dims, merkle root of the elements)."""
    return tensor_roots({"": array}, threads=threads)[""]


def tensor_root_of(dtype: int, shape: Sequence[int], elements: bytes) -> bytes:
    """As `tensor_root`, from the Merkle root of the elements. dtype: its code."""
    return sha256(TENSOR + tensor_head(dtype, shape) + elements)


def tensor_head(dtype: int, shape: Sequence[int]) -> bytes:
    """What a tensor's root has beside its elements: the dtype's code, the rank and the dimensions."""
    return struct.pack(f"<BB{len(shape)}Q", dtype, len(shape), *shape)


def tensor_roots(arrays: Mapping[str, Array], *, threads: int = 1) -> dict[str, bytes]:
    """The roots of named tensors, hashed together."""
    ready = [row_major(array) for array in arrays.values()]
    return {
        name: tensor_root_of(_CODES[array.dtype], array.shape, root)
        for name, array, root in zip(arrays, ready, merkle_roots(ready, threads=threads), strict=True)
    }


def merkle_roots(arrays: Sequence[Array], *, threads: int = 1) -> list[bytes]:
    """The Merkle roots of the elements of row-major arrays, hashed together."""
    native = _native()
    if native is None:
        return [merkle_root(tensor_leaves(array)) for array in arrays]
    roots: list[bytes] = native.tensor_merkle_roots(arrays, threads=threads)
    return roots


@cache
def _native() -> ModuleType | None:
    """Hashing by the native kernels if available; Python's is slower and gives the same bytes."""
    from repops import native

    try:
        native.load()
        return importlib.import_module("repops.native.hashing")
    except (native.NoNativeLibrary, ImportError):
        return None


def sorted_names(state: Mapping[str, object]) -> list[str]:
    """Names in ascending order of their UTF-8 bytes."""
    return sorted(state, key=lambda name: name.encode())


def state_leaf(name: str, root: bytes) -> bytes:
    raw = name.encode()
    return sha256(STATE + struct.pack("<I", len(raw)) + raw + root)


def state_root(state: Mapping[str, Array], *, threads: int = 1) -> bytes:
    """Root of a named map of tensors."""
    return state_root_of(tensor_roots(state, threads=threads))


def state_root_of(roots: Mapping[str, bytes]) -> bytes:
    """As `state_root`, from the tensors' roots."""
    return merkle_root(state_leaves(roots))


def state_leaves(roots: Mapping[str, bytes]) -> list[bytes]:
    """In the order of `sorted_names`."""
    return [state_leaf(name, roots[name]) for name in sorted_names(roots)]


def trace_leaf(node: int, root: bytes) -> bytes:
    return sha256(TRACE + struct.pack("<I", node) + root)


def trace_root(roots: Sequence[bytes]) -> bytes:
    """Root of one step: over the tensor roots of all its nodes, in the program's order."""
    return merkle_root([trace_leaf(node, root) for node, root in enumerate(roots)])


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
