"""What a keeper decides, from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.duties import (
    RECOVERY_S,
    Aggregate,
    CommitTrained,
    Me,
    OpenBid,
    PostAggregate,
    Prepare,
    Progress,
    SealBid,
    Send,
    Train,
    duties,
)
from zoo_compute.chain.views import (
    AggregatorSeat,
    Bid,
    Checkpoint,
    Commit,
    JobState,
    JobView,
    Lot,
    LotPhase,
    Run,
    Seat,
    Terms,
    Vacancy,
)

ROOT = b"\1" * 32
ME, OTHER, AGGREGATOR = 1, 2, 9
OPENED, SLOT_S, ESTIMATE = 1_000, 40, 10

TERMS = Terms("0xT", ROOT, ROOT, ROOT, ROOT, 4, 6, 4, 100, 120, 50, 60, SLOT_S, 20, 5, 10**9)
LOT = Lot(LotPhase.OPEN, "0xT", 6, 4, 100, 120, 10, 1, 1_010, 1_020, 0, 0, 0, 0, 0, 0, 0, 0)
BID = Bid(1, 4, True, True, 80, 0, 2, 0, 0, 0)
SEAT = Seat(90, 20, ESTIMATE, OPENED, 0b000011, 0)
RUN = Run(
    JobState.RUNNING, 1, 4, 6, 4, OPENED, 0, 15, SLOT_S, 20, AGGREGATOR, 50, 1_100, "0xT", 10, 10**9, 0b111111, 0, 0
)
ME_PROVIDER = Me(ME, True, False, 80, 50, 4, True, 1_000, 3, 20)
ME_AGGREGATOR = replace(ME_PROVIDER, operator=AGGREGATOR, provides=False, aggregates=True)


def view(now: int, **changes: object) -> JobView:
    base = JobView(
        job=1, block=5, now=now, state=JobState.RUNNING, submitter="0xS", token="0xT", terms=TERMS, escrow=10**6, posted_block=1,
        run=RUN, lots={0: LOT, 1: replace(LOT, units=1)}, bids={(0, ME): BID, (0, OTHER): BID},
        seats={ME: SEAT, OTHER: replace(SEAT, held=0b111100)}, aggregator_seats={AGGREGATOR: AggregatorSeat(50, 200)},
        vacancies={}, checkpoint_roots={0: ROOT, 1: ROOT}, checkpoint_cid=ROOT, commits=(), checkpoints=(),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def sends(found: list) -> list[str]:
    return [duty.function for duty in found if isinstance(duty, Send)]


# -- the auction


def opening(now: int, **changes: object) -> JobView:
    return view(now, **{"state": JobState.OPEN, "run": None, "bids": {}, "seats": {}, "aggregator_seats": {}} | changes)


TIMED = Progress(slot_s=5)


def test_bidding__fetches_checks_and_times_the_job_before_it_binds_a_lock():
    assert duties(opening(1_000), ME_PROVIDER, Progress()) == [Prepare()]
    assert duties(opening(1_000), ME_PROVIDER, Progress(failed=True)) == []
    assert duties(opening(1_000), ME_PROVIDER, TIMED) == [SealBid(0, 1, 4, 80)]


@pytest.mark.parametrize(("slot_s", "slots"), [(8, 4), (8.6, 3), (11, 3), (11.4, 2), (34, 1)])
def test_bidding__takes_no_more_slots_than_it_can_train_in_time(slot_s: float, slots: int):
    assert duties(opening(1_000), ME_PROVIDER, Progress(slot_s=slot_s)) == [SealBid(0, 1, slots, 80)]
    assert duties(opening(1_000), ME_PROVIDER, Progress(slot_s=34.1)) == []


@pytest.mark.parametrize(
    "me",
    [
        replace(ME_PROVIDER, price=101),
        replace(ME_PROVIDER, free=9),
        replace(ME_PROVIDER, drained=True),
        replace(ME_PROVIDER, provides=False),
        replace(ME_PROVIDER, capacity=0),
        replace(ME_PROVIDER, capacity=-1),
    ],
    ids=["dearer than the reserve", "no collateral for one slot", "drained", "no provider", "busy", "over-busy"],
)
def test_bidding__stays_away_when_it_cannot_or_will_not(me: Me):
    assert duties(opening(1_000), me, TIMED) == []


def test_bidding__takes_no_more_slots_than_collateral_locks():
    assert duties(opening(1_000), replace(ME_PROVIDER, free=25), TIMED) == [SealBid(0, 1, 2, 80)]


def test_bidding__ends_at_the_second_it_ends():
    assert duties(opening(1_009), ME_PROVIDER, TIMED) != []
    assert duties(opening(1_010), ME_PROVIDER, TIMED) == []


def test_bidding_again__reclaims_the_bid_of_the_earlier_attempt_first():
    reopened = opening(1_000, lots={0: replace(LOT, attempt=2)}, bids={(0, ME): replace(BID, revealed=True)})
    assert duties(reopened, ME_PROVIDER, TIMED)[:2] == [
        Send("auction", "reclaim", (1, 0, ME)),
        SealBid(0, 2, 4, 80),
    ]


def test_revealing__opens_my_sealed_bid_once():
    sealed = replace(BID, revealed=False, price=0, won=0)
    assert duties(opening(1_010, bids={(0, ME): sealed}), ME_PROVIDER, Progress()) == [OpenBid(0, 1, 4, 80)]
    assert duties(opening(1_019, bids={(0, ME): BID}), ME_PROVIDER, Progress()) == []


def test_clearing__goes_by_score_then_operator_and_leaves_out_what_is_cleared():
    bids = {(0, 3): replace(BID, price=80), (0, 1): replace(BID, price=90), (0, 2): replace(BID, price=80)}
    lot = replace(LOT, revealed=3, units_capped=6, units_uncapped=12)
    [clear] = duties(opening(1_100, lots={0: lot}, bids=bids), ME_PROVIDER, Progress())
    assert clear == Send("auction", "clear", (1, 0, [2, 3, 1]))
    partly = replace(lot, phase=LotPhase.CLEARING, cleared=2, cursor=(80 * 10_000) << 64 | 3)
    assert duties(opening(1_100, lots={0: partly}, bids=bids), ME_PROVIDER, Progress()) == [
        Send("auction", "clear", (1, 0, [1]))
    ]


def test_clearing__in_which_somebody_left_bids_out_is_started_again():
    bids = {(0, 3): replace(BID, price=80), (0, 1): replace(BID, price=90), (0, 2): replace(BID, price=80)}
    lot = replace(LOT, revealed=3, units_capped=6, units_uncapped=12, phase=LotPhase.CLEARING, cleared=1)
    robbed = replace(lot, cursor=(90 * 10_000) << 64 | 1)  # the last bid was cleared first: two are left out
    found = duties(opening(1_100, lots={0: robbed}, bids=bids), ME_PROVIDER, Progress())
    assert found == [Send("auction", "clear", (1, 0, [operator])) for operator in (2, 3, 1)]


def test_a_lot_that_is_full__waits_for_the_other_and_frees_my_bid_by_reopening():
    bids = {(0, operator): BID for operator in (1, 2, 3)}
    full = replace(LOT, revealed=3, units_capped=6, units_uncapped=12)
    short = replace(LOT, units=1, max_reserve=1)  # an aggregator's seat nobody can want
    stuck = opening(1_100, lots={0: full, 1: short}, bids=bids)
    assert duties(stuck, ME_PROVIDER, TIMED) == [Send("auction", "reopen", (1, 1))]
    assert duties(stuck, replace(ME_PROVIDER, operator=9), TIMED) == []


def test_a_lot_that_never_fills__and_a_job_without_end_get_no_bid():
    tired = opening(1_000, lots={0: replace(LOT, attempt=7)})
    assert duties(tired, ME_PROVIDER, TIMED) == []
    endless = opening(1_000, terms=replace(TERMS, rounds=10_000, slot_s=604_800))
    assert duties(endless, ME_PROVIDER, TIMED) == []


def test_estimates__leave_room_for_my_other_jobs():
    busy = replace(ME_PROVIDER, other_s=20)
    assert duties(opening(1_000), busy, Progress(slot_s=7)) == [SealBid(0, 1, 2, 80)]
    estimate = 2 * 3 + 20 + RECOVERY_S
    assert duties(awarded(1_001), busy, Progress(slot_s=3)) == [Send("settlement", "ready", (1, ME, estimate))]


def test_strangers_jobs__are_not_even_fetched_without_room_or_collateral():
    for me in (replace(ME_PROVIDER, capacity=0), replace(ME_PROVIDER, free=9), replace(ME_PROVIDER, price=101)):
        assert duties(opening(1_000), me, Progress()) == []


def test_awarding__prices_winners_that_have_no_seat_yet():
    bids = {(0, 1): replace(BID, won=2), (0, 2): replace(BID, won=2), (0, 3): replace(BID, won=0)}
    cleared = opening(1_100, lots={0: replace(LOT, phase=LotPhase.CLEARED)}, bids=bids, seats={1: SEAT})
    assert duties(cleared, ME_PROVIDER, Progress()) == [Send("auction", "award", (1, 0, [2]))]


def test_too_few_bids__are_reopened_by_who_would_bid_at_the_maximum_only():
    assert sends(duties(opening(1_100, lots={0: LOT}), replace(ME_PROVIDER, price=120), Progress())) == ["reopen"]
    assert duties(opening(1_100, lots={0: LOT}), replace(ME_PROVIDER, price=121), Progress()) == []


# -- ready


def awarded(now: int, **changes: object) -> JobView:
    run = replace(RUN, state=JobState.AWARDED, round=0)
    return view(now, **{"state": JobState.AWARDED, "run": run} | changes)


def test_awarded__prepares_then_tells_its_timed_estimate():
    assert duties(awarded(1_001), ME_PROVIDER, Progress()) == [Prepare()]
    assert duties(awarded(1_001), ME_PROVIDER, Progress(slot_s=99)) == [Send("settlement", "ready", (1, ME, SLOT_S))]


def test_awarded__declines_what_it_cannot_hold():
    assert sends(duties(awarded(1_001), ME_PROVIDER, Progress(failed=True))) == ["decline"]


def test_awarded__expires_a_silent_holder_after_the_ready_window():
    quiet = awarded(1_100)
    assert Send("settlement", "expire", (1, OTHER)) in duties(quiet, ME_PROVIDER, Progress(slot_s=5))
    assert "expire" not in sends(duties(awarded(1_020), ME_PROVIDER, Progress(slot_s=5)))


# -- rounds


def test_running__trains_what_it_holds_and_commits_all_in_one_transaction():
    assert duties(view(1_001), ME_PROVIDER, Progress(10)) == [Train(1, 0), Train(1, 1)]
    assert duties(view(1_001), ME_PROVIDER, Progress(10, frozenset({0}))) == [Train(1, 1)]
    assert duties(view(1_001), ME_PROVIDER, Progress(10, frozenset({0, 1}))) == [CommitTrained(1, (0, 1))]


def test_running__commits_what_is_trained_when_the_deadline_is_near():
    near = view(OPENED + 2 * ESTIMATE - 6, seats={ME: SEAT})
    assert duties(near, ME_PROVIDER, Progress(10, frozenset({0}))) == [Train(1, 1), CommitTrained(1, (0,))]


def test_running__does_nothing_after_inputs_closed():
    closed = view(OPENED + 2 * SLOT_S, run=replace(RUN, missing=0b11), seats={ME: SEAT})
    assert duties(closed, ME_PROVIDER, Progress(10, frozenset({0, 1}))) == []


def test_a_silent_holder__is_timed_out_after_its_deadline_and_not_in_it():
    at = OPENED + 2 * ESTIMATE
    done = Progress(10, frozenset())
    assert "time_out" not in sends(duties(view(at), ME_PROVIDER, done))
    late = duties(view(at + 10), ME_PROVIDER, done)
    assert Send("settlement", "time_out", (1, OTHER, 0b111100)) in late


def test_a_vacant_slot__is_taken_by_a_standby_with_spare_capacity_and_time():
    vacant = view(
        OPENED + 25, run=replace(RUN, vacant=0b100, missing=0b111), vacancies={2: Vacancy(90, 1)}, seats={ME: SEAT}
    )
    taken = [d for d in duties(vacant, ME_PROVIDER, Progress(10)) if isinstance(d, Send)]
    assert taken == [
        Send("settlement", "take_over", (1, 2, ME, 3 * 10 + RECOVERY_S))
    ]  # for all it then holds, every round
    for me in (replace(ME_PROVIDER, free=9), replace(ME_PROVIDER, drained=True)):
        assert "take_over" not in sends(duties(vacant, me, Progress(10)))
    late = replace(vacant, now=OPENED + 2 * SLOT_S - 5)
    assert "take_over" not in sends(duties(late, ME_PROVIDER, Progress(10)))
    assert "take_over" not in sends(duties(vacant, ME_PROVIDER, Progress(12)))  # three slots would not fit slot_s
    full = replace(vacant, bids={(0, ME): replace(BID, won=2, taken=2)})
    assert "take_over" not in sends(duties(full, ME_PROVIDER, Progress(10)))


def test_a_slot_lost_after_a_takeover__is_not_taken_again():
    vacant = view(OPENED + 5, run=replace(RUN, vacant=0b100), seats={ME: replace(SEAT, taken=0b100)})
    assert "take_over" not in sends(duties(vacant, ME_PROVIDER, Progress(10)))


# -- aggregation


def test_the_aggregator__waits_for_inputs_then_aggregates_then_posts():
    assert duties(view(1_001), ME_AGGREGATOR, Progress()) == []
    complete = view(1_001, run=replace(RUN, missing=0))
    assert duties(complete, ME_AGGREGATOR, Progress()) == [Aggregate(1, 0b111111)]
    assert duties(complete, ME_AGGREGATOR, Progress(aggregated=True)) == [PostAggregate(1, 0b111111)]


def test_the_aggregator__times_out_silent_holders_before_it_closes_a_round_without_them():
    closing = view(OPENED + 2 * SLOT_S, run=replace(RUN, missing=0b1))
    found = duties(closing, ME_AGGREGATOR, Progress(aggregated=True))
    assert Send("settlement", "time_out", (1, ME, 0b1)) in found
    assert found[-1] == PostAggregate(1, 0b111110)


def test_a_round_without_quorum__is_abandoned():
    short = view(OPENED + 2 * SLOT_S + 30, run=replace(RUN, missing=0b111000))
    assert sends(duties(short, ME_PROVIDER, Progress()))[-1] == "abandon"


def test_a_silent_aggregator__is_timed_out_and_replaced_by_a_standby():
    silent = view(1_200, run=replace(RUN, missing=0))
    assert "time_out_aggregator" in sends(duties(silent, ME_PROVIDER, Progress()))
    vacant = view(1_200, run=replace(RUN, missing=0, aggregator=0), bids={(1, 7): replace(BID, capacity=1, won=0)})
    assert sends(duties(vacant, replace(ME_AGGREGATOR, operator=7), Progress())) == ["take_over_aggregator"]
    assert sends(duties(vacant, ME_PROVIDER, Progress())) == ["abandon"]


# -- money


def test_claims__are_finalised_when_final_mine_at_once_others_when_left_lying():
    commit = Commit(0, ME, 0b11, ROOT, ROOT, 1_000, False, 3)
    theirs = replace(commit, operator=OTHER, bitmap=0b1100)
    posted = Checkpoint(0, AGGREGATOR, 0b111111, ROOT, ROOT, 1_000, False, 4)
    ready = view(1_001, commits=(commit, theirs), checkpoints=(posted,), seats={})
    [finalise] = duties(ready, ME_PROVIDER, Progress())
    assert finalise == Send("settlement", "finalise", (1, [(0, 0, ME, 0b11, ROOT, 1_000)]))
    assert duties(replace(ready, now=1_000), ME_PROVIDER, Progress()) == []
    [all_of_them] = duties(replace(ready, now=1_050), ME_PROVIDER, Progress())
    assert [ref[1] for ref in all_of_them.args[1]] == [0, 2, 256]


def test_a_finished_job__releases_my_lock_when_nothing_is_outstanding():
    over = view(2_000, state=JobState.ENDED, run=replace(RUN, state=JobState.ENDED, missing=0))
    assert sends(duties(over, ME_PROVIDER, Progress())) == ["release"]
    unpaid = replace(over, run=replace(RUN, state=JobState.ENDED, outstanding=3))
    assert sends(duties(unpaid, ME_PROVIDER, Progress())) == []
