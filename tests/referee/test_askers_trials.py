"""Disputes about trials, before the contracts: a liar is convicted by evidence of each kind, and an honest answer is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import nn

import repops
from node.admission import benchmark
from node.admission.trial import LoadedWorkload
from node.compute.programs import Programs
from node.disputes.alone import Trial
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.trees import Trees
from repops.graph import Graph
from tests.support.evm import Reverted, chain
from tests.support.explorations.exploration_board import AHEAD_S, REEXECUTE_S, Board, Played, deployed, play
from tests.support.liars.faults import LyingTraining
from tests.support.programs import models
from zoo_compute.disputes.exploration import values
from zoo_compute.spec.admissions import claim_of, work_of
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.exploration import segments_position
from zoo_compute.spec.frames import Frame, Kind, Phase, Result
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS, Workload

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS, STEP, OPERATOR = 3, 1, 7
SEED = b"\xff\xfe\x01\x80" + 28 * b"s"


@pytest.fixture(scope="session", autouse=True)
def contracts():
    """Before a test is anchored."""
    deployed()


class LyingTrial(LyingTraining, Trial):
    """A trial that is another."""


@lru_cache
def program() -> Graph:
    """A step with random draws, so that the seed counts."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 10))
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    return repops.trace(module, nn.functional.cross_entropy, optimizer, models.vectors(0, 2)).graph


def loaded() -> LoadedWorkload:
    programs = Programs(program())
    programs.begin(benchmark.fixed_state(programs))
    return LoadedWorkload(programs, programs.root, programs.state_root())


@lru_cache
def workload() -> Workload:
    programs = loaded().programs
    return Workload(programs.root, programs.state_root(), STEPS, 10**15)


class TrialBoard(Board):
    """An answered trial; whoever keeps trials says that it is."""

    def __post_init__(self) -> None:
        self.at, self.accounts = deployed(), {}
        self.deadline = chain.timestamp + AHEAD_S
        terms = (work_of(workload()).root, REEXECUTE_S, 1, self.deadline)
        self.at.double.set_claim(TRIALS, values(self.claim), terms)
        self.at.double.set_operator(self.claim.operator, self.account("owner"), self.account("hot"))


def answered(theirs: Trees) -> tuple[Claim, Result]:
    root = theirs.tree(Frame(inner_steps=STEPS, segment_steps=1), Phase.SEGMENTS).root
    return claim_of(OPERATOR, workload(), SEED, root), Result(segment_root=root)


@contextmanager
def board_of(claim: Claim):
    with chain.anchor():
        yield TrialBoard(None, claim)  # type: ignore[arg-type]


def asker_of(mine: Trees, claim: Claim) -> Asker:
    """The chain says nothing of the segments: their root is asked for."""
    return Asker(mine, Disputed(TRIALS, claim, Kind.TRAINING, 0, work_of(workload())))


def played(theirs: Trees, mine: Trees, **options: Any) -> Played:
    claim, result = answered(theirs)
    answerer = Answerer(claim, lambda *_: theirs, PRODUCTION, result_of={0: result}.get, is_author=True)
    with board_of(claim) as board:
        return play(board, lambda: asker_of(mine, claim), answerer, **options)


def lying(**lies: Any) -> Trees:
    liar = LyingTrial(loaded(), SEED)
    for name, value in lies.items():
        setattr(liar, name, value)
    return Trees(liar)


def node_of(op: str) -> int:
    return next(at for at, node in enumerate(program().nodes) if node.op == op and node.elements > 8)


LIES: dict[str, Callable[[], dict[str, Any]]] = {
    "2 begin, the seed": lambda: {"begun": "seed"},
    "2 begin, a weight": lambda: {"begun": program().state[0].name},
    "2 begin, the optimiser": lambda: {"begun": program().state[-1].name},
    "3 output": lambda: {"states": {STEP: 2}},
    "4 input": lambda: {"elements": {(STEP, program().state[0].before): 1}},
    "5 constant": lambda: {"elements": {(STEP, node_of("constant")): 0}, "states": {STEP: 0}},
    "6 data": lambda: {"elements": {(STEP, program().batch[0][1]): 7}, "bit": 30},
    "6 data, the targets": lambda: {"elements": {(STEP, program().batch[1][1]): 1}, "states": {STEP: 0}},
    "8 part": lambda: {"elements": {(STEP, node_of("dot")): 5}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_trial__is_judged_where_it_is_false(lie):
    ended = played(lying(**LIES[lie]()), Trees(Trial(loaded(), SEED)))
    assert (ended.end, ended.kind) == (End.JUDGED, int(lie[0])), ended.refused


def test_an_honest_trial__is_asked_nothing_more_than_its_result_and_convicted_by_nobody_that_errs():
    honest = Trees(Trial(loaded(), SEED))
    calls = played(honest, honest).calls
    assert calls == {"ask_claim": 1, "answer_stage": 1}
    rng = random.Random(2)
    for at in rng.sample([at for at, node in enumerate(program().nodes) if node.elements], 12):
        erring = lying(elements={(STEP, at): 0}, states={STEP: rng.randrange(len(program().state))})
        ended = played(honest, erring, is_patient=False)
        assert ended.end is None
        assert ended.asks > 1


def test_a_trial__is_asked_about_as_training_of_its_own_workload():
    honest = Trees(Trial(loaded(), SEED))
    claim, result = answered(honest)
    disputed, shown = asker_of(honest, claim).disputed, replace(result, end_root=b"e" * 32)
    with board_of(claim) as board:
        for reason, about in (
            ("referee: not of this kind", replace(disputed, kind=Kind.UPDATE)),
            ("referee: not of this kind", replace(disputed, kind=Kind.AGGREGATION)),
            ("referee: no such slot", replace(disputed, slot=1)),
            ("referee: work does not match", replace(disputed, work=replace(disputed.work, rows=2))),
            ("referee: result does not match", disputed),
        ):
            position = segments_position(STEPS, 1)
            call = Asker(honest, about)._ask_claim(board.picture, about.kind, shown, position)
            with pytest.raises(Reverted, match=reason):
                board.send(call, "asker")
