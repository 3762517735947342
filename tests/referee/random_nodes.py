"""Random nodes of any operator, and words for one part of them. Nodes stand alone: their operands' sources are not made."""

from __future__ import annotations

import numpy as np

from repops.graph import F32, I32, Node, Operand, Shape
from repops.operators import TABLE, domain
from repops.parts import Part, parts
from repops.words import MASK, NAN
from tests.support.programs.random_programs import FLOATS, INTEGERS

COMPUTED = tuple(name for name in TABLE if name not in ("input", "constant"))
EXTENTS = (1, 2, 3, 4, 5, 7, 17)
TERMS = (0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 530, 1100)
INNER = (1, 2, 3, 4, 8, 16, 17, 31, 32, 33, 64, 96, 256, 512, 2048)
STRIDES = (0, 1, 1, 1, 2, 3, 5, 16, 64, 127, 128, 129, 1000, 100_000)


def random_node(rng: np.random.Generator, op: str) -> Node:
    """A node with at least one element; strides of every sign and size."""
    row = TABLE[op]
    axes = 8 if rng.random() < 0.1 else int(rng.integers(0, 4))
    if op == "scalar":
        return Node(op, F32, (), (), (), (int(rng.integers(0, MASK, endpoint=True)),))
    if "axis" in row.attributes:
        axes = max(axes, 1)
    depth = int(rng.integers(1, 4)) if row.reduces and op not in ("take", "rank") else int(row.reduces)
    shape = tuple(int(n) for n in rng.choice(EXTENTS, min(axes, 8 - depth)))
    axis = int(rng.integers(0, max(1, len(shape))))
    attributes = (axis,) if "axis" in row.attributes else ()
    reduced = _reduced(rng, depth)
    count = len(row.operands)
    if op == "rank":
        reduced = (shape[axis],)
    elif op == "concat":
        count = int(rng.choice((1, 2, 5, 32)))
        extents = rng.multinomial(shape[axis], np.ones(count) / count)
        attributes = (axis, *(int(n) for n in extents))
    bare = Node(op, {"f": F32, "i": I32}.get(row.result, F32), shape, reduced, (), attributes)
    operands = tuple(_view(rng, domain(bare, at)) for at in range(count))
    return Node(op, bare.dtype, shape, reduced, operands, attributes)


def _reduced(rng: np.random.Generator, depth: int) -> Shape:
    if depth < 2:
        return (int(rng.choice(TERMS)),) * depth
    return (*(int(n) for n in rng.choice((1, 2, 3, 0), depth - 1, p=[0.2, 0.4, 0.35, 0.05])), int(rng.choice(INNER)))


def _view(rng: np.random.Generator, shape: Shape) -> Operand:
    """Reads nothing below word 0."""
    strides = tuple(int(s) for s in rng.choice(STRIDES, len(shape)) * rng.choice((1, -1), len(shape), p=[0.7, 0.3]))
    below = -sum(min((n - 1) * s, 0) for n, s in zip(shape, strides, strict=True) if n)
    return Operand(int(rng.integers(0, 1 << 18)), below + int(rng.choice((0, 3, 1 << 30))), strides)


def random_words(rng: np.random.Generator, node: Node, row: int, part: Part) -> list[int]:
    """What it carries and reads: ordinary numbers, few different ones, or any bits and edges; indices that often hit."""
    count = len(part.carried) + len(part.reads)
    kind = rng.choice(("plain", "few", "any"), p=[0.5, 0.2, 0.3])
    if kind == "plain":
        drawn = rng.standard_normal(count).astype(np.float32).view(np.uint32)
    elif kind == "few":
        drawn = rng.choice(np.array([0, 0x80000000, 0x3F800000, 0xBF800000, NAN, 0xFFC00001], np.uint32), count)
    else:
        edges = rng.choice(np.concatenate([FLOATS, INTEGERS]), count)
        drawn = np.where(rng.random(count) < 0.5, edges, rng.integers(0, 1 << 32, count, np.uint32))
    words: list[int] = drawn.tolist()
    if node.op in ("scatter", "scatter_add"):
        for at, (operand, _) in enumerate(part.reads):
            if operand == 1 and rng.random() < 0.9:
                words[len(part.carried) + at] = int(rng.choice((row, row, row + 1, 0, MASK)))
    return words


def index_words(rng: np.random.Generator, node: Node) -> int:
    """A word that a take may read as its index."""
    extent = node.reduced[0]
    return int(rng.choice((0, max(extent - 1, 0), extent, extent // 2, 1 << 31, MASK)))


def whole(node: Node, element: int, index: int) -> list[Part]:
    """All parts of an element; a take reads `index`."""
    return list(parts(node, element, lambda operand, at: index))
