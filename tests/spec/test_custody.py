"""What the review broke, in jobs without custodians as then, and with them: withheld updates, and withheld checkpoints.

An honest custodian signs for what it holds, and for nothing else. Of three custodians one is hostile here and signs for anything.
"""

from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.custody import AGGREGATORS, HOLDERS, LARGE, CustodyScenario
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.seats import deadline_of, present
from zoo_compute.spec.state import ClaimStatus

HOSTILE, HONEST = 0, (1, 2)  # places of the committee
DAVE, CAROL = "dave", "carol"


def job_without_custodians() -> tuple[Stage, int]:
    stage = Stage(Coverage())
    stage.register_all()
    job = stage.running(HOLDERS, AGGREGATORS, slots=3, quorum=1, rounds=3, depth=2, reexecute_s=1)
    return stage, job


def job_with_custodians() -> CustodyScenario:
    return CustodyScenario(Stage(Coverage())).ready(*LARGE)


def locked(s: Stage, name: str, token: str) -> int:
    return s.world.deposit_of(s.ids[name], token).locked


def commit_all(s: Stage, job: int) -> None:
    for name in HOLDERS:
        s.commit(job, name)


def test_a_seat_that_serves_nobody__without_custodians__costs_the_aggregator_its_lock() -> None:
    """`aggregator_trap` of the review: the aggregator may neither leave the seat out nor wait for its conviction."""
    s, job = job_without_custodians()
    zen = s.tokens["zen"]
    commit_all(s, job)
    run = s.world.run(job)
    mask = present(run) & ~(1 << s.seat_of(job, CAROL))
    s.no(
        "settlement: mask differs",
        "settlement",
        "post_checkpoint",
        "dave hot",
        job,
        AGGREGATOR_SEAT,
        0,
        mask,
        b"r" * 32,
        b"c" * 32,
    )
    before = locked(s, DAVE, zen)
    s.to(run.aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    assert locked(s, DAVE, zen) < before


def test_a_seat_that_serves_nobody__is_left_out_and_its_aggregator_is_paid() -> None:
    """`aggregator_trap`: a majority never signs for what carol serves to one friend."""
    t = job_with_custodians()
    s, job = t.s, t.job
    t.commit_all()
    carol = s.seat_of(job, CAROL)
    everything, without = 7, 7 ^ 1 << carol
    before = locked(s, DAVE, t.token)
    t.hold(without, *HONEST)
    t.ok("hold_inputs", "stranger", job, 0, t.committee, (*t.inputs(everything, HOSTILE), *t.inputs(without, 1)))
    s.wait(s.preset.answer_s + 1)
    t.ok("leave_out", "stranger", job, 0)
    assert s.now <= s.world.run(job).aggregator_due
    claim = t.posted(*HONEST)
    s.finalise(job)
    assert claim.scope == without
    assert s.world.claims[job, AGGREGATOR_SEAT, 0].status == ClaimStatus.PAID
    assert s.world.claims[job, carol, 0].status == ClaimStatus.ABSENT
    assert locked(s, DAVE, t.token) == before


def test_a_seat_that_serves_honest_custodians__cannot_be_left_out_by_a_hostile_one_and_its_aggregator() -> None:
    """The other way round: they submit the bitmaps that lack carol, and honest custodians add her while there is time."""
    t = job_with_custodians()
    s, job = t.s, t.job
    t.commit_all()
    without = 7 ^ 1 << s.seat_of(job, CAROL)
    lacking = (*t.inputs(without, HOSTILE), *t.inputs(7, 1))
    t.ok("hold_inputs", "dave hot", job, 0, t.committee, lacking)
    t.no("mask is open", "leave_out", "dave hot", job, 0)
    s.no("settlement: mask differs", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, mask=without))
    t.hold(7, *HONEST)
    s.wait(s.preset.answer_s + 1)
    t.ok("leave_out", "dave hot", job, 0)
    assert t.posted(*HONEST).scope == 7


def test_a_checkpoint_that_is_withheld__without_custodians__costs_an_honest_holder_its_lock() -> None:
    """`f_starve` of the review: nobody can train from it, and whoever does not is late."""
    s, job = job_without_custodians()
    zen = s.tokens["zen"]
    commit_all(s, job)
    s.post_checkpoint(job)  # its author serves nobody
    alice = s.seat_of(job, "alice")
    before = locked(s, "alice", zen)
    s.to(deadline_of(s.world.run(job), s.world.seat(job, alice)) + 1)
    s.ok("settlement", "time_out", "stranger", job, alice)
    assert locked(s, "alice", zen) < before


def test_a_checkpoint_that_is_withheld__is_not_posted_and_nobody_is_late_for_it() -> None:
    """`f_starve`: only the hostile custodian signs, so its turn stays open, and another aggregates it."""
    t = job_with_custodians()
    s, job = t.s, t.job
    t.commit_all()
    t.no("too few signatures", "post_checkpoint", "dave hot", *t.post_args(HOSTILE, inputs=t.inputs(7, 0, 1, 2)))
    t.hold(7, *HONEST)
    before = {name: locked(s, name, t.token) for name in HOLDERS}
    s.to(s.world.run(job).aggregator_due + 1)
    for seat in range(3):
        s.no("settlement: already committed", "settlement", "time_out", "stranger", job, seat)
    dave = locked(s, DAVE, t.token)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    assert locked(s, DAVE, t.token) < dave
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    t.posted(*HONEST)
    assert {name: locked(s, name, t.token) for name in HOLDERS} == before
