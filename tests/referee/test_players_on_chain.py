"""Whole games before the contracts, each move in step with the specification: every kind of evidence convicts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.previous_turn import SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.commitments import state_root, state_root_of
from repops.merkle import Tree
from tests.referee.game_driver import JOB
from tests.referee.on_chain_games import CHALLENGER_ACCOUNT, EvidenceMirror, OnChainGames, contracts_judge
from tests.referee.test_players_hostile import check_games
from tests.referee.test_players_programs import check_operator, one_of_each
from tests.support.evm import chain
from tests.support.games.evidence_oracle import EvidenceOracle, JobFacts
from tests.support.games.hostile_challenger import Hostile
from tests.support.games.lying_jobs import Case, LyingAggregation, LyingUpdate, mlp
from tests.support.job_driver import Offer
from tests.support.lockstep.contract_mirror import deployed
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec.frames import Kind, Result
from zoo_compute.spec.params import AGGREGATOR_SEAT, PRESETS
from zoo_compute.spec.state import Claim, ClaimStatus

pytestmark = pytest.mark.usefixtures("one_thread")
ALICE, BOB, CAROL = "alice", "bob", "carol"


class Hearing(OnChainGames):
    """A job of a real program, up to its first turn: alice has slots 0 and 1, bob slot 2, carol aggregates."""

    case: Case

    def open(self, case: Case, **terms: Any) -> None:
        self.register_all(ALICE, BOB, CAROL, "dave")
        roots = {"work_root": case.work.root, "state_root": case.manifest.state_root}
        roots |= {"data_root": case.manifest.data_root, "manifest": case.manifest.digest}
        self.running({ALICE: Offer(100, 2), BOB: Offer(90, 1)}, {CAROL: Offer(40)}, slots=3, **roots, **terms)
        self.seats = {name: self.seat_of(JOB, name) for name in (ALICE, BOB)}
        self.case = replace(case, slot=self.first(BOB))
        self.named = {}

    def first(self, name: str) -> int:
        return self.world.seat(JOB, self.seats[name]).first

    def commits(self, name: str, *results: Result) -> SeatClaim:
        """A seat's results."""
        first = self.first(name)
        tree = Tree([self.case.leaf(first + at, result) for at, result in enumerate(results)])
        self.ok("settlement", "commit", f"{name} hot", JOB, self.seats[name], 0, tree.root, b"b" * 32)
        self.named[name] = self.world.claims[JOB, self.seats[name], 0].claim
        return SeatClaim(
            self.named[name], {first + at: replace(each, path=tree.path(at)) for at, each in enumerate(results)}
        )

    def aggregates(self, root: bytes) -> Claim:
        mask = sum(1 << seat for seat in self.seats.values())
        self.ok("settlement", "post_checkpoint", "carol hot", JOB, 0, mask, root, b"c" * 32)
        self.named[CAROL] = self.world.claims[JOB, AGGREGATOR_SEAT, 0].claim
        return self.named[CAROL]

    def dispute(
        self, name: str, kind: Kind, slot: int, result: Result, prover: Defender, challenger: Challenger
    ) -> int:
        """The whole game; the kind of evidence that ended it. What was shown is read from the contract's events alone."""
        args = (JOB, self.named[name], kind.value, slot, self.case.work, result)
        number = int(self.ok("referee", "challenge", CHALLENGER_ACCOUNT, *args))
        return self.play(number, f"{name} hot", prover, challenger)


@pytest.fixture(scope="module", name="opened")
def opened_fixture():
    with chain.anchor():
        preset = PRESETS["devnet"]
        made = Hearing(Coverage(), EvidenceMirror(preset, *deployed("devnet")), preset)
        made.open(mlp(slots=3))
        yield made


@pytest.fixture
def hearing(opened):
    with chain.anchor():
        mine = copy(opened)
        mine.named = {}
        yield mine


def judged(hearing: Hearing, *seated: SeatClaim) -> None:
    """The specification asks the judge on paper."""
    data, manifest = hearing.case.manifest.data, hearing.case.manifest
    claims = [each.claim for each in seated]
    judge = EvidenceOracle(JobFacts(manifest.data_root, data.examples, manifest.slots, manifest.draw_seed, claims))
    hearing.world.config = replace(hearing.world.config, judge=judge)


def status(hearing: Hearing, name: str) -> ClaimStatus:
    seat = AGGREGATOR_SEAT if name == CAROL else hearing.seats[name]
    return hearing.world.claims[JOB, seat, 0].status


def node_of(case: Case, op: str, *, elements: int = 1) -> int:
    return next(at for at, node in enumerate(case.graph.nodes) if node.op == op and node.elements >= elements)


STEP = 3
TRAINING: dict[str, Callable[[Case], dict[str, Any]]] = {
    "2 begin, a tensor": lambda case: {"states": {-1: 0}},
    "2 begin, the optimiser": lambda case: {"begun": case.graph.state[-1].name},
    "3 output": lambda case: {"states": {STEP: 4}},
    "4 input": lambda case: {"elements": {(STEP, case.graph.state[2].before): 1}},
    "5 constant": lambda case: {"elements": {(STEP, node_of(case, "constant")): 0}, "states": {STEP: 0}},
    "6 data": lambda case: {"elements": {(STEP, case.graph.batch[0][1]): 7}},
    "6 data, the targets": lambda case: {"elements": {(STEP, case.graph.batch[1][1]): 1}, "states": {STEP: 0}},
    "8 part, of one": lambda case: {"elements": {(STEP, node_of(case, "fma", elements=9)): 8}, "states": {STEP: 0}},
    "8 part, of a dot": lambda case: {"elements": {(STEP, node_of(case, "dot")): 5}, "part": 1, "states": {STEP: 0}},
    "8 part, the last": lambda case: {"elements": {(STEP, node_of(case, "sum")): 0}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", TRAINING)
def test_a_lie_about_training__is_convicted_by_the_contracts(hearing, lie):
    case, name, slot = hearing.case, BOB, hearing.case.slot
    liar = case.lying()
    for place, value in TRAINING[lie](case).items():
        setattr(liar, place, value)
    trees = Trees(liar)
    result = case.result(trees)
    judged(hearing, hearing.commits(name, result))
    kind = hearing.dispute(name, Kind.TRAINING, slot, result, Defender(trees), Challenger(Trees(case.honest)))
    assert kind == int(lie[0])
    assert status(hearing, name) == ClaimStatus.CONVICTED


def test_an_end_that_is_not_the_last_state__is_convicted_by_the_contracts(hearing):
    case = hearing.case
    trees = Trees(case.honest)
    result = replace(case.result(trees), end_root=b"e" * 32)
    judged(hearing, hearing.commits(BOB, result))
    assert hearing.dispute(BOB, Kind.TRAINING, case.slot, result, Defender(trees), Challenger(trees)) == 1
    assert status(hearing, BOB) == ClaimStatus.CONVICTED


@pytest.mark.parametrize(("node", "kind"), [(0, 4), (1, 4), (2, 8), (None, 3)])
def test_a_lie_about_an_update__is_convicted_by_the_contracts(hearing, node, kind):
    case = hearing.case
    liar = LyingUpdate(case.honest)
    if node is None:
        liar.states = {0: 1}
    else:
        liar.elements = {(0, node): 3}
    update_root = state_root_of(liar.after(0))
    result = replace(case.result(Trees(case.honest)), update_root=update_root)
    judged(hearing, hearing.commits(BOB, result))
    prover, challenger = Defender(Trees(liar)), Challenger(Trees(Update(case.honest)))
    assert hearing.dispute(BOB, Kind.UPDATE, case.slot, result, prover, challenger) == kind
    assert status(hearing, BOB) == ClaimStatus.CONVICTED


def place_of(graph: Any, what: str) -> tuple[int, int]:
    """A node of the aggregation, and an element."""
    names = {name: at for name, at in graph.batch}
    updates = max(names.values(), key=lambda at: graph.nodes[at].elements)
    each = graph.nodes[updates].elements // 3
    return {
        "7 a present slot": (updates, 1),
        "7 the last slot": (updates, 3 * each - 1),
        "7 how many are present": (names["present"], 0),
        "4 the checkpoint": (graph.state[0].before, 0),
        "8 the mean": (next(at for at, node in enumerate(graph.nodes) if node.op == "div"), 2),
        "8 the sum": (next(at for at, node in enumerate(graph.nodes) if node.op == "sum_sequential"), 2),
    }[what]


AGGREGATED = ("7 a present slot", "7 the last slot", "7 how many are present", "4 the checkpoint", "8 the mean")


@pytest.mark.parametrize("lie", [*AGGREGATED, "8 the sum"])
def test_a_lie_about_an_aggregation__is_convicted_by_the_contracts(hearing, lie):
    case = hearing.case
    updates = dict(enumerate(case.updates.values()))
    slots = [*range(hearing.first(ALICE), hearing.first(ALICE) + 2), hearing.first(BOB)]
    results = {slot: Result(b"1" * 32, b"2" * 32, state_root(updates[slot])) for slot in slots}
    seated = (hearing.commits(ALICE, *(results[slot] for slot in slots[:2])), hearing.commits(BOB, results[slots[2]]))
    liar = LyingAggregation(case.manifest, case.graph, case.checkpoint, updates)
    node, element = place_of(liar.graph, lie)
    liar.elements = {(0, node): element}
    claim = hearing.aggregates(state_root_of(liar.after(0)))
    judged(hearing, *seated)
    mine = Aggregation(case.manifest, case.graph, case.checkpoint, updates, claim=claim, seated=seated)
    kind = hearing.dispute(CAROL, Kind.AGGREGATION, 0, Result(), Defender(Trees(liar)), Challenger(Trees(mine)))
    assert kind == int(lie[0])
    assert hearing.last.frame.node == node
    assert status(hearing, CAROL) == ClaimStatus.CONVICTED


# --- many games on paper, which the contracts judge


@pytest.mark.parametrize(("name", "node"), one_of_each()[::2])
def test_every_operator__is_judged_by_the_contracts(hearing, name, node):
    judged(hearing)
    check_operator(name, node, contracts_judge(hearing))


def test_wherever_a_challenger_goes__true_openings_convict_nobody_before_the_contracts(hearing):
    case, tried = hearing.case, Counter()
    judged(hearing)
    trees = Trees(case.honest)
    hostile = Hostile(trees, random.Random(1), contracts_judge(hearing), tried)
    check_games(case, Defender(trees), hostile, case.result(trees), Kind.TRAINING, 100)
    assert {1, 2, 3, 8} <= tried.keys()


def test_a_challenger_that_errs__has_no_evidence_before_the_contracts(hearing):
    case, rng, seen = hearing.case, random.Random(4), Counter()
    judged(hearing)
    honest, judge = Trees(case.honest), contracts_judge(hearing)
    result = case.result(honest)
    nodes = [at for at, node in enumerate(case.graph.nodes) if node.elements]
    for node in rng.sample(nodes, 30):
        liar = case.lying()
        liar.elements = {(STEP, node): rng.randrange(case.graph.nodes[node].elements)}
        liar.states = {STEP: 0}
        played = case.training(Defender(honest), result, Challenger(Trees(liar)), judge)
        assert not played.is_convicted
        seen[played.refused] += 1
    assert seen.keys() >= {"evidence: not false"}
    assert all(reason.startswith("evidence: ") for reason in seen if reason), seen
