# mypy: disable-error-code="no-untyped-def,call-arg"
"""The operators without a recipe: dot, sum, rank, take and scatter, on packed operands.

Words are uint32 except where floats are added. Each kernel computes elements (or rows) `first` to `last`, so threads can
share the work; the order of additions in an element is always the table's. Inner loops run from 0 over slices: numba
checks any other index for a negative sign, and LLVM would not vectorise.
"""

from __future__ import annotations

import numpy as np
from numba import uint32

from repops import recipes
from repops.fallback.primitives import apply, fused, register
from repops.fallback.recipe_kernels import compiled
from repops.operators import BLOCK, LANES

TILE = 256  # columns done at once: BLOCK terms of them fit a second-level cache
ZERO = np.float32(0)


@compiled
def _chain(x, b, left, right, acc):
    """acc[j] = the chain of fma(x[k], b[k, left + j], .) from +0; four terms a pass over the accumulators."""
    width, terms = right - left, len(x)
    for j in range(width):
        acc[j] = ZERO
    whole = terms // 4 * 4
    for k in range(0, whole, 4):
        b0, b1, b2, b3 = b[k][left:right], b[k + 1][left:right], b[k + 2][left:right], b[k + 3][left:right]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        for j in range(width):
            acc[j] = fused(x3, b3[j], fused(x2, b2[j], fused(x1, b1[j], fused(x0, b0[j], acc[j]))))
    for k in range(whole, terms):
        line = b[k][left:right]
        for j in range(width):
            acc[j] = fused(x[k], line[j], acc[j])


@compiled
def dot(first, last, out, a, b, rows):
    """out (batch * rows, columns) of a (batch * rows, terms) and b (batch, terms, columns), all float32."""
    acc = np.empty(TILE, np.float32)
    columns = out.shape[1]
    for left in range(0, columns, TILE):
        right = min(left + TILE, columns)
        for start in range(0, a.shape[1], BLOCK):
            stop = min(start + BLOCK, a.shape[1])
            for row in range(first, last):
                _chain(a[row][start:stop], b[row // rows][start:stop], left, right, acc)
                line = out[row][left:right]
                for j in range(right - left):
                    line[j] = acc[j] if start == 0 else line[j] + acc[j]


@compiled
def lane_sum(first, last, out, x):
    """out (elements) of x (elements, terms), float32: LANES strided chains, joined by a tree."""
    lanes = np.empty(LANES, np.float32)
    terms = x.shape[1]
    whole = terms // LANES * LANES
    for i in range(first, last):
        lanes[:] = ZERO
        for k in range(0, whole, LANES):
            line = x[i][k : k + LANES]
            for lane in range(LANES):
                lanes[lane] += line[lane]
        for lane in range(terms - whole):
            lanes[lane] += x[i, whole + lane]
        half = LANES // 2
        while half:
            for lane in range(half):
                lanes[lane] += lanes[lane + half]
            half //= 2
        out[i] = lanes[0]


RANK_TERM = register(recipes.rank_term)


@compiled
def rank(first, last, out, own, rivals, base, stride, places, count):
    """Words. base: where each element's rivals start in the flat `rivals`. places: coordinates along the axis."""
    for i in range(first, last):
        ahead = uint32(0)
        for k in range(count):
            rival = rivals[base[i] + k * stride]
            ahead = apply(RANK_TERM, (ahead, own[i], rival, uint32(k < places[i])))
        out[i] = ahead


@compiled
def take(first, last, out, source, base, stride, index, count):
    """Words. base: where each element's row starts in the flat `source`. index: int32."""
    for i in range(first, last):
        at = index[i]
        out[i] = source[base[i] + at * stride] if 0 <= at < count else uint32(0)


@compiled
def scatter(first, last, out, index, terms):
    """Words. out (extent, places) takes terms (R, places) at rows index (R, places), int32; places first to last."""
    for r in range(index.shape[0]):
        for p in range(first, last):
            at = index[r, p]
            if 0 <= at < out.shape[0]:
                out[at, p] = terms[r, p]


@compiled
def scatter_add(first, last, out, index, terms):
    """As `scatter`, float32s, added."""
    for r in range(index.shape[0]):
        for p in range(first, last):
            at = index[r, p]
            if 0 <= at < out.shape[0]:
                out[at, p] += terms[r, p]
