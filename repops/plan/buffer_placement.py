"""Writes values directly where a later copy or concat would put them, so that the copy costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repops.graph import Node, Operand, Shape
from repops.operators import TABLE
from repops.plan.access import Axes, axes_of, join, size, split


@dataclass(frozen=True)
class BufferPlacement:
    """Element i (row-major) of a node lies at word offset + axes(i) of the memory of node `storage`."""

    storage: int
    offset: int
    axes: Axes


def preferred_placements(
    nodes: Sequence[Node], needed: Sequence[bool], users: Mapping[int, list[int]], roots: set[int]
) -> dict[int, BufferPlacement]:
    """The best buffer for each node that exactly one copy or concat reads, each element once."""
    wanted: dict[int, BufferPlacement] = {}
    for at in range(len(nodes) - 1, -1, -1):
        node = nodes[at]
        if not needed[at] or node.op not in ("copy", "concat") or not node.elements:
            continue
        own = wanted.get(at) or whole(node, at)
        for number, operand in enumerate(node.operands):
            source = nodes[operand.node]
            once = len(users[operand.node]) == 1 and sum(o.node == operand.node for o in node.operands) == 1
            if not once or operand.node in roots or not _writes_anywhere(source):
                continue
            place = _through(node, number, operand, source, own)
            if place is not None and _can_be_at(source, place):
                wanted[operand.node] = place
    return wanted


def _writes_anywhere(source: Node) -> bool:
    return TABLE[source.op].is_map or source.op in ("dot", "take", "concat")


def _can_be_at(source: Node, place: BufferPlacement) -> bool:
    """Whether `source` can be written at `place`; a concat can if all of its parts can."""
    return source.op != "concat" or all(part_of(source, n, place) is not None for n in range(len(source.operands)))


def _through(node: Node, number: int, operand: Operand, source: Node, own: BufferPlacement) -> BufferPlacement | None:
    """The place of an operand's elements inside the place of the copy or concat that reads it."""
    part = part_of(node, number, own)
    if part is None or operand.offset:
        return None
    axes, offset = part
    if not all(size(mine) for mine in axes):
        return None
    runs = []  # (extent, stride in the source, stride in the place)
    for stride, mine in zip(operand.strides, axes, strict=True):
        inner = size(mine)
        for extent, step in mine:
            inner //= extent
            runs.append((extent, stride * inner, step))
    runs.sort(key=lambda run: -run[1])
    # Each element of the source is read once if and only if the view's axes, largest stride first, are row-major.
    if join(tuple((extent, stride) for extent, stride, _ in runs)) != axes_of((source.elements,), (1,)):
        return None
    return BufferPlacement(own.storage, offset, join(tuple((extent, step) for extent, _, step in runs)))


def part_of(node: Node, number: int, own: BufferPlacement) -> tuple[list[Axes], int] | None:
    """The place of operand `number` of a copy or concat whose result lies at `own`: axes for each axis, and offset."""
    axes, offset = axes_by_dimension(node.shape, own.axes), own.offset
    if axes is not None and node.op == "concat":
        axis, *extents = node.attributes
        cut = _cut(axes[axis], sum(extents[:number]), extents[number])
        if cut is None:
            return None
        axes[axis], offset = cut[0], offset + cut[1]
    return None if axes is None else (axes, offset)


def whole(node: Node, at: int) -> BufferPlacement:
    """The place of a node that has its own memory."""
    return BufferPlacement(at, 0, axes_of((node.elements,), (1,)))


def _cut(axes: Axes, start: int, extent: int) -> tuple[Axes, int] | None:
    """A slice along one axis, which may be several joined axes: (its axes, its offset), if it cuts only the outermost."""
    if not axes:
        return ((), 0) if not start else None
    inner = size(axes[1:])
    if start % inner or extent % inner:
        return None
    return (((extent // inner, axes[0][1]), *axes[1:]), start // inner * axes[0][1])


def axes_by_dimension(shape: Shape, axes: Axes) -> list[Axes] | None:
    """Split axes along a shape: for each axis of the shape its own axes; None if one crosses a boundary unevenly."""
    out: list[Axes] = []
    left = axes
    for extent in reversed(shape):
        cut = split(left, extent)
        if cut is None:
            return None
        left, inner = cut
        out.append(inner)
    return list(reversed(out))
