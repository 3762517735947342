"""Games about trials, before the contracts: a liar's is convicted by evidence and loses admission and stake, an honest one admits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import nn

import repops
from node.admission import benchmark
from node.admission.trial import LoadedWorkload, trial_seed_word
from node.compute.programs import Programs
from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.trees import Trees
from node.disputes.trials import Trial
from repops.graph import Graph
from tests.referee.on_chain_games import CHALLENGER_ACCOUNT, EvidenceMirror, OnChainGames, contracts_judge
from tests.support.evm import chain
from tests.support.games.evidence_oracle import EvidenceOracle, JobFacts
from tests.support.games.game_board import GameBoard, play
from tests.support.games.hostile_challenger import Hostile
from tests.support.liars.faults import LyingTraining
from tests.support.lockstep.contract_mirror import deployed
from tests.support.lockstep.coverage import Coverage
from tests.support.programs import models
from tests.support.scenarios.admissions import enter, seed
from zoo_compute.spec.admissions import work_of
from zoo_compute.spec.frames import Awaits, Frame, Kind, Phase, Result
from zoo_compute.spec.params import COIN, DEVNET
from zoo_compute.spec.referee import opened_game
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS, Workload

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS, STEP = 3, 1


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


class RevealedGames(OnChainGames):
    """An admitted operator, alice, whose trial is asked for again; dave challenges it."""

    claim: Claim
    opened: Result  # the answer, as a challenge opens it

    def open(self) -> None:
        self.register("alice", gpu_class=3)
        self.register("dave")
        programs = loaded().programs
        self.workload = Workload(programs.root, programs.state_root(), STEPS, 10**15)
        self.ok("admissions", "set_workload", "deployer", 40, self.workload)
        judge = EvidenceOracle(
            JobFacts(bytes(32), 0, 0, seed=lambda round, slot: trial_seed_word(round.to_bytes(32, "big")))
        )
        self.world.config = replace(self.world.config, judge=judge)
        self.answers(lambda seed: Trial(loaded(), seed))
        self.to(self.world.trials[self.claim.operator].deadline + 1)
        self.ok("admissions", "settle", "stranger", self.claim)

    def answers(self, made: Callable[[bytes], Trial]) -> Trial:
        """Alice enters a trial and answers it with what this computation finds."""
        enter(self, "alice")
        self.mine(2)
        computed = made(seed(self, "alice"))
        root = Trees(computed).tree(Frame(inner_steps=STEPS, segment_steps=1), Phase.SEGMENTS).root
        self.ok("admissions", "answer", "alice hot", self.ids["alice"], computed.seed, root)
        self.claim = self.world.trials[self.ids["alice"]].claim
        self.opened = Result(segment_root=root)
        return computed

    def challenged(self) -> tuple[Any, ...]:
        """How a challenge names alice's trial."""
        return (TRIALS, self.claim, Kind.TRAINING.value, 0, work_of(self.workload), self.opened)

    def challenge_trial(self) -> int:
        return int(self.ok("referee", "challenge", CHALLENGER_ACCOUNT, *self.challenged()))

    def game_about(self, prover: Trial, challenger: Trial) -> int | None:
        return self.play(self.challenge_trial(), "alice hot", Defender(Trees(prover)), Challenger(Trees(challenger)))


@pytest.fixture(scope="module", name="admitted")
def admitted_fixture():
    with chain.anchor():
        made = RevealedGames(Coverage(), EvidenceMirror(DEVNET, *deployed("devnet")), DEVNET)
        made.open()
        yield made


@pytest.fixture
def stage(admitted):
    with chain.anchor():
        yield copy(admitted)


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
def test_a_false_trial__is_convicted_and_costs_admission_and_stake(stage, lie):
    def liar(seed: bytes) -> LyingTrial:
        made = LyingTrial(loaded(), seed)
        for name, value in LIES[lie]().items():
            setattr(made, name, value)
        return made

    alice, tokens = stage.ids["alice"], stage.world.balances[stage.tokens["zen"], stage.accounts[CHALLENGER_ACCOUNT]]
    false = stage.answers(liar)
    assert stage.game_about(false, Trial(loaded(), false.seed)) == int(lie[0])
    assert stage.last.coin == stage.world.referee_owed[COIN, stage.accounts[CHALLENGER_ACCOUNT]]
    assert stage.world.balances[stage.tokens["zen"], stage.accounts[CHALLENGER_ACCOUNT]] == tokens
    assert (stage.operator("alice").is_admitted, alice in stage.world.trials) == (False, False)
    assert stage.operator("alice").stake == DEVNET.min_stake * 4 // 5


def test_an_honest_trial__stands_a_challenger_that_errs_and_admits(stage):
    honest = stage.answers(lambda seed: Trial(loaded(), seed))
    alice, claim = stage.ids["alice"], stage.claim
    erring = LyingTrial(loaded(), honest.seed)
    erring.elements = {(STEP, node_of("dot")): 5}
    deadline = stage.world.trials[alice].deadline
    stage.to(deadline)
    number = stage.challenge_trial()
    bond = stage.game(number).coin
    assert stage.play(number, "alice hot", Defender(Trees(honest)), Challenger(Trees(erring))) is None
    stage.to(max(stage.game(number).due, deadline) + 1)
    stage.no("admissions: in dispute", "admissions", "settle", "stranger", claim)
    stage.ok("referee", "time_out", "stranger", number, claim, stage.game(number).frame)
    assert stage.world.referee_owed[COIN, stage.accounts["alice owner"]] == bond // 2
    stage.no("admissions: window closed", "referee", "challenge", CHALLENGER_ACCOUNT, *stage.challenged())
    stage.ok("admissions", "settle", "stranger", claim)
    assert (stage.operator("alice").is_admitted, alice in stage.world.trials) == (True, False)
    assert stage.operator("alice").stake == DEVNET.min_stake


@pytest.mark.long
def test_wherever_a_challenger_goes__true_openings_convict_no_trial(stage):
    trees, tried = Trees(stage.answers(lambda seed: Trial(loaded(), seed))), Counter()
    hostile = Hostile(trees, random.Random(2), contracts_judge(stage), tried)
    for _ in range(80):
        game = opened_game(*stage.challenged())
        played = play(GameBoard(game), Defender(trees), hostile, hostile.judge)
        assert not played.is_convicted, played
        assert played.game.awaits >= Awaits.PICK, "the committer owes nothing"
    assert {1, 2, 3, 6, 8} <= tried.keys()


def test_a_trial__is_challenged_as_training_of_its_own_workload(stage):
    stage.answers(lambda seed: Trial(loaded(), seed))
    job, claim, kind, slot, work, result = stage.challenged()
    for reason, args in (
        ("referee: not of this kind", (job, claim, 1, slot, work, result)),
        ("referee: not of this kind", (job, claim, 2, slot, work, result)),
        ("referee: no such slot", (job, claim, kind, 1, work, result)),
        ("referee: work does not match", (job, claim, kind, slot, replace(work, rows=2), result)),
        ("referee: work does not match", (1, claim, kind, slot, work, result)),
        ("referee: work does not match", (job, replace(claim, turn=99), kind, slot, work, result)),
        ("referee: result does not match", (job, claim, kind, slot, work, replace(result, end_root=b"e" * 32))),
        ("admissions: unknown trial", (job, replace(claim, round=1), kind, slot, work, result)),
    ):
        stage.no(reason, "referee", "challenge", CHALLENGER_ACCOUNT, *args)
    assert stage.game(stage.challenge_trial()).move_s == DEVNET.move_s + DEVNET.benchmark_s
    assert stage.game(stage.challenge_trial()).move_s == DEVNET.move_s + 2 * DEVNET.benchmark_s


def test_of_two_games_about_a_trial__one_convicts_and_the_other_ends_with_it(stage):
    stage.answers(lambda seed: Trial(loaded(), seed))
    claim, silent = stage.claim, stage.challenge_trial()
    stage.wait(1)
    other = stage.challenge_trial()
    coin = sum(stage.game(number).coin for number in (silent, other))
    stage.to(stage.game(silent).due)
    frames = {number: stage.game(number).frame for number in (silent, other)}
    stage.no("referee: time left", "referee", "time_out", "stranger", silent, claim, frames[silent])
    stage.wait(1)
    stage.ok("referee", "time_out", "stranger", silent, claim, frames[silent])
    stake = stage.operator("alice").stake
    assert stake == DEVNET.min_stake * 4 // 5
    assert stage.now <= stage.game(other).due
    stage.ok("referee", "time_out", "stranger", other, claim, frames[other])
    assert stage.operator("alice").stake == stake
    assert stage.world.referee_owed[COIN, stage.accounts[CHALLENGER_ACCOUNT]] == coin
    assert stage.ids["alice"] not in stage.world.trials
