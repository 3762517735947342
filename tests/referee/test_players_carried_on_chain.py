"""Private state that is carried from turn to turn, before the contracts: Settlement itself says what the claim before is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.compute.programs import State
from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.previous_turn import PreviousTurn
from node.disputes.trees import Trees
from repops.commitments import state_root, tensor_roots
from repops.merkle import Tree
from tests.referee.carried_rounds import CarriedRound, carrying, with_bit
from tests.referee.game_driver import JOB
from tests.referee.on_chain_games import EvidenceMirror
from tests.referee.test_players_on_chain import ALICE, BOB, Hearing, judged
from tests.support.evm import chain
from tests.support.lockstep.contract_mirror import deployed
from tests.support.lockstep.coverage import Coverage
from zoo_compute.disputes.evidence import Begin
from zoo_compute.spec.frames import Kind, Result
from zoo_compute.spec.params import PRESETS
from zoo_compute.spec.state import ClaimStatus

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
MADE_UP = Result(b"1" * 32, b"2" * 32, b"3" * 32)


class GoingOn(Hearing):
    """The second turn of a job of depth 1: the claims of the first are paid, and their places in the ring still theirs."""

    case: CarriedRound

    def first_turn(self) -> None:
        case = self.case
        right = replace(case.last.result(Trees(case.last.honest)), update_root=state_root(case.ended[1]))
        seated = (self.commits(ALICE, MADE_UP, MADE_UP), self.commits(BOB, right))
        aggregation = self.aggregates(case.manifest.state_root)
        self.finalise(JOB)
        judged(self, *seated)
        judge = self.world.config.judge
        judge.job.aggregation = aggregation  # type: ignore[union-attr]
        end, update = (tensor_roots(state) for state in case.ended)
        self.before = PreviousTurn(aggregation, seated, end, update)

    def second_turn(self, name: str, carried: State | None, right: State | None) -> int | None:
        """Bob's slot is trained from this private state, and disputed by who begins with the right one; the evidence."""
        case = self.case
        trees = Trees(case.beginning(carried))
        result = case.result(trees)
        seat = self.seat_of(JOB, name)
        tree = Tree([case.leaf(case.slot, result)])
        self.ok("settlement", "commit", f"{name} hot", JOB, seat, 1, tree.root, b"b" * 32)
        self.seats[name] = seat
        self.named[name] = self.world.claims[JOB, seat, 1].claim
        assert self.named[name].turn == 1
        mine = case.beginning(right, before=self.before)
        return self.dispute(name, Kind.TRAINING, case.slot, result, Defender(trees), Challenger(Trees(mine)))


@pytest.fixture
def going_on():
    with chain.anchor():
        preset = PRESETS["devnet"]
        made = GoingOn(Coverage(), EvidenceMirror(preset, *deployed("devnet")), preset)
        made.open(carrying(slots=3), depth=1, rounds=4)
        made.first_turn()
        yield made


def status(stage: GoingOn, name: str) -> ClaimStatus:
    return stage.world.claims[JOB, stage.seats[name], 1].status


def test_who_carries_a_false_bit__or_begins_at_zero__is_convicted_by_the_contracts(going_on):
    private = going_on.case.private
    for lie in (with_bit(private, next(iter(private))), None):
        with chain.anchor():
            world = going_on.world
            assert going_on.second_turn(BOB, lie, private) == Begin.KIND
            assert status(going_on, BOB) == ClaimStatus.CONVICTED
        going_on.world = world


def test_who_carries_what_is_right__is_not_convicted(going_on):
    assert going_on.second_turn(BOB, going_on.case.private, None) is None
    assert status(going_on, BOB) == ClaimStatus.PENDING
