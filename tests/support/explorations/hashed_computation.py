"""What a committer computed, made up from hashes: trees of all the shapes that asks go down."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

from zoo_compute.spec import merkle
from zoo_compute.spec.exploration import Tree as NodeTree
from zoo_compute.spec.exploration import TreePosition
from zoo_compute.spec.frames import (
    EMPTY,
    Frame,
    Hashes,
    Kind,
    Phase,
    Program,
    Result,
    Work,
    height_of,
)
from zoo_compute.spec.params import WORDS_A_LEAF

TREE_OF_HASHES = NodeTree.NODES  # its answers show as many levels as those of all trees but of words


def noise(*key: Any) -> bytes:
    return sha256(repr(key).encode()).digest()


@lru_cache(maxsize=8192)
def words(count: int, *key: Any) -> bytes:
    """So many words of four bytes."""
    blocks = (noise(key, at) for at in range(count // 8 + 1))
    return b"".join(blocks)[: 4 * count]


@dataclass(frozen=True)
class Tree:
    """Over leaf hashes, padded."""

    leaves: Hashes

    @cached_property
    def levels(self) -> list[list[bytes]]:
        level = [*self.leaves, *[EMPTY] * ((1 << self.height) - len(self.leaves))]
        levels = [level]
        while len(level) > 1:
            level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
            levels.append(level)
        return levels

    @property
    def height(self) -> int:
        return height_of(len(self.leaves))

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def children(self, height: int, index: int) -> Hashes:
        """What one answer shows of a tree of hashes."""
        depth = TreePosition(TREE_OF_HASHES, height).span
        return tuple(self.levels[height - depth][index << depth : (index + 1) << depth])

    def path(self, leaf: int) -> Hashes:
        return tuple(self.levels[at][(leaf >> at) ^ 1] for at in range(self.height))


@lru_cache(maxsize=8192)
def words_tree(data: bytes) -> Tree:
    size = 4 * WORDS_A_LEAF
    return Tree(tuple(sha256(b"\x00" + data[at : at + size]).digest() for at in range(0, len(data), size)))


@dataclass(frozen=True)
class HashedProgram:
    """A program whose nodes have these shapes."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    states: int

    def descriptor(self, node: int) -> bytes:
        shape = self.shapes[node]
        return struct.pack(f">{6 + len(shape)}I", node + 1, node % 2, len(shape), 0, 0, 0, *shape)

    @cached_property
    def nodes(self) -> Tree:
        return Tree(tuple(sha256(b"\x05" + self.descriptor(at)).digest() for at in range(len(self.shapes))))

    @cached_property
    def opened(self) -> Program:
        head = struct.pack(">5I", 1, len(self.shapes), self.states, 2, 0)
        return Program(head, noise("entries", self.name), self.nodes.root)

    def count(self, node: int) -> int:
        count = 1
        for extent in self.shapes[node]:
            count *= extent
        return count

    def head(self, node: int) -> bytes:
        shape = self.shapes[node]
        return bytes([node % 2, len(shape)]) + b"".join(extent.to_bytes(8, "little") for extent in shape)


# 70 nodes, more than one answer shows: of one word, of one leaf, of a few, of twenty leaves, and of none.
SHAPES = (((), (5,), (300,), (20, 129), (0, 3), (2, 2, 2, 2, 2, 2, 2, 1)) * 12)[:70]
TRAINING = HashedProgram("training", SHAPES, 5)
UPDATE = HashedProgram("update", ((7,), (7,), (7,)), 1)
AGGREGATION = HashedProgram("aggregation", ((700,),), 17)
PROGRAMS = {Kind.TRAINING: TRAINING, Kind.UPDATE: UPDATE, Kind.AGGREGATION: AGGREGATION}
WORK = Work((TRAINING.opened.root, UPDATE.opened.root, AGGREGATION.opened.root), 7, 3, 16)


@dataclass
class HashedComputation:
    """One side's view of a slot-round (or of an aggregation): deterministic in `name`. `parts`: of every element."""

    name: str
    slot: int
    start_root: bytes
    work: Work = WORK
    programs: Mapping[Kind, HashedProgram] = field(default_factory=lambda: PROGRAMS)

    @property
    def program(self) -> HashedProgram:
        return self.programs[Kind.TRAINING]

    def state(self, step: int) -> Tree:
        """The state at a step; at -1 the update's, at -2 an aggregation's."""
        entries = {-1: UPDATE.states, -2: AGGREGATION.states}.get(step, self.program.states)
        return Tree(tuple(noise(self.name, "entry", self.slot, step, at) for at in range(entries)))

    def step_of(self, leaf: int) -> int:
        return min(leaf * self.work.segment_steps, self.work.inner_steps)

    @property
    def segments(self) -> Tree:
        count = -(-self.work.inner_steps // self.work.segment_steps) + 1
        return Tree(tuple(self.state_leaf(self.step_of(at)) for at in range(count)))

    def state_leaf(self, step: int) -> bytes:
        return merkle.segment_leaf(step, self.state(step).root)

    def steps(self, first: int) -> Tree:
        last = min(first + self.work.segment_steps, self.work.inner_steps)
        return Tree(tuple(self.state_leaf(step) for step in range(first, last + 1)))

    @property
    def result(self) -> Result:
        return Result(self.segments.root, self.state(self.work.inner_steps).root, self.state(-1).root)

    def leaf(self) -> bytes:
        result = self.result
        return merkle.result_root(self.slot, self.start_root, result.segment_root, result.end_root, result.update_root)

    def data(self, frame: Frame, node: int) -> bytes:
        return words(self.programs[Kind(frame.kind)].count(node), self.name, frame.kind, frame.step, node)

    def tensor_root(self, frame: Frame, node: int) -> bytes:
        program = self.programs[Kind(frame.kind)]
        tree = words_tree(self.data(frame, node))
        return merkle.tensor_root(program.head(node), tree.root)

    def trace(self, frame: Frame) -> Tree:
        nodes = range(len(self.programs[Kind(frame.kind)].shapes))
        return Tree(
            tuple(sha256(b"\x08" + n.to_bytes(4, "little") + self.tensor_root(frame, n)).digest() for n in nodes)
        )

    def part_data(self, frame: Frame) -> bytes:
        element = self.data(frame, frame.node)[4 * frame.element : 4 * frame.element + 4]
        return words(frame.parts - 1, self.name, "parts", frame.node, frame.element) + element

    def tree(self, frame: Frame, phase: Phase) -> Tree:
        """The one that a node is in."""
        if phase == Phase.SEGMENTS:
            return self.segments
        if phase == Phase.STEPS:
            return self.steps(frame.first_step)
        if phase == Phase.NODES:
            return self.trace(frame)
        if phase == Phase.ELEMENTS:
            return words_tree(self.data(frame, frame.node))
        if phase == Phase.PARTS:
            return words_tree(self.part_data(frame))
        at = {Kind.UPDATE: -1, Kind.AGGREGATION: -2}.get(Kind(frame.kind), frame.step + 1)
        return self.state(0 if frame.is_begin else at)
