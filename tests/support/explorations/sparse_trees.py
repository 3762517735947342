"""Nodes over operands far too large to be made: of their trees only what one part opens, and noise beside it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from eth_utils.crypto import keccak

from repops.encoding import descriptor
from repops.graph import F32, Node, Operand
from repops.parts import Part, parts
from zoo_compute.disputes.evidence import PARTS_OPERAND, WORDS_A_LEAF, TensorTree, part_of
from zoo_compute.disputes.evidence import Part as Evidence
from zoo_compute.spec.frames import Frame, Hashes, Phase, Position, height_of


@dataclass
class SparseTree:
    """A tree in which these leaves are known, and every other node is noise. `leaves`: their hashes by number."""

    head: bytes
    height: int
    data: Mapping[int, bytes]
    leaves: dict[int, bytes] = field(default_factory=dict)
    known: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        level = {at: sha256(b"\0" + data).digest() for at, data in self.data.items()} | self.leaves
        for height in range(self.height + 1):
            self.known |= {(height, at): node for at, node in level.items()}
            pairs = {at >> 1 for at in level}
            level = {at: self._parent(height, at) for at in pairs}

    def _parent(self, height: int, at: int) -> bytes:
        return sha256(b"\1" + self.node(height, 2 * at) + self.node(height, 2 * at + 1)).digest()

    def leaf(self, number: int) -> bytes:
        return self.data[number]

    def node(self, level: int, index: int) -> bytes:
        return self.known.get((level, index)) or sha256(f"{level} {index}".encode()).digest()

    def path(self, number: int) -> Hashes:
        return tuple(self.node(level, number >> level ^ 1) for level in range(self.height))

    @property
    def root(self) -> bytes:
        return self.known[self.height, 0]


def leaf_of(number: int) -> bytes:
    """Ordinary numbers."""
    return struct.pack("<128f", *(1 + ((number * 131 + at * 7919) % 1009) / 1009 for at in range(WORDS_A_LEAF)))


def word_of(number: int) -> int:
    return int(struct.unpack_from("<I", leaf_of(number // WORDS_A_LEAF), 4 * (number % WORDS_A_LEAF))[0])


def numbers(addresses: list[int]) -> set[int]:
    return {at // WORDS_A_LEAF for at in addresses}


def game(
    node: Node, sizes: list[int], element: int, part: Part, number: int, count: int, trace_height: int, lie: int = 0
) -> tuple[Frame, Position, Evidence]:
    """A game about part `number` of `count` of an element. sizes: words of each operand's source."""
    opened: dict[int, SparseTree] = {}
    for at in sorted({operand for operand, _ in part.reads}):
        mine = numbers([index for operand, index in part.reads if operand == at])
        height = height_of(-(-sizes[at] // WORDS_A_LEAF))
        opened[at] = SparseTree(b"\0\1" + sizes[at].to_bytes(8, "little"), height, {n: leaf_of(n) for n in mine})
    traced = {
        node.operands[at].node: sha256(
            b"\x08" + node.operands[at].node.to_bytes(4, "little") + sha256(b"\2" + tree.head + tree.root).digest()
        ).digest()
        for at, tree in opened.items()
    }
    trace = SparseTree(b"", trace_height, {}, traced or {0: bytes(32)})
    trees: dict[int, tuple[TensorTree, Hashes]] = {
        at: (tree, trace.path(node.operands[at].node)) for at, tree in opened.items()
    }
    words = [word_of(at) for at in part.carried] + [word_of(at) for _, at in part.reads]
    word = (part.recipe.run(*words) ^ lie).to_bytes(4, "little")
    at, index = number if count > 1 else element, (number if count > 1 else element) % WORDS_A_LEAF
    leaf = leaf_of(at // WORDS_A_LEAF)
    leaf = leaf[: 4 * index] + word + leaf[4 * index + 4 :]
    parts_root = bytes(32)
    if count > 1:
        results = {n: leaf_of(n) for n in numbers(list(part.carried))} | {at // WORDS_A_LEAF: leaf}
        tree = SparseTree(b"", height_of(-(-count // WORDS_A_LEAF)), results)
        trees[PARTS_OPERAND], parts_root = (tree, ()), tree.root
    digest = sha256(b"\0" + leaf).digest()
    described = descriptor(node)
    frame = Frame(
        descriptor=keccak(described), trace_root=trace.root, element=element, parts=count, parts_root=parts_root
    )
    position = Position(Phase.PARTS if count > 1 else Phase.ELEMENTS, 0, at // WORDS_A_LEAF, digest, digest)
    return frame, position, part_of(described, at, leaf, part.carried, part.reads, trees)


TRACE_HEIGHT, WIDTH = 12, 4096


def dot(a: tuple[int, ...], b: tuple[int, ...]) -> Node:
    return Node("dot", F32, (2048, WIDTH), (WIDTH,), (Operand(700, 0, a), Operand(70, 0, b)))


# Name: node, words of an operand, which part of the middle element (0: it has one).
FORMS: dict[str, tuple[Node, int, int]] = {
    "add of 2^24 words": (
        Node("add", F32, (WIDTH, WIDTH), (), tuple(Operand(n, 0, (WIDTH, 1)) for n in (9, 70))),
        1 << 24,
        0,
    ),
    "add of 2^30 words": (Node("add", F32, (1 << 30,), (), tuple(Operand(n, 0, (1,)) for n in (9, 70))), 1 << 30, 0),
    "erf of 2^24 words": (Node("erf", F32, (1 << 24,), (), (Operand(9, 0, (1,)),)), 1 << 24, 0),
    "dot, rows": (dot((WIDTH, 0, 1), (0, WIDTH, 1)), 1 << 24, 7),
    "dot, a row and a column": (dot((WIDTH, 0, 1), (0, 1, WIDTH)), 1 << 24, 7),
    "dot, columns": (dot((1, 0, WIDTH), (0, 1, WIDTH)), 1 << 24, 7),
    "dot, block sums of rows": (dot((WIDTH, 0, 1), (0, WIDTH, 1)), 1 << 24, -1),
    "dot, block sums of columns": (dot((1, 0, WIDTH), (0, 1, WIDTH)), 1 << 24, -1),
    "dot, across": (Node("dot", F32, (2048,), (8, 8), (Operand(700, 0, (1, 1 << 20, 1 << 17)),) * 2), 1 << 24, 7),
    "sequence, a row": (Node("sum_sequential", F32, (2048,), (WIDTH,), (Operand(9, 0, (WIDTH, 1)),)), 1 << 24, 7),
    "sequence, a column": (Node("sum_sequential", F32, (WIDTH,), (2048,), (Operand(9, 0, (1, WIDTH)),)), 1 << 24, 7),
    "scatter_add, rows": (
        Node(
            "scatter_add",
            F32,
            (2048, 128),
            (2048,),
            (Operand(5, 0, (128, 1)), Operand(9, 0, (0, 0, 1)), Operand(70, 0, (0, 1, 128))),
            (0,),
        ),
        1 << 24,
        7,
    ),
    "sum of 2^20, a lane": (Node("sum", F32, (), (1 << 20,), (Operand(9, 0, (1,)),)), 1 << 20, 7),
    "sum of 2^20, its lanes": (Node("sum", F32, (), (1 << 20,), (Operand(9, 0, (1,)),)), 1 << 20, -2),
}


def part_evidence(form: tuple[Node, int, int], lie: int = 1) -> tuple[Frame, Position, Evidence]:
    node, size, number = form
    element = 77_777 % node.elements
    every = list(parts(node, element, lambda operand, at: 0))
    number %= len(every)
    return game(node, [size] * len(node.operands), element, every[number], number, len(every), TRACE_HEIGHT, lie)
