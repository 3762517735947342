"""A keeper bids only for what it can answer in disputes, with all its other promises counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keepers.capacity import Capacity
from keepers.config import OperatorConfig
from keepers.decisions.defence import COUNTED_REEXECUTIONS, PathClock, Promise, defensible_slots, overload
from keepers.decisions.duties import duties
from keepers.decisions.obstacles import defensible, reasons_not_to_bid
from keepers.decisions.orders import Progress, SealBid
from tests.keepers.test_duties import (
    AGGREGATOR_SEAT,
    CHAIR,
    ME_PROVIDER,
    OTHERS,
    SEAT,
    TERMS,
    opening,
    sends,
    view,
)

MINUTE = 60


def promise(job: int, slots: int, opening_s: float, clock: PathClock | None = None) -> Promise:
    return Promise(job, slots, opening_s, clock or PathClock(MINUTE, 10 * MINUTE))


@pytest.mark.parametrize(("opening_s", "fits"), [(60, True), (78.75, True), (78.76, False)])
def test_a_path__is_answered_in_time_where_each_slot_is_asked_as_often_as_its_clock_counts(
    opening_s: float, fits: bool
):
    """One slot asked 32 times: 10 min and 32 re-executions of a minute are 2,520 s; 32 openings of 78.75 s are as much."""
    over = overload([promise(1, 1, opening_s)])
    assert (over is None) == fits
    if over is not None:
        assert (over.job, over.openings, over.clock_s) == (1, 32, 2_520)
        assert over.takes_s == pytest.approx(32 * opening_s)


def test_more_slots__owe_more_openings_and_have_no_more_time_each():
    assert overload([promise(1, 8, 75)]) is not None, (
        "8 slots asked once: 600 s of work, 660 s; asked 32 times: too much"
    )
    assert overload([promise(1, 8, 9.8)]) is None
    assert defensible_slots(promise(1, 8, 20), []) == 3
    assert defensible_slots(promise(1, 8, 200), []) == 0


def test_every_clock__must_hold_with_the_openings_of_all_jobs():
    hasty, slow = promise(2, 1, 1, PathClock(1, 700)), promise(1, 4, 10)
    assert overload([hasty]) is None
    assert overload([slow]) is None
    over = overload([slow, hasty])
    assert over is not None
    assert (over.job, over.openings, over.takes_s, over.clock_s) == (2, 160, 1_312, 732), (
        "the new job delays the other's answer"
    )
    assert defensible_slots(slow, [hasty]) == 2


def test_a_job_without_slots__has_no_clock():
    assert overload([promise(1, 2, 5), promise(2, 0, 5, PathClock(0, 0))]) is None
    assert overload([]) is None


def test_the_clock_of_a_path__grows_with_what_is_owed_a_slot_up_to_32():
    clock = PathClock(reexecute_s=2, committer_s=10)
    assert [clock.seconds(openings, 4) for openings in (1, 4, 64, 127, 128, 1_000)] == [10.5, 12, 42, 73.5, 74, 74]


def test_between_the_ends_that_are_checked__nothing_is_worse():
    clock = PathClock(7, 30)
    for slots in (1, 3, 20):
        for opening_s in (0.1, 1.0, 2.0, 7.0, 9.0, 30.0):
            fits = overload([Promise(1, slots, opening_s, clock)]) is None
            counts = range(1, COUNTED_REEXECUTIONS + 1)
            every = (n * slots * opening_s <= clock.seconds(n * slots, slots) for n in counts)
            assert fits == all(every), (slots, opening_s)


SLOW = Progress(slot_s=5, opening_s=30, opening="node 57 (dot of 4,096 terms, 16,384 elements)")


@pytest.mark.parametrize(("opening_s", "slots"), [(5, 4), (10, 4), (10.1, 3), (13.4, 2), (20.1, 1), (40.1, 0)])
def test_bidding__takes_no_more_slots_than_it_can_answer_for(opening_s: float, slots: int):
    """committer_s 0 and reexecute_s 40: n slots asked k times each have 40 k seconds."""
    due = duties(opening(1_000), ME_PROVIDER, replace(SLOW, opening_s=opening_s))
    assert [duty.capacity for duty in due if isinstance(duty, SealBid)] == [slots] * bool(slots)


def test_a_job_that_could_not_be_answered_for__says_what_was_measured_and_allowed_and_what_to_do():
    other = Promise(9, 6, 45.0, PathClock(40, 10))
    me = replace(ME_PROVIDER, promises=(other,))
    assert reasons_not_to_bid(opening(1_000), ME_PROVIDER, SLOW) == ""
    reason = reasons_not_to_bid(opening(1_000), me, replace(SLOW, opening_s=90))
    assert reason == (
        "answering one opening takes 1 min 30 s here, most of it the trace of a step and node 57 (dot of 4,096 terms, 16,384 "
        "elements); with 1 of its slots beside 6 in other jobs up to 7 could be owed at once, 6 min of work, and job 1's clock gives "
        "40 s: use a faster device, or lower capacity in operator.json so that you have fewer slots in other jobs"
    )
    assert duties(opening(1_000), me, replace(SLOW, opening_s=90)) == []


def test_a_standby__takes_over_no_more_than_it_can_answer_for():
    vacant = view(1_001, seats={0: replace(SEAT, operator=0), 1: OTHERS, AGGREGATOR_SEAT: CHAIR})
    assert "take_over" in sends(duties(vacant, ME_PROVIDER, replace(SLOW, opening_s=5)))
    assert "take_over" not in sends(duties(vacant, ME_PROVIDER, replace(SLOW, opening_s=1_000)))


def test_defensible__counts_my_other_jobs_alone():
    me = replace(ME_PROVIDER, promises=(Promise(2, 100, 5.0, PathClock(40, 10)),))
    assert defensible(opening(1_000), ME_PROVIDER, SLOW, 4) == 1
    assert defensible(opening(1_000), me, SLOW, 4) == 0


def test_capacity__gives_the_promises_of_other_jobs_once_they_are_measured():
    config = OperatorConfig(name="me", network="n", operator=1, folder=Path())
    capacity, job, other = Capacity(config), view(1_000), view(1_000, job=2)
    capacity.begin_tick([job, other])
    assert capacity.promises_elsewhere(1) == ()
    capacity.record_opening_time(other, 3.0, 10)
    [made] = capacity.promises_elsewhere(1)
    assert (made.job, made.slots, made.opening_s, made.clock.seconds(1, 1)) == (2, 2, 3.0, 10 + TERMS.reexecute_s)
    assert capacity.promises_elsewhere(2) == ()
    capacity.begin_tick([job])
    assert capacity.promises_elsewhere(1) == (), "a job that is over asks nothing"
