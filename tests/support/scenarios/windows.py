"""Directed sequences about windows: when a claim can be challenged, and that it is made once; see `opening`."""

from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec.convictions import dispute_terms


@scenario
def a_window_begins_when_the_turn_closes_and_is_the_same_for_all_its_claims(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, slot_s=600, quorum=3)
    window_s = s.world.run(job).window_s
    early = s.commit(job, "alice")
    s.wait(10 * window_s)  # her turn is open: she can be disputed, and is not paid
    assert dispute_terms(s.world, job, early).deadline == 0
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (early,))
    late = s.commit(job, "bob")
    s.wait(7)
    checkpoint = s.post_checkpoint(job)
    closed_at = s.now
    s.to(closed_at + window_s)
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (early,))
    for claim in (early, late, checkpoint):
        assert dispute_terms(s.world, job, claim).deadline == closed_at + window_s
    s.wait(1)
    s.ok("settlement", "finalise", "stranger", job, (early, late, checkpoint))
    # A turn that a job leaves behind closes in that block.
    left = s.commit(job, "alice")
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    s.to(s.now + window_s)
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (left,))
    s.wait(1)
    s.ok("settlement", "finalise", "stranger", job, (left,))


@scenario
def who_is_convicted_takes_no_seat_before_the_next_turn(s: Stage) -> None:
    """Else it could commit the convicted claim again."""
    s.register_all()
    s.post()  # so that the job and the operator differ in number
    job = s.running(SLOTS, AGGREGATORS, rounds=2)
    assert job != s.ids["alice"]
    lie = s.commit(job, "alice")
    s.convict(job, lie)
    take = ("take_over", "alice hot", job, lie.seat, s.ids["alice"], 2, 10)
    s.no("settlement: convicted this turn", "settlement", *take)
    s.take_over(job, lie.seat, "carol")
    s.commit_all(job)
    s.post_checkpoint(job)
    s.ok("settlement", "decline", "carol hot", job, lie.seat, 2)
    assert s.attempt("settlement", *take) != "settlement: convicted this turn"
