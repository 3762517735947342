# mypy: disable-error-code="no-untyped-def,call-arg"
"""Codes one tensor's words as arithmetic-coded bits, chunk by chunk. One traversal both writes and reads.

The words are cut, row-major, into the fewest chunks of equal length. For each chunk, the code has the number of words that are
not +0, their positions, and for each its sign and the index of its magnitude in the chunk's palette. A palette is a list of
magnitudes, or the first one and a step. A chunk with more than 255 magnitudes is coded word by word. Any words can be coded.

Positions: rows and columns of a tensor differ in how many nonzero words they have. A word's context is how full its row and
its column are so far, compared with a uniform distribution. The context of a sign is its row's and column's signs.
"""

from __future__ import annotations

import numpy as np

from zoo_compute.codec.layout import (
    BAD_COUNT,
    BAD_PALETTE,
    BUCKETS,
    COARSE,
    COUNT,
    DENSITIES,
    FIRST,
    FIRST_WORD,
    FULLNESS,
    KIND,
    LEVELS,
    LISTED,
    LONG,
    NEXT,
    ONE,
    OVERFLOWS,
    PALETTE,
    PLACES,
    QUARTER,
    SAME,
    SAME_SIZE,
    SEEN,
    SIGNS,
    SIZE,
    STEP,
    STEPPED,
    STEPS,
    TREE,
    UNIT,
    WINDOW,
    WORDS,
)
from zoo_compute.codec.range_coder import FULL, POSITION, READS, code, code_plain, code_signed, code_tree, compiled


@compiled
def code_words(s, buffer, contexts, memory, words, columns, most):
    """Write the words, or read them over zeros. columns: words of a row; most: words of a chunk. Returns 0 or an error code."""
    length = -(-len(words) // max(-(-len(words) // most), 1))
    filled = np.zeros(columns, np.uint8)
    leaning = np.zeros(columns, np.int8)
    palette = np.zeros(PALETTE, np.int64)
    expected = np.zeros(1, np.int64)
    for start in range(0, len(words), max(length, 1)):
        chunk = words[start : start + length]
        count, kind, size = 0, LISTED, 0
        if not s[READS]:
            count, kind, size = _described(chunk, palette)
        count = _code_count(s, buffer, contexts, memory, count)
        if count > len(chunk):
            return BAD_COUNT
        if count:
            kind = _code_kind(s, buffer, contexts, kind)
            if kind == WORDS:
                _code_each(s, buffer, chunk)
            else:
                size = _code_palette(s, buffer, contexts, memory, palette, kind, size, count)
                if size == 0:
                    return BAD_PALETTE
                _code_chunk(s, buffer, contexts, chunk, count, palette, size, start, columns, filled, leaning, expected)
        # Stop: the code is already as long as the words themselves.
        if not s[READS] and (s[FULL] or s[POSITION] > 4 * (start + len(chunk))):
            return OVERFLOWS
    return 0


@compiled
def _code_count(s, buffer, contexts, memory, count):
    if code(s, buffer, contexts, SAME, 1 if count == memory[COUNT] else 0):
        return memory[COUNT]
    memory[COUNT] = code_plain(s, buffer, count, LONG)
    return memory[COUNT]


@compiled
def _code_kind(s, buffer, contexts, kind):
    if code(s, buffer, contexts, KIND, 1 if kind == WORDS else 0):
        return WORDS
    return STEPS if code(s, buffer, contexts, KIND + 1, 1 if kind == STEPS else 0) else LISTED


@compiled
def _code_each(s, buffer, chunk):
    for i in range(len(chunk)):
        word = np.int64(chunk[i])
        high = code_plain(s, buffer, word >> 16, 16)
        chunk[i] = high << 16 | code_plain(s, buffer, word & 0xFFFF, 16)


@compiled
def _code_palette(s, buffer, contexts, memory, palette, kind, size, count):
    """Code the palette, each magnitude relative to the previous chunk's. Returns its size; 0 if it is invalid."""
    before = memory[SIZE]
    if code(s, buffer, contexts, SAME_SIZE, 1 if size == before else 0):
        size = before
    else:
        size = code_plain(s, buffer, size, 8)
    if not 0 < size <= (PALETTE if kind == STEPS else min(count, PALETTE)):
        return 0
    memory[SIZE] = size
    palette[0] = _code_word(s, buffer, contexts, FIRST, palette[0], memory[FIRST_WORD] >> 16)
    if kind == STEPS:
        palette[1] = _code_word(s, buffer, contexts, STEP, palette[1], memory[STEPPED] >> 16)
        memory[FIRST_WORD], memory[STEPPED] = palette[0], palette[1]
        return _stepped(palette, size)
    for i in range(1, size):
        apart = (memory[FIRST_WORD + i] >> 16) - (memory[FIRST_WORD + i - 1] >> 16) if size == before else 1
        palette[i] = _code_word(s, buffer, contexts, NEXT, palette[i], (palette[i - 1] >> 16) + apart)
        memory[FIRST_WORD + i - 1] = palette[i - 1]
    memory[FIRST_WORD + size - 1] = palette[size - 1]
    return size


@compiled
def _code_word(s, buffer, contexts, at, word, predicted):
    """Code a magnitude whose upper half is predicted to be near `predicted`."""
    predicted = min(max(predicted, 0), 0x7FFF)
    high = predicted + code_signed(s, buffer, contexts, at, (word >> 16) - predicted) & 0x7FFF
    if code(s, buffer, contexts, COARSE, 1 if word & 0xFFFF == 0 else 0):
        return high << 16
    return high << 16 | code_plain(s, buffer, word & 0xFFFF, 16)


@compiled
def _stepped(palette, size):
    """Fill the palette from its first magnitude and a step. Returns its size; 0 if a magnitude is inexact or not normal."""
    first, step = palette[0], palette[1]
    unit = min(first >> 23, step >> 23)
    up = max(first >> 23, step >> 23) - unit
    if unit == 0 or up > 24:
        return 0
    value, by = _mantissa(first) << (first >> 23) - unit, _mantissa(step) << (step >> 23) - unit
    for n in range(size):
        palette[n] = _word(value + n * by, unit)
        if palette[n] == 0:
            return 0
    return size


@compiled
def _mantissa(word):
    return word & 0x7FFFFF | 0x800000


@compiled
def _word(value, unit):
    """The float32 word of `value` units, where `unit` is the exponent of the lowest mantissa bit; 0 if there is none."""
    bits = 0
    while value >> bits:
        bits += 1
    exponent = unit + bits - 24
    if not 1 <= exponent <= 254:
        return 0
    if bits <= 24:
        return exponent << 23 | (value << (24 - bits) & 0x7FFFFF)
    if value & (1 << (bits - 24)) - 1:
        return 0
    return exponent << 23 | (value >> (bits - 24) & 0x7FFFFF)


@compiled
def _code_chunk(s, buffer, contexts, chunk, left, palette, size, start, columns, filled, leaning, expected):
    """Code which words are not +0, and their values. filled, leaning, expected: statistics of the columns so far."""
    reads = s[READS]
    mean = left * UNIT // len(chunk)
    density = 0
    while left << density < len(chunk) and density < DENSITIES - 1:
        density += 1
    places = PLACES + density * BUCKETS * BUCKETS
    fresh = min(max(left * ONE // len(chunk), ONE >> 10), ONE - (ONE >> 10)) << 10 | 6
    height = 0
    while size - 1 >> height:
        height += 1
    levels = LEVELS + 3 * (1 << TREE) * max(height - 1, 0)
    column = start % columns
    row_filled, row_expected, row_leaning, agreed = 0, 0, 0, 0
    before = 0
    of_column = FULLNESS[expected[0] // QUARTER]
    of_row = FULLNESS[0]
    for i in range(len(chunk)):
        if left == 0:
            break
        fullness = of_row[row_filled] * BUCKETS + of_column[filled[column]]
        there = 1 if chunk[i] else 0
        if left < len(chunk) - i:
            if contexts[places + fullness] & SEEN == 0:
                contexts[places + fullness] = fresh
            there = code(s, buffer, contexts, places + fullness, there)
        else:
            there = 1
        if there:
            left -= 1
            row_filled += 1
            filled[column] = min(filled[column] + 1, WINDOW)
            word = np.int64(chunk[i])
            level = 0
            if not reads:
                level = int(np.searchsorted(palette[:size], word & 0x7FFFFFFF))
            if height:
                level = code_tree(s, buffer, contexts, levels + (before << TREE), level, height)
                before = 1 + (level << 1 >> height & 1)
                level = min(level, size - 1)
            lean = leaning[column]
            at = SIGNS + ((row_leaning + 2) * 5 + lean + 2) * 3 + agreed + 1
            sign = code(s, buffer, contexts, at, word >> 31)
            toward = 1 - 2 * sign
            agreed = 0 if lean == 0 else 1 if lean * toward > 0 else -1
            row_leaning = min(max(row_leaning + toward, -2), 2)
            leaning[column] = min(max(lean + toward, -2), 2)
            chunk[i] = sign << 31 | palette[level]
        column += 1
        row_expected += mean
        if row_filled >= WINDOW or row_expected >= WINDOW * UNIT:
            row_filled, row_expected = row_filled >> 1, row_expected >> 1
        of_row = FULLNESS[row_expected // QUARTER]
        if column == columns:
            column = 0
            row_filled, row_expected, row_leaning, agreed = 0, 0, 0, 0
            of_row = FULLNESS[0]
            _expect(expected, mean, filled)
            of_column = FULLNESS[expected[0] // QUARTER]
    else:
        return
    rows = (column + len(chunk) - i) // columns  # of the words that need no code
    _expect(expected, rows * mean, filled)


@compiled
def _expect(expected, more, filled):
    """Add to every column's expected count; counts that grow too large are halved."""
    expected[0] += more
    while expected[0] >= WINDOW * UNIT:
        expected[0] >>= 1
        for column in range(len(filled)):
            filled[column] >>= 1


@compiled
def _described(chunk, palette):
    """Code how many words are not +0, and the kind and size of their palette."""
    count, size, last = 0, 0, np.int64(-1)
    for i in range(len(chunk)):
        word = np.int64(chunk[i])
        if word == 0:
            continue
        count += 1
        word &= 0x7FFFFFFF
        if word == last or size > PALETTE:
            continue
        last = word
        at = np.searchsorted(palette[:size], word)
        if at < size and palette[at] == word:
            continue
        if size == PALETTE:
            size += 1
            continue
        for j in range(size, at, -1):
            palette[j] = palette[j - 1]
        palette[at] = word
        size += 1
    if size > PALETTE:
        return count, WORDS, 0
    step, steps = _step(palette, size)
    if steps == 0 or not _is_shorter(count, size, steps):
        return count, LISTED, size
    palette[1] = step
    return count, STEPS, steps


@compiled
def _is_shorter(count, size, steps):
    """Whether coding steps costs less than listing `size` magnitudes of about 10 bits each."""
    listed, stepped = 0, 0
    while size - 1 >> listed:
        listed += 1
    while steps - 1 >> stepped:
        stepped += 1
    return count * stepped + 10 < count * listed + 10 * (size - 1)


@compiled
def _step(palette, size):
    """The largest step from the first magnitude that reaches all others, and the number of steps to the last, inclusive; 0 for none."""
    unit, most = palette[0] >> 23, palette[size - 1] >> 23
    if size < 2 or unit == 0 or most == 255 or most - unit > 24:
        return 0, 0
    first, common, apart = _mantissa(palette[0]), 0, 0
    for i in range(1, size):
        apart = (_mantissa(palette[i]) << (palette[i] >> 23) - unit) - first
        rest = apart
        while rest:
            common, rest = rest, common % rest
    even = (first | common) & -(first | common)
    if apart // common >= PALETTE or (first + apart) // even >> 24:  # or one between would not be exact
        return 0, 0
    step = _word(common, unit)
    return step, (apart // common + 1 if step else 0)
