"""Lossless compression of updates. Files are small if most words are +0 and the others have few magnitudes.

A file is not self-describing: the reader knows the tensors from the job's program. Its bytes:

    "ZU" 0x01 | words of a chunk (u16) | number of hashes (u8) | bytes of a note (u8) | the hashes, 32 bytes each | the note |
    every tensor in ascending order of names: 0 and the words, little-endian, or 1 + length of what follows and the words as `context_model` codes them

Where the job's compression sends signs of random elements, tensors are coded by `signs` instead, and the reader passes the compression.

Numbers without a width are LEB128. Contexts carry over from tensor to tensor, so a file is read in order, one tensor at a time.
Hashes replace tensors of the state that are not sent (`pruning`); the note says where to get those.

Files are untrusted: the reader's shapes bound time and memory, not the bytes. A state can have several valid files; compare the
root of the decoded state, never the files.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from repops.commitments import Array, sorted_names
from zoo_compute.codec import kernel, layout, signs
from zoo_compute.codec.layout import LEAST_CHUNK, MOST_CHUNK
from zoo_compute.formats.manifest import Compression

MAGIC = b"ZU\x01"
MAX_HASHES, MAX_NOTE = 64, 64
MIN_COLUMNS = 16
_WHY = {
    layout.BAD_COUNT: "a chunk holds more words than it has",
    layout.BAD_PALETTE: "a palette that cannot be",
    layout.BAD_LENGTH: "its words end before the bytes do, or behind",
}

Shapes = Mapping[str, Sequence[int]]


class BadUpdateFile(ValueError):
    """The bytes are not a valid file of these tensors; the message says where and why."""


@dataclass(frozen=True)
class FileHeader:
    """The header of a file. chunk: words that share a palette; it changes the file's size, not the decoded state."""

    chunk: int = MOST_CHUNK
    hashes: tuple[bytes, ...] = ()
    note: bytes = b""

    def to_bytes(self) -> bytes:
        if len(self.hashes) > MAX_HASHES or any(len(each) != 32 for each in self.hashes) or len(self.note) > MAX_NOTE:
            raise ValueError(f"update file: expected at most {MAX_HASHES} hashes of 32 bytes and {MAX_NOTE} of a note")
        sizes = struct.pack("<HBB", self.chunk, len(self.hashes), len(self.note))
        return MAGIC + sizes + b"".join(self.hashes) + self.note


def encode(state: Mapping[str, Array], head: FileHeader = FileHeader(), how: Compression | None = None) -> bytes:
    """The file of a state of float32 tensors. how: of a job that sends signs. Raises TypeError for others."""
    return b"".join(encode_tensors(((name, state[name]) for name in sorted_names(state)), head, how))


def decode(data: bytes, like: Shapes) -> dict[str, Array]:
    """The tensors of a file without hashes. like: tensors or nodes with their shapes, by name. Raises BadUpdateFile."""
    return unpack(io.BytesIO(data), like, 0)[1]


def unpack(
    stream: BinaryIO, like: Shapes, hashes: int, how: Compression | None = None
) -> tuple[FileHeader, dict[str, Array]]:
    """Read a file with this many hashes. how: as for `encode`. Raises BadUpdateFile."""
    head = read_head(stream, hashes)
    return head, dict(decode_tensors(stream, like, head.chunk, how))


def max_file_bytes(like: Shapes, hashes: int) -> int:
    """The most bytes that a file of these tensors can have."""
    return len(MAGIC) + 4 + 32 * hashes + MAX_NOTE + sum(10 + _size(shape) for shape in like.values())


def encode_tensors(
    tensors: Iterable[tuple[str, Array]], head: FileHeader, how: Compression | None = None
) -> Iterator[bytes]:
    """The file in pieces, one tensor at a time. Pass the tensors in ascending order of names. how: as for `encode`."""
    length = min(max(head.chunk, LEAST_CHUNK), MOST_CHUNK)
    yield replace(head, chunk=length).to_bytes()
    contexts, memory = _begin()
    for name, array in tensors:
        if array.dtype != np.float32:
            raise TypeError(f"update file: {name!r} is {array.dtype}, expected float32")
        flat = np.ascontiguousarray(array, dtype="<f4").reshape(-1).view(np.uint32)
        before = contexts.copy(), memory.copy()
        if how is None:
            coded = kernel.write(flat, _columns(array.shape), length, contexts, memory)
        else:
            coded = signs.pack(flat, how)
        if coded is None or len(coded) > flat.nbytes:
            contexts, memory = before
            yield b"\0" + flat.tobytes()
        else:
            yield _number(len(coded) + 1) + coded


def read_head(stream: BinaryIO, hashes: int) -> FileHeader:
    """Read the header. Raises BadUpdateFile."""
    start = _exactly(stream, len(MAGIC) + 4, "its head")
    chunk, count, length = struct.unpack("<HBB", start[len(MAGIC) :])
    if not start.startswith(MAGIC):
        raise BadUpdateFile(f"update file: begins with {start[: len(MAGIC)].hex()}, expected {MAGIC.hex()}")
    if not LEAST_CHUNK <= chunk <= MOST_CHUNK:
        raise BadUpdateFile(f"update file: chunks of {chunk} words, expected {LEAST_CHUNK} to {MOST_CHUNK}")
    if count != hashes or length > MAX_NOTE:
        raise BadUpdateFile(f"update file: {count} hashes and a note of {length} bytes, expected {hashes} hashes")
    digests = tuple(_exactly(stream, 32, "the hashes") for _ in range(count))
    return FileHeader(chunk, digests, _exactly(stream, length, "the note"))


def decode_tensors(
    stream: BinaryIO, like: Shapes, chunk: int, how: Compression | None = None
) -> Iterator[tuple[str, Array]]:
    """Yield the tensors of a file after its header. how: as for `encode`. Raises BadUpdateFile."""
    contexts, memory = _begin()
    for name in sorted_names(like):
        flat = np.zeros(math.prod(like[name]), np.uint32)
        length = _read_number(stream, name)
        if length == 0:
            flat[:] = np.frombuffer(_exactly(stream, flat.nbytes, repr(name)), "<u4")
        elif length - 1 > flat.nbytes:
            raise BadUpdateFile(f"update file: {name!r} takes {length - 1} bytes, its words {flat.nbytes}")
        else:
            code = _exactly(stream, length - 1, repr(name))
            if how is None:
                why = _WHY.get(kernel.read(code, flat, _columns(like[name]), chunk, contexts, memory))
            else:
                why = signs.unpack(code, flat, how)
            if why:
                raise BadUpdateFile(f"update file: {name!r}: {why}")
        yield name, flat.view(np.float32).reshape(like[name])
    if stream.read(1):
        raise BadUpdateFile(f"update file: bytes after its {len(like)} tensors")


def _begin() -> tuple[Array, Array]:
    return np.full(layout.CONTEXTS, layout.FRESH, np.int64), np.zeros(layout.MEMORY, np.int64)


def _columns(shape: Sequence[int]) -> int:
    """Words of a row: the last axis, and the axes before it while the product stays small."""
    columns = 1
    for size in reversed(shape):
        if columns >= MIN_COLUMNS:
            break
        columns *= size
    return max(columns, 1)


def _size(shape: Sequence[int]) -> int:
    return 4 * math.prod(shape)


def _number(value: int) -> bytes:
    out = bytearray()
    while value >> 7:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _read_number(stream: BinaryIO, name: str) -> int:
    value = 0
    for shift in range(0, 49, 7):
        byte = _exactly(stream, 1, f"the length of {name!r}")[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise BadUpdateFile(f"update file: the length of {name!r} has no end")


def _exactly(stream: BinaryIO, count: int, what: str) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise BadUpdateFile(f"update file: ends within {what}")
    return data
