# mypy: disable-error-code="no-untyped-def,call-arg"
"""Adaptive binary arithmetic coding: one routine for both directions, so that reader and writer cannot diverge.

The code is a number below 1. Each bit narrows an interval in proportion to the bit's predicted probability. `low` is the start of
the interval, whose first bytes are written already; `width` is its width, at least 2^24. All arithmetic is on integers: every
machine produces the same bytes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from repops.commitments import Array
from zoo_compute.codec.layout import LEAST, ONE, PACE, SEEN, TREE

compiled = njit(error_model="numpy", nogil=True, cache=True)

# A coder's registers, int64. value: only for a reader, the code minus the start of the interval.
LOW, WIDTH, VALUE, POSITION, READS, FULL = range(6)
WORD = 0xFFFFFFFF


def coder(buffer: Array, *, reads: bool) -> Array:
    """Registers of a coder that writes into `buffer` or reads from it. Beyond the end it reads zeros."""
    registers = np.zeros(6, np.int64)
    registers[WIDTH] = WORD
    if reads:
        registers[READS] = 1
        registers[VALUE] = int.from_bytes(bytes(buffer[:4]).ljust(4, b"\0"), "big")
        registers[POSITION] = 4
    return registers


@compiled
def narrow(s, buffer, below, width):
    """Narrow the interval to the part of this width at this offset."""
    at = s[POSITION]
    if s[READS]:
        s[VALUE] -= below
    else:
        s[LOW] += below
        if s[LOW] > WORD:  # carried into the bytes that are written
            s[LOW] &= WORD
            back = min(at, len(buffer)) - 1
            while back >= 0 and buffer[back] == 255:
                buffer[back] = 0
                back -= 1
            if back >= 0:
                buffer[back] += 1
    while width < 1 << 24:
        if s[READS]:
            s[VALUE] = (s[VALUE] << 8 & WORD) | (np.int64(buffer[at]) if at < len(buffer) else 0)
        else:
            if at < len(buffer):
                buffer[at] = s[LOW] >> 24
            else:
                s[FULL] = 1
            s[LOW] = s[LOW] << 8 & WORD
        at += 1
        width <<= 8
    s[POSITION] = at
    s[WIDTH] = width


@compiled
def code(s, buffer, contexts, at, bit):
    """Code one bit in a context, which adapts to it. A writer passes the bit; a reader passes any value and gets the bit."""
    state = contexts[at]
    likely, seen = state >> 10, state & SEEN
    middle = (s[WIDTH] >> 16) * (min(max(likely, LEAST), ONE - LEAST) >> 6)
    if s[READS]:
        bit = 1 if s[VALUE] < middle else 0
    if bit:
        narrow(s, buffer, 0, middle)
    else:
        narrow(s, buffer, middle, s[WIDTH] - middle)
    likely += ((bit << 22) - bit - likely) * PACE[seen] >> 16
    contexts[at] = likely << 10 | min(seen + 1, SEEN)
    return bit


@compiled
def code_plain(s, buffer, value, count):
    """Code `count` bits (at most 16) of a number with uniform probability."""
    step = s[WIDTH] >> count
    if s[READS]:
        value = min(s[VALUE] // step, (1 << count) - 1)
    narrow(s, buffer, value * step, step)
    return value


@compiled
def code_tree(s, buffer, contexts, at, value, count):
    """Code a number of `count` bits; each of its highest TREE bits has the bits above it as context: 2^TREE contexts from `at`."""
    rest = max(count - TREE, 0)
    node = 1
    for shift in range(count - 1, rest - 1, -1):
        node = node << 1 | code(s, buffer, contexts, at + node, value >> shift & 1)
    if rest:
        node = node << rest | code_plain(s, buffer, value & (1 << rest) - 1, rest)
    return node - (1 << count)


@compiled
def code_signed(s, buffer, contexts, at, value):
    """Code a small signed number, |number| < 2^16: its length in unary, then its bits and its sign. 18 contexts from `at`."""
    size, length = abs(value), 0
    while code(s, buffer, contexts, at + length, 1 if size >> length else 0):
        length += 1
        if length == 17:
            break
    if length == 0:
        return 0
    top = 1 << (length - 1)
    read = top | code_plain(s, buffer, size & top - 1, length - 1)
    return -read if code(s, buffer, contexts, at + 17, 1 if value < 0 else 0) else read
