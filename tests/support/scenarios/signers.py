"""Directed sequences about demands of custodians, which signed for what is demanded. See `opening`."""

from __future__ import annotations

from typing import Any

from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.custody import CustodyScenario
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.custodians import CustodyStatus
from zoo_compute.spec.custody import reserve_after_help
from zoo_compute.spec.params import AGGREGATOR_SEAT, STRANGERS_LANE, SUBMITTER_LANE
from zoo_compute.spec.state import Claim, ClaimStatus
from zoo_compute.spec.watching import Demand

WINDOWS = {"slot_s": 300, "aggregate_s": 300, "reexecute_s": 200}


class SignersScenario(CustodyScenario):
    """Places 0 and 1 signed for all of the first turn; `claims` are those of its seats, by seat, and its aggregation."""

    def __init__(self, s: Stage, **changes: Any) -> None:
        super().__init__(s, **{**WINDOWS, **changes})
        self.ready()
        self.commit_all()
        self.claims = {seat: s.world.claims[self.job, seat, 0].claim for seat in range(3)}
        self.claims[AGGREGATOR_SEAT] = self.posted(inputs=self.inputs(7, 0, 1))
        self.signed = self.committee

    def holder(self, lane: int) -> str:
        if lane in (SUBMITTER_LANE, STRANGERS_LANE):
            return "submitter" if lane == SUBMITTER_LANE else "stranger"
        return str(self.s.world.operator(self.s.world.seat(self.job, lane).operator).hot)

    def demand(self, seat: int, place: int, lane: int = STRANGERS_LANE, reason: str = "", **changes: Any) -> None:
        claim: Claim = changes.get("claim", self.claims[seat])
        slot = 0 if claim.is_aggregation else claim.scope >> 16
        args = (self.job, claim, lane, slot, 0, 0, place, changes.get("committee", self.signed))
        sender, value = changes.get("sender", self.holder(lane)), least_deposit(self.s.base_fee)
        refusal = self.s.attempt("availability", "demand_of_signer", sender, *args, value=value)
        assert refusal == (reason or None), refusal

    def answer(self, seat: int, lane: int = STRANGERS_LANE, sender: str = "stranger") -> None:
        claim = self.claims[seat]
        opening = committed_results.chunk_opening(claim, self.question(seat, lane))
        self.s.ok("availability", "answer", sender, self.job, claim, lane, opening)

    def helped(self, seat: int, lane: int = STRANGERS_LANE) -> None:
        self.answer(seat, lane, sender="carol hot")

    def close(self, seat: int, lane: int = STRANGERS_LANE) -> None:
        self.s.ok("availability", "close", "stranger", self.job, self.claims[seat], lane)

    def question(self, seat: int, lane: int = STRANGERS_LANE) -> Demand:
        return self.s.world.demands[self.job, self.claims[seat], lane]

    def reserve(self, name: str) -> int:
        return self.s.world.custody_roles[self.job, self.s.ids[name]].reserve

    def owed(self, account: str) -> int:
        return self.s.world.coin_owed.get(self.s.accounts[account], 0)


@scenario
def data_is_demanded_of_one_that_signed_for_it(s: Stage) -> None:
    t = SignersScenario(s)
    job, deposit = t.job, least_deposit(s.base_fee)
    claim = t.claims[0]
    s.no("availability: signers answer", "availability", "demand", "stranger", job, claim, 130, 0, 0, 0, value=deposit)
    did_not = "custody: it did not sign"
    for seat in (0, AGGREGATOR_SEAT):
        t.demand(seat, 2, reason=did_not)
        t.demand(seat, 2**200, reason=did_not)
        t.demand(seat, 0, reason="custody: committee differs", committee=t.signed[:2])
    t.demand(0, 0, lane=0, reason="availability: not the lane's holder")  # of her own claim
    t.demand(0, 0, lane=1)
    t.demand(0, 1, lane=1, reason="availability: demand open")
    t.demand(0, 1)
    t.demand(AGGREGATOR_SEAT, 1, lane=SUBMITTER_LANE)
    asked = s.world.demands[job, claim, 1]
    assert (asked.signer, asked.holds) == (t.signed[0].operator, True)
    s.wait(s.preset.answer_s // 2)
    t.answer(0, 1)  # for whom the first half of the time is, whoever sends it
    assert t.owed(f"{t.name(0)} owner") == deposit
    s.wait(1)
    mine = f"{t.name(1)} hot"
    t.answer(AGGREGATOR_SEAT, SUBMITTER_LANE, sender=mine)  # for the sender
    assert (t.owed(mine), t.owed(f"{t.name(1)} owner")) == (deposit, 0)
    s.wait(s.preset.answer_s)
    t.close(0)
    assert (t.reserve(t.name(0)) > 0, t.reserve(t.name(1))) == (True, 0)


@scenario
def a_signer_that_shows_nothing_loses_its_reserve_and_its_place(s: Stage) -> None:
    """The claim stays: somebody else who signed for it is honest. The job goes on, and pays."""
    t = SignersScenario(s)
    job, silent, claim = t.job, t.name(0), t.claims[AGGREGATOR_SEAT]
    reserve, burned = t.reserve(silent), s.world.custody_burned.get(t.token, 0)
    escrow = s.world.custody_escrows[job]
    t.demand(AGGREGATOR_SEAT, 0, lane=1)
    t.demand(0, 0)  # two demands of one signer
    s.wait(s.preset.answer_s)
    args = (job, claim, 1)
    s.no("availability: window open", "availability", "close", "stranger", *args)
    t.no("its reserve is here", "expel", "stranger", job, t.committee, 0)
    s.wait(1)
    t.close(AGGREGATOR_SEAT, 1)
    assert (t.reserve(silent), s.world.custody_burned[t.token]) == (0, burned + reserve)
    assert s.world.custody_escrows[job] == escrow, "nobody earns by outages"
    t.close(0)
    assert s.world.custody_burned[t.token] == burned + reserve, "the second one finds nothing left"
    t.demand(1, 0, reason="availability: nothing reserved")
    assert t.owed("stranger") == least_deposit(s.base_fee)
    t.ok("expel", "stranger", job, t.committee, 0)
    assert s.world.claims[job, AGGREGATOR_SEAT, 0].status == ClaimStatus.PENDING
    assert s.world.run(job).round == 1
    t.offered("alice")
    t.drawn()
    t.closed()
    s.finalise(job)
    t.ok("count", "stranger", job, 1, t.signed)
    t.closed()
    s.settle(job)


@scenario
def whoever_helps_a_signer_does_not_spare_it(s: Stage) -> None:
    """Somebody else shows the data: a part of the reserve burns, once, and the place goes. What nobody shows takes the rest."""
    t = SignersScenario(s)
    job, silent, deposit = t.job, t.name(0), least_deposit(s.base_fee)
    reserve, burned = t.reserve(silent), s.world.custody_burned.get(t.token, 0)
    t.demand(AGGREGATOR_SEAT, 0, lane=1)
    t.demand(0, 0)
    t.demand(1, 0)
    s.wait(s.preset.answer_s // 2 + 1)
    t.helped(AGGREGATOR_SEAT, 1)
    assert t.owed("carol hot") == deposit
    assert s.world.run(job).holds == 0, "the data is there: the clocks run"
    t.helped(0)
    args = (job, t.claims[0], STRANGERS_LANE, committed_results.chunk_opening(t.claims[0], t.question(0)))
    s.no("availability: already shown", "availability", "answer", "stranger", *args)
    t.no("its reserve is here", "expel", "stranger", job, t.committee, 0)
    s.wait(s.preset.answer_s - s.preset.answer_s // 2 - 1)
    s.no("availability: window open", "availability", "close", "stranger", job, t.claims[0], STRANGERS_LANE)
    s.wait(1)
    t.close(AGGREGATOR_SEAT, 1)
    left = reserve_after_help(reserve)
    assert (t.reserve(silent), s.world.custody_burned[t.token]) == (left, burned + reserve - left)
    assert 0 < left < reserve
    t.close(0)
    assert t.reserve(silent) == left, "an outage costs it once, however many ask"
    assert (t.owed("stranger"), t.owed("carol hot")) == (0, 2 * deposit)
    t.ok("expel", "stranger", job, t.committee, 0)
    t.close(1)
    assert t.reserve(silent) == 0, "nobody showed that"
    assert t.owed("stranger") == deposit


@scenario
def nobody_convicts_a_signer_by_answering(s: Stage) -> None:
    """A demander answers its own demand, early or late, and copies what the signer sends: the signer answers in its time."""
    t = SignersScenario(s)
    job, name, deposit = t.job, t.name(0), least_deposit(s.base_fee)
    reserve = t.reserve(name)
    t.demand(0, 0)
    t.answer(0)  # early, by the demander: the signer earns by it
    assert t.owed(f"{name} owner") == deposit
    t.demand(0, 0)
    t.demand(1, 0, lane=SUBMITTER_LANE)
    s.wait(s.preset.answer_s // 2 + 1)
    t.answer(0)  # late, by the demander: it has its deposit back, and no more
    t.answer(1, SUBMITTER_LANE, sender="submitter")
    s.wait(s.preset.answer_s - s.preset.answer_s // 2 - 1)
    t.answer(0, sender=f"{name} hot")
    t.answer(1, SUBMITTER_LANE, sender=f"{name} hot")
    s.no("availability: no demand", "availability", "close", "stranger", job, t.claims[0], STRANGERS_LANE)
    assert (t.reserve(name), t.owed("stranger"), t.owed("submitter")) == (reserve, deposit, deposit)
    t.no("its reserve is here", "expel", "stranger", job, t.committee, 0)
    t.demand(0, 0)  # the lane is free again


@scenario
def whoever_lapsed_or_left_still_pays_for_what_others_showed(s: Stage) -> None:
    """Up to the same part: a lapse counts towards it."""
    t = SignersScenario(s, reexecute_s=2_000)
    job, left, reserve = t.job, t.name(0), t.reserve(t.name(0))
    t.ok("resign", f"{left} hot", job, t.committee, 0)
    t.offered("alice", "bob")
    t.drawn()
    second = t.name(1)
    s.to(s.world.run(job).inputs_close + s.preset.answer_s + 1)
    t.ok("lapse", "stranger", job, t.committee, t.place(second))
    lapsed = t.reserve(second)
    assert lapsed < reserve
    t.demand(0, 0)
    t.demand(1, 1)
    s.wait(s.preset.answer_s // 2 + 1)
    t.helped(0)
    t.helped(1)
    s.wait(s.preset.answer_s)
    t.close(0)
    t.close(1)
    assert t.reserve(left) == t.reserve(second) == reserve_after_help(reserve)


@scenario
def whoever_left_its_place_still_answers_for_what_it_signed(s: Stage) -> None:
    """And a draw that is scheduled stops no demand from ending: the place falls vacant after it."""
    t = SignersScenario(s)
    job, left, stays = t.job, t.name(0), t.name(1)
    t.ok("resign", f"{left} hot", job, t.committee, 0)
    t.offered("alice", "bob")
    t.drawn()
    assert s.world.custody_roles[job, s.ids[left]].status == CustodyStatus.LEFT
    t.demand(0, 0, committee=t.committee, reason="custody: committee differs")
    t.demand(0, 0)
    t.demand(1, 1)
    t.ok("resign", f"{t.name(2)} hot", job, t.committee, 2)
    t.offered("carol")
    s.wait(s.preset.answer_s + 1)
    t.ok("schedule", "stranger", job)
    t.close(0)
    t.close(1)
    assert t.reserve(left) == t.reserve(stays) == 0
    place = t.place(stays)
    t.no("draw scheduled", "expel", "stranger", job, t.committee, place)
    s.mine(s.preset.draw_blocks + 2)
    t.ok("draw", "stranger", job, t.committee)
    t.ok("expel", "stranger", job, t.committee, place)


@scenario
def a_demand_ends_before_reserves_go_back(s: Stage) -> None:
    """Of the last turn, in the last second for it. One that nobody ended in its time is ended later, and takes nothing."""
    t = SignersScenario(s, rounds=1)
    job, first, second = t.job, t.name(0), t.name(1)
    deadline = s.deadline(job, *t.claims.values())
    s.to(deadline - 2 * s.preset.answer_s)
    t.demand(0, 0)
    t.demand(1, 1)
    s.to(deadline)
    for name in (first, second):
        t.no("job not over", "release", "stranger", job, s.ids[name])
    t.close(0)
    assert t.reserve(first) == 0
    s.finalise(job)
    t.count()
    t.no("nothing reserved", "release", "stranger", job, s.ids[first])
    t.ok("release", "stranger", job, s.ids[second])
    funds = s.world.custody_funds[t.token, s.ids[second]]
    t.close(1)
    assert s.world.custody_funds[t.token, s.ids[second]] == funds
    assert t.owed("stranger") == 2 * least_deposit(s.base_fee)


@scenario
def nobody_signed_for_what_an_abandoned_turn_left(s: Stage) -> None:
    """Its claims are payable, and no custodian answers for them; those that a majority held are demanded of its signers."""
    t = CustodyScenario(s, **WINDOWS).ready()
    job = t.job
    t.commit_all()
    t.hold(0b011, 0, 1)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "abandon", "stranger", job)
    claims = [s.world.claims[job, seat, 0].claim for seat in range(3)]
    value = least_deposit(s.base_fee)
    for seat, reason in ((2, "custody: it did not sign"), (AGGREGATOR_SEAT, "custody: it did not sign"), (0, None)):
        claim = claims[seat] if seat < 3 else Claim(0, 0, AGGREGATOR_SEAT, 4, 7, 1, b"s" * 32, b"r" * 32)
        args = (job, claim, STRANGERS_LANE, 0 if claim.is_aggregation else claim.scope >> 16, 0, 0, 0, t.committee)
        refusal = s.attempt("availability", "demand_of_signer", "stranger", *args, value=value)
        assert refusal == reason, (seat, refusal)


@scenario
def nobody_asks_a_signer_for_more_than_it_can_show_at_once(s: Stage) -> None:
    """One stranger demanded of one custodian for all of its claims at once: of a large model it could show only some in time."""
    t = SignersScenario(s)
    name, busy = t.name(0), "availability: signer is busy"
    t.demand(0, 0)
    t.demand(1, 0)
    t.demand(2, 0, reason=busy)
    t.demand(AGGREGATOR_SEAT, 0, reason=busy)
    t.demand(2, 1)  # another signer
    t.demand(AGGREGATOR_SEAT, 0, lane=SUBMITTER_LANE)  # another lane
    t.answer(0)  # in the first half: the signer's, whoever sends it
    t.demand(0, 0)
    t.demand(AGGREGATOR_SEAT, 0, reason=busy)
    s.wait(s.preset.answer_s // 2 + 1)
    t.helped(1)
    t.demand(AGGREGATOR_SEAT, 0, reason=busy)  # it may still answer
    t.answer(1, sender=f"{name} hot")
    t.demand(AGGREGATOR_SEAT, 0)
    s.wait(s.preset.answer_s // 2 + 1)
    t.demand(1, 0, reason=busy)  # nobody closed what is over
    s.wait(s.preset.answer_s)
    for seat in (0, AGGREGATOR_SEAT):
        t.close(seat)
    t.close(AGGREGATOR_SEAT, SUBMITTER_LANE)
    t.close(2)
    assert not any(s.world.signer_demands.values())


@scenario
def what_help_costs_a_signer_is_rounded_up(s: Stage) -> None:
    """Rounded down, a reserve below four lost nothing."""
    assert [reserve_after_help(reserve) for reserve in (1, 3, 4)] == [0, 2, 3]
    t = SignersScenario(s, aggregator_max_price=81)
    name = t.name(0)
    assert t.reserve(name) == 561, "no multiple of four"
    t.demand(0, 0)
    s.wait(s.preset.answer_s // 2 + 1)
    t.helped(0)
    s.wait(s.preset.answer_s)
    t.close(0)
    assert t.reserve(name) == 420
    t.ok("expel", "stranger", t.job, t.committee, 0)


@scenario
def a_record_of_another_turn_says_nothing_of_who_signed(s: Stage) -> None:
    """The first turn's place of the ring has the record of the third, which the same custodians signed."""
    t = SignersScenario(s, rounds=5, depth=1)
    s.finalise(t.job)
    t.closed()
    s.finalise(t.job)
    t.count()
    t.closed()
    assert (s.world.custody_records[t.job, 0].turn, s.world.custody_records[t.job, 0].inputs) == (2, 0b011)
    for seat in (0, AGGREGATOR_SEAT):
        t.demand(seat, 0, reason="custody: it did not sign")


@scenario
def nobody_lapses_while_a_demand_holds_the_clocks(s: Stage) -> None:
    t = SignersScenario(s, slot_s=60)
    job, answer_s, closes = t.job, s.preset.answer_s, s.world.run(t.job).inputs_close
    s.to(closes)
    t.demand(0, 0, lane=1)
    s.wait(answer_s + 1)
    t.no("time left", "lapse", "stranger", job, t.committee, 2)
    t.close(0, 1)
    assert (s.world.run(job).holds, s.world.run(job).inputs_close) == (0, closes + answer_s)
    s.to(closes + 2 * answer_s)
    t.no("time left", "lapse", "stranger", job, t.committee, 2)
    s.wait(1)
    t.ok("lapse", "stranger", job, t.committee, 2)
