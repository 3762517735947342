"""dot as a batched matrix product: which axes are rows, columns and batches, and which kernel suits the sizes.

Matrix products, convolutions and their gradients are all of this form: an operand's index is a sum of what the batch,
the row (or column) and the term contribute, since it is linear in the coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from repops.cuda.maps import Home
from repops.cuda.source import (
    NAME,
    THREADS,
    Domain,
    Kernel,
    Strides,
    blocks_for,
    constants,
    index_function,
    kernel_text,
    reads,
)
from repops.graph import Node, Operand, Shape, contiguous
from repops.operators import BLOCK, terms

TILES = ((128, 128), (64, 64), (32, 64))  # rows, columns
ENOUGH_UNITS = 200  # tiles under way at once that keep a large GPU busy
MAX_SCRATCH = 1 << 26  # words
THIN = 8  # rows or columns up to which a tile would mostly idle


@dataclass(frozen=True)
class Product:
    """axes of the node's shape by what they are; left and right may be the operands in either order: a * b is b * a."""

    batches: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    left: Operand
    right: Operand


def product(node: Node) -> Product:
    """The last axis, where it belongs to one side alone, is among the columns: the output is written along it."""
    a, b = node.operands
    axes = [axis for axis, extent in enumerate(node.shape) if extent > 1]
    of_a = tuple(x for x in axes if a.strides[x] and not b.strides[x])
    of_b = tuple(x for x in axes if b.strides[x] and not a.strides[x])
    both = tuple(x for x in axes if x not in of_a and x not in of_b)
    if axes and axes[-1] in of_a:
        return Product(both, of_b, of_a, b, a)
    return Product(both, of_a, of_b, a, b)


def dot_kernels(node: Node, at: int, home: Home) -> tuple[list[Kernel], list[int]]:
    """The kernels, and the words of scratch -1, where blocks of terms are summed side by side and added up after."""
    contraction = product(node)
    batches, rows, columns = sizes = tuple(
        _size(node, axes) for axes in (contraction.batches, contraction.rows, contraction.columns)
    )
    blocks = max(1, -(-terms(node) // BLOCK))
    splittable = blocks > 1 and blocks * node.elements <= MAX_SCRATCH
    # A tile is written where a block of terms ends: without terms it would never be.
    tile = _tile(rows, columns, batches * (blocks if splittable else 1)) if terms(node) else None
    if tile is None:
        split = splittable and node.elements < ENOUGH_UNITS * THREADS
        threads, count = 64, blocks_for(node.elements * (blocks if split else 1), 64)
        call, resident = f"dot_alone<{NAME}_is>", 1
    else:
        height, width = tile
        units = _units(rows, columns, tile) * batches
        split = splittable and units < ENOUGH_UNITS
        threads, count = height // 32 * (width // 64) * 32, units * (blocks if split else 1)
        call, resident = f"gemm<{NAME}_is, {height}u, {width}u>", 2 if threads == THREADS else 1
    struct = _struct(node, contraction, sizes, split)
    text = kernel_text(
        [*reads(2), "u32* q"], [f"{call}(p0, p1, q);"], threads=threads, resident=resident, before=struct
    )
    target = -1 if split else home(at)
    kernels = [Kernel(text, count, threads, (home(contraction.left.node), home(contraction.right.node), target))]
    if not split:
        return kernels, []
    add = kernel_text([*reads(1), "u32* q"], [f"add_blocks(p0, q, {node.elements}u, {blocks}u);"])
    kernels.append(Kernel(add, blocks_for(node.elements), THREADS, (-1, home(at))))
    return kernels, [blocks * node.elements]


def _size(node: Node, axes: tuple[int, ...]) -> int:
    return math.prod(node.shape[a] for a in axes)


def _units(rows: int, columns: int, tile: tuple[int, int]) -> int:
    return -(-rows // tile[0]) * -(-columns // tile[1])


def _tile(rows: int, columns: int, times: int) -> tuple[int, int] | None:
    """The largest tile that still makes enough units of work; None where tiles do not pay."""
    if rows <= THIN or columns <= THIN:
        return None
    enough = (tile for tile in TILES if _units(rows, columns, tile) * times >= ENOUGH_UNITS)
    return next(enough, TILES[-1])


def _struct(node: Node, contraction: Product, sizes: tuple[int, ...], split: bool) -> str:
    batches, rows, columns = sizes
    own = contiguous(node.shape)
    numbers = constants(BATCHES=batches, ROWS=rows, COLUMNS=columns, TERMS=terms(node), SPLIT=split)
    out = [
        index_function(f"out_{name}", _shape(node, axes), _pick(own, axes))
        for name, axes in (("batch", contraction.batches), ("row", contraction.rows), ("column", contraction.columns))
    ]
    # Where the columns end in a run of a multiple of four words, every other stride of the output is a multiple too.
    last = Domain(_shape(node, contraction.columns), [_pick(own, contraction.columns)])
    vector = bool(last.extents) and last.strides[0][-1] == 1 and last.extents[-1] % 4 == 0
    return "\n".join(
        [
            f"struct {NAME}_is {{",
            numbers,
            *out,
            constants(OUT_VECTOR=vector),
            _side("Left", node, contraction.left, contraction.batches, contraction.rows),
            _side("Right", node, contraction.right, contraction.batches, contraction.columns),
            "};",
        ]
    )


def _side(name: str, node: Node, operand: Operand, batches: tuple[int, ...], lines: tuple[int, ...]) -> str:
    cut = len(node.shape)
    along_terms, vector = _access(node, operand, batches, lines)
    batch = index_function("batch", _shape(node, batches), _pick(operand.strides, batches), operand.offset)
    line = index_function("line", _shape(node, lines), _pick(operand.strides, lines))
    term = index_function("term", node.reduced, operand.strides[cut:])
    return f"struct {name} {{ {constants(ALONG_TERMS=along_terms, VECTOR=vector)} {batch} {line} {term} }};"


def _access(node: Node, operand: Operand, batches: tuple[int, ...], lines: tuple[int, ...]) -> tuple[bool, bool]:
    """Along which of terms and lines neighbouring words lie, and whether they can be read four at a time."""
    by_term = Domain(node.reduced, [operand.strides[len(node.shape) :]])
    by_line = Domain(_shape(node, lines), [_pick(operand.strides, lines)])
    by_batch = Domain(_shape(node, batches), [_pick(operand.strides, batches)])

    def step(walked: Domain) -> int:
        return abs(walked.strides[0][-1]) or 1 << 31 if walked.extents else 1 << 31

    along_terms = step(by_term) <= step(by_line)
    inner, others = (by_term, (by_line, by_batch)) if along_terms else (by_line, (by_term, by_batch))
    if operand.offset % 4 or not inner.extents or inner.strides[0][-1] != 1 or not _in_fours(inner):
        return along_terms, False
    return along_terms, all(stride % 4 == 0 for walked in others for stride in walked.strides[0])


def _in_fours(walked: Domain) -> bool:
    """Whether runs of four along the last axis neither cross its end nor start off a multiple of four."""
    return walked.extents[-1] % 4 == 0 and all(stride % 4 == 0 for stride in walked.strides[0][:-1])


def _shape(node: Node, axes: tuple[int, ...]) -> Shape:
    return tuple(node.shape[a] for a in axes)


def _pick(strides: Strides, axes: tuple[int, ...]) -> Strides:
    return tuple(strides[a] for a in axes)
