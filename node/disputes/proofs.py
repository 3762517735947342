"""What shows that a claim is false at one place of its exploration: evidence, from what the asker computed itself.

Everything left of the first difference is the same in both computations, so its words and paths are the asker's own; what lies
right of it on the way down was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from node.disputes.computation import DisputedWord, tensor_in
from node.disputes.element_words import LEAF_BYTES
from node.disputes.known_tree import KnownTree
from node.disputes.trees import Trees
from repops.commitments import canonical
from repops.graph import BATCH_ROLE, OPTIMIZER, Node
from repops.parts import part_count, parts
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence, WholeTensor, entry_of
from zoo_compute.spec.frames import Frame, Hashes, Phase
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.state import Claim

Seen = Callable[[Phase, int], KnownTree]  # a tree as it is known where the way goes down to this leaf


class Proofs:
    """Of one slot's training or update, or of an aggregation. claim: the disputed one."""

    def __init__(self, trees: Trees, claim: Claim) -> None:
        self.trees, self.claim = trees, claim
        self.computed, self.graph = trees.computation, trees.computation.graph

    def node(self, frame: Frame) -> Node:
        return self.graph.nodes[frame.node]

    def has_parts(self, frame: Frame) -> bool:
        """Whether each element of the node is the last of several partial results."""
        node = self.node(frame)
        return node.op not in ("input", "constant") and part_count(node) > 1

    # --- of states

    def end(self, frame: Frame) -> Evidence:
        """All states are right, but for the one that the result says it ended with."""
        path = self.trees.tree(frame, Phase.SEGMENTS).path(len(self.trees.steps(frame, Phase.SEGMENTS)) - 1)
        return evidence.End(self.trees.states(frame, Phase.SEGMENTS)[-1], path)

    def entry(self, frame: Frame, index: int) -> Evidence:
        """Of the state at step 0, or after a trace."""
        return self._begun(index) if frame.is_begin else self._output(frame, index)

    def _begun(self, index: int) -> Evidence:
        entry, opened = self.graph.state[index], entry_of(self.graph, index)
        if entry.kind != OPTIMIZER:
            return evidence.Begin(opened, tensor_in(self.computed.checkpoint_roots, entry.name))
        program, node = self.trees.program, entry.before
        zero = evidence.Begin(opened, descriptor=program.descriptor(node), path=program.nodes.path(node))
        return self.computed.carried_evidence(zero, entry.name, self.claim)

    def _output(self, frame: Frame, index: int) -> Evidence:
        node = self.graph.state[index].after
        path = self.trees.tree(frame, Phase.NODES).path(node)
        return evidence.Output(entry_of(self.graph, index), self.computed.trace(frame.step)[node], path)

    # --- of words

    def tensor(self, frame: Frame) -> Evidence | None:
        """Of a node that must be a tensor known otherwise; None of one that is computed, and of a batch of data."""
        node, descriptor = self.node(frame), self.trees.program.descriptor(frame.node)
        if node.op == "constant":
            return evidence.Constant(descriptor)
        if node.op != "input":
            return None
        name, number = self._input(node)
        source = self.computed.source(node.attributes[0], name, frame.step)
        return evidence.Input(descriptor, entry_of(self.graph, number), tensor_in(source, name)) if source else None

    def word(self, frame: Frame, phase: Phase, at: int, leaf: bytes, seen: Seen) -> Evidence:
        """Of word `at` of a tensor, or of an element's parts, in the leaf that was shown."""
        node, descriptor = self.node(frame), self.trees.program.descriptor(frame.node)
        if node.op == "input":
            name, number = self._input(node)
            asked = DisputedWord(descriptor, entry_of(self.graph, number), leaf, at)
            return self.computed.word_evidence(frame.step, name, asked)
        values = self.computed.tensors(frame.step, frame.node)
        words = [canonical(values[view.node]).reshape(-1).view(np.uint32) for view in node.operands]
        is_parts = phase == Phase.PARTS
        # One after another: a long sum has more of them than memory holds.
        every = parts(node, frame.element if is_parts else at, lambda operand, index: int(words[operand][index]))
        part = next(islice(every, at if is_parts else 0, None))
        traced = seen(Phase.NODES, frame.node)
        trees: dict[int, tuple[evidence.TensorTree, Hashes]] = {
            operand: (WholeTensor.of(values[node.operands[operand].node]), traced.path(node.operands[operand].node))
            for operand, _ in part.reads
        }
        if is_parts:
            results = _Results(self.trees.words(frame, Phase.PARTS), seen(Phase.PARTS, at // WORDS_A_LEAF))
            trees[evidence.PARTS_OPERAND] = (results, ())
        return evidence.part_of(descriptor, at, leaf, part.carried, part.reads, trees)

    def _input(self, node: Node) -> tuple[str, int]:
        """Name and number of the program's entry that an input node is."""
        role, position = node.attributes
        if role == BATCH_ROLE:
            return self.graph.batch[position][0], len(self.graph.state) + position
        return self.graph.state[position].name, position


@dataclass(frozen=True)
class _Results:
    """The parts' results as a `TensorTree`: own words, which are the committer's up to the disputed one."""

    data: bytes
    seen: KnownTree
    head: bytes = b""

    @property
    def height(self) -> int:
        return self.seen.height

    def leaf(self, number: int) -> bytes:
        return self.data[number * LEAF_BYTES : (number + 1) * LEAF_BYTES]

    def node(self, level: int, index: int) -> bytes:
        return self.seen.node(level, index)
