# mypy: disable-error-code="no-untyped-def,call-arg"
"""The words of all parts of one element, by numba: what `repops.reference.results` gives, for long reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from numba import uint32

from repops.fallback.kernels import RANK_TERM
from repops.fallback.primitives import apply, fused, register
from repops.fallback.recipe_kernels import compiled
from repops.float_mode import check_float_mode
from repops.graph import F32, Node, coordinates
from repops.operators import BLOCK, LANES, TABLE, terms
from repops.parts import JOINED, LaneParts, blocks_per_part, part, part_count, terms_per_part
from repops.recipes import Recipe
from repops.words import NAN

WordArray = npt.NDArray[np.uint32]
ZERO = np.float32(0)


@cache
def _fold_kernel(recipe: Recipe) -> Callable[..., None]:
    number = register(recipe)

    @compiled
    def fold(out, x, size):
        carried, at = out[0], 0
        for k in range(len(x)):
            carried = apply(number, (carried, x[k]))
            if k % size == size - 1 or k == len(x) - 1:
                at += 1
                out[at] = carried

    kernel: Callable[..., None] = fold
    return kernel


@compiled
def _sum_of_lanes(out, x, size, places):
    """places: of each lane's first part."""
    lanes, left = np.zeros(LANES, np.float32), places.copy()
    for k in range(len(x)):
        lane, turn = k % LANES, k // LANES
        lanes[lane] += x[k]
        if turn % size == size - 1 or k + LANES >= len(x):
            out[left[lane]] = lanes[lane]
            left[lane] += 1


@compiled
def _dot_product(out, a, b, size, joined):
    at, blocks, each = 0, -(-len(a) // BLOCK), BLOCK // size
    for start in range(0, len(a), BLOCK):
        stop, acc = min(start + BLOCK, len(a)), ZERO
        for k in range(start, stop):
            acc = fused(a[k], b[k], acc)
            if (k - start) % size == size - 1 or k == stop - 1:
                at += 1
                out[at] = acc
    chains, total = at, out[min(each, at)]
    for block in range(1, blocks):
        total += out[min((block + 1) * each, chains)]
        if block % joined == 0 or block == blocks - 1:
            at += 1
            out[at] = total


@compiled
def _rank_terms(out, own, rivals, place, size):
    ahead, at = uint32(0), 0
    for k in range(len(rivals)):
        ahead = apply(RANK_TERM, (ahead, own, rivals[k], uint32(k < place)))
        if k % size == size - 1 or k == len(rivals) - 1:
            at += 1
            out[at] = ahead


@compiled
def _replace(out, index, x, row, size):
    carried, at = out[0], 0
    for k in range(len(x)):
        if index[k] == row:
            carried = x[k]
        if k % size == size - 1 or k == len(x) - 1:
            at += 1
            out[at] = carried


@compiled
def _add(out, index, x, row, size):
    carried, at = out[0], 0
    for k in range(len(x)):
        if index[k] == row:
            carried += x[k]
        if k % size == size - 1 or k == len(x) - 1:
            at += 1
            out[at] = carried


def results(node: Node, element: int, operands: Sequence[WordArray]) -> WordArray:
    """The word of each part of element `element` (row-major); the last is the element's.

    operands: for each operand the words of its source, row-major, with canonical NaNs. Raises SubnormalsFlushed.
    """
    check_float_mode()
    first = part(node, element, 0, lambda operand, index: int(operands[operand][index]))
    out = np.empty(part_count(node), np.uint32)
    out[0] = first.recipe.run(*(int(operands[operand][index]) for operand, index in first.reads))
    if len(out) > 1:
        _fill(out, node, element, operands)
    return out


def _fill(out: WordArray, node: Node, element: int, operands: Sequence[WordArray]) -> None:
    row, place = TABLE[node.op], coordinates(node.shape, element)
    along = place[node.attributes[0]] if node.attributes else 0
    if row.is_fold:
        assert row.recipe is not None
        _fold_kernel(row.recipe)(out, _terms(node, 0, place, operands), terms_per_part(node, (0,)))
    elif node.op == "sum":
        _sum(out.view(np.float32), node, _terms(node, 0, place, operands).view(np.float32))
    elif node.op == "dot":
        a, b = (_terms(node, at, place, operands).view(np.float32) for at in (0, 1))
        size = terms_per_part(node, (0, 1))
        _dot_product(out.view(np.float32), a, b, size, blocks_per_part(size))
    elif node.op == "rank":
        own = part(node, element, 1, lambda *_: 0).reads[0][1]
        rivals = _terms(node, 1, place, operands)
        _rank_terms(out, operands[0][own], rivals, along, terms_per_part(node, (1,)))
    else:
        index, x = (_terms(node, at, place, operands) for at in (1, 2))
        size = terms_per_part(node, (1, 2))
        if node.op == "scatter":
            _replace(out, index, x, along, size)
        else:
            _add(out.view(np.float32), index, x.view(np.float32), along, size)
    if node.dtype == F32 and node.op in ("sum", "sum_sequential", "dot", "scatter_add"):
        out[np.isnan(out.view(np.float32))] = NAN


def _terms(node: Node, at: int, place: Sequence[int], operands: Sequence[WordArray]) -> WordArray:
    """The operand's words for the element's terms, in order."""
    view, cut = node.operands[at], len(node.shape)
    if not terms(node):
        return np.empty(0, np.uint32)
    start = view.offset + sum(stride * x for stride, x in zip(view.strides, place, strict=False))
    source = np.ascontiguousarray(operands[at]).reshape(-1).view(np.uint32)
    strides = [4 * stride for stride in view.strides[cut:]]
    return np.ascontiguousarray(np.ndarray(node.reduced, np.uint32, source, 4 * start, strides)).reshape(-1)


def _sum(out: npt.NDArray[np.float32], node: Node, x: npt.NDArray[np.float32]) -> None:
    lanes = LaneParts.of(node)
    last = [lanes.last(lane) for lane in range(LANES)]
    before = [0, *(max(last[: lane + 1]) for lane in range(LANES - 1))]
    _sum_of_lanes(out, x, lanes.size, np.array(before) + 1)
    apart = LANES // JOINED
    out[0] = 0
    row, at = out[last], 1 + lanes.count
    with np.errstate(invalid="ignore", over="ignore"):
        while len(row) > 1:
            row = row[: len(row) // 2] + row[len(row) // 2 :]
            if len(row) == apart:
                out[at : at + apart] = row
    out[-1] = row[0]
