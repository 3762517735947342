"""A challenger without a case: it goes anywhere, and shows true openings as evidence at every place it comes to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from node.disputes.challenger import Challenger
from node.disputes.computation import DisputedWord
from node.disputes.moves import Move
from node.disputes.trees import Trees
from repops.graph import BATCH_ROLE
from repops.merkle import Tree
from repops.parts import part_count
from tests.support.games.game_board import Judge
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence, entry_of
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.frames import Awaits, Game, Phase, span_of
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.revert import Refused


class Hostile(Challenger):
    """trees: of an honest computation, so that all it opens is true. tried: how often each kind of evidence was refused."""

    def __init__(self, trees: Trees, rng: random.Random, judge: Judge, tried: Counter[int]) -> None:
        super().__init__(trees)
        self.rng, self.judge, self.tried = rng, judge, tried

    def next(self, game: Game, revealed: RevealedState) -> Move | None:
        if not game.is_beyond:
            for attempt in self.attempts(game, revealed):
                self.tried[attempt.KIND] += 1
                with suppress(Refused):
                    self.judge(attempt.KIND, game.frame, game.position, evidence.encode(attempt))
                    raise AssertionError(f"an honest committer is convicted: {attempt}")
        moves = list(self.moves(game, revealed))
        return self.rng.choice(moves) if moves else None

    def moves(self, game: Game, revealed: RevealedState) -> Iterator[Move]:
        if game.awaits == Awaits.PICK:
            if game.node == game.frame.trace_root and self.rng.random() < 0.3:
                yield Move("dispute_state", (game.frame, self.trees.program.opened))
                return
            below = game.height - span_of(game.height)
            goes_beyond = self.rng.random() < 0.1
            for place, child in enumerate(revealed.last):
                if goes_beyond or (game.index * len(revealed.last) + place) << below < game.leaves:
                    yield Move("pick", (place, child, Tree(revealed.last).path(place)))
        elif game.phase == Phase.ELEMENTS and game.is_open and self._has_parts(game):
            descriptor = self.trees.program.descriptor(game.frame.node)
            yield Move("ask_parts", (game.frame, descriptor, self._some(game)))

    def _has_parts(self, game: Game) -> bool:
        node = self._node(game)
        return node.op not in ("input", "constant") and part_count(node) > 1

    def attempts(self, game: Game, revealed: RevealedState) -> Iterator[Evidence]:
        frame = game.frame
        if game.phase == Phase.SEGMENTS:
            steps = self.trees.steps(frame, Phase.SEGMENTS)
            path = self.trees.tree(frame, Phase.SEGMENTS).path(len(steps) - 1)
            yield evidence.End(self.trees.states(frame, Phase.SEGMENTS)[-1], path)
        elif game.phase == Phase.STATE and game.height == 0:
            yield self._begin(game) if frame.is_begin else self._output(game)
        elif game.phase >= Phase.ELEMENTS:
            yield from self._of_words(game, revealed)

    def _of_words(self, game: Game, revealed: RevealedState) -> Iterator[Evidence]:
        node = self._node(game)
        if node.op == "input" and node.attributes[0] == BATCH_ROLE and not self.computed.source(BATCH_ROLE, "", 0):
            if game.is_open:
                name, _ = self.graph.batch[node.attributes[1]]
                entry = entry_of(self.graph, len(self.graph.state) + node.attributes[1])
                leaf = revealed.leaves[game.phase]
                descriptor = self.trees.program.descriptor(game.frame.node)
                yield self.computed.word_evidence(
                    game.frame.step, name, DisputedWord(descriptor, entry, leaf, self._some(game))
                )
        elif node.op in ("input", "constant"):
            attempt = self._word(game, revealed)
            assert attempt
            yield attempt
        elif game.is_open:
            attempt = self._part(game, revealed, self._some(game))
            if attempt:
                yield attempt

    def _some(self, game: Game) -> int:
        """A word of the leaf it stands at."""
        first = game.index * WORDS_A_LEAF
        return self.rng.randrange(first, min(first + WORDS_A_LEAF, game.count))
