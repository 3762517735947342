"""The trees of a dispute over one side's computation. Each is built when it is asked about, and dropped when another of its kind is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from node.disputes.computation import Computation
from node.disputes.element_words import LEAF_BYTES, leaf_hashes
from repops import encoding
from repops.commitments import canonical, segment_leaf, state_leaves, trace_leaf
from repops.graph import Graph
from repops.merkle import DESCRIPTOR, Tree, sha256
from zoo_compute.spec.frames import Frame, Phase, Program

Hashes = tuple[bytes, ...]


@dataclass(frozen=True)
class OpenedProgram:
    """A program as a dispute opens it."""

    graph: Graph

    @cached_property
    def nodes(self) -> Tree:
        return Tree([sha256(DESCRIPTOR + self.descriptor(at)) for at in range(len(self.graph.nodes))])

    @cached_property
    def opened(self) -> Program:
        return Program(*encoding.parts_of_root(self.graph))

    def descriptor(self, node: int) -> bytes:
        return encoding.descriptor(self.graph.nodes[node])


class Trees:
    """What one side has: its trees, and the words of a tensor or of an element's parts."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.program = OpenedProgram(computation.graph)
        self._trees: dict[Phase, tuple[tuple[int, ...], Tree]] = {}
        self._words: dict[Phase, tuple[tuple[int, ...], bytes]] = {}

    def tree(self, frame: Frame, phase: Phase) -> Tree:
        key = self._place(frame, phase)
        known = self._trees.get(phase)
        if known is None or known[0] != key:
            known = self._trees[phase] = (key, Tree(self.leaves(frame, phase)))
        return known[1]

    def leaves(self, frame: Frame, phase: Phase) -> list[bytes]:
        """The hashes that the tree is over."""
        computed = self.computation
        if phase in (Phase.SEGMENTS, Phase.STEPS):
            steps = self.steps(frame, phase)
            return [segment_leaf(*each) for each in zip(steps, computed.state_roots(steps), strict=True)]
        if phase == Phase.STATE:
            return state_leaves(computed.after(-1 if frame.is_begin else frame.step))
        if phase == Phase.NODES:
            return [trace_leaf(*each) for each in enumerate(computed.trace(frame.step))]
        return leaf_hashes(self.words(frame, phase))

    def steps(self, frame: Frame, phase: Phase) -> list[int]:
        """The steps of the leaves of a tree of states."""
        if phase == Phase.SEGMENTS:
            return [*range(0, frame.inner_steps, frame.segment_steps), frame.inner_steps]
        return [*range(frame.first_step, min(frame.first_step + frame.segment_steps, frame.inner_steps) + 1)]

    def states(self, frame: Frame, phase: Phase) -> list[bytes]:
        """The states' roots under the leaves of a tree of states."""
        return self.computation.state_roots(self.steps(frame, phase))

    def words(self, frame: Frame, phase: Phase) -> bytes:
        """The bytes of the node's tensor, or of the parts of its element."""
        key = self._place(frame, phase)
        known = self._words.get(phase)
        if known is None or known[0] != key:
            step, node = frame.step, frame.node
            if phase == Phase.PARTS:
                data = self.computation.parts(step, node, frame.element).tobytes()
            else:
                data = canonical(self.computation.tensors(step, node)[node]).tobytes()
            known = self._words[phase] = (key, data)
        return known[1]

    def leaf(self, frame: Frame, phase: Phase, index: int) -> bytes:
        """The bytes of one leaf of words."""
        return self.words(frame, phase)[index * LEAF_BYTES : (index + 1) * LEAF_BYTES]

    def _place(self, frame: Frame, phase: Phase) -> tuple[int, ...]:
        """What of a frame says which tree it is."""
        if phase == Phase.SEGMENTS:
            return ()
        if phase == Phase.STEPS:
            return (frame.first_step,)
        if phase == Phase.STATE:
            return (-1,) if frame.is_begin else (frame.step,)
        if phase == Phase.NODES:
            return (frame.step,)
        element = (frame.element,) if phase == Phase.PARTS else ()
        return (frame.step, frame.node, *element)
