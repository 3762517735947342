"""A toy computation whose every local rule can be checked, so that it is known who lies: what evidence would say of it.

The state at step 0 follows from the start root, each node's words from the state before and the node, the state after from the
trace. A lie changes one of these places, and what follows is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from tests.support.explorations.hashed_computation import (
    HashedComputation,
    HashedProgram,
    Tree,
    noise,
    words,
    words_tree,
)
from zoo_compute.spec import merkle
from zoo_compute.spec.frames import Frame, Kind, Phase, Position, Result, Work
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.revert import require

PROGRAM = HashedProgram("toy", ((1,), (300,), (2,)), 3)
WORK = Work((PROGRAM.opened.root, noise("u"), noise("a")), 3, 2, 1)
Lie = tuple[Any, ...]


def begin(start_root: bytes) -> tuple[bytes, ...]:
    return tuple(noise("begin", start_root, at) for at in range(PROGRAM.states))


def after(trace_root: bytes) -> tuple[bytes, ...]:
    return tuple(noise("after", trace_root, at) for at in range(PROGRAM.states))


@lru_cache(maxsize=4096)
def produced(before: bytes, node: int) -> bytes:
    return words(PROGRAM.count(node), "data", before, node)


@lru_cache(maxsize=4096)
def tree_of(leaves: tuple[bytes, ...], beyond: bool) -> Tree:
    """With `beyond`, something else where the first padding leaf belongs."""
    return Tree((*leaves, noise("beyond"))) if beyond else Tree(leaves)


@dataclass
class ToyComputation(HashedComputation):
    """`lies`: the places that are changed."""

    work: Work = WORK
    programs: Mapping[Kind, HashedProgram] = field(default_factory=lambda: {Kind.TRAINING: PROGRAM})
    lies: frozenset[Lie] = frozenset()
    memory: dict[Any, Tree] = field(default_factory=dict)

    def pinned(self) -> ToyComputation:
        """With the states as they are, whatever the traces become."""
        return replace(self, memory={("state", step): self.state(step) for step in range(WORK.inner_steps + 1)})

    def with_trees(self, lie: Lie) -> ToyComputation:
        """Another lie, with what is remembered."""
        return replace(self, lies=self.lies | {lie}, memory=dict(self.memory))

    def state(self, step: int) -> Tree:
        if step < 0:
            return Tree((noise("update", self.slot),))
        if ("state", step) not in self.memory:
            leaves = list(begin(self.start_root) if step == 0 else after(self.trace(Frame(step=step - 1)).root))
            for at in range(len(leaves)):
                if ("state", step, at) in self.lies:
                    leaves[at] = noise("lie", step, at)
            self.memory["state", step] = tree_of(tuple(leaves), ("beyond", Phase.STATE, step) in self.lies)
        return self.memory["state", step]

    def data(self, frame: Frame, node: int) -> bytes:
        data = bytearray(produced(self.state(frame.step).root, node))
        for place in range(0, len(data), 4 * WORDS_A_LEAF):
            if ("data", frame.step, node, place) in self.lies:
                data[place] ^= 1
        return bytes(data)

    def trace(self, frame: Frame) -> Tree:
        if ("trace", frame.step) not in self.memory:
            honest = super().trace(frame).leaves
            self.memory["trace", frame.step] = tree_of(honest, ("beyond", Phase.NODES, frame.step) in self.lies)
        return self.memory["trace", frame.step]

    @property
    def segments(self) -> Tree:
        return tree_of(super().segments.leaves, ("beyond", Phase.SEGMENTS) in self.lies)

    def steps(self, first: int) -> Tree:
        return tree_of(super().steps(first).leaves, ("beyond", Phase.STEPS, first) in self.lies)

    @property
    def result(self) -> Result:
        result = super().result
        return replace(result, end_root=noise("other end")) if ("end",) in self.lies else result


def places() -> Iterator[Lie]:
    """Where a computation can be false."""
    for step in range(WORK.inner_steps + 1):
        yield from (("state", step, at) for at in range(PROGRAM.states))
        yield ("beyond", Phase.STATE, step)
    for step in range(WORK.inner_steps):
        for node in range(len(PROGRAM.shapes)):
            yield from (("data", step, node, at) for at in range(0, 4 * PROGRAM.count(node), 4 * WORDS_A_LEAF))
        yield ("beyond", Phase.NODES, step)
    yield ("beyond", Phase.SEGMENTS)
    yield ("end",)


def judge(kind: int, frame: Frame, position: Position, data: bytes) -> None:
    """What the kinds of evidence say of a toy; `data` is the path of the last leaf for kind 1."""
    at_leaf = position.height == 0
    if kind == 1:
        path = tuple(data[at : at + 32] for at in range(32, len(data), 32))
        leaf = merkle.segment_leaf(frame.inner_steps, data[:32])
        last = -(-frame.inner_steps // frame.segment_steps)
        is_last = merkle.climb(leaf, last, path) == frame.segment_root and len(path) == last.bit_length()
        require(position.phase == Phase.SEGMENTS and is_last and data[:32] != frame.end_root, "evidence: no")
    elif kind in (2, 3):
        right = begin(frame.start_root) if kind == 2 else after(frame.trace_root)
        of = frame.is_begin == (kind == 2)
        require(position.phase == Phase.STATE and at_leaf and of, "evidence: no")
        require(position.node != right[position.index], "evidence: no")
    else:
        is_opened = kind == 8 and position.phase == Phase.ELEMENTS and position.open_leaf == position.node
        require(is_opened, "evidence: no")
        size = 4 * WORDS_A_LEAF
        right_leaf = produced(frame.before, frame.node)[position.index * size :][:size]
        require(sha256(b"\0" + right_leaf).digest() != position.open_leaf, "evidence: no")


@dataclass
class HonestToy(ToyComputation):
    """What an asker compares with, below places on which both sides agree."""

    def tree(self, frame: Frame, phase: Phase) -> Tree:
        if phase == Phase.STATE and not frame.is_begin:
            return Tree(after(frame.trace_root))
        if phase == Phase.ELEMENTS:
            return words_tree(produced(frame.before, frame.node))
        return super().tree(frame, phase)
