"""Directed sequences about Availability: data that is asked for is shown or lost. See `opening`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.job_driver import Offer
from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import AUDITORS, Stage
from tests.support.scenarios.auctions import scenario
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import AGGREGATOR_SEAT, STRANGERS_LANE, SUBMITTER_LANE
from zoo_compute.spec.state import Claim, ClaimStatus


class DemandScenario:
    """A job of six slots in three seats, with windows of ten minutes; `claims` are those of its first turn, by seat."""

    def __init__(self, s: Stage, **changes: Any) -> None:
        s.register_all()
        for name in AUDITORS:
            s.register(name)
        slots = {name: Offer(40, 2) for name in ("alice", "bob", "carol")}
        times = {"slot_s": 300, "aggregate_s": 300, "reexecute_s": 200}
        self.s = s
        self.job = job = s.post(slots=6, rounds=9, **times, **changes)
        s.bid_all(job, slots, {"dave": Offer(40)})
        s.reveal_all(job, slots, {"dave": Offer(40)})
        for kind in (0, 1):
            s.ok("auction", "clear", "stranger", job, kind, s.order(job, kind))
        for kind in (0, 1):  # seat 0 has slots 0 and 1, and so on
            s.ok("auction", "award", "stranger", job, kind, s.winners(job, kind))
        for name in slots:
            s.ready(job, name)
        self.claims = {seat: s.commit(job, name, seat) for seat, name in enumerate(slots)}
        self.claims[AGGREGATOR_SEAT] = s.post_checkpoint(self.job)

    def finalise(self) -> None:
        """What of the first turn is pending; one by one."""
        self.s.to(max(self.s.now, self.s.deadline(self.job, *self.claims.values()) + 1))
        for claim in self.claims.values():
            if self.s.world.claims[self.job, claim.seat, 0].status == ClaimStatus.PENDING:
                self.s.ok("settlement", "finalise", "stranger", self.job, (claim,))

    # Demands -------------------------------------------------------------------------------------------------------

    def holder(self, lane: int) -> str:
        operator = self.s.world.seat(self.job, lane).operator
        if lane == SUBMITTER_LANE or not operator:
            return "submitter" if lane == SUBMITTER_LANE else "stranger"
        return self.s.world.operator(operator).hot

    def demand(self, seat: int, lane: int = STRANGERS_LANE, reason: str = "", **changes: Any) -> None:
        claim: Claim = changes.get("claim", self.claims[seat])
        slot = changes.get("slot", 0 if claim.is_aggregation else claim.scope >> 16)
        value = changes.get("value", least_deposit(self.s.base_fee))
        args = (self.job, claim, lane, slot, changes.get("tensor", 0), changes.get("group", 0))
        sender = changes.get("sender", self.holder(lane))
        refusal = self.s.attempt("availability", "demand", sender, *args, value=value)
        assert refusal == (f"availability: {reason}" if reason else None), refusal

    def answer(self, seat: int, lane: int = STRANGERS_LANE) -> None:
        claim = self.claims[seat]
        opening = committed_results.chunk_opening(claim, self.s.world.demands[self.job, claim, lane])
        self.s.ok("availability", "answer", "stranger", self.job, claim, lane, opening)

    def close(self, seat: int, lane: int = STRANGERS_LANE) -> None:
        self.s.ok("availability", "close", "stranger", self.job, self.claims[seat], lane)


@scenario
def data_is_shown_to_who_asks_for_it(s: Stage) -> None:
    t, answer_s = DemandScenario(s, token="usd"), s.preset.answer_s
    t.demand(0, 1, "not the lane's holder", sender="stranger")
    t.demand(0, 0, "not the lane's holder")
    for lane in (3, 131, 2**200):
        t.demand(0, lane, "not the lane's holder")
    for what in ({"slot": 2}, {"tensor": 2**32}, {"group": 2**40}):
        t.demand(0, reason="nothing there", **what)
    t.demand(AGGREGATOR_SEAT, reason="nothing there", slot=1)
    s.base_fee = 3 * 10**9
    t.demand(0, reason="deposit too small", value=least_deposit(s.base_fee) - 1)
    t.demand(0, 1, slot=1, tensor=0, group=1)
    s.base_fee = 0
    t.demand(0, 1, "demand open")
    t.demand(0, tensor=2**32 - 1, group=2**40 - 1)
    t.demand(AGGREGATOR_SEAT, SUBMITTER_LANE, tensor=2)
    t.demand(0, AGGREGATOR_SEAT, tensor=1)
    s.wait(1)
    asked = replace(s.world.demands[t.job, t.claims[0], 1], tensor=1)
    wrong = committed_results.chunk_opening(t.claims[0], asked)
    s.no("availability: bytes do not match", "availability", "answer", "stranger", t.job, t.claims[0], 1, wrong)
    lane = SUBMITTER_LANE
    s.no("availability: no demand", "availability", "answer", "stranger", t.job, t.claims[0], lane, wrong)
    t.answer(0, 1)
    s.wait(answer_s - 1)
    for seat, lane in ((0, STRANGERS_LANE), (AGGREGATOR_SEAT, SUBMITTER_LANE), (0, AGGREGATOR_SEAT)):
        t.answer(seat, lane)
    s.no("availability: no demand", "availability", "close", "stranger", t.job, t.claims[0], 1)
    for _ in range(3):
        t.demand(0, 1)
        s.wait(answer_s)
        t.answer(0, 1)
    t.demand(0, 1, "demands spent")
    owner = s.accounts["alice owner"]
    s.ok("availability", "withdraw", "stranger", owner)
    s.no("availability: nothing owed", "availability", "withdraw", "stranger", owner)


@scenario
def data_that_nobody_shows_voids_its_claim(s: Stage) -> None:
    """Of slots and of an aggregation; a demand at the last moment for it leaves time to end it."""
    t, answer_s = DemandScenario(s, token="usd"), s.preset.answer_s
    late = s.deadline(t.job, t.claims[1]) - 2 * answer_s
    t.demand(1, 2)
    s.wait(answer_s)
    s.no("availability: window open", "availability", "close", "stranger", t.job, t.claims[1], 2)
    s.wait(1)
    opening = committed_results.chunk_opening(t.claims[1], s.world.demands[t.job, t.claims[1], 2])
    s.no("availability: answer too late", "availability", "answer", "stranger", t.job, t.claims[1], 2, opening)
    t.close(1, 2)
    t.demand(1, reason="unknown claim")
    t.demand(2, 0)
    t.demand(2, sender=s.tokens["bad"])
    s.to(late + 1)
    t.demand(0, reason="too late")


@scenario
def a_demand_in_the_last_second_for_it_is_ended_too(s: Stage) -> None:
    t, answer_s = DemandScenario(s, token="usd"), s.preset.answer_s
    t.demand(2, 0)
    t.demand(2, sender=s.tokens["bad"])
    s.to(s.deadline(t.job, t.claims[1]) - 2 * answer_s)
    t.demand(0)
    t.close(2, 0)
    t.close(2)
    s.no("availability: transfer failed", "availability", "withdraw", "stranger", s.tokens["bad"])
    s.ok("availability", "withdraw", "stranger", s.accounts["alice hot"])
    s.wait(answer_s + 1)
    t.close(0)
    t.finalise()


@scenario
def an_aggregation_whose_state_nobody_has_is_done_again(s: Stage) -> None:
    t = DemandScenario(s, token="usd")
    t.demand(AGGREGATOR_SEAT, 0)
    s.wait(s.preset.answer_s + 1)
    t.close(AGGREGATOR_SEAT, 0)
    run = s.world.run(t.job)
    assert (run.turn, run.round, run.holds) == (2, 0, 0)


@scenario
def a_seat_holds_the_clocks_for_less_than_twice_an_answers_time(s: Stage) -> None:
    t, answer_s = DemandScenario(s, token="usd"), s.preset.answer_s
    opened_at = s.world.run(t.job).opened_at
    for lane in (1, 2):
        t.demand(0, lane)
    s.wait(1)
    t.answer(0, 1)
    assert s.world.run(t.job).holds == 1  # the other one's
    s.wait(1)
    t.answer(0, 2)
    assert (s.world.run(t.job).holds, s.world.run(t.job).opened_at) == (0, opened_at + 2)
    for seconds, holds in ((answer_s, 1), (1, 0)):  # bob's second demand may hold, the third may not
        t.demand(0, 1)
        assert s.world.run(t.job).holds == holds
        s.wait(seconds)
        t.answer(0, 1)
