"""Either side's process ends before, in the middle of and after every move: the game ends as without that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from node.compute.programs import Programs
from node.disputes.challenger import Challenger
from node.disputes.computation import Computation, SlotRound
from node.disputes.defender import Defender
from node.disputes.moves import Move
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.commitments import state_root_of
from repops.parts import part_count
from tests.referee.crashing_players import CrashingPlayer, DiskFullPlayer, TornFilePlayer
from tests.support.games.game_board import ChallengerPlayer, CommitterPlayer, GameBoard, GameRecord, play
from tests.support.games.lying_jobs import ROUND, ROWS, SEATS, Case, LyingAggregation, LyingUpdate, case_of
from tests.support.liars.faults import Liar
from tests.support.programs import models
from zoo_compute.spec.frames import Game, Kind, Phase, Result
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.referee import opened_game
from zoo_compute.spec.revert import Refused

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
STEP = 3  # after it a segment ends
Make = Callable[[Path | None], Computation]


@lru_cache
def gpt() -> Case:
    """Small, and deep enough that every tree of a game has nodes to pick."""
    torch.manual_seed(0)
    module = models.GPT(width=8, heads=2, layers=1, context=6, vocabulary=40, dropout=0.1)
    return case_of(module, models.text(0, ROWS, 6), models.next_token, 40)


@dataclass(frozen=True)
class Contest:
    """A game: what each side computes, in a folder or in none."""

    kind: Kind
    theirs: Make
    mine: Make

    @cached_property
    def opened_game(self) -> Game:
        case, trees = gpt(), Trees(self.theirs(None))
        if self.kind == Kind.AGGREGATION:
            root = state_root_of(trees.computation.after(0))
            claim = case.claim(root, seat=AGGREGATOR_SEAT, scope=sum(1 << seat for seat in SEATS))
            return opened_game(1, claim, self.kind, 0, case.work, Result())
        result = case.result(Trees(case.honest) if self.kind == Kind.UPDATE else trees)
        if self.kind == Kind.UPDATE:
            result = replace(result, update_root=state_root_of(trees.computation.after(0)))
        return opened_game(1, case.claim(case.leaf(case.slot, result)), self.kind, case.slot, case.work, result)

    def play(self, prover: CommitterPlayer, challenger: ChallengerPlayer) -> GameRecord:
        return play(Twice(self.opened_game, prover, challenger), prover, challenger, gpt().judge)

    @cached_property
    def calm(self) -> GameRecord:
        """Both sides live to the end, and keep nothing."""
        return self.play(Defender(Trees(self.theirs(None))), Challenger(Trees(self.mine(None))))

    def prover(self, folder: Path) -> Defender:
        return Defender(Trees(self.theirs(folder)))

    def challenger(self, folder: Path) -> Challenger:
        return Challenger(Trees(self.mine(folder)))


class Twice(GameBoard):
    """Every move is sent twice, and who made it asks itself what to do before it knows that it was made."""

    def __init__(self, game: Game, prover: CommitterPlayer, challenger: ChallengerPlayer) -> None:
        super().__init__(game)
        self._prover, self._challenger = prover, challenger

    def make(self, move: Move) -> None:
        is_challengers = self.game.is_challengers_turn
        super().make(move)
        stands, revealed = self.game, self.revealed
        with pytest.raises(Refused):
            super().make(move)
        assert (self.game, self.revealed) == (stands, revealed)
        again = self._challenger.next(stands, revealed) if is_challengers else self._prover.answer(stands)
        assert again is None or stands.is_challengers_turn == is_challengers, "it is the other side's turn"


# --- what each side computes


@lru_cache
def compiled(side: type) -> Programs:
    """What a process makes of the job's program, which takes seconds: once for all processes of a side, one of which lives at a time."""
    return Programs(gpt().graph)


def honest(folder: Path | None) -> SlotRound:
    return _slot_round(SlotRound, folder)


def liar(folder: Path | None, **lies: Any) -> Liar:
    return _with(_slot_round(Liar, folder), lies)


def _slot_round(made: type, folder: Path | None) -> Any:
    case = gpt()
    programs = compiled(made) if folder else Programs(case.graph)
    return made(case.manifest, programs, case.checkpoint, case.examples, ROUND, case.slot, folder=folder)


def update(folder: Path | None, made: Any = Update, **lies: Any) -> Any:
    return _with(made(honest(folder), folder=folder and folder / "update"), lies)


def aggregated(folder: Path | None, made: Any = Aggregation, **lies: Any) -> Any:
    """Evidence names the claim: that of the liar's game."""
    case = gpt()
    claim = None if lies else CONTESTS["an aggregation"].opened_game.claim
    return _with(
        made(case.manifest, case.graph, case.checkpoint, case.updates, claim=claim, seated=case.seated, folder=folder),
        lies,
    )


def _with(computation: Any, lies: dict[str, Any]) -> Any:
    for name, value in lies.items():
        setattr(computation, name, value)
    return computation


def deepest() -> int:
    """The node of which an element has the most parts, among the large ones."""
    nodes = gpt().graph.nodes
    large = [at for at, node in enumerate(nodes) if node.elements > 128 and node.op not in ("input", "constant")]
    return max(large, key=lambda at: part_count(nodes[at]))


def at_words(folder: Path | None) -> Liar:
    node = deepest()
    return liar(folder, elements={(STEP, node): gpt().graph.nodes[node].elements - 1}, states={STEP: 0}, part=1)


CONTESTS = {
    "a word of training": Contest(Kind.TRAINING, at_words, honest),
    "a state of training": Contest(Kind.TRAINING, lambda folder: liar(folder, states={STEP: 4}), honest),
    "the state at step 0": Contest(Kind.TRAINING, lambda folder: liar(folder, states={-1: 1}), honest),
    "an update": Contest(Kind.UPDATE, lambda folder: update(folder, LyingUpdate, elements={(0, 5): 200}), update),
    "an aggregation": Contest(
        Kind.AGGREGATION, lambda folder: aggregated(folder, LyingAggregation, elements={(0, 17): 200}), aggregated
    ),
}


# --- the games


def test_the_games_here__go_through_every_tree_and_end_with_evidence():
    seen = {step.phase for contest in CONTESTS.values() for step in _stands(contest)}
    assert seen >= {*Phase} - {Phase.NONE}
    assert {contest.calm.evidence for contest in CONTESTS.values()} == {2, 3, 8}


def _stands(contest: Contest) -> list[Game]:
    """Where a game stood, before each of its moves and at the end."""
    board, games = GameBoard(contest.opened_game), [contest.opened_game]
    for move in contest.calm.moves:
        board.make(move)
        games.append(board.game)
    return games


@pytest.mark.parametrize("name", CONTESTS)
def test_a_committer_that_ends_at_every_write_of_every_move__answers_as_if_it_had_lived(name, tmp_path):
    contest = CONTESTS[name]
    prover = CrashingPlayer(contest.prover, tmp_path / "folder")
    assert contest.play(prover, Challenger(Trees(contest.mine(None)))) == contest.calm
    assert prover.deaths >= DEATHS[contest.kind]


@pytest.mark.parametrize("name", CONTESTS)
def test_a_challenger_that_ends_at_every_write_of_every_move__convicts_as_if_it_had_lived(name, tmp_path):
    contest = CONTESTS[name]
    challenger = CrashingPlayer(contest.challenger, tmp_path / "folder")
    assert contest.play(Defender(Trees(contest.theirs(None))), challenger) == contest.calm
    assert challenger.deaths >= DEATHS[contest.kind]


DEATHS = {Kind.TRAINING: 12, Kind.UPDATE: 8, Kind.AGGREGATION: 4}  # fewer, and nothing would be written


@pytest.mark.parametrize("fault", [DiskFullPlayer, TornFilePlayer])
@pytest.mark.parametrize("name", ["a state of training", "an update"])
def test_a_side_whose_disk_is_full_or_whose_files_are_torn__plays_on(name, fault, tmp_path):
    contest = CONTESTS[name]
    prover = fault(contest.prover, tmp_path / "theirs")
    challenger = fault(contest.challenger, tmp_path / "mine")
    assert contest.play(prover, challenger) == contest.calm
    assert min(prover.deaths, challenger.deaths) >= 4


def test_a_side_that_cannot_write_at_all__plays_on(tmp_path):
    contest = CONTESTS["a state of training"]
    nowhere = tmp_path / "file" / "folder"
    nowhere.parent.write_text("no folder")
    assert contest.play(contest.prover(nowhere), contest.challenger(nowhere)) == contest.calm
