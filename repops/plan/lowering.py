"""Lowers one node to items of its own: the fallback of fusion, and the whole plan if nothing is fused."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repops.graph import Node, Operand, contiguous
from repops.operators import TABLE
from repops.plan.access import Axes, axes_of, common
from repops.plan.buffer_placement import BufferPlacement, part_of, whole
from repops.plan.ir import Argument, Group, Instruction, Item, Literal, Memory, Product, Rank, Scatter, Side

NARROW_COLUMNS = 64  # columns below which more axes become columns: an instruction has a cost per row


def items_of(nodes: Sequence[Node], at: int) -> list[Item]:
    """The items that compute node `at` from memory into memory. Nothing for sources and for empty values."""
    node = nodes[at]
    if node.op in ("input", "scalar", "constant") or not node.elements:
        return []
    if node.op == "dot":
        return [product(nodes, at)]
    if node.op == "concat":
        return [part(nodes, at, number) for number in range(len(node.operands)) if node.attributes[1 + number]]
    if node.op in ("scatter", "scatter_add"):
        return _scatter(nodes, at)
    if node.op == "rank":
        return [_rank(node, at)]
    if TABLE[node.op].is_fold or node.op == "sum":
        return [_reduction(nodes, at)]
    return [elementwise(nodes, at)]


def literal(nodes: Sequence[Node], operand: Operand) -> Literal | None:
    source = nodes[operand.node]
    return Literal(source.attributes[0]) if source.op == "scalar" else None


def _pairs(shape: tuple[int, ...], strides: tuple[int, ...]) -> Axes:
    return tuple(zip(shape, strides, strict=True))


def _group(
    nodes: Sequence[Node], at: int, shape: tuple[int, ...], target: tuple[int, tuple[int, ...]], views: list[Operand]
) -> tuple[Group, list[Argument]]:
    """A group over `shape` that writes node `at` at (offset, strides), and the operands as its arguments."""
    offset, strides = target
    extents, joined = common([_pairs(shape, strides), *(_pairs(shape, view.strides) for view in views)])
    cut, columns = len(extents), 1
    while cut and columns < NARROW_COLUMNS:
        cut -= 1
        columns *= extents[cut]

    def place(strides: tuple[int, ...]) -> tuple[Axes, Axes]:
        return axes_of(extents[:cut], strides[:cut]), axes_of(extents[cut:], strides[cut:])

    group = Group(math.prod(extents[:cut]), columns)
    group.stores[at] = Memory(at, offset, *place(joined[0]))
    arguments: list[Argument] = []
    for view, mine in zip(views, joined[1:], strict=True):
        arguments.append(literal(nodes, view) or Memory(view.node, view.offset, *place(mine)))
    return group, arguments


def elementwise(nodes: Sequence[Node], at: int) -> Group:
    """A map, `take` or `iota`."""
    node = nodes[at]
    views, extent, stride = list(node.operands), 0, 0
    if node.op == "take":
        extent, stride = node.reduced[0], node.operands[0].strides[-1]
        views[0] = Operand(views[0].node, views[0].offset, views[0].strides[:-1])
    if node.op == "iota":
        axis = node.attributes[0]
        views = [Operand(at, 0, tuple(int(a == axis) for a in range(len(node.shape))))]
    group, arguments = _group(nodes, at, node.shape, (0, contiguous(node.shape)), views)
    if node.op == "take" and (not extent or isinstance(arguments[0], Literal)):
        # Nothing can be taken from an empty axis; a scalar node's stride 0 repeats it over the extent.
        if not extent:
            return _filled(group, at, 0)
        arguments[0] = Memory(views[0].node, 0, (), ())
    group.instructions.append(Instruction(node.op, at, False, arguments, extent, stride))
    return group


def _filled(group: Group, at: int, word: int) -> Group:
    group.instructions.append(Instruction("copy", at, False, [Literal(word)]))
    return group


def part(nodes: Sequence[Node], at: int, number: int, own: BufferPlacement | None = None) -> Group:
    """Operand `number` of the concat `at`, copied to its place in the whole, which lies at `own`."""
    node, view = nodes[at], nodes[at].operands[number]
    own = own or whole(node, at)
    placed = part_of(node, number, own)
    assert placed is not None
    axes, offset = placed
    axis, *extents = node.attributes
    outer = (*node.shape[:axis], extents[number], *node.shape[axis + 1 :])
    runs: list[tuple[int, int, int]] = []  # (extent, stride in the source, stride in the place)
    for extent, stride, mine in zip(outer, view.strides, axes, strict=True):
        inner = extent
        for run, step in mine:
            inner //= run
            runs.append((run, stride * inner, step))
    shape, strides, steps = (tuple(run[which] for run in runs) for which in range(3))
    source = Operand(view.node, view.offset, strides)
    group, arguments = _group(nodes, own.storage, shape, (offset, steps), [source])
    group.instructions.append(Instruction("copy", own.storage, False, arguments))
    return group


def by_columns(node: Node) -> bool:
    """Whether a fold runs faster down the columns: its terms are far apart and its elements adjacent."""
    if node.op == "sum" or node.elements < 4:
        return False
    if node.op == "sum_sequential":
        return True  # along a row each addition would wait for the one before
    shape = axes_of(node.shape, node.operands[0].strides[: len(node.shape)])
    reduced = axes_of(node.reduced, node.operands[0].strides[len(node.shape) :])
    return bool(shape) and shape[-1][1] == 1 and not (reduced and reduced[-1][1] == 1)


def _reduction(nodes: Sequence[Node], at: int) -> Group:
    node, view = nodes[at], nodes[at].operands[0]
    cut, terms = len(node.shape), math.prod(node.reduced)
    own = axes_of(node.shape, view.strides[:cut])
    over = axes_of(node.reduced, view.strides[cut:])
    if not terms:
        start = TABLE[node.op].start or 0
        group, _ = _group(nodes, at, node.shape, (0, contiguous(node.shape)), [])
        return _filled(group, at, start)
    down = by_columns(node)
    rows, columns = (over, own) if down else (own, over)
    group = Group(terms, node.elements, by_columns=True) if down else Group(node.elements, terms)
    argument = literal(nodes, view) or Memory(view.node, view.offset, rows, columns)
    group.instructions.append(Instruction(node.op, at, False, [argument]))
    whole = axes_of((node.elements,), (1,))
    group.stores[at] = Memory(at, 0, *(((), whole) if down else (whole, ())))
    return group


def product(nodes: Sequence[Node], at: int) -> Product:
    """A dot as a batch of matrix products: each axis of its domain is of the batch, a row, a column or a term."""
    node = nodes[at]
    a, b = node.operands
    out = contiguous(node.shape)
    roles = roles_of(node)
    domain = node.shape + node.reduced
    roles["term"] = list(range(len(node.shape), len(domain)))
    extent = {name: math.prod(domain[axis] for axis in axes) for name, axes in roles.items()}

    def part(strides: tuple[int, ...], *names: str) -> tuple[Axes, ...]:
        return tuple(axes_of([domain[x] for x in roles[n]], [strides[x] for x in roles[n]]) for n in names)

    return Product(
        (extent["batch"], extent["row"], extent["column"], extent["term"]),
        Side(a.node, a.offset, part(a.strides, "batch", "row", "term")),
        Side(b.node, b.offset, part(b.strides, "batch", "term", "column")),
        Side(at, 0, part(out, "batch", "row", "column")),
    )


def roles_of(node: Node) -> dict[str, list[int]]:
    """The role of each axis of a dot's shape: along row axes only `a` moves, along column axes only `b`.

    An axis along which neither moves becomes rows or columns, whichever the product lacks.
    """
    a, b = node.operands
    roles: dict[str, list[int]] = {"batch": [], "row": [], "column": []}
    idle = []
    for axis, extent in enumerate(node.shape):
        if extent > 1:
            in_a, in_b = a.strides[axis] != 0, b.strides[axis] != 0
            if in_a or in_b:
                roles["batch" if in_a and in_b else "row" if in_a else "column"].append(axis)
            else:
                idle.append(axis)
    for axis in idle:
        roles["column" if not roles["column"] else "row"].append(axis)
    for axes in roles.values():
        axes.sort()
    return roles


def _scatter(nodes: Sequence[Node], at: int) -> list[Item]:
    node = nodes[at]
    axis, cut = node.attributes[0], len(node.shape)
    strides = contiguous(node.shape)
    group, arguments = _group(nodes, at, node.shape, (0, strides), [node.operands[0]])
    group.instructions.append(Instruction("copy", at, False, arguments))
    terms = math.prod(node.reduced)
    if not terms:
        return [group]
    _, index, source = node.operands
    others = _without(axis, node.shape)
    views = [_pairs(others, _without(axis, each[:cut])) for each in (strides, index.strides, source.strides)]
    extents, joined = common(views)

    def part(view: Operand, mine: tuple[int, ...]) -> Side:
        return Side(view.node, view.offset, (axes_of(extents, mine), axes_of(node.reduced, view.strides[cut:])))

    item = Scatter(
        math.prod(others), terms, node.shape[axis], strides[axis], node.op == "scatter_add",
        Side(at, 0, (axes_of(extents, joined[0]),)), part(index, joined[1]), part(source, joined[2]),
    )  # fmt: skip
    return [group, item]


def _without(axis: int, values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values[:axis], *values[axis + 1 :])


def _rank(node: Node, at: int) -> Rank:
    axis, cut = node.attributes[0], len(node.shape)
    own, rivals = node.operands
    strides = contiguous(node.shape)
    others = _without(axis, node.shape)

    def part(source: int, offset: int, mine: tuple[int, ...]) -> Side:
        return Side(source, offset, (axes_of(others, _without(axis, mine[:cut])),))

    return Rank(
        math.prod(others), node.shape[axis],
        part(own.node, own.offset, own.strides), part(rivals.node, rivals.offset, rivals.strides), part(at, 0, strides),
        (own.strides[axis], rivals.strides[axis], rivals.strides[-1], strides[axis]),
    )  # fmt: skip
