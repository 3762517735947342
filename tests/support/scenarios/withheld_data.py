"""Directed sequences about withheld data: voided claims, and holds, which nobody loses time by."""

from dataclasses import replace

from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec.params import AGGREGATOR_SEAT, DEFAULT_AUDIT_BPS, lock_of
from zoo_compute.spec.state import Claim


def hold(s: Stage, job: int, claim: Claim, seconds: int) -> None:
    """The aggregator asks for a claim's first chunk, and has it so many seconds later."""
    dave = s.world.operator(s.world.seat(job, AGGREGATOR_SEAT).operator).hot
    s.demand(job, claim, AGGREGATOR_SEAT, dave)
    s.wait(seconds)
    opening = committed_results.chunk_opening(claim, s.world.demands[job, claim, AGGREGATOR_SEAT])
    s.ok("availability", "answer", "stranger", job, claim, AGGREGATOR_SEAT, opening)


@scenario
def data_that_nobody_can_have_convicts_without_challengers(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    claim = s.commit(job, "alice")
    for sender in ("stranger", "referee", "alice hot"):
        s.no("settlement: not a protocol contract", "settlement", "void", sender)
        s.no("settlement: not a protocol contract", "settlement", "hold", sender)
        s.no("settlement: not a protocol contract", "settlement", "resume", sender)
    for of, forged in ((job, replace(claim, root=b"x" * 32)), (99, claim)):
        s.no("availability: unknown claim", "availability", "demand", "stranger", of, forged, 130, 0, 0, 0)
    s.lose(job, claim)
    lock = lock_of(claim.price, DEFAULT_AUDIT_BPS)
    assert s.world.burned[s.tokens["usd"]] == lock - 2 * (lock // 10)
    assert s.operator("alice").reputation == 0
    s.commit(job, "bob")
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.play_round(job)
    s.play_round(job)
    s.settle(job)


@scenario
def nobody_is_late_while_data_is_held(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, run = s.seat_of(job, "alice"), s.world.run(job)
    claim, bob = s.commit(job, "bob"), s.seat_of(job, "bob")
    s.demand(job, claim, alice, "alice hot")
    s.to(run.inputs_close + 100)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.no(
        "settlement: inputs open",
        "settlement",
        "post_checkpoint",
        "dave hot",
        job,
        AGGREGATOR_SEAT,
        0,
        0,
        b"r" * 32,
        b"c" * 32,
    )
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    # Nobody ended the demand for long: what counts is the time there was to answer it.
    s.ok("availability", "close", "stranger", job, claim, alice)
    after, answer_s = s.world.run(job), s.preset.answer_s
    assert (after.holds, after.opened_at) == (0, run.opened_at + answer_s)
    # The claim is void: bob's slots are missing again, and the aggregator has its whole time.
    assert after.missing == 1 << alice | 1 << bob
    assert after.aggregator_due == max(run.aggregator_due + answer_s, s.now + after.aggregate_s)


@scenario
def a_holder_has_the_seconds_back_that_the_clocks_were_stopped(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice = s.seat_of(job, "alice")
    s.play_round(job)
    claim = s.commit(job, "bob")
    s.demand(job, claim, alice, "alice hot")
    s.wait(2)
    opening = committed_results.chunk_opening(claim, s.world.demands[job, claim, alice])
    s.ok("availability", "answer", "stranger", job, claim, alice, opening)
    s.to(s.world.run(job).opened_at + 20)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")
    for _ in range(2):
        s.play_round(job)
    s.settle(job)


@scenario
def who_takes_over_before_a_hold_has_its_time_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, reexecute_s=100)
    alice, run = s.seat_of(job, "alice"), s.world.run(job)
    claim = s.commit(job, "bob")
    s.wait(21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")  # at second 21, for 20 seconds
    s.wait(5)
    hold(s, job, claim, 3)
    assert (s.world.run(job).opened_at, s.world.run(job).held_s) == (run.opened_at + 3, 3)
    deadline = run.opened_at + 21 + 20 + 3
    s.to(deadline)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.to(deadline + 1)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    assert s.world.run(job).held_s == 0


@scenario
def who_takes_over_after_a_hold_has_its_own_time_and_no_more(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, reexecute_s=100)
    alice, run = s.seat_of(job, "alice"), s.world.run(job)
    claim = s.commit(job, "bob")
    hold(s, job, claim, 3)
    s.to(run.opened_at + 3 + 21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")
    assert s.world.seat(job, alice).since == s.now - 3
    # A seat convicted in this turn starts again likewise; nobody holds bob's, so nobody is late in it.
    s.convict(job, claim, "stranger")
    assert s.world.seat(job, claim.seat).since == s.now - 3
    s.wait(20)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, alice)


@scenario
def a_seat_convicted_before_a_hold_has_its_time_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, reexecute_s=100)
    first, other = s.commit(job, "alice"), s.commit(job, "bob")
    s.post_checkpoint(job)
    claim = s.commit(job, "alice")
    s.convict(job, first)
    s.take_over(job, claim.seat, "carol")
    s.wait(10)
    s.convict(job, claim)  # carol holds the seat by now, and has its whole time
    convicted_at = s.now
    hold(s, job, other, 3)
    s.to(convicted_at + 20 + 3)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, claim.seat)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, claim.seat)
