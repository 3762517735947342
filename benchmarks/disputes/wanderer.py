"""An asker without a case: it explores honest work at random, and shows true openings as evidence of every place. For dispute.py."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.trees import Trees
from tests.support.evm import Reverted
from tests.support.explorations.sybils import Hostile, some_ask
from zoo_compute.disputes import evidence
from zoo_compute.disputes.exploration import Call, Opened
from zoo_compute.spec.exploration import Tree, segments_position
from zoo_compute.spec.frames import Kind, Phase

MOST_ASKS = 16


class Wanderer:
    """Within one step: to trace many would take long. tried: how often each kind of evidence was refused."""

    def __init__(self, trees: Trees, about: Disputed, step: int, rng: random.Random, tried: Counter[int]) -> None:
        self.trees, self.about, self.step, self.rng, self.tried = trees, about, step, rng, tried
        self.hostile = Hostile(trees, about, rng)

    def explore(self, board: Any, answerer: Answerer) -> bool:
        """One path from the root of the segments. Whether the claim, which is true, was convicted."""
        call: Call | None = self.first(board)
        for _ in range(MOST_ASKS):
            if call is None:
                break
            try:
                board.send(call, "hostile")
            except Reverted:
                continue
            board.answers(answerer)
            node = list(board.picture.nodes.values())[-1]
            self.accuse(board, node)
            call = self.below(board, node)
        return board.picture.end is not None

    def accuse(self, board: Any, node: Opened) -> None:
        for place, proof in self.hostile.attempts(board, node) if node.is_answered else ():
            data = evidence.encode(proof)
            call = board.picture.judge(self.about.job, self.about.claim, node, place, proof.KIND, data)
            try:
                board.send(call, "hostile")
            except Reverted:
                self.tried[proof.KIND] += 1

    def first(self, board: Any) -> Call:
        work, result = self.about.work, self.about.result
        assert result
        position = segments_position(work.inner_steps, work.segment_steps)
        return Asker(self.trees, self.about)._ask_claim(board.picture, Kind.TRAINING, result, position)

    def below(self, board: Any, node: Opened) -> Call | None:
        at = node.position
        if not node.is_answered or (at.tree == Tree.PARTS and at.shows_words) or at.tree == Tree.STATE:
            return None
        if at.tree not in (Tree.SEGMENTS, Tree.STEPS):
            return some_ask(board, node, self.trees, self.rng)
        steps = self.trees.steps(node.frame, Phase(at.tree))
        leaf = next(number for number, each in enumerate(steps) if each > self.step)
        if at.tree == Tree.SEGMENTS and self.rng.random() < 0.1:
            leaf = 0
        return board.picture.ask(node, (leaf >> at.height - at.span) % (1 << at.span))
