"""Packs a tensor that keeps the signs of random elements (`bits: 1` of zoo_compute.training.compression).

A chunk's magnitude determines which elements it sends, so their places take no bytes. A tensor's bytes are, with C chunks:

    C words, little-endian: a chunk's magnitude, its top bit set if a sent element is zero (an element that did not change)
    | if a top bit is set: u32, little-endian, the length of the next field | zlib of the bits: which sent elements of such
      chunks are not zero
    | the bits of all signs, 1 for negative

Bits are in order of the elements, the first in a byte's highest bit.
"""

from __future__ import annotations

import zlib

import numpy as np

from repops.commitments import Array
from repops.words import SIGN
from zoo_compute.codec.library import library
from zoo_compute.formats.manifest import Compression
from zoo_compute.training.compression import chunk_shape, random_bound

PHILOX, KEY_STEP, ROUNDS = np.uint64(0xD256D193), 0x9E3779B9, 10


def pack(flat: Array, how: Compression) -> bytes | None:
    """flat: the words of a tensor, uint32. None if the tensor is not one that `how` decodes to."""
    count, words = chunk_shape(flat.size, how.chunk)
    x_CW = np.pad(flat, (0, count * words - flat.size)).reshape(count, words)
    size_CW = x_CW & np.uint32(SIGN - 1)
    magnitude_C = size_CW.max(axis=1, initial=0)
    nonzero_CW, sent_CW = x_CW != 0, sent_elements(magnitude_C, flat.size, how)
    if (nonzero_CW & (~sent_CW | (size_CW != magnitude_C[:, None]))).any():
        return None
    partial_C = (sent_CW & ~nonzero_CW).any(axis=1) & (magnitude_C != 0)
    heads = magnitude_C | partial_C.astype(np.uint32) << np.uint32(31)
    changed = b""
    if partial_C.any():
        changed = zlib.compress(np.packbits(nonzero_CW[sent_CW & partial_C[:, None]]).tobytes(), 9)
        changed = len(changed).to_bytes(4, "little") + changed
    return heads.astype("<u4").tobytes() + changed + np.packbits(x_CW[nonzero_CW] >> np.uint32(31)).tobytes()


def unpack(data: bytes, flat: Array, how: Compression) -> str | None:
    """Write the words into `flat`, which must be zero. Returns what is wrong with the bytes, or None."""
    count, words = chunk_shape(flat.size, how.chunk)
    if len(data) < 4 * count:
        return "it ends within its magnitudes"
    heads = np.frombuffer(data, "<u4", count).astype(np.uint32)
    magnitude_C, partial_C = heads & np.uint32(SIGN - 1), heads >> np.uint32(31) != 0
    sent_CW = sent_elements(magnitude_C, flat.size, how)
    end = 4 * count
    if partial_C.any():
        start = end + 4
        end = start + int.from_bytes(data[end:start], "little")
        doubtful_CW = sent_CW & partial_C[:, None]
        changed = _inflate(data[start:end], -(-int(doubtful_CW.sum()) // 8))
        if changed is None:
            return "which elements changed cannot be read"
        sent_CW[doubtful_CW] = np.unpackbits(changed, count=int(doubtful_CW.sum()))
    total = int(sent_CW.sum())
    if len(data) - end != -(-total // 8):
        return "its signs end before the bytes do, or after"
    negative = np.unpackbits(np.frombuffer(data, np.uint8, offset=end), count=total).astype(np.uint32)
    x_CW = np.zeros((count, words), np.uint32)
    x_CW[sent_CW] = np.broadcast_to(magnitude_C[:, None], x_CW.shape)[sent_CW] | negative << np.uint32(31)
    flat[:] = x_CW.reshape(-1)[: flat.size]
    return None


def _inflate(data: bytes, length: int) -> Array | None:
    """Exactly `length` bytes; a stream of more or fewer is refused before it takes memory."""
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(data, length + 1)
    except zlib.error:
        return None
    return np.frombuffer(out, np.uint8) if len(out) == length and stream.eof else None


def sent_elements(magnitude_C: Array, elements: int, how: Compression) -> Array:
    """Whether each element of a chunk is sent. Philox2x32-10 as `repops.recipes.random`; nothing where the magnitude is 0.

    What fills up the last chunk counts like an element that did not change.
    """
    count, words = chunk_shape(elements, how.chunk)
    native, bound = library(), random_bound(how)
    if native is None:
        return sent_by_numpy(magnitude_C, words, bound)
    sent, magnitude_C = np.empty((count, words), np.bool_), np.ascontiguousarray(magnitude_C, np.uint32)
    native.repops_sent_elements(magnitude_C.ctypes.data, sent.ctypes.data, count, words, bound)
    return sent


def sent_by_numpy(magnitude_C: Array, words: int, bound: int) -> Array:
    """What machines without a compiler run, and what the tests hold the library against."""
    count = magnitude_C.size
    index: Array = np.broadcast_to(np.arange(words, dtype=np.uint32), (count, words))
    counter: Array = np.broadcast_to(np.arange(count, dtype=np.uint32)[:, None], (count, words))
    for turn in range(ROUNDS):
        key_C1 = (magnitude_C + np.uint32(turn * KEY_STEP & 0xFFFFFFFF))[:, None]
        product = index.astype(np.uint64) * PHILOX
        index, counter = (product >> np.uint64(32)).astype(np.uint32) ^ key_C1 ^ counter, product.astype(np.uint32)
    sent: Array = (index.view(np.int32) < bound) & (magnitude_C != 0)[:, None]
    return sent
