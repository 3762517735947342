"""Directed sequences about withheld data: voided claims, and holds, which nobody loses time by."""

from dataclasses import replace

from .judging import AVAILABILITY, REFEREE
from .opening import AGGREGATORS, SLOTS, scenario
from .stage import Stage


@scenario
def data_that_nobody_can_have_convicts_without_challengers(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    claim = s.commit(job, "alice")
    for sender in ("stranger", REFEREE, "alice hot"):
        s.no("settlement: not the availability", "settlement", "void", sender, job, claim)
        s.no("settlement: not the availability", "settlement", "hold", sender, job)
        s.no("settlement: not the availability", "settlement", "resume", sender, job, 1)
    s.no("settlement: unknown claim", "settlement", "void", AVAILABILITY, job, replace(claim, root=b"x" * 32))
    s.no("settlement: unknown claim", "settlement", "void", AVAILABILITY, 99, claim)
    s.ok("settlement", "void", AVAILABILITY, job, claim)
    lock = 2 * s.world.run(job).lock
    assert s.world.burned[s.tokens["usd"]] == lock - lock // 10
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
    s.commit(job, "bob")
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.to(run.inputs_close + 100)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.no("settlement: inputs open", "settlement", "post_checkpoint", "dave hot", job, 0, 0, b"r" * 32, b"c" * 32)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "resume", AVAILABILITY, job, 30)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.ok("settlement", "resume", AVAILABILITY, job, 1_000)
    after = s.world.run(job)
    assert (after.holds, after.opened_at) == (0, s.now)
    assert after.aggregator_due == run.aggregator_due + 1_030
    s.to(after.opened_at + 20)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")
    for _ in range(3):
        s.play_round(job)
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.ok("settlement", "resume", AVAILABILITY, job, 5)
    s.settle(job)


@scenario
def who_takes_over_before_a_hold_has_its_time_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, run = s.seat_of(job, "alice"), s.world.run(job)
    s.commit(job, "bob")
    s.wait(21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")  # at second 21, for 20 seconds
    s.wait(5)
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.wait(100)
    s.ok("settlement", "resume", AVAILABILITY, job, 100)
    assert (s.world.run(job).opened_at, s.world.run(job).held_s) == (run.opened_at + 100, 100)
    deadline = run.opened_at + 21 + 20 + 100
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
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.wait(100)
    s.ok("settlement", "resume", AVAILABILITY, job, 100)
    s.to(run.opened_at + 100 + 21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    s.take_over(job, alice, "carol")
    assert s.world.seat(job, alice).since == s.now - 100
    # A seat convicted in this turn starts again likewise; nobody holds bob's, so nobody is late in it.
    s.convict(job, claim, "stranger")
    assert s.world.seat(job, claim.seat).since == s.now - 100
    s.wait(20)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, alice)


@scenario
def a_seat_convicted_before_a_hold_has_its_time_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    first, _ = s.commit(job, "alice"), s.commit(job, "bob")
    s.post_checkpoint(job)
    claim = s.commit(job, "alice")
    s.convict(job, first)
    s.take_over(job, claim.seat, "carol")
    s.wait(10)
    s.convict(job, claim)  # carol holds the seat by now, and has its whole time
    convicted_at = s.now
    s.ok("settlement", "hold", AVAILABILITY, job)
    s.wait(50)
    s.ok("settlement", "resume", AVAILABILITY, job, 50)
    s.to(convicted_at + 20 + 50)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, claim.seat)
    s.wait(1)
    s.ok("settlement", "time_out", "stranger", job, claim.seat)
