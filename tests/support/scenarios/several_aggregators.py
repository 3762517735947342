"""Directed sequences about jobs with several aggregators: each posts its share of the checkpoint. See `opening`."""

from __future__ import annotations

from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.custody import CustodyScenario
from zoo_compute.spec import merkle
from zoo_compute.spec.auditing import Role, Verdicts, verdicts_of
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import AGGREGATOR_SEAT, round_price
from zoo_compute.spec.state import Claim, ClaimStatus, JobState

FIRST, SECOND, THIRD = AGGREGATOR_SEAT, AGGREGATOR_SEAT + 1, AGGREGATOR_SEAT + 2
SHARES = (FIRST, SECOND, THIRD)
BIDS = {"dave": Offer(40, 2), "erin": Offer(50, 1)}
CUSTODIANS = ("frank", "grace", "erin")


class SharesScenario(CustodyScenario):
    """Dave aggregates two shares, erin the third; the custodians hold the inputs of the first turn."""

    def __init__(self, s: Stage, **changes: Any) -> None:
        super().__init__(s, aggregators=3, **changes)
        self.ready(*CUSTODIANS, aggregators=BIDS)

    def inputs_held(self) -> SharesScenario:
        self.commit_all()
        self.hold(7, 0, 1)
        return self

    def post_all(self, *seats: int) -> list[Claim]:
        return [self.posted(0, 1, seat=seat) for seat in seats or SHARES]


@scenario
def several_aggregators_need_custodians(s: Stage) -> None:
    s.register_all()
    for aggregators, policy in ((0, 3 << 4), (17, 3 << 4), (2**255, 3 << 4), (2, 0)):
        terms = s.terms(aggregators=aggregators, policy=policy)
        s.no("tasks: aggregators out of range", "tasks", "post", "submitter", terms, value=POSTING_DEPOSIT)
    job = s.post(aggregators=16, policy=3 << 4)
    terms = s.world.terms[job]
    assert round_price(terms) == terms.slots * terms.max_price + 16 * terms.aggregator_max_price
    assert s.world.lot(job, 1).units == 16


@scenario
def a_turn_closes_once_each_aggregator_posted_its_share(s: Stage) -> None:
    t = SharesScenario(s).inputs_held()
    job = t.job
    assert [s.party(s.world.seat(job, seat).operator) for seat in SHARES] == ["dave", "dave", "erin"]
    assert s.world.stake_of(job, s.ids["dave"], True).held == 2
    second = t.posted(0, 1, seat=SECOND)
    run = s.world.run(job)
    assert (run.turn, run.posted) == (0, 0b010)
    s.no("settlement: already committed", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, seat=SECOND))
    t.no("not the hot key", "post_checkpoint", "dave hot", *t.post_args(0, 1, seat=THIRD))
    t.no("not the hot key", "post_checkpoint", "dave hot", *t.post_args(0, 1, seat=THIRD + 1))
    # Its signatures are for its seat: no other aggregator's.
    forged = "custody: not the custodian's signature"
    swapped = (*t.post_args(0, 1, seat=FIRST)[:-1], t.post_args(0, 1, seat=SECOND)[-1])
    s.no(forged, "custody", "post_checkpoint", "dave hot", *swapped)
    # Nobody signs for what is not posted; for what is, others may before the turn closes.
    t.no("no checkpoint", "hold_turn", "stranger", job, FIRST, 0, t.committee, (), ())
    t.no("no checkpoint", "hold_turn", "stranger", job, 2, 0, t.committee, (), ())
    t.held_turn(second, 2)
    s.no("settlement: turn is open", "settlement", "open_dispute", "referee", job, second)
    third, first = t.posted(1, 2, seat=THIRD), t.posted(0, 1, seat=FIRST)
    run = s.world.run(job)
    assert (run.turn, run.round, run.posted) == (1, 1, 0)
    assert run.start_root == merkle.root_of_shares([first.root, second.root, third.root])
    assert s.world.closed_turn(job, 0).pending == 6
    assert s.world.custody_records[job, 0].checkpoint == 0b1_000_000_010, "place 1 alone signed for all shares"
    t.held_turn(third, 0)
    assert s.world.custody_records[job, 0].checkpoint == 0b1_000_000_011
    s.finalise(job)
    t.count()
    fees = {name: s.world.custody_funds[t.token, s.ids[name]] for name in CUSTODIANS}
    paid = {name: fee - min(fees.values()) for name, fee in fees.items()}
    assert sorted(paid.values()) == [0, 14, 14], "for the inputs and for all shares; place 2 for neither"
    for _ in range(2):
        t.inputs_held().post_all(THIRD, FIRST, SECOND)
        s.finalise(job)
    assert s.world.run(job).state == JobState.ENDED
    s.settle(job)


@scenario
def an_aggregator_that_is_silent_costs_its_own_share(s: Stage) -> None:
    t = SharesScenario(s).inputs_held()
    job = t.job
    done = t.post_all(FIRST, SECOND)
    s.to(s.world.run(job).aggregator_due + 1)
    for seat in (FIRST, SECOND):
        s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, seat)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.no("settlement: seat vacant", "settlement", "time_out", "stranger", job, THIRD + 1)
    s.no("settlement: already committed", "settlement", "decline", "erin hot", job, THIRD, 1)
    s.ok("settlement", "time_out", "stranger", job, THIRD)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.no("settlement: seat not vacant", "settlement", "take_over", "bob hot", job, FIRST, s.ids["bob"], 1, 10)
    s.take_over(job, THIRD, "bob")
    t.posted(0, 1, seat=THIRD)
    assert s.world.run(job).round == 1
    s.finalise(job)
    assert all(s.world.claims[job, claim.seat, 0].status == ClaimStatus.PAID for claim in done)


@scenario
def what_aggregators_posted_in_a_job_that_is_abandoned_is_paid(s: Stage) -> None:
    t = SharesScenario(s).inputs_held()
    job = t.job
    t.post_all(FIRST, SECOND)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, THIRD)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.closed_turn(job, 0).pending == 5
    s.settle(job)
    t.count()
    t.ok("refund", "stranger", job)


@scenario
def a_false_share_has_its_round_done_again_and_costs_its_author_all_shares(s: Stage) -> None:
    t = SharesScenario(s, rounds=4, depth=4).inputs_held()
    job = t.job
    _, lie, _ = t.post_all()
    t.inputs_held().post_all(FIRST)  # one share of the next turn rests on it
    s.convict(job, lie, "stranger")
    run = s.world.run(job)
    assert (run.turn, run.round, run.start_root) == (2, 0, lie.start_root)
    assert s.world.closed_turn(job, 1).pending == 4, "three seats and a share stay payable"
    assert s.world.job_ledgers[job].restored == 2 * round_price(s.world.terms[job])
    assert [s.world.seat(job, seat).operator for seat in SHARES] == [0, 0, s.ids["erin"]]
    for seat in (FIRST, SECOND):
        s.take_over(job, seat, "bob")
    t.inputs_held().post_all()
    s.finalise(job)
    assert s.world.run(job).round == 1


@scenario
def custodians_that_sign_for_one_share_and_not_the_other_cost_nobody_a_lock(s: Stage) -> None:
    t = SharesScenario(s).inputs_held()
    job = t.job
    t.post_all(FIRST, SECOND)
    t.ok("post_checkpoint", "erin hot", *t.post_args(0, seat=THIRD))  # short of signatures
    locked = s.world.deposit_of(s.ids["erin"], t.token)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, THIRD)
    assert s.world.deposit_of(s.ids["erin"], t.token) == locked
    price = s.world.seat(job, THIRD).price
    s.take_over(job, THIRD, "bob")
    assert s.world.seat(job, THIRD).price == price
    t.posted(0, 1, seat=THIRD)
    assert s.world.run(job).round == 1


@scenario
def a_share_is_audited_and_demanded_by_itself(s: Stage) -> None:
    t = SharesScenario(s, audit_bps=10_000)
    job, grace, fee = t.job, s.ids["grace"], s.world.terms[t.job].aggregator_reserve
    s.ok("audits", "fund", "submitter", job, 10**6)
    s.ok("audits", "deposit", "stranger", grace, t.token, s.preset.audit_bond + 10**6)
    s.ok("audits", "offer", "grace owner", grace, 1)
    claims = t.inputs_held().post_all()
    for _ in range(2):
        s.wait(1)
        s.mine(s.preset.draw_blocks + 2)
        s.ok("audits", "draw_units", "stranger", job, 0)
    said = verdicts_of([0, 1], [2])
    budget = s.world.budget_of(job)
    s.ok("audits", "give_verdicts", "grace hot", job, 0, grace, said)
    assert s.world.budget_of(job).reserved == 3 * fee + 10 * fee
    assert s.world.budget_of(job).balance == budget.balance - 13 * fee
    # The signers of the second share answer for it; whoever aggregates another asks from its own lane.
    value = least_deposit(s.base_fee)
    demand = (job, claims[1], THIRD, 0, 0, 0, 0, t.committee)
    s.no("availability: not the lane's holder", "availability", "demand_of_signer", "dave hot", *demand, value=value)
    s.ok("availability", "demand_of_signer", "erin hot", *demand, value=value)
    s.no(
        "custody: it did not sign",
        "availability",
        "demand_of_signer",
        "stranger",
        job,
        claims[1],
        145,
        0,
        0,
        0,
        2,
        t.committee,
        value=value,
    )
    s.to(s.deadline(job, *claims) + 1)
    s.ok("availability", "close", "stranger", job, claims[1], THIRD)
    s.ok("audits", "settle_verdicts", "stranger", job, 0, grace, Role.AUDITOR, said, tuple(claims), Verdicts())
    assert s.world.audit_owed[t.token, s.accounts["grace owner"]] == 2 * fee, "two are final; the third was no lie"
