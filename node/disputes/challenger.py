"""The challenger's side of a game: the first difference to what it computed itself, and in the end the evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from node.disputes.computation import DisputedWord, tensor_in
from node.disputes.element_words import LEAF_BYTES
from node.disputes.known_tree import KnownTree
from node.disputes.moves import Move
from node.disputes.trees import Trees
from repops.commitments import canonical, state_leaves
from repops.graph import BATCH_ROLE, OPTIMIZER, Node
from repops.merkle import Tree
from repops.parts import part, part_count
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence, WholeTensor, entry_of
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.frames import Awaits, Frame, Game, Hashes, Phase
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.trials import TRIALS


class Challenger:
    """Asks, and shows. `trees.computation` is what it computed of the claim itself.

    Keeps nothing: a game's record and what was shown in it say all.
    """

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.computed = trees.computation
        self.graph = trees.computation.graph

    def next(self, game: Game, revealed: RevealedState) -> Move | None:
        """The challenger's move; None where it is not its turn, or where nothing differs: then it was wrong."""
        if not game.is_challengers_turn:
            return None
        proof = self.evidence(game, revealed)
        if proof is not None:
            return Move("convict", (game.claim, game.frame, proof.KIND, evidence.encode(proof)))
        if game.awaits == Awaits.PICK:
            return self._pick(game, revealed)
        if game.phase == Phase.ELEMENTS and game.is_open:
            return self._ask(game, revealed)
        return None

    def evidence(self, game: Game, revealed: RevealedState) -> Evidence | None:
        """What shows here that the claim is false; None where the way goes on."""
        if game.is_beyond:
            return None
        if game.phase == Phase.SEGMENTS:
            return self._end(game.frame)
        if game.phase == Phase.STATE:
            at_leaf = game.awaits == Awaits.EVIDENCE
            return (self._begin(game) if game.frame.is_begin else self._output(game)) if at_leaf else None
        if game.phase in (Phase.ELEMENTS, Phase.PARTS):
            return self._word(game, revealed)
        return None

    # --- the way down

    def _pick(self, game: Game, revealed: RevealedState) -> Move | None:
        frame, theirs = game.frame, revealed.last
        mine = self.trees.children(frame, game.phase, game.height, game.index)
        for place, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            if one != other:
                return Move("pick", (place, one, Tree(theirs).path(place)))
        if game.phase == Phase.NODES and game.node == frame.trace_root:
            after = Tree(state_leaves(self.computed.after(frame.step))).root
            return Move("dispute_state", (frame, self.trees.program.opened)) if after != frame.after else None
        return None

    def _ask(self, game: Game, revealed: RevealedState) -> Move | None:
        element = self._first(game, revealed)
        if element is None or self._node(game).op == "input":
            return None
        return Move("ask_parts", (game.frame, self.trees.program.descriptor(game.frame.node), element))

    def _first(self, game: Game, revealed: RevealedState) -> int | None:
        """The first word of the shown leaf that is not one's own: its number in the tensor, or among the parts."""
        mine = self.trees.leaf(game.frame, game.phase, game.index)
        theirs = revealed.leaves[game.phase]
        for at in range(0, len(mine), 4):
            if mine[at : at + 4] != theirs[at : at + 4]:
                return game.index * WORDS_A_LEAF + at // 4
        return None

    def _node(self, game: Game) -> Node:
        return self.graph.nodes[game.frame.node]

    # --- evidence of states

    def _end(self, frame: Frame) -> Evidence | None:
        """Where the states are right, but for the one that the result says it ended with. A trial says none."""
        tree = self.trees.tree(frame, Phase.SEGMENTS)
        end = self.trees.states(frame, Phase.SEGMENTS)[-1]
        if tree.root != frame.segment_root or end == frame.end_root or frame.job == TRIALS:
            return None
        return evidence.End(end, tree.path(len(self.trees.steps(frame, Phase.SEGMENTS)) - 1))

    def _begin(self, game: Game) -> Evidence:
        entry = self.graph.state[game.index]
        opened = entry_of(self.graph, game.index)
        if entry.kind == OPTIMIZER:
            assert game.claim is not None, "a game without its claim"
            program, node = self.trees.program, entry.before
            zero = evidence.Begin(opened, descriptor=program.descriptor(node), path=program.nodes.path(node))
            return self.computed.carried_evidence(zero, entry.name, game.claim)
        return evidence.Begin(opened, tensor_in(self.computed.checkpoint_roots, entry.name))

    def _output(self, game: Game) -> Evidence:
        node = self.graph.state[game.index].after
        root = self.computed.trace(game.frame.step)[node]
        path = self.trees.tree(game.frame, Phase.NODES).path(node)
        return evidence.Output(entry_of(self.graph, game.index), root, path)

    # --- evidence of words

    def _word(self, game: Game, revealed: RevealedState) -> Evidence | None:
        node, frame = self._node(game), game.frame
        descriptor = self.trees.program.descriptor(frame.node)
        if node.op == "constant":
            return evidence.Constant(descriptor)
        if node.op == "input":
            role, position = node.attributes
            number = position + (len(self.graph.state) if role == BATCH_ROLE else 0)
            entry = entry_of(self.graph, number)
            name = self.graph.batch[position][0] if role == BATCH_ROLE else self.graph.state[position].name
            source = self.computed.source(role, name, frame.step)
            if source:
                return evidence.Input(descriptor, entry, tensor_in(source, name))
        if not game.is_open:
            return None
        at = self._first(game, revealed)
        if at is None:
            return None
        leaf = revealed.leaves[game.phase]
        if node.op == "input":
            return self.computed.word_evidence(frame.step, name, DisputedWord(descriptor, entry, leaf, at))
        return self._part(game, revealed, at)

    def _part(self, game: Game, revealed: RevealedState, at: int) -> Evidence | None:
        """Of an element with one part, or of one of its parts; None where it has parts to be asked for."""
        frame, node = game.frame, self._node(game)
        values = self.computed.tensors(frame.step, frame.node)
        words = [canonical(values[view.node]).reshape(-1).view(np.uint32) for view in node.operands]
        is_parts = game.phase == Phase.PARTS
        element = frame.element if is_parts else at
        if not is_parts and part_count(node) > 1:
            return None
        asked = part(node, element, at if is_parts else 0, lambda operand, index: int(words[operand][index]))
        seen = self._seen(frame, revealed, Phase.NODES, frame.node)
        trees: dict[int, tuple[evidence.TensorTree, Hashes]] = {
            operand: (WholeTensor.of(values[node.operands[operand].node]), seen.path(node.operands[operand].node))
            for operand, _ in asked.reads
        }
        if is_parts:
            results = _Results(
                self.trees.words(frame, Phase.PARTS), self._seen(frame, revealed, Phase.PARTS, game.index)
            )
            trees[evidence.PARTS_OPERAND] = (results, ())
        descriptor, leaf = self.trees.program.descriptor(frame.node), revealed.leaves[game.phase]
        return evidence.part_of(descriptor, at, leaf, asked.carried, asked.reads, trees)

    def _seen(self, frame: Frame, revealed: RevealedState, phase: Phase, way: int) -> KnownTree:
        return KnownTree(self.trees.tree(frame, phase), revealed.children.get(phase, ()), way)


@dataclass(frozen=True)
class _Results:
    """The parts' results, as `zoo_compute.disputes.evidence.Committed`: own words, which are the committer's up to the disputed one."""

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
