"""Others who ask: sybils that ask wherever something can be asked, and one that shows true openings as evidence wherever it comes to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed, Wait
from node.disputes.known_tree import KnownTree
from node.disputes.proofs import Proofs
from node.disputes.trees import LEAF_BYTES, Trees
from repops.commitments import segment_leaf
from repops.graph import BATCH_ROLE
from repops.merkle import Tree as HashTree
from tests.support.evm import Reverted, chain
from tests.support.explorations.exploration_board import JOB, Board
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence
from zoo_compute.disputes.exploration import Call, Opened, values
from zoo_compute.spec.descents import Ask, ElementAsk
from zoo_compute.spec.disputed_claims import RESULT
from zoo_compute.spec.exploration import Tree, TreePosition, root_position, segments_position
from zoo_compute.spec.frames import EMPTY, Frame, Kind, Phase, Result
from zoo_compute.spec.params import WORDS_A_LEAF


@dataclass
class Sybils:
    """`count` accounts that ask at random places before each call of the honest asker; the committer answers some of that.

    trees: of the committer, whose bundle they know. asked, refused: how many asks the contract took, and refused.
    """

    trees: Trees
    about: Disputed
    answerer: Answerer
    rng: random.Random
    count: int = 10
    each_time: int = 3
    patience: float = 0.8  # how often the committer answers them before the honest asker's next call
    asked: int = 0
    refused: int = 0

    def __call__(self, board: Board) -> None:
        if board.picture.end is not None:
            return
        for _ in range(self.each_time):
            call = self.ask(board)
            try:
                board.send(call, f"sybil {self.rng.randrange(self.count)}")
                self.asked += 1
            except Reverted:
                self.refused += 1
        if self.rng.random() < self.patience:
            board.answers(self.answerer)

    def ask(self, board: Board) -> Call:
        nodes = [
            each for each in board.picture.nodes.values() if each.is_answered and each.position.tree != Tree.RESULT
        ]
        if not nodes or self.rng.random() < 0.15:
            return self.first(board)
        # Deep ones too: there are few of them.
        node = self.rng.choice(nodes[-4:] if self.rng.random() < 0.5 else nodes)
        return some_ask(board, node, self.trees, self.rng)

    def first(self, board: Board) -> Call:
        """Of a segment leaf or the root of them, of the slot's result, its update, or the aggregation."""
        about, work = self.about, self.about.work
        result = about.result or Result()
        revealed: tuple[object, ...] = (0, (EMPTY, EMPTY, []), [])
        kind, position, is_heavy = int(about.kind), TreePosition(Tree.NODES), True
        if about.kind != Kind.AGGREGATION:
            kind = self.rng.choice((Kind.TRAINING, Kind.TRAINING, Kind.TRAINING, Kind.UPDATE, RESULT))
        if kind == RESULT:
            position, is_heavy = TreePosition(Tree.RESULT), False
        if kind == Kind.TRAINING:
            position, is_heavy = segments_position(work.inner_steps, work.segment_steps), False
            steps = self.trees.steps(
                Frame(inner_steps=work.inner_steps, segment_steps=work.segment_steps), Phase.SEGMENTS
            )
            if self.rng.random() < 0.8 and about.segments:
                at, states = self.rng.randrange(len(steps)), about.segments
                tree = HashTree([segment_leaf(*each) for each in zip(steps, states, strict=True)])
                before = (states[at - 1], states[at], list(tree.path(at - 1))) if at else (EMPTY, states[0], [])
                revealed = (at, before, list(tree.path(at)))
                position = segments_position(work.inner_steps, work.segment_steps, at)
                is_heavy = position.is_heavy
        plain = (list(work.programs), *values(work)[1:])
        plain_result = (result.segment_root, result.end_root, result.update_root, list(result.path))
        args = (JOB, values(about.claim), int(kind), about.slot, plain, plain_result, *revealed)
        return Call("ask_claim", args, board.picture.prepaid(position), is_heavy)


def some_ask(board: Board, node: Opened, trees: Trees, rng: random.Random) -> Call:
    """Something below an answered node, which the contract may refuse."""
    at, frame, picture = node.position, node.frame, board.picture
    if at.tree == Tree.ELEMENTS and at.shows_words and node.words:
        number = (at.index << at.height) * WORDS_A_LEAF + rng.randrange(len(node.words) // 4)
        position, leaf, path = node.child(number // WORDS_A_LEAF - (at.index << at.height))
        asked = ElementAsk(picture.descriptor(node.id), number, leaf, path)
        return picture.ask_stage(node, Ask.PARTS, asked, replace(position, tree=Tree.ELEMENT))
    if at.tree == Tree.NODES and node.record.root == frame.trace_root and rng.random() < 0.2:
        program = trees.program.opened
        return picture.ask_stage(node, Ask.STATE, program, root_position(Tree.STATE, program.state_count))
    return picture.ask(node, rng.randrange(len(node.revealed)))


def explore_alone(board: Board, asker: Asker, answerer: Answerer, calls: int, sender: str = "liar") -> int:
    """A liar that asks itself and answers: so many asks down its own false path, then nothing more. How many were made."""
    made = 0
    for _ in range(4 * calls):
        step = asker.next(board.picture, chain.timestamp)
        if isinstance(step, Wait):
            board.answers(answerer)
        elif step is None or step.name in ("judge", "expire") or made == calls:
            break
        else:
            board.send(step, sender)
            made += 1
    return made


@dataclass
class Hostile:
    """An asker without a case: it asks anywhere, and sends true openings as evidence of every place that is answered."""

    trees: Trees
    about: Disputed
    rng: random.Random

    def attempts(self, board: Board, node: Opened) -> Iterator[tuple[int | None, Evidence]]:
        """With the child that it is about."""
        proofs, frame, at = Proofs(self.trees, self.about.claim), node.frame, node.position
        if at.tree == Tree.SEGMENTS and self.about.kind == Kind.TRAINING:
            proof = proofs.end(frame)
            if proof:
                yield None, proof
        if at.tree == Tree.STATE and at.height == at.span:
            for place in range(len(node.revealed)):
                if not node.child(place)[0].is_beyond:
                    yield place, proofs.entry(frame, node.child(place)[0].index)
        if at.tree == Tree.NODES and node.record.root == frame.trace_root and frame.trace_root != EMPTY:
            yield None, proofs.entry(frame, 0)
        if at.tree not in (Tree.ELEMENTS, Tree.PARTS):
            return
        proof = proofs.tensor(frame)
        if proof is not None:
            yield None, proof
        elif at.shows_words and node.words:
            yield from self._word(board, node, proofs)

    def _word(self, board: Board, node: Opened, proofs: Proofs) -> Iterator[tuple[int, Evidence]]:
        frame, at = node.frame, node.position
        if at.tree == Tree.ELEMENTS and proofs.has_parts(frame):
            return
        local = self.rng.randrange(len(node.words) // 4)
        place, number = local // WORDS_A_LEAF, (at.index << at.height) * WORDS_A_LEAF + local

        def seen(phase: Phase, way: int) -> KnownTree:
            return KnownTree(self.trees.tree(frame, phase), board.picture.revealed_in(node.id, Tree(phase)), way)

        leaf = node.words[LEAF_BYTES * place : LEAF_BYTES * (place + 1)]
        made = proofs.node(frame)
        if made.op == "input" and made.attributes[0] != BATCH_ROLE:
            return
        yield place, proofs.word(frame, Phase(at.tree), number, leaf, seen)

    def accuse(self, board: Board, node: Opened) -> list[int]:
        """Sends all evidence about a node; the kinds, each of which the contract refused."""
        kinds = []
        for place, proof in self.attempts(board, node):
            kinds.append(proof.KIND)
            call = board.picture.judge(JOB, self.about.claim, node, place, proof.KIND, evidence.encode(proof))
            with suppress(Reverted):
                board.send(call, "hostile")
                raise AssertionError(f"an honest committer is convicted by {proof} at {node.position}")
        return kinds
