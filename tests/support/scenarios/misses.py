"""Directed sequences about what leaving a seat costs an operator with a good record."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.clearing import rate, reputation
from tests.support.scenarios.rounds import lock
from zoo_compute.spec.params import AGGREGATOR_SEAT, ZEN, lock_of, slash_of
from zoo_compute.spec.state import SetAside


def rated(s: Stage) -> None:
    """Alice has the best reputation there is."""
    s.register_all()
    rate(s, slots=3, rounds=4, price=2_000 * ZEN)
    assert reputation(s) == 1_000


def kept(s: Stage, job: int, name: str = "alice") -> int:
    return s.world.kept.get((job, s.ids[name]), 0)


def owed(s: Stage, job: int, name: str = "alice owner") -> int:
    return s.world.owed.get((s.world.job(job).token, s.accounts[name]), 0)


def time_out(s: Stage, job: int, name: str) -> int:
    """The seat that somebody misses the open turn's deadline in; the others commit."""
    seat = s.seat_of(job, name)
    for other in {s.party(s.world.seat(job, each).operator) for each in range(s.world.run(job).seats)} - {name}:
        s.commit(job, other)
    s.to(s.world.run(job).opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, seat)
    return seat


@scenario
def one_missed_deadline_after_a_good_record_costs_a_hundredth_of_the_lock(s: Stage) -> None:
    rated(s)
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    alice = time_out(s, job, "alice")
    seat = s.world.seat(job, alice)
    tenth = slash_of(lock(2 * seat.price))
    aside = tenth * 9 // 10
    assert s.world.set_aside[job, alice] == SetAside(s.ids["alice"], 2, aside)
    assert s.world.job_pots[job] == tenth - aside
    assert s.world.stake_of(job, s.ids["alice"], False).locked == lock(2 * seat.price) - tenth
    assert reputation(s) == 500
    # One slot, then the other: in the turn of the timeout they cost what they did, so alice has all of it back in the end.
    taken = s.take_over(job, alice, "carol", 1)
    assert s.world.set_aside[job, alice] == SetAside(s.ids["alice"], 1, aside - aside // 2)
    s.take_over(job, alice, "erin")
    assert (kept(s, job), s.world.set_aside[job, alice]) == (aside, SetAside())
    assert s.world.job_ledgers[job].restored == 0
    s.no("settlement: seat still occupied", "locks", "return_set_aside", "stranger", job, s.ids["alice"])
    s.commit(job, "carol", taken)
    s.commit(job, "erin", alice)
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.settle(job)
    before = owed(s, job)
    s.ok("locks", "return_set_aside", "stranger", job, s.ids["alice"])
    assert (owed(s, job) - before, kept(s, job)) == (aside, 0)
    assert s.world.burned[s.tokens["usd"]] == tenth - aside


@scenario
def a_second_miss_costs_more_than_the_first(s: Stage) -> None:
    rated(s)
    job = s.awarded(SLOTS, AGGREGATORS)
    alice = s.seat_of(job, "alice")
    tenth = slash_of(lock(s.world.seat(job, alice).price))
    lost = []
    for _ in range(2):
        before = s.world.job_pots.get(job, 0)
        s.ok("settlement", "decline", "alice hot", job, alice, 1)
        lost.append(s.world.job_pots[job] - before)
    assert lost == [tenth - tenth * 9 // 10, tenth - tenth // 2]  # of 1,000 points 900 count, then 500
    s.ok("settlement", "decline", "bob hot", job, s.seat_of(job, "bob"), 2)
    assert kept(s, job) == 2 * tenth - sum(lost)
    assert s.world.job_pots[job] == sum(lost) + slash_of(lock(2 * 80))  # bob has no record
    for seat in range(s.world.run(job).seats):
        s.take_over(job, seat, "carol")
    for _ in range(3):
        s.play_round(job)
    s.settle(job)


@scenario
def what_is_set_aside_pays_first_for_a_seat_that_became_dearer(s: Stage) -> None:
    rated(s)
    job = s.running(SLOTS, AGGREGATORS, rounds=9, depth=9, reserve=1_000, max_price=1_000, audit_bps=10_000)
    alice = time_out(s, job, "alice")
    price = s.world.seat(job, alice).price
    tenth = slash_of(lock_of(2 * price, 10_000))
    aside, pot = tenth * 9 // 10, tenth - tenth * 9 // 10
    s.post_checkpoint(job)
    s.take_over(
        job, alice, "erin", 1
    )  # a tenth more, for eight rounds: more than is set aside for a slot, and than the pot has
    dearer = 8 * (s.world.seat(job, 2).price - price)
    assert dearer > aside // 2 + pot
    assert s.world.job_ledgers[job].restored == aside // 2 + pot
    assert (s.world.job_pots[job], kept(s, job)) == (0, aside - aside // 2)
    while s.world.run(job).round < 8:
        s.play_round(job)
    # In the last round a slot costs twice as much once, which leaves something.
    s.take_over(job, alice, "carol")
    dearer = s.world.seat(job, alice).price - price
    assert dearer > 0
    assert s.world.job_ledgers[job].restored == aside // 2 + pot + min(dearer, aside - aside // 2)
    left = max(0, aside - aside // 2 - dearer)
    assert kept(s, job) == left
    s.play_round(job)
    s.settle(job)
    assert kept(s, job) == left


@scenario
def what_is_set_aside_for_a_seat_that_nobody_took_comes_back_when_the_job_is_over(s: Stage) -> None:
    rated(s)
    job = s.running(SLOTS, AGGREGATORS, quorum=2)
    time_out(s, job, "alice")
    args = ("locks", "return_set_aside", "stranger", job, s.ids["alice"])
    s.no("settlement: seat still occupied", *args)
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.no("settlement: claims not final", *args)
    for operator in (s.ids["bob"], AGGREGATOR_SEAT, 2**256 - 1):
        s.no("locks: nothing set aside", "locks", "return_set_aside", "stranger", job, operator)
    s.finalise(job)
    aside = kept(s, job)
    before = owed(s, job)
    assert aside > 0
    assert s.world.pots[s.tokens["zen"]] == aside
    s.ok(*args)
    assert owed(s, job) == before + aside
    s.no("locks: nothing set aside", *args)
    s.settle(job)


@scenario
def in_a_job_that_is_abandoned_a_seat_that_nobody_took_costs_the_whole_tenth(s: Stage) -> None:
    costs_a_tenth(s, None)


@scenario
def in_a_job_that_is_abandoned_a_seat_that_was_taken_too_late_to_work_costs_the_whole_tenth(s: Stage) -> None:
    """The taker may be another name of whoever left it, and nobody can time it out."""
    costs_a_tenth(s, "erin")


def costs_a_tenth(s: Stage, taker: str | None) -> None:
    """Alice leaves a seat that the quorum needs."""
    rated(s)
    job = s.running(SLOTS, AGGREGATORS, quorum=3)
    alice = time_out(s, job, "alice")
    tenth = slash_of(lock(2 * s.world.seat(job, alice).price))
    s.to(s.world.run(job).inputs_close)
    if taker:
        s.take_over(job, alice, taker)
        s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, alice)
    s.ok("settlement", "abandon", "stranger", job)
    args = ("locks", "return_set_aside", "stranger", job, s.ids["alice"])
    s.no("settlement: claims not final", *args)
    s.finalise(job)
    zen, before = s.tokens["zen"], owed(s, job)
    burned = s.world.burned[zen]
    s.ok(*args)
    assert (owed(s, job), before) == (0, 0)
    assert s.world.burned[zen] - burned == tenth * 9 // 10
    s.settle(job)


@scenario
def a_liar_that_left_its_seat_in_time_has_nothing_back(s: Stage) -> None:
    """What was set aside for it is the job's once it is convicted; whoever takes the seat dearer is paid from there."""
    rated(s)
    slots = {"bob": Offer(60, 2), "alice": Offer(70, 2), "carol": Offer(80, 2)}
    job = s.running(slots, {"dave": Offer(30)}, quorum=2, rounds=4, depth=4)
    seat = s.seat_of(job, "alice")
    price = s.world.seat(job, seat).price
    s.commit(job, "bob")
    lie = s.commit(job, "alice")
    s.post_checkpoint(job)
    s.until_open(job)
    s.ok("settlement", "decline", "alice hot", job, seat, 2)
    tenth = slash_of(lock(2 * price))
    assert (kept(s, job), s.world.job_pots[job]) == (tenth * 9 // 10, tenth - tenth * 9 // 10)
    s.convict(job, lie, "stranger")
    rest = lock(2 * price) - tenth
    assert s.world.stake_of(job, s.ids["alice"], False).locked == 0
    assert (kept(s, job), s.world.job_pots[job]) == (0, tenth + slash_of(rest))
    s.play_round(job)
    s.until_open(job)
    s.take_over(job, seat, "erin")
    assert s.world.job_ledgers[job].restored == 2 * 2 * (s.world.seat(job, seat).price - price) > 0
    assert (kept(s, job), s.world.set_aside[job, seat]) == (0, SetAside())
    while s.world.run(job).round < 4:
        s.play_round(job)
    s.settle(job)
    s.no("locks: nothing set aside", "locks", "return_set_aside", "stranger", job, s.ids["alice"])
    assert owed(s, job) == 0


@scenario
def whoever_took_a_dearer_seat_and_leaves_it_has_nothing_set_aside(s: Stage) -> None:
    """What escrow was paid for it would return to the submitter, whose other name that may be."""
    rated(s)
    slots = {"bob": Offer(60, 2), "carol": Offer(70, 2), "dave": Offer(80, 2)}
    job = s.running(slots, {"erin": Offer(30)}, quorum=2)
    seat = time_out(s, job, "bob")
    s.post_checkpoint(job)
    s.take_over(job, seat, "alice")
    assert s.world.stake_of(job, s.ids["alice"], False).is_dearer
    pot = s.world.job_pots[job]
    s.ok("settlement", "decline", "alice hot", job, seat, 2)
    assert s.world.set_aside.get((job, seat), SetAside()) == SetAside()
    assert s.world.job_pots[job] - pot == slash_of(lock(2 * s.world.seat(job, seat).price))
    # At the price that it had, a seat is taken as any other.
    s.take_over(job, seat, "dave")
    assert not s.world.stake_of(job, s.ids["dave"], False).is_dearer
    for _ in range(2):
        s.play_round(job)
    s.settle(job)


@scenario
def another_seat_at_its_price_makes_nobody_forget_the_dearer_one(s: Stage) -> None:
    rated(s)
    slots = {"bob": Offer(60, 2), "carol": Offer(70, 2), "dave": Offer(80, 2)}
    job = s.running(slots, {"erin": Offer(30)}, quorum=2)
    dearer, other = time_out(s, job, "bob"), s.seat_of(job, "carol")
    s.post_checkpoint(job)
    s.take_over(job, dearer, "alice")
    s.ok("settlement", "decline", "carol hot", job, other, 2)
    s.take_over(job, other, "alice")
    assert s.world.stake_of(job, s.ids["alice"], False).is_dearer
    s.ok("settlement", "decline", "alice hot", job, dearer, 2)
    assert s.world.set_aside.get((job, dearer), SetAside()) == SetAside()
