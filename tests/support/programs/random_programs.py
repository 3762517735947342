"""Programs over the whole operator table, made from a seed: operands of every form, and words that arithmetic dislikes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from repops.builder import Builder, View
from repops.graph import (
    BATCH_ROLE,
    F32,
    I32,
    OPTIMIZER,
    PARAMETER,
    STATE_ROLE,
    Graph,
    Node,
    Operand,
    Shape,
    StateEntry,
    contiguous,
    needed,
)
from repops.operators import TABLE, Operator, domain

Array = npt.NDArray[np.float32] | npt.NDArray[np.int32]
Source = Callable[[str, Shape], View]  # an operand of this dtype over this domain

SOURCES = ("input", "scalar", "constant", "iota")
COMPUTED = tuple(name for name in TABLE if name not in SOURCES)

# NaNs with a sign and a payload among them: what is visible of a NaN must not depend on them.
FLOATS = np.array(
    [
        *(0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001),
        *(1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3FC00000),
        *(0x42B17217, 0x42B17218, 0xC2AE0000, 0xC2AE0001, 0x4B000000, 0x4AFFFFFF, 0x4F000000, 0xCF000000, 0x49800000),
    ],
    np.uint32,
)
INTEGERS = np.array(
    [0x80000000, 0x80000001, 0x7FFFFFFF, 0xFFFFFFFF, 0, 1, 31, 32, 33, 0x01000001, 0x7FC00000], np.uint32
)


def words(rng: np.random.Generator, dtype: str, shape: Shape) -> Array:
    """Ordinary values, small ones that compare equal or index something, any bits, and edges."""
    count = math.prod(shape)
    small = rng.integers(-3, 8, count)
    if dtype == F32:
        ordinary = rng.standard_normal(count).astype(np.float32).view(np.uint32)
        little, edges = small.astype(np.float32).view(np.uint32), FLOATS
    else:
        ordinary = little = small.astype(np.int32).view(np.uint32)
        edges = INTEGERS
    kinds = [ordinary, little, rng.integers(0, 1 << 32, count, np.uint32), rng.choice(edges, count)]
    out = np.choose(rng.choice(4, count, p=[0.5, 0.2, 0.15, 0.15]), kinds)
    return out.astype(np.uint32).view(np.float32 if dtype == F32 else np.int32).reshape(shape)


# --- one operator, each operand of one form


class Inputs:
    """Operands that are views of batch inputs of their own."""

    def __init__(self, builder: Builder, form: str) -> None:
        self.builder, self.form = builder, form
        self.batch: list[tuple[str, View]] = []

    def __call__(self, dtype: str, shape: Shape) -> View:
        return FORMS[self.form](lambda base: self._input(dtype, base), shape)

    def _input(self, dtype: str, shape: Shape) -> View:
        view = self.builder.input(dtype, shape, BATCH_ROLE, len(self.batch))
        self.batch.append((f"x{len(self.batch)}", view))
        return view


def _sliced(new: Callable[[Shape], View], shape: Shape) -> View:
    view = new(tuple(2 * extent + 1 for extent in shape))
    for axis, extent in enumerate(shape):
        view = view.slice(axis, 1, 1 + 2 * extent, 2)
    return view


def _flipped(new: Callable[[Shape], View], shape: Shape) -> View:
    view = new(shape)
    for axis in range(len(shape)):
        view = view.flip(axis)
    return view


def _windows(new: Callable[[Shape], View], shape: Shape) -> View:
    """The last axis slides along the one before it."""
    if len(shape) < 2 or 0 in shape:
        return new(shape)
    return new((*shape[:-2], shape[-2] + shape[-1] - 1)).window(len(shape) - 2, shape[-1])


FORMS: dict[str, Callable[[Callable[[Shape], View], Shape], View]] = {
    "whole": lambda new, shape: new(shape),
    "scalar": lambda new, shape: new(()).expand(shape),
    "broadcast": lambda new, shape: new(tuple(1 if at % 2 else n for at, n in enumerate(shape))).expand(shape),
    "transposed": lambda new, shape: new(shape[::-1]).permute(range(len(shape))[::-1]),
    "sliced": _sliced,
    "flipped": _flipped,
    "windows": _windows,
}


def program_of(op: str, form: str, cases: Sequence[tuple[Shape, Shape]]) -> Graph:
    """A node of one operator for each case (shape, reduced) that it admits and each dtype; each becomes a state entry."""
    builder, row = Builder(), TABLE[op]
    source, state = Inputs(builder, form), []
    for shape, reduced in cases:
        if "axis" in row.attributes and not shape:
            continue
        for dtype in (F32, I32) if row.result == "w" else (F32,):
            value = compute(builder, op, dtype, shape, reduced, source, axis=max(0, len(shape) - 1))
            before = builder.input(value.dtype, value.shape, STATE_ROLE, len(state))
            state.append((f"y{len(state):02}", PARAMETER, before, value))
    return builder.finish(state, source.batch, builder.scalar(0.0, F32))


def compute(builder: Builder, op: str, dtype: str, shape: Shape, reduced: Shape, source: Source, axis: int) -> View:
    """A node of any computed operator, its operands from `source`. reduced: ignored where the operator says."""
    row = TABLE[op]
    dtype = {"f": F32, "i": I32}.get(row.result, dtype)
    attributes = (axis,) if "axis" in row.attributes else ()
    if op == "take":
        reduced = reduced[-1:]
    elif op == "rank":
        reduced = (shape[axis],)
    count = len(row.operands)
    if op == "concat":
        extents = (shape[axis] // 2, 0, shape[axis] - shape[axis] // 2)
        attributes, count = (axis, *extents), len(extents)
    bare = Node(op, dtype, shape, reduced if row.reduces else (), (), attributes)
    views = [_operand(bare, row, at, source) for at in range(count)]
    operands = tuple(Operand(view.node, view.offset, view.strides) for view in views)
    builder.nodes.append(replace(bare, operands=operands))
    return View(len(builder.nodes) - 1, dtype, shape, 0, contiguous(shape))


def _operand(bare: Node, row: Operator, at: int, source: Source) -> View:
    letter = row.operands[min(at, len(row.operands) - 1)] if row.operands != "w*" else "w"
    kind, shape = {"f": F32, "i": I32, "w": bare.dtype}[letter], domain(bare, at)
    if row.name in ("scatter", "scatter_add") and at:
        # What is scattered is the same for every row it could hit.
        axis = bare.attributes[0]
        return source(kind, (*shape[:axis], *shape[axis + 1 :])).unsqueeze(axis).expand(shape)
    return source(kind, shape)


# --- many operators, operands anywhere in earlier nodes


@dataclass
class Writer:
    """Writes one random program."""

    rng: np.random.Generator
    builder: Builder
    known: list[View]  # whole values, at least one of each dtype that is not empty
    empty: float = 0.05  # how often a shape, or what is reduced, has an axis without elements

    def view(self, dtype: str, shape: Shape) -> View:
        """Any strides that stay inside an earlier node."""
        rng = self.rng
        fitting = [v for v in self.known if v.dtype == dtype and (v.elements or 0 in shape)]
        if 0 in shape and rng.random() < self.empty:
            fitting = [v for v in fitting if not v.elements] or fitting
        source = fitting[-1 - int(min(rng.exponential(4), len(fitting) - 1))]
        rank = len(shape)
        choices = [contiguous(shape), rng.permutation(contiguous(shape)), rng.integers(-3, 4, rank), np.zeros(rank)]
        strides = [int(s) for s in choices[rng.choice(4, p=[0.4, 0.2, 0.3, 0.1])]]
        strides = [s * int(rng.choice([1, 1, 1, -1])) if rng.random() > 0.15 else 0 for s in strides]
        reach = lambda: [(max(n, 1) - 1) * s for n, s in zip(shape, strides, strict=True)]  # noqa: E731
        while sum(map(abs, reach())) > max(source.elements - 1, 0):
            strides[int(np.argmax(np.abs(reach())))] = 0
        low = -sum(min(r, 0) for r in reach())
        high = max(source.elements - 1, 0) - sum(max(r, 0) for r in reach())
        return View(source.node, dtype, shape, int(rng.integers(low, max(low, high) + 1)), tuple(strides))

    def shape(self, most: int) -> Shape:
        extents = self.rng.choice(
            [1, 2, 3, 4, 5, 7, 17], self.rng.integers(0, 4), p=[0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1]
        )
        shape = tuple(int(n) for n in extents)
        while math.prod(shape) > most:
            shape = shape[1:]
        if not shape or self.rng.random() >= self.empty:
            return shape
        axis = int(self.rng.integers(len(shape)))
        return (*shape[:axis], 0, *shape[axis + 1 :])

    def node(self, op: str) -> None:
        rng, row = self.rng, TABLE[op]
        shape = self.shape(40)
        if "axis" in row.attributes and not shape:
            shape = (int(rng.integers(1, 6)),)
        reduced = self.shape(40) or (int(rng.choice([1, 3, 33, 65])),)
        if op in ("dot", "sum") and rng.random() < 0.25:
            shape, reduced = shape[:1], (int(rng.choice([255, 256, 257, 530])),)
        dtype, axis = str(rng.choice([F32, I32])), int(rng.integers(0, max(1, len(shape))))
        self.known.append(compute(self.builder, op, dtype, shape, reduced, self.view, axis))


def random_program(seed: int, nodes: int = 14, *, empty: float = 0.05) -> Graph:
    """A valid graph; every operator is as likely as any other. Nobody needs some of its nodes: see `pruned`.

    empty: how likely a shape is to have no elements.
    """
    rng = np.random.default_rng(seed)
    builder = Builder()
    shapes = [(6, 7), (40,), (5,), (3, 0)]
    batch = [
        (f"{d}{s}", builder.input(d, s, BATCH_ROLE, at))
        for at, (d, s) in enumerate((d, s) for d in (F32, I32) for s in shapes)
    ]
    inputs = [
        builder.input(d, s, STATE_ROLE, at)
        for at, (d, s) in enumerate([(F32, (4, 3)), (F32, (4, 3)), (I32, (9,)), (F32, ())])
    ]
    table = builder.constant(words(rng, F32, (3, 11)))
    writer = Writer(
        rng, builder, [*(view for _, view in batch), *inputs, table, builder.iota(13), builder.scalar(1.5, F32)], empty
    )
    for op in rng.choice(COMPUTED, nodes):
        writer.node(str(op))
    state = []
    for at, before in enumerate(inputs):
        after = builder.own(writer.view(before.dtype, before.shape))
        if at < 2 and rng.random() < 0.3:
            after = inputs[1 - at]  # one entry becomes what another was
        state.append(StateEntry(f"s{at}", (PARAMETER, OPTIMIZER)[at % 2], before.node, after.node))
    loss = builder.own(writer.view(F32, ())).node
    # Not `builder.finish`, which drops what neither the state nor the loss needs.
    named = tuple((name, view.node) for name, view in batch)
    return Graph(tuple(builder.nodes), tuple(state), named, loss, builder.constants)


def pruned(graph: Graph) -> Graph:
    """The program without the nodes that neither the state nor the loss needs, as a job's program has to be."""
    wanted = needed(graph.nodes, (graph.loss, *(entry.after for entry in graph.state)))
    kept = [at for at, node in enumerate(graph.nodes) if wanted[at] or node.op == "input"]
    number = {at: place for place, at in enumerate(kept)}
    nodes = [
        replace(n, operands=tuple(replace(o, node=number[o.node]) for o in n.operands))
        for n in (graph.nodes[at] for at in kept)
    ]
    state = tuple(replace(e, before=number[e.before], after=number[e.after]) for e in graph.state)
    batch = tuple((name, number[at]) for name, at in graph.batch)
    constants = {number[at]: data for at, data in graph.constants.items() if at in number}
    return Graph(tuple(nodes), state, batch, number[graph.loss], constants)


def fill(rng: np.random.Generator, graph: Graph) -> tuple[dict[str, Array], dict[str, Array]]:
    """State and batch of a program."""
    state = {e.name: words(rng, graph.nodes[e.before].dtype, graph.nodes[e.before].shape) for e in graph.state}
    return state, {name: words(rng, graph.nodes[at].dtype, graph.nodes[at].shape) for name, at in graph.batch}
