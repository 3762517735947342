"""Canonical safetensors: equal tensors make equal bytes, and so equal CIDs. No torch, no pickles, no mmap.

Canonical means: tensors sorted by name, data without gaps in that order, header JSON without spaces in the key order
dtype, shape, data_offsets, padded with spaces to 8 bytes, no metadata. Anything else is refused when loaded.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from repops.commitments import MAX_RANK, Array, canonical, sorted_names
from repops.fields import BadField, parse_json

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype.name: name for name, dtype in DTYPES.items()}
MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSORS = 100_000
MAX_NAME_BYTES = 512


class FileRefused(ValueError):
    """A state file is not canonical safetensors, or exceeds the bounds it was read under."""


def state_bytes(state: Mapping[str, Array]) -> bytes:
    """The canonical file of a state."""
    arrays = {name: canonical(np.asarray(state[name])) for name in sorted_names(state)}
    layout = {name: (_NAMES[array.dtype.name], array.shape, array.nbytes) for name, array in arrays.items()}
    return b"".join([_header(layout), *(array.tobytes() for array in arrays.values())])


def save_state(path: str | os.PathLike[str], state: Mapping[str, Array]) -> None:
    """Write the canonical file; readers see the old file or the new one, never a part."""
    write_file(path, state_bytes(state))


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file in one step, durably; on failure the old one is untouched."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_state(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> dict[str, Array]:
    """Read a canonical file into writable arrays. Raises FileRefused, with the reason, for anything else."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes:
            raise FileRefused(f"state file: {size} bytes exceed the {max_bytes} expected")
        data = file.read(size)
    return parse_state(data, max_bytes=max_bytes)


def parse_state(data: bytes, *, max_bytes: int | None = None) -> dict[str, Array]:
    """As `load_state`, from bytes."""
    if max_bytes is not None and len(data) > max_bytes:
        raise FileRefused(f"state file: {len(data)} bytes exceed the {max_bytes} expected")
    if len(data) < 8:
        raise FileRefused(f"state file: {len(data)} bytes are too few for a header")
    (length,) = struct.unpack_from("<Q", data)
    if length > min(MAX_HEADER_BYTES, len(data) - 8):
        raise FileRefused(f"state file: header of {length} bytes exceeds the file or {MAX_HEADER_BYTES}")
    entries = _entries(data[8 : 8 + length])
    layout = {name: _checked(name, entry) for name, entry in entries.items()}
    # One comparison decides order, offsets, gaps, padding, key order and spacing.
    if data[: 8 + length] != _header(layout):
        raise FileRefused("state file: header is not canonical (order, offsets, spacing or metadata differ)")
    end = 8 + length + sum(nbytes for _, _, nbytes in layout.values())
    if end != len(data):
        raise FileRefused(f"state file: {len(data)} bytes, its header describes {end}")
    return _arrays(data, 8 + length, layout)


def _arrays(data: bytes, at: int, layout: Mapping[str, tuple[str, tuple[int, ...], int]]) -> dict[str, Array]:
    state = {}
    for name, (dtype, shape, nbytes) in layout.items():
        raw = data[at : at + nbytes]
        if dtype == "BOOL" and raw.strip(b"\x00\x01"):
            raise FileRefused(f"state file: {name!r} holds a bool that is neither 0 nor 1")
        array = np.frombuffer(bytearray(raw), dtype=DTYPES[dtype]).reshape(shape)
        if dtype == "F32" and np.isnan(array).any() and canonical(array).tobytes() != raw:
            raise FileRefused(f"state file: {name!r} holds a NaN other than 0x7fc00000")
        state[name] = array
        at += nbytes
    return state


def _header(layout: Mapping[str, tuple[str, tuple[int, ...], int]]) -> bytes:
    entries, at = {}, 0
    for name in sorted_names(layout):
        dtype, shape, nbytes = layout[name]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _entries(text: bytes) -> dict[str, Any]:
    try:
        entries = parse_json(text, "header")
    except BadField as error:
        raise FileRefused(f"state file: {error}") from error
    if not isinstance(entries, dict):
        raise FileRefused("state file: header is not an object")
    if len(entries) > MAX_TENSORS:
        raise FileRefused(f"state file: {len(entries)} tensors exceed {MAX_TENSORS}")
    return entries


def _checked(name: str, entry: object) -> tuple[str, tuple[int, ...], int]:
    """dtype, shape and bytes of one header entry; offsets are checked by comparison with the canonical header."""
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise FileRefused("state file: a tensor's name is not text") from error
    if name == "__metadata__" or not 0 < len(raw) <= MAX_NAME_BYTES:
        raise FileRefused(f"state file: {name[:64]!r} is no name of a tensor")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileRefused(f"state file: {name!r} needs exactly dtype, shape and data_offsets")
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FileRefused(f"state file: {name!r} has dtype {dtype!r}; expected one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        raise FileRefused(f"state file: {name!r} has no shape")
    count = 1
    for dim in shape:
        if not isinstance(dim, int) or isinstance(dim, bool) or not 0 <= dim < 2**63:
            raise FileRefused(f"state file: {name!r} has the dimension {dim!r}")
        count *= dim
        if count >= 2**63:
            raise FileRefused(f"state file: {name!r} has more elements than a file can hold")
    return dtype, tuple(shape), count * DTYPES[dtype].itemsize
