"""Lets products read the source of a copy where strides can express it; most copies then disappear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repops.graph import Node, Operand, contiguous

Piece = tuple[int, int]  # extent, stride in the source


def read_through_copies(nodes: Sequence[Node], needed: Sequence[bool], roots: set[int]) -> list[Node]:
    """The nodes, with dots reading through copies that only dots read. May split axes of a dot; its words stay the same."""
    out = list(nodes)
    users: dict[int, list[int]] = {}
    for at, node in enumerate(nodes):
        if needed[at]:
            for source in {operand.node for operand in node.operands}:
                users.setdefault(source, []).append(at)
    for at, node in enumerate(nodes):
        if node.op != "copy" or not needed[at] or at in roots or not node.elements:
            continue
        readers = users.get(at, [])
        if not all(out[user].op == "dot" for user in readers):
            continue
        changed = [_through(out[user], at, out[at]) for user in readers]
        if all(each is not None for each in changed):
            for user, each in zip(readers, changed, strict=True):
                assert each is not None
                out[user] = each
    return out


def _through(dot: Node, at: int, copy: Node) -> Node | None:
    """The dot reading the copy's source, with batch axes split as the source needs; None if impossible."""
    for number in range(2):
        if dot.operands[number].node == at:
            rewritten = _one(dot, number, copy)
            if rewritten is None:
                return None
            dot = rewritten
    return dot


def _one(dot: Node, number: int, copy: Node) -> Node | None:
    mine, other = dot.operands[number], dot.operands[1 - number]
    domain, cut = dot.shape + dot.reduced, len(dot.shape)
    pieces = _pieces(domain, mine, copy)
    if pieces is None:
        return None
    shape: list[int] = []
    strides: list[int] = []
    others: list[int] = []
    rank = 0
    for axis, (extent, split) in enumerate(zip(domain, pieces, strict=True)):
        # Rows, columns and terms keep one stride each: the kernel reads those fastest.
        if len(split) > 1 and (axis >= cut or not other.strides[axis]):
            return None
        inner = extent
        for size, stride in split:
            inner //= size
            shape.append(size)
            strides.append(stride)
            others.append(other.strides[axis] * inner)
        rank += len(split) if axis < cut else 0
    source = copy.operands[0]
    offset = _offset(mine.offset, copy)
    changed = [Operand(source.node, offset, tuple(strides)), Operand(other.node, other.offset, tuple(others))]
    operands = (changed[0], changed[1]) if number == 0 else (changed[1], changed[0])
    return replace(dot, shape=tuple(shape[:rank]), reduced=tuple(shape[rank:]), operands=operands)


def _offset(offset: int, copy: Node) -> int:
    source, out = copy.operands[0], copy.operands[0].offset
    for extent, step, stride in zip(copy.shape, contiguous(copy.shape), source.strides, strict=True):
        out += offset // step % extent * stride
    return out


def _pieces(domain: Sequence[int], view: Operand, copy: Node) -> list[list[Piece]] | None:
    """For each axis of a view of the copy, its axes in the copy's source."""
    steps, strides = contiguous(copy.shape), copy.operands[0].strides
    reach = [view.offset // step % extent for extent, step in zip(copy.shape, steps, strict=True)]
    out: list[list[Piece]] = []
    for extent, stride in zip(domain, view.strides, strict=True):
        split: list[Piece] = []
        while extent > 1 and stride:
            axis = next((a for a in range(len(steps)) if copy.shape[a] > 1 and 0 < steps[a] <= stride), None)
            if stride < 0 or axis is None or stride % steps[axis]:
                return None
            pace = stride // steps[axis]
            fits = copy.shape[axis] // pace
            if (extent - 1) * pace < copy.shape[axis]:
                fits = extent
            elif copy.shape[axis] % pace or extent % fits:
                return None
            split.insert(0, (fits, pace * strides[axis]))
            reach[axis] += (fits - 1) * pace
            extent, stride = extent // fits, stride * fits
        if extent > 1 or not split:
            split.insert(0, (extent, 0))
        out.append(split)
    # No sum of steps may carry from one axis of the copy into the next.
    return out if all(far < extent for far, extent in zip(reach, copy.shape, strict=True)) else None
