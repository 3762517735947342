"""Kernels that compute each element independently: chains of elementwise operators, take, concat, copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from repops.cuda.source import THREADS, Domain, Kernel, blocks_for, each_element, kernel_text, reads, write_recipe
from repops.graph import Graph, Node, Operand, Shape, contiguous
from repops.operators import TABLE, domain

Home = Callable[[int], int]  # the buffer that holds a node's words


def is_whole(node: Node, operand: Operand, source: Node) -> bool:
    """Whether a view is its source as it lies: element i is word i."""
    if operand.offset or source.elements != node.elements:
        return False
    wanted = contiguous(node.shape)
    return all(e == 1 or s == w for e, s, w in zip(node.shape, operand.strides, wanted, strict=True))


def copy_kernel(shape: Shape, operand: Operand, source: int, target: int) -> Kernel:
    """target = the view of source, row-major."""
    size, walked = math.prod(shape), Domain(shape, [operand.strides])
    lines = [*each_element(size), *walked.coordinates("i"), f"q[i] = p0[{walked.index(0, operand.offset)}];"]
    return Kernel(kernel_text([*reads(1), "u32* q"], lines), blocks_for(size), THREADS, (source, target))


class _Pointers:
    """The arguments of one kernel: each buffer once, so that nothing read through one name is written through another."""

    def __init__(self, written: set[int]) -> None:
        self._written, self.buffers = written, list[int]()

    def name(self, buffer: int) -> str:
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        return f"p{self.buffers.index(buffer)}"

    def parameters(self) -> list[str]:
        return [
            f"u32* p{at}" if buffer in self._written else f"const u32* __restrict__ p{at}"
            for at, buffer in enumerate(self.buffers)
        ]


def chain_kernel(graph: Graph, members: Sequence[int], stored: Sequence[int], home: Home) -> Kernel:
    """Elementwise operators of one shape in one pass; a member reads another member at its own place only.

    stored: the members that nodes outside the chain read.
    """
    views = _outside(graph, members)
    walked = Domain(graph.nodes[members[0]].shape, [contiguous(graph.nodes[members[0]].shape), *(v[2] for v in views)])
    pointers = _Pointers({home(at) for at in stored})
    values: dict[int, str] = {}
    loaded: dict[tuple[int, int, tuple[int, ...]], str] = {}
    lines = []
    for number, view in enumerate(views):
        loaded[view] = f"x{number}"
        lines.append(f"const u32 x{number} = {pointers.name(home(view[0]))}[{walked.index(number + 1, view[1])}];")
    for number, at in enumerate(members):
        recipe = TABLE[graph.nodes[at].op].recipe
        assert recipe is not None
        arguments = [_argument(graph, operand, values, loaded) for operand in graph.nodes[at].operands]
        steps, values[at] = write_recipe(recipe, arguments, f"t{number}_")
        lines += steps
    lines += [f"{pointers.name(home(at))}[i] = {values[at]};" for at in stored]
    head = [*each_element(walked.size), *walked.coordinates("i")]
    return Kernel(
        kernel_text(pointers.parameters(), head + lines), blocks_for(walked.size), THREADS, tuple(pointers.buffers)
    )


def _outside(graph: Graph, members: Sequence[int]) -> list[tuple[int, int, tuple[int, ...]]]:
    """(node, offset, strides) of each view that a chain reads from memory."""
    views: dict[tuple[int, int, tuple[int, ...]], None] = {}
    for at in members:
        for operand in graph.nodes[at].operands:
            if operand.node not in members and graph.nodes[operand.node].op != "scalar":
                views[(operand.node, operand.offset, operand.strides)] = None
    return list(views)


def _argument(
    graph: Graph,
    operand: Operand,
    values: Mapping[int, str],
    loaded: Mapping[tuple[int, int, tuple[int, ...]], str],
) -> str:
    source = graph.nodes[operand.node]
    if source.op == "scalar":
        return f"{source.attributes[0]:#010x}u"
    if operand.node in values:
        return values[operand.node]
    return loaded[(operand.node, operand.offset, operand.strides)]


def take_kernel(node: Node, at: int, home: Home) -> Kernel:
    table, index = node.operands
    walked = Domain(node.shape, [contiguous(node.shape), table.strides[:-1], index.strides])
    lines = [
        *each_element(node.elements),
        *walked.coordinates("i"),
        f"const u32 k = p1[{walked.index(2, index.offset)}];",
        f"q[i] = k < {node.reduced[0]}u ? p0[{walked.index(1, table.offset)} + (int)k * {table.strides[-1]}] : 0u;",
    ]
    text = kernel_text([*reads(2), "u32* q"], lines)
    return Kernel(text, blocks_for(node.elements), THREADS, (home(table.node), home(index.node), home(at)))


def concat_kernel(node: Node, at: int, home: Home) -> Kernel:
    """c: how far along the axis, counted from the operand it falls into; o, w: before and behind the axis."""
    axis, *extents = node.attributes
    behind = math.prod(node.shape[axis + 1 :])
    lines = [
        *each_element(node.elements),
        f"const u32 w = i % {behind}u, o = i / {behind}u / {node.shape[axis]}u;",
        f"u32 c = i / {behind}u % {node.shape[axis]}u;",
    ]
    for number, operand in enumerate(node.operands):
        if not extents[number]:
            continue
        walked = Domain(domain(node, number), [operand.strides])
        place = f"(o * {extents[number]}u + c) * {behind}u + w"
        read = " ".join([*walked.coordinates(f"({place})"), f"q[i] = p{number}[{walked.index(0, operand.offset)}];"])
        lines += [f"if (c < {extents[number]}u) {{ {read} return; }}", f"c -= {extents[number]}u;"]
    text = kernel_text([*reads(len(node.operands)), "u32* q"], lines)
    buffers = (*(home(operand.node) for operand in node.operands), home(at))
    return Kernel(text, blocks_for(node.elements), THREADS, buffers)
