"""Codes a tensor's words to bytes and back, with the native library, or with numba if it is missing.

The loop is a few ten nanoseconds' work a word of branches and table look-ups, which numba does ten times slower than C++ and
compiles for seconds when it is first used. So it is in the native library, which is built with the package; `words` is what
machines without a compiler run, and what the tests hold the library against.
"""

from __future__ import annotations

import numpy as np

from repops.commitments import Array
from zoo_compute.codec.layout import BAD_LENGTH
from zoo_compute.codec.library import library


def write(flat: Array, columns: int, chunk: int, contexts: Array, memory: Array) -> bytes | None:
    """The code of the words; None if it is not shorter than the words. Contexts and memory are updated in both cases."""
    buffer = np.empty(flat.nbytes, np.uint8)
    why, position, low, width = _run(buffer, flat, columns, chunk, contexts, memory, False)
    if why:
        return None
    code = _ending(bytearray(buffer[:position]), low, width)
    return code if len(code) <= flat.nbytes else None


def read(code: bytes, flat: Array, columns: int, chunk: int, contexts: Array, memory: Array) -> int:
    """Decode into `words`, which must be zero. Returns 0, or an error code of `layout`."""
    why, position, _, _ = _run(np.frombuffer(bytearray(code), np.uint8), flat, columns, chunk, contexts, memory, True)
    return why or (0 if position - 4 <= len(code) <= position else BAD_LENGTH)


def _ending(written: bytearray, low: int, width: int) -> bytes:
    """The written bytes, and the fewest further bytes that fall into the interval; the reader assumes zeros after them."""
    for count in range(5):
        rest = 32 - 8 * count
        value = (low + (1 << rest) - 1) >> rest << rest
        if value < low + width:
            if value >> 32:
                _carry(written)
            return bytes(written) + (value & 0xFFFFFFFF).to_bytes(4, "big")[:count]
    raise AssertionError("low itself is in the interval")


def _carry(written: bytearray) -> None:
    at = len(written) - 1
    while written[at] == 255:
        written[at] = 0
        at -= 1
    written[at] += 1


def _run(
    buffer: Array, flat: Array, columns: int, chunk: int, contexts: Array, memory: Array, reads: bool
) -> tuple[int, int, int, int]:
    """The error code, the bytes read or written, and the interval."""
    native = library()
    if native is None:
        return _by_numba(buffer, flat, columns, chunk, contexts, memory, reads)
    registers = np.zeros(3, np.int64)
    why = native.repops_update_words(
        buffer.ctypes.data, buffer.size, contexts.ctypes.data, memory.ctypes.data, flat.ctypes.data, flat.size, columns,
        chunk, reads, registers.ctypes.data,
    )  # fmt: skip
    position, low, width = registers.tolist()
    return why, position, low, width


def _by_numba(
    buffer: Array, flat: Array, columns: int, chunk: int, contexts: Array, memory: Array, reads: bool
) -> tuple[int, int, int, int]:
    from zoo_compute.codec import context_model, range_coder  # late: numba takes a second to import

    coder = range_coder.coder(buffer, reads=reads)
    why = int(context_model.code_words(coder, buffer, contexts, memory, flat, columns, chunk))
    return why, int(coder[range_coder.POSITION]), int(coder[range_coder.LOW]), int(coder[range_coder.WIDTH])
