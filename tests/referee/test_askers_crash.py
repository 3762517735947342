"""Either side's process ends before, in the middle of and after everything it does: the dispute ends as without that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pytest

from node.compute.programs import Programs
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.computation import Computation, SlotRound
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.commitments import state_root_of
from repops.parts import part_count
from tests.campaigns.lies import gpt
from tests.referee.crashing_players import CrashingPlayer, DiskFullPlayer, TornFilePlayer
from tests.support.evm import Reverted
from tests.support.explorations.exploration_board import (
    Board,
    Played,
    aggregation_claim,
    board_of,
    deployed,
    play,
    training_claim,
)
from tests.support.explorations.lying_jobs import ROUND, Case, LyingAggregation, LyingUpdate
from tests.support.liars.faults import Liar
from zoo_compute.disputes.exploration import Call
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.exploration import Tree
from zoo_compute.spec.frames import Kind, Result

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
STEP = 3  # after it a segment ends
Make = Callable[[Path | None], Computation]


@pytest.fixture(scope="session", autouse=True)
def contracts():
    """Before a test is anchored."""
    deployed()


class Twice(Board):
    """Every call is sent twice, and the contract takes it once."""

    def send(self, call: Call, sender: str) -> None:
        super().send(call, sender)
        nodes = dict(self.picture.nodes)
        with pytest.raises(Reverted):
            super().send(call, sender)
        assert self.picture.nodes == nodes


@dataclass(frozen=True)
class Contest:
    """A dispute: what each side computes, in a folder or in none."""

    kind: Kind
    theirs: Make
    mine: Make

    @cached_property
    def about(self) -> Disputed:
        case, trees = gpt(), Trees(self.theirs(None))
        if self.kind == Kind.AGGREGATION:
            return aggregation_claim(case, trees)
        if self.kind == Kind.TRAINING:
            return replace(training_claim(case, trees), segments=())
        result = replace(case.result(Trees(case.honest)), update_root=state_root_of(trees.computation.after(0)))
        return replace(training_claim(case, Trees(case.honest), result), kind=Kind.UPDATE, segments=())

    def play(self, asker: Any, answerer: Any) -> Any:
        with board_of(gpt(), self.about.claim):
            played = play(Twice(gpt(), self.about.claim), lambda: asker, answerer)
        return played.end, played.kind, played.calls, played.picture.end, len(played.picture.nodes)

    @cached_property
    def calm(self) -> Any:
        """Both sides live to the end, and keep nothing."""
        return self.play(self._asker(Trees(self.mine(None))), self._answerer(Trees(self.theirs(None))))

    def asker(self, folder: Path) -> Asker:
        return self._asker(Trees(self.mine(folder)))

    def answerer(self, folder: Path) -> Answerer:
        return self._answerer(Trees(self.theirs(folder)))

    def _asker(self, trees: Trees) -> Asker:
        return Asker(trees, self.about)

    def _answerer(self, trees: Trees) -> Answerer:
        results = {self.about.slot: self.about.result or Result()}
        return Answerer(self.about.claim, lambda *_: trees, PRODUCTION, result_of=results.get, is_author=True)


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
    case: Case = gpt()
    programs = compiled(made) if folder else Programs(case.graph)
    return made(case.manifest, programs, case.checkpoint, case.examples, ROUND, case.slot, folder=folder)


def update(folder: Path | None, made: Any = Update, **lies: Any) -> Any:
    return _with(made(honest(folder), folder=folder and folder / "update"), lies)


def aggregated(folder: Path | None, made: Any = Aggregation, **lies: Any) -> Any:
    """Evidence names the claim: the liar's."""
    case = gpt()
    claim = None if lies else CONTESTS["an aggregation"].about.claim
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


# --- the disputes


def test_the_disputes_here__go_through_every_tree_and_end_with_evidence():
    seen = set[Tree]()
    for contest in CONTESTS.values():
        with board_of(gpt(), contest.about.claim) as board:
            asker, answerer = contest._asker(Trees(contest.mine(None))), contest._answerer(Trees(contest.theirs(None)))
            played: Played = play(board, lambda asker=asker: asker, answerer)
        seen |= {node.position.tree for node in played.picture.nodes.values()}
    assert seen >= {*Tree} - {Tree.ELEMENT, Tree.RESULT}
    assert {contest.calm[0] for contest in CONTESTS.values()} == {End.JUDGED}
    assert {contest.calm[1] for contest in CONTESTS.values()} == {2, 3, 8}


@pytest.mark.parametrize("name", CONTESTS)
def test_an_author_that_ends_at_every_write_of_every_answer__answers_as_if_it_had_lived(name, tmp_path):
    contest = CONTESTS[name]
    answerer = CrashingPlayer(contest.answerer, tmp_path / "folder")
    assert contest.play(contest._asker(Trees(contest.mine(None))), answerer) == contest.calm
    assert answerer.deaths >= DEATHS[contest.kind]


@pytest.mark.parametrize("name", CONTESTS)
def test_an_asker_that_ends_at_every_write_of_every_ask__convicts_as_if_it_had_lived(name, tmp_path):
    contest = CONTESTS[name]
    asker = CrashingPlayer(contest.asker, tmp_path / "folder")
    assert contest.play(asker, contest._answerer(Trees(contest.theirs(None)))) == contest.calm
    assert asker.deaths >= DEATHS[contest.kind]


DEATHS = {Kind.TRAINING: 6, Kind.UPDATE: 6, Kind.AGGREGATION: 3}  # fewer, and nothing would be written


@pytest.mark.parametrize("fault", [DiskFullPlayer, TornFilePlayer])
@pytest.mark.parametrize("name", ["a state of training", "an update"])
def test_a_side_whose_disk_is_full_or_whose_files_are_torn__goes_on(name, fault, tmp_path):
    contest = CONTESTS[name]
    answerer, asker = fault(contest.answerer, tmp_path / "theirs"), fault(contest.asker, tmp_path / "mine")
    assert contest.play(asker, answerer) == contest.calm
    assert min(answerer.deaths, asker.deaths) >= 2


def test_a_side_that_cannot_write_at_all__goes_on(tmp_path):
    contest = CONTESTS["a state of training"]
    nowhere = tmp_path / "file" / "folder"
    nowhere.parent.write_text("no folder")
    assert contest.play(contest.asker(nowhere), contest.answerer(nowhere)) == contest.calm
