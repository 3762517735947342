"""Directed sequences about jobs with custodians that end early, or whose aggregator is replaced. See `opening`."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.custody import LARGE, CustodyScenario
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT, COIN
from zoo_compute.spec.state import ClaimStatus, JobState


@scenario
def a_job_that_never_begins_pays_its_seats_the_posting_deposit(s: Stage) -> None:
    t = CustodyScenario(s)
    job, deposit = t.job, s.world.deposits[t.job]
    t.asked()
    t.offered(*LARGE)
    t.awarded()
    t.drawn()
    carol = s.seat_of(job, "carol")
    s.ok("settlement", "decline", "carol hot", job, carol, 1)
    for name in ("alice", "bob"):
        s.ready(job, name)
    s.to(s.world.run(job).aggregator_due + 1)
    submitter, escrow = s.accounts["submitter"], s.world.job(job).escrow
    s.ok("settlement", "abandon", "stranger", job)
    for name in ("alice", "bob", "dave"):
        assert s.world.owed[COIN, s.accounts[f"{name} owner"]] == deposit // 3
    assert s.world.owed[COIN, submitter] == deposit % 3
    assert s.world.owed[t.token, submitter] == escrow
    s.no("settlement: not running", "custody", "hold_start", "stranger", job, t.committee, t.start(0, 1))
    s.settle(job)
    for name in LARGE:
        t.ok("release", "stranger", job, s.ids[name])
    t.ok("refund", "stranger", job)


@scenario
def many_small_seats_have_no_more_of_a_posting_deposit_than_a_large_one(s: Stage) -> None:
    """Alice declines a slot and takes it back as a seat of its own, twice."""
    t = CustodyScenario(s, slots=6)
    job, deposit = t.job, s.world.deposits[t.job]
    lots = ({"alice": Offer(40, 3), "bob": Offer(40, 3)}, {"dave": Offer(40)})
    s.bid_all(job, *lots)
    s.reveal_all(job, *lots)
    s.award_all(job)
    s.ready(job, "bob")
    alice = s.seat_of(job, "alice")
    for _ in range(2):
        taken = s.world.run(job).seats
        s.ok("settlement", "decline", "alice hot", job, alice, 1)
        s.take_over(job, taken, "alice")
    s.ok("settlement", "ready", "alice hot", job, alice, 10)
    assert (s.world.run(job).state, s.world.run(job).seats) == (JobState.RUNNING, 4)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "abandon", "stranger", job)
    got = [s.world.owed[COIN, s.accounts[f"{name} owner"]] for name in ("alice", "bob", "dave")]
    assert got == [deposit // 7 * 3, deposit // 7 * 3, deposit // 7]
    assert s.world.owed[COIN, s.accounts["submitter"]] == deposit % 7


@scenario
def a_job_that_nobody_holds_a_seat_of_keeps_its_deposit(s: Stage) -> None:
    t = CustodyScenario(s, slots=1)
    lots = ({"alice": Offer(40, 1)}, {"dave": Offer(40)})
    s.bid_all(t.job, *lots)
    s.reveal_all(t.job, *lots)
    s.award_all(t.job)
    s.ok("settlement", "decline", "alice hot", t.job, 0, 1)
    dave = s.world.seat(t.job, AGGREGATOR_SEAT)
    assert (s.world.run(t.job).state, dave.operator) == (JobState.RUNNING, s.ids["dave"])
    s.to(s.world.run(t.job).aggregator_due + 1)
    deposit = s.world.deposits[t.job]
    s.ok("settlement", "abandon", "stranger", t.job)
    assert s.world.owed[COIN, s.accounts["dave owner"]] == deposit, "of one seat that is held"


@scenario
def seats_that_are_left_out_can_cost_the_quorum(s: Stage) -> None:
    t = CustodyScenario(s, quorum=2).ready()
    job = t.job
    t.commit_all()
    t.hold(0b001, 0, 1)
    s.wait(s.preset.answer_s + 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    t.ok("leave_out", "stranger", job, 0)
    t.ok("leave_out", "stranger", job, 0)  # again: nobody
    s.no("settlement: quorum not reached", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1))
    s.to(s.world.run(job).aggregator_due + 1)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.ok("settlement", "abandon", "stranger", job)
    s.settle(job)


@scenario
def an_aggregator_whose_custodians_do_not_sign_is_replaced_and_not_slashed(s: Stage) -> None:
    t = CustodyScenario(s, rounds=2).ready("erin", "frank", "grace")
    job = t.job
    t.commit_all()
    one_transaction = t.post_args(0, inputs=t.inputs(7, 0, 1))
    t.no("too few signatures", "post_checkpoint", "dave hot", *one_transaction)
    t.hold(7, 0, 1)
    run = s.world.run(job)
    due = s.now + s.preset.answer_s + run.aggregate_s
    assert run.aggregator_due == max(run.inputs_close + run.aggregate_s + s.preset.ready_window_s, due)
    s.to(run.aggregator_due - 1)
    t.ok("post_checkpoint", "dave hot", *t.post_args(2))
    due = s.now + run.aggregate_s
    assert s.world.run(job).aggregator_due == due
    s.wait(1)
    t.ok("post_checkpoint", "dave hot", *t.post_args(2))
    assert s.world.run(job).aggregator_due == due, "it has its time once more, and no more"
    s.to(due)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.wait(1)
    dave, locked = s.operator("dave"), s.world.deposit_of(s.ids["dave"], t.token)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    assert s.world.deposit_of(s.ids["dave"], t.token) == locked
    assert s.operator("dave").reputation == dave.reputation
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    erin = t.place("erin")
    t.no("too few signatures", "post_checkpoint", "erin hot", *t.post_args(erin))
    s.to(s.world.run(job).aggregator_due + 1)
    locked = s.world.deposit_of(s.ids["erin"], t.token)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    assert s.world.deposit_of(s.ids["erin"], t.token) != locked, "its own signature spares nobody"
    s.take_over(job, AGGREGATOR_SEAT, "dave")
    t.posted(1, 2)
    s.finalise(job)
    t.closed()
    s.settle(job)


@scenario
def a_job_whose_custodians_are_silent_about_two_checkpoints_ends(s: Stage) -> None:
    """Of a majority. Dave's time passes, and he takes his seat back for no more; then nobody is replaced again, or slashed."""
    t = CustodyScenario(s, rounds=2).ready(aggregators={"dave": Offer(20), "erin": Offer(22)})
    job = t.job
    t.commit_all()
    t.hold(7, 0, 1)
    locked = s.world.deposit_of(s.ids["dave"], t.token)
    price = s.world.seat(job, AGGREGATOR_SEAT).price
    assert price < s.world.lot(job, 1).reserve
    t.ok("post_checkpoint", "dave hot", *t.post_args(2))
    s.to(s.world.run(job).aggregator_due + 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    assert s.world.deposit_of(s.ids["dave"], t.token) == locked
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.take_over(job, AGGREGATOR_SEAT, "dave")
    assert s.world.seat(job, AGGREGATOR_SEAT).price == price
    locked = s.world.deposit_of(s.ids["dave"], t.token)
    t.ok("post_checkpoint", "dave hot", *t.post_args(2))
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.wait(1)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.deposit_of(s.ids["dave"], t.token) == locked
    assert s.world.closed_turn(job, 0).pending == 3, "what was committed is paid"
    s.settle(job)


@scenario
def an_aggregator_that_is_silent_after_one_was_spared_is_slashed(s: Stage) -> None:
    t = CustodyScenario(s, rounds=2).ready()
    job = t.job
    t.commit_all()
    t.hold(7, 0, 1)
    t.ok("post_checkpoint", "dave hot", *t.post_args(2))
    for name, is_slashed in (("dave", False), ("erin", True)):
        s.to(s.world.run(job).aggregator_due + 1)
        locked = s.world.deposit_of(s.ids[name], t.token)
        s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
        s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
        assert (s.world.deposit_of(s.ids[name], t.token) != locked) == is_slashed
        s.take_over(job, AGGREGATOR_SEAT, "erin" if name == "dave" else "bob")
    t.posted(0, 1)
    s.finalise(job)
    t.closed()
    s.settle(job)


@scenario
def a_job_whose_custodians_fall_silent_ends(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    job = t.job
    t.commit_all()
    due = s.world.run(job).aggregator_due
    s.to(due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.wait(1)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.closed_turn(job, 0).pending == 3, "what was committed is paid"
    s.settle(job)
    t.count()
    t.ok("refund", "stranger", job)


@scenario
def reserves_wait_for_parked_claims(s: Stage) -> None:
    t = CustodyScenario(s, rounds=1, depth=1).ready()
    job = t.job
    t.closed()
    claim = s.world.claims[job, s.seat_of(job, "alice"), 0].claim
    s.ok("settlement", "open_dispute", "referee", job, claim)
    s.finalise(job)
    t.count()
    assert s.world.parked[job, claim] == ClaimStatus.PENDING
    t.no("job not over", "release", "stranger", job, s.ids["erin"])
    t.no("job not over", "refund", "stranger", job)
    s.close_dispute(job, claim, End.FINAL)
    t.ok("release", "stranger", job, s.ids["erin"])
