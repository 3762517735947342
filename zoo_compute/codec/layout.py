"""Constants of the format: the indices of contexts, and the fullness classes of rows and columns."""

from __future__ import annotations

import numpy as np

LEAST_CHUNK, MOST_CHUNK = 16, 4096  # words
LONG = MOST_CHUNK.bit_length()  # bits of a count of words of a chunk
PALETTE = 255
LISTED, STEPS, WORDS = 0, 1, 2  # how a chunk codes its magnitudes

# A context: the probability of a 1 in the upper 22 bits, the number of bits seen in the lower 10.
ONE = 1 << 22
SEEN = (1 << 10) - 1
FRESH = ONE // 2 << 10
LEAST = ONE >> 12
# How far the n-th bit moves its context towards itself, in 1/65536 of the difference.
PACE = np.array([65536 * 2 // (2 * n + 3) for n in range(SEEN + 1)], np.int64)

# Contexts by subject.
BUCKETS = 12  # of fullness
DENSITIES = 14
SAME, KIND, SAME_SIZE, COARSE = 0, 2, 6, 8
FIRST, NEXT, STEP = 10, 28, 46
SIGNS = 64
PLACES = SIGNS + 5 * 5 * 3
LEVELS = PLACES + DENSITIES * BUCKETS * BUCKETS
TREE = 5  # bits of a level that are coded with contexts; lower bits are coded plainly
CONTEXTS = LEVELS + 8 * 3 * (1 << TREE)

# Memory that carries over between chunks and tensors: count, palette size, step, then the palette.
COUNT, SIZE, STEPPED, FIRST_WORD = 0, 1, 2, 3
MEMORY = FIRST_WORD + PALETTE

BAD_COUNT, BAD_PALETTE, OVERFLOWS, BAD_LENGTH = 1, 2, 3, 4  # error codes; 0: no error

UNIT = 4096  # of expected counts
WINDOW = 32  # counts and expected counts are halved when they reach it
QUARTER = UNIT // 4


def _bucket(count: int, quarters: int) -> int:
    """The fullness class of a count against the expected count (in quarters), in steps of 7/5 around 1."""
    over, under, bucket = 20 * (8 * count + 6), 7 * (2 * quarters + 7), 0
    while over > under and bucket < BUCKETS - 1:
        over, under, bucket = over * 5, under * 7, bucket + 1
    return bucket


FULLNESS = np.array([[_bucket(n, q) for n in range(WINDOW + 1)] for q in range(4 * WINDOW)], np.int64)
