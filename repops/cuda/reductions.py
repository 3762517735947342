"""Kernels for reductions and for scatter; `dot` has its own module."""

from __future__ import annotations

import math

from repops import recipes
from repops.cuda.maps import Home, copy_kernel
from repops.cuda.source import (
    NAME,
    THREADS,
    Domain,
    Kernel,
    blocks_for,
    constants,
    each_element,
    index_function,
    join_function,
    kernel_text,
    reads,
    write_recipe,
)
from repops.graph import Node, contiguous
from repops.operators import LANES, TABLE, terms
from repops.recipes import primitive

MAX_LINKED = 1 << 16  # terms; finding the next of a row takes time with their square
ANY_ORDER = ("isum", "reduce_max", "reduce_imax")


def fold_kernel(node: Node, at: int, home: Home) -> Kernel:
    """sum and sum_sequential in their own order; others, whose order does not matter, in lanes if they have enough terms."""
    row, (operand,) = TABLE[node.op], node.operands
    cut, in_lanes = len(node.shape), node.op == "sum" or (node.op in ANY_ORDER and terms(node) >= LANES)
    chain = -(-terms(node) // LANES) if in_lanes else terms(node)
    struct = " ".join(
        [
            f"struct {NAME}_is {{",
            constants(OUTPUTS=node.elements, TERMS=terms(node), START=row.start or 0, BATCH=64 if chain >= 64 else 8),
            index_function("place", node.shape, operand.strides[:cut], operand.offset),
            index_function("term", node.reduced, operand.strides[cut:]),
            join_function(row.recipe or primitive("add")),
            "};",
        ]
    )
    # Few outputs with long chains: small blocks spread over more processors.
    threads = THREADS if in_lanes else 32
    how = "fold_in_lanes" if in_lanes else "fold_in_order"
    text = kernel_text([*reads(1), "u32* q"], [f"{how}<{NAME}_is>(p0, q);"], threads=threads, before=struct)
    blocks = blocks_for(node.elements, threads // LANES if in_lanes else threads)
    return Kernel(text, blocks, threads, (home(operand.node), home(at)))


def rank_kernel(node: Node, at: int, home: Home) -> Kernel:
    """One thread per element, which visits its rivals in order."""
    own, rival = node.operands
    axis = node.attributes[0]
    along = tuple(int(a == axis) for a in range(len(node.shape)))
    walked = Domain(node.shape, [own.strides, rival.strides[:-1], along])
    steps, result = write_recipe(recipes.rank_term, ["count", "own", "rival", "earlier"], "t")
    lines = [
        *each_element(node.elements),
        *walked.coordinates("i"),
        f"const u32 own = p0[{walked.index(0, own.offset)}], place = (u32)({walked.index(2)});",
        f"const u32* rivals = p1 + {walked.index(1, rival.offset)};",
        "u32 count = 0u;",
        f"for (u32 k = 0u; k < {terms(node)}u; ++k) {{",
        f"    const u32 rival = rivals[(int)k * {rival.strides[-1]}], earlier = k < place;",
        *(f"    {step}" for step in steps),
        f"    count = {result};",
        "}",
        "q[i] = count;",
    ]
    text = kernel_text([*reads(2), "u32* q"], lines)
    return Kernel(text, blocks_for(node.elements), THREADS, (home(own.node), home(rival.node), home(at)))


def scatter_kernels(node: Node, at: int, home: Home) -> tuple[list[Kernel], list[int]]:
    """The kernels, and the words of scratch -1. See scatter.cuh."""
    base, index, value = node.operands
    count, cut = terms(node), len(node.shape)
    first = copy_kernel(node.shape, base, home(base.node), home(at))
    columns = node.elements // max(1, node.shape[node.attributes[0]])
    if not count:
        return [first], []
    struct, operands = _scatter_struct(node, columns), (home(index.node), home(value.node))
    is_shared = not any(index.strides[:cut])
    if not is_shared or count > MAX_LINKED or count * columns >= 1 << 31:
        text = kernel_text([*reads(2), "u32* q"], [f"walk_column<{NAME}_is>(p0, p1, q);"], threads=64, before=struct)
        return [first, Kernel(text, blocks_for(columns, 64), 64, (*operands, home(at)))], []
    link = kernel_text([*reads(1), "u32* q"], [f"link_terms<{NAME}_is>(p0, q);"], threads=64, before=struct)
    follow = kernel_text([*reads(3), "u32* q"], [f"follow_links<{NAME}_is>(p0, p1, p2, q);"], before=struct)
    return [
        first,
        Kernel(link, blocks_for(count, 64), 64, (home(index.node), -1)),
        Kernel(follow, blocks_for(count * columns), THREADS, (*operands, -1, home(at))),
    ], [2 * count]


def _scatter_struct(node: Node, columns: int) -> str:
    axis, cut = node.attributes[0], len(node.shape)
    _, index, value = node.operands
    rest = [a for a in range(cut) if a != axis]
    shape, own = tuple(node.shape[a] for a in rest), contiguous(node.shape)
    join = primitive("add") if node.op == "scatter_add" else recipes.recipe(2)(lambda w, carried, word: word)
    return " ".join(
        [
            f"struct {NAME}_is {{",
            constants(TERMS=terms(node), ROWS=node.shape[axis], COLUMNS=columns),
            f"static constexpr int STRIDE = {math.prod(node.shape[axis + 1 :])};",
            index_function("column", shape, tuple(own[a] for a in rest)),
            index_function("index_column", shape, tuple(index.strides[a] for a in rest), index.offset),
            index_function("index_term", node.reduced, index.strides[cut:]),
            index_function("value_column", shape, tuple(value.strides[a] for a in rest), value.offset),
            index_function("value_term", node.reduced, value.strides[cut:]),
            join_function(join),
            "};",
        ]
    )
