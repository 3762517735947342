"""The words of all parts of one element by the native library: what `repops.reference.results` gives, for long reductions."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from repops import native
from repops.graph import MAX_RANK, Node, Operand, coordinates
from repops.operators import LANES, TABLE, terms
from repops.parts import blocks_per_part, part, part_count, terms_per_part
from repops.plan.access import common

I64 = ctypes.c_int64
FOLD, FOLD_FLOATS, SUM, DOT, RANK, REPLACE, ADD = range(7)
WordArray = npt.NDArray[np.uint32]


class Axes(ctypes.Structure):
    """Innermost first."""

    _fields_ = [("base", ctypes.c_void_p), ("count", I64), ("extent", I64 * MAX_RANK), ("stride", I64 * MAX_RANK)]


class Parts(ctypes.Structure):
    """`Parts` of parts.cpp."""

    _fields_ = [
        *((name, I64) for name in ("kind", "code", "terms", "size", "joined", "first", "own", "place")),
        ("operands", Axes * 2), ("out", ctypes.c_void_p),
    ]  # fmt: skip


# For each operator whose elements have several parts: its kind, and the operands that its terms are read from.
_KINDS = {
    **{name: (FOLD, (0,)) for name, row in TABLE.items() if row.is_fold},
    "sum_sequential": (FOLD_FLOATS, (0,)),
    "sum": (SUM, (0,)),
    "dot": (DOT, (0, 1)),
    "rank": (RANK, (1,)),
    "scatter": (REPLACE, (1, 2)),
    "scatter_add": (ADD, (1, 2)),
}


@functools.cache
def _library(isa: str | None) -> ctypes.CDLL:
    library = native.load(isa)
    if not hasattr(library, "repops_parts") or library.repops_parts_size() != ctypes.sizeof(Parts):
        raise native.NoNativeLibrary("the native library is of another version; run `python -m repops.native.build`")
    library.repops_parts.argtypes = [ctypes.c_void_p]
    library.repops_parts.restype = None
    return library


def results(node: Node, element: int, operands: Sequence[WordArray]) -> WordArray:
    """The word of each part of element `element` (row-major); the last is the element's.

    operands: for each operand the words of its source, row-major. Raises ValueError where a view leaves its source,
    NoNativeLibrary.
    """
    first = part(node, element, 0, lambda operand, index: int(operands[operand][index]))
    own = [int(operands[operand][index]) for operand, index in first.reads]
    start = first.recipe.run(*own)
    kind, reads = _KINDS.get(node.op, (None, ()))
    if kind is None:
        return np.array([start], np.uint32)
    place, count = coordinates(node.shape, element), terms(node)
    sources = [np.ascontiguousarray(operands[at]).reshape(-1).view(np.uint32) for at in reads]
    out = np.empty(part_count(node), np.uint32)
    size = terms_per_part(node, reads, LANES if kind == SUM else 1)
    request = Parts(kind, TABLE[node.op].code, count, size, blocks_per_part(size), start)
    if node.attributes:  # the operator's axis
        request.place = place[node.attributes[0]]
    if kind == RANK:
        request.own = int(operands[0][_start(node.operands[0], place)])
    request.operands = _walks(node, place, reads, sources)
    request.out = out.ctypes.data
    _library(os.environ.get("REPOPS_ISA")).repops_parts(ctypes.addressof(request))
    return out


def _start(view: Operand, place: Sequence[int]) -> int:
    """Where in its source an element's terms begin."""
    return view.offset + sum(stride * at for stride, at in zip(view.strides, place, strict=False))


def _walks(node: Node, place: Sequence[int], reads: Sequence[int], sources: Sequence[WordArray]) -> ctypes.Array[Axes]:
    """How each operand's terms lie, with axes joined where all of them allow it."""
    cut, walks = len(node.shape), (Axes * 2)()
    views = [node.operands[at] for at in reads]
    extents, strides = common([tuple(zip(node.reduced, view.strides[cut:], strict=True)) for view in views])
    for walk, view, mine, source in zip(walks, views, strides, sources, strict=False):
        start = _start(view, place)
        reach = [(extent - 1) * stride for extent, stride in zip(extents, mine, strict=True)]
        least, most = start + sum(min(far, 0) for far in reach), start + sum(max(far, 0) for far in reach)
        if terms(node) and not 0 <= least <= most < source.size:
            raise ValueError(f"{node.op}: reads words {least} to {most} of {source.size}")
        walk.base = source.ctypes.data + 4 * start
        walk.count = max(1, len(extents))
        walk.extent[0] = 1
        for at, (extent, stride) in enumerate(zip(reversed(extents), reversed(mine), strict=True)):
            walk.extent[at], walk.stride[at] = extent, stride
    return walks
