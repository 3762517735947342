"""Canonical safetensors: equal tensors make equal bytes, and so equal CIDs. No torch, no pickles, no mmap.

Canonical means: tensors sorted by name, data without gaps in that order, header JSON without spaces in the key order
dtype, shape, data_offsets, padded with spaces to 8 bytes, no metadata. Anything else is refused when loaded.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from repops.commitments import MAX_RANK, Array, canonical, sorted_names, tensor_roots
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
    return b"".join(state_pieces(state))


def state_pieces(state: Mapping[str, Array]) -> Iterator[bytes]:
    """The canonical file of a state in pieces: its header, then the bytes of one tensor at a time."""
    arrays = {name: np.asarray(state[name]) for name in sorted_names(state)}
    for array in arrays.values():
        canonical(np.empty(0, array.dtype))  # refuses what cannot be committed before there is a byte of the file
    yield _header({name: (_NAMES[array.dtype.name], array.shape, array.nbytes) for name, array in arrays.items()})
    for array in arrays.values():
        yield canonical(array).tobytes()


def save_state(path: str | os.PathLike[str], state: Mapping[str, Array]) -> None:
    """Write the canonical file; readers see the old file or the new one, never a part."""
    write_file(path, state_bytes(state))


def write_file(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
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
    return dict(read_tensors(io.BytesIO(data), max_bytes=len(data)))


def read_tensors(stream: BinaryIO, *, max_bytes: int) -> Iterator[tuple[str, Array]]:
    """The tensors of a canonical file, in ascending order of names, each as it is read. Raises FileRefused, at the latest at the end.

    max_bytes: of the file, so that a header cannot ask for more memory.
    """
    layout, read = read_layout(stream)
    described = read + sum(nbytes for _, _, nbytes in layout.values())
    if described > max_bytes:
        raise FileRefused(f"state file: {max_bytes} bytes expected, its header describes {described}")
    for name, (dtype, shape, nbytes) in layout.items():
        raw = bytearray(stream.read(nbytes))
        read += len(raw)
        if len(raw) < nbytes:
            raise FileRefused(f"state file: {read} bytes, its header describes {described}")
        if dtype == "BOOL" and raw.strip(b"\x00\x01"):
            raise FileRefused(f"state file: {name!r} holds a bool that is neither 0 nor 1")
        array = np.frombuffer(raw, dtype=DTYPES[dtype]).reshape(shape)
        if dtype == "F32" and np.isnan(array).any() and canonical(array).tobytes() != raw:
            raise FileRefused(f"state file: {name!r} holds a NaN other than 0x7fc00000")
        yield name, array
    if stream.read(1):
        raise FileRefused(f"state file: more bytes than the {described} that its header describes")


def read_layout(stream: BinaryIO) -> tuple[dict[str, tuple[str, tuple[int, ...], int]], int]:
    """Of each tensor in the file dtype, shape and bytes; and the header's bytes. Raises FileRefused."""
    start = stream.read(8)
    if len(start) < 8:
        raise FileRefused(f"state file: {len(start)} bytes are too few for a header")
    (length,) = struct.unpack("<Q", start)
    text = stream.read(length) if length <= MAX_HEADER_BYTES else b""
    if len(text) < length:
        raise FileRefused(f"state file: header of {length} bytes exceeds the file or {MAX_HEADER_BYTES}")
    layout = {name: _checked(name, entry) for name, entry in _entries(text).items()}
    # One comparison decides order, offsets, gaps, padding, key order and spacing.
    if start + text != _header(layout):
        raise FileRefused("state file: header is not canonical (order, offsets, spacing or metadata differ)")
    return layout, 8 + length


class TensorStream(Mapping[str, Array]):
    """A state whose tensors are read when they are asked for.

    It holds the one that was asked for last; whoever asks in ascending order of names reads the file once. read: the tensors, in that
    order. shapes: arrays without memory of the same shapes and dtypes.
    """

    def __init__(self, read: Callable[[], Iterator[tuple[str, Array]]], shapes: Mapping[str, Array]) -> None:
        self.shapes = dict(shapes)
        self._read, self._places = read, {name: at for at, name in enumerate(shapes)}
        self._left: Iterator[tuple[str, Array]] = iter(())
        self._newest: tuple[str, Array] | None = None

    def __getitem__(self, name: str) -> Array:
        place = self._places[name]
        if self._newest is None or place < self._places[self._newest[0]]:
            self._newest, self._left = None, self._read()
        while self._newest is None or self._newest[0] != name:
            self._newest = None  # the old tensor's memory is free before the next takes its own
            self._newest = next(self._left)
        return self._newest[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def roots_and_shapes(
    tensors: Iterable[tuple[str, Array]], *, threads: int = 1
) -> tuple[dict[str, bytes], dict[str, Array]]:
    """Of tensors as they are read: their roots, and arrays without memory of the same shapes and dtypes."""
    roots, shapes = dict[str, bytes](), dict[str, Array]()
    for name, array in tensors:
        roots |= tensor_roots({name: array}, threads=threads)
        shapes[name] = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    return roots, shapes


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
