"""SHA-256 of tensors by the native library: leaf hashes and Merkle roots of docs/protocol.md, 'Commitment bytes'.

The same bytes as `repops.commitments`, several times faster.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from repops import native

Buffer = memoryview | bytes | bytearray | npt.NDArray[Any]

DIGEST_BYTES = 32
LEAF_BYTES = 512
LEAF_TAG = 0


@functools.cache
def _library(isa: str | None) -> ctypes.CDLL:
    library = native.load(isa)
    pointer, size, word, byte, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint8, ctypes.c_int
    library.repops_sha256_leaves.argtypes = [pointer, size, word, byte, pointer, number, number]
    library.repops_merkle_roots.argtypes = [pointer, pointer, pointer, size, word, pointer, number]
    for function in (
        library.repops_sha256_leaves,
        library.repops_merkle_roots,
    ):
        function.restype = None
    return library


def _bytes_of(data: Buffer, canonical_nan: bool) -> npt.NDArray[np.uint8]:
    """The data's bytes in row-major order, without a copy if they already are."""
    if isinstance(data, np.ndarray):
        if canonical_nan and data.dtype != np.dtype("<f4"):
            raise TypeError(f"canonical_nan: expected little-endian float32, got {data.dtype}")
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    else:
        raw = np.frombuffer(data, dtype=np.uint8)
        if canonical_nan and raw.size % 4:
            raise ValueError(f"canonical_nan: expected whole float32 values, got {raw.size} bytes")
    return raw


def merkle_root(data: Buffer, *, canonical_nan: bool, threads: int = 1, isa: str | None = None) -> bytes:
    """Merkle root over the 512-byte leaves of `data`; PADDING for none.

    canonical_nan: the data are float32 and every NaN is hashed as 0x7fc00000. Raises NoNativeLibrary.
    """
    return _roots([_bytes_of(data, canonical_nan)], [canonical_nan], threads, isa)[0]


def tensor_merkle_roots(arrays: Sequence[npt.NDArray[Any]], *, threads: int = 1) -> list[bytes]:
    """Merkle roots over the elements of row-major arrays, in one call; a NaN of a float32 array is hashed as 0x7fc00000."""
    return _roots(arrays, [array.dtype == np.float32 for array in arrays], threads, None)


def _roots(
    arrays: Sequence[npt.NDArray[Any]], canonical_nan: Sequence[bool], threads: int, isa: str | None
) -> list[bytes]:
    data = np.array([array.ctypes.data for array in arrays], np.uintp)
    sizes = np.array([array.nbytes for array in arrays], np.uint64)
    flags = np.array(canonical_nan, np.uint8)
    out = ctypes.create_string_buffer(DIGEST_BYTES * len(arrays))
    _library(isa).repops_merkle_roots(
        data.ctypes.data, sizes.ctypes.data, flags.ctypes.data, len(arrays), LEAF_BYTES, out, threads
    )
    raw = out.raw
    return [raw[at : at + DIGEST_BYTES] for at in range(0, len(raw), DIGEST_BYTES)]


def leaf_hashes(
    data: Buffer, *, canonical_nan: bool, threads: int = 1, isa: str | None = None
) -> npt.NDArray[np.uint8]:
    """Leaf hashes of `data` as (leaves, 32) bytes, as `repops.commitments.tensor_leaves`. Raises NoNativeLibrary."""
    raw = _bytes_of(data, canonical_nan)
    out = np.empty((-(-raw.size // LEAF_BYTES), DIGEST_BYTES), dtype=np.uint8)
    _library(isa).repops_sha256_leaves(
        raw.ctypes.data, raw.size, LEAF_BYTES, LEAF_TAG, out.ctypes.data, canonical_nan, threads
    )
    return out
