"""What a keeper bids, opens, clears and awards, from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.decisions.duties import duties
from keepers.decisions.obstacles import MEASURED_AGAIN, RECOVERY_S, reasons_not_to_bid
from keepers.decisions.orders import OpenBid, OperatorContext, Prepare, Progress, SealBid, Send
from tests.keepers.test_duties import (
    BID,
    CHAIR,
    LOT,
    ME,
    ME_AGGREGATOR,
    ME_PROVIDER,
    OTHERS,
    SEAT,
    TERMS,
    TIMED,
    awarded,
    opening,
    sends,
    view,
)
from zoo_compute.amounts import Token
from zoo_compute.chain.auction_attempts import Attempt
from zoo_compute.chain.views import AGGREGATOR_SEAT, LotPhase
from zoo_compute.spec.params import LAPSE_S, lock_of
from zoo_compute.spec.requirements import Capability


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
        replace(ME_PROVIDER, is_drained=True),
        replace(ME_PROVIDER, is_provider=False),
        replace(ME_PROVIDER, capacity=0),
        replace(ME_PROVIDER, capacity=-1),
    ],
    ids=["dearer than the reserve", "no collateral for one slot", "is_drained", "no provider", "busy", "over-busy"],
)
def test_bidding__stays_away_when_it_cannot_or_will_not(me: OperatorContext):
    assert duties(opening(1_000), me, TIMED) == []


@pytest.mark.parametrize(("slot_s", "bids"), [(17, True), (17.1, False), (33, True)])
def test_a_job_whose_re_execution_is_declared_too_short__is_left_alone(slot_s: float, bids: bool):
    """The clock of a dispute follows from it: whoever cannot do the work again in time would lose a true claim."""
    short = replace(TERMS, reexecute_s=5)
    me = replace(ME_PROVIDER, committer_s=512) if slot_s > 30 else ME_PROVIDER
    assert bool(duties(opening(1_000, terms=short), me, Progress(slot_s=slot_s))) is bids
    vacant = view(1_001, terms=short, seats={0: replace(SEAT, operator=0), 1: OTHERS, AGGREGATOR_SEAT: CHAIR})
    assert ("take_over" in sends(duties(vacant, me, Progress(slot_s=slot_s)))) is bids


HOUR_S = 3_600
MORNING = sum(1 << hour for hour in range(6, 12))


@pytest.mark.parametrize(("hours", "bids"), [(0, True), (MORNING, True), (MORNING & ~(1 << 9), False), (1 << 8, False)])
def test_bidding__stays_away_from_slots_of_a_job_that_goes_on_when_it_is_not_there(hours: int, bids: bool):
    at = 86_400 + 8 * HOUR_S + 1_000
    lots = {kind: replace(LOT, bid_end=at + 10, reveal_end=at + 20) for kind in (0, 1)}
    two_hours = replace(TERMS, rounds=2, slot_s=1_500, aggregate_s=600)  # at most: from the ninth hour into the tenth
    me = replace(ME_PROVIDER, hours=hours, is_aggregator=True)
    due = duties(opening(at, lots=lots, terms=two_hours), me, Progress(slot_s=5))
    assert [duty.kind for duty in due if isinstance(duty, SealBid)] == [*([0] if bids else []), 1]


@pytest.mark.parametrize(("gpu_class", "flops", "bids"), [(4, 10**15, True), (4, 10**15 + 1, False), (1, 10**18, True)])
def test_bidding__leaves_heavy_slots_to_classes_that_are_for_them(gpu_class: int, flops: int, bids: bool):
    me = replace(ME_PROVIDER, capability=Capability(gpu_class=gpu_class))
    heavy = opening(1_000, terms=replace(TERMS, flops=flops))
    assert any(isinstance(duty, SealBid) for duty in duties(heavy, me, TIMED)) == bids


def test_bidding__takes_no_more_slots_than_collateral_locks():
    assert duties(opening(1_000), replace(ME_PROVIDER, free=25), TIMED) == [SealBid(0, 1, 2, 80)]


def test_bidding__takes_no_more_slots_than_the_stake_covers():
    assert duties(opening(1_000), replace(ME_PROVIDER, most_units=3), TIMED) == [SealBid(0, 1, 3, 80)]
    small = replace(ME_PROVIDER, most_units=0)
    assert duties(opening(1_000), small, TIMED) == []
    why = reasons_not_to_bid(opening(1_000), small, TIMED)
    assert why == "a bid offers at least 1 slots, and the stake covers 0; zoo node stake AMOUNT"


@pytest.mark.parametrize(
    ("capacity", "aggregation_s", "shares"),
    [(1, 0.0, 1), (2, 0.0, 2), (16, 0.0, 6), (2, 1.0, 2), (16, 1.0, 6), (16, 1.7, 3), (16, 5.0, 1), (2, 19.0, 1)],
)
def test_bidding__takes_no_more_shares_of_a_model_than_it_combines_in_time(
    capacity: int, aggregation_s: float, shares: int
):
    """In aggregate_s of 20 s, of which two thirds are for fetching and storing."""
    seen = opening(1_000, lots={0: LOT, 1: LOT}, terms=replace(TERMS, aggregators=6))
    me = replace(ME_AGGREGATOR, aggregator_capacity=capacity)
    progress = Progress(slot_s=5, aggregation_s=aggregation_s)
    assert duties(seen, me, progress) == [SealBid(1, 1, shares, 50)]


def test_bidding__takes_no_more_shares_than_collateral_locks():
    seen = opening(1_000, lots={0: LOT, 1: LOT}, terms=replace(TERMS, aggregators=6))
    assert duties(seen, replace(ME_AGGREGATOR, aggregator_capacity=4, free=25), TIMED) == [SealBid(1, 1, 2, 50)]


def test_a_job_that_nobody_re_opened_for_a_month__is_closed():
    short = opening(1_019 + 1, lots={0: LOT, 1: LOT})
    pauper = replace(ME_PROVIDER, free=0)
    assert duties(short, pauper, TIMED) == []
    due = LOT.reveal_end + LAPSE_S
    assert duties(replace(short, now=due - 1), pauper, TIMED) == []
    assert duties(replace(short, now=due), pauper, TIMED) == [Send("tasks", "lapse", (1,))]


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
    due = duties(opening(1_100, lots={0: robbed}, bids=bids), ME_PROVIDER, Progress())
    assert due == [Send("auction", "clear", (1, 0, [operator])) for operator in (2, 3, 1)]


def test_a_lot_that_is_full__waits_for_the_other_and_frees_my_bid_by_reopening():
    bids = {(0, operator): BID for operator in (1, 2, 3)}
    full = replace(LOT, revealed=3, units_capped=6, units_uncapped=12)
    short = replace(LOT, units=1, max_reserve=1)  # an aggregator's seat nobody can want
    stuck = opening(
        1_100, lots={0: full, 1: short}, bids=bids, attempts=[Attempt(1_020, {0: 100, 1: 1}, dict.fromkeys(bids, 4))]
    )
    assert duties(stuck, ME_PROVIDER, TIMED) == [Send("auction", "reopen", (1, 1))]
    pauper = replace(ME_PROVIDER, operator=9, free=0)
    assert duties(stuck, pauper, TIMED) == []
    assert duties(stuck, replace(pauper, operator=ME), TIMED) == [Send("auction", "reopen", (1, 1))], "its bid is bound"


def test_a_job_without_end__gets_no_bid():
    endless = opening(1_000, terms=replace(TERMS, rounds=10_000, slot_s=604_800))
    assert duties(endless, ME_PROVIDER, TIMED) == []


def test_estimates__leave_room_for_my_other_jobs():
    busy = replace(ME_PROVIDER, busy_elsewhere_s=20)
    assert duties(opening(1_000), busy, Progress(slot_s=7)) == [SealBid(0, 1, 2, 80)]
    estimate = 2 * 3 + 20 + RECOVERY_S
    assert duties(awarded(1_001), busy, Progress(slot_s=3)) == [Send("settlement", "ready", (1, 0, estimate))]


def test_strangers_jobs__are_not_even_fetched_without_room_or_collateral():
    for me in (replace(ME_PROVIDER, capacity=0), replace(ME_PROVIDER, free=9), replace(ME_PROVIDER, price=101)):
        assert duties(opening(1_000), me, Progress()) == []


def test_awarding__prices_winners_that_have_no_seat_yet():
    bids = {(0, 1): replace(BID, won=2), (0, 2): replace(BID, won=2), (0, 3): replace(BID, won=0)}
    cleared = opening(1_100, lots={0: replace(LOT, phase=LotPhase.CLEARED)}, bids=bids, seats={0: SEAT})
    assert duties(cleared, ME_PROVIDER, Progress()) == [Send("auction", "award", (1, 0, [2]))]


@pytest.mark.parametrize(
    ("me", "progress", "reopens"),
    [
        ({"price": 120}, TIMED, True),
        ({"price": 121}, TIMED, False),
        ({"free": 10}, TIMED, True),
        ({"free": 9}, TIMED, False),
        ({"is_drained": True}, TIMED, False),
        ({"capability": Capability(gpu_class=4)}, TIMED, True),
        ({"capacity": 0}, TIMED, False),
        ({"ring_conflicts": {0: 257}}, TIMED, False),
        ({"is_provider": False}, TIMED, False),
        ({}, Progress(failed=True), False),
        ({}, Progress(slot_s=99), False),
    ],
)
def test_too_few_bids__are_reopened_by_an_operator_that_can_bid_at_the_maximum_only(
    me: dict, progress: Progress, reopens: bool
):
    failed = opening(1_100, lots={0: LOT})
    assert sends(duties(failed, replace(ME_PROVIDER, **me), progress)) == ["reopen"] * reopens


def test_before_it_reopens_an_auction__a_keeper_sees_whether_it_can_run_the_job():
    assert duties(opening(1_100, lots={0: LOT}), ME_PROVIDER, Progress()) == [Prepare()]


def test_a_heavy_job__is_not_reopened_by_a_class_for_light_ones():
    heavy = opening(1_100, lots={0: LOT}, terms=replace(TERMS, flops=10**15 + 1))
    assert duties(heavy, replace(ME_PROVIDER, capability=Capability(gpu_class=4)), TIMED) == []


def test_bidding_again__with_all_collateral_in_the_bid_of_the_attempt_before():
    poor = replace(ME_PROVIDER, free=0)
    bound = {(0, ME): replace(BID, revealed=True)}
    reopened = opening(1_000, lots={0: replace(LOT, attempt=2)}, bids=bound)
    assert duties(reopened, poor, TIMED) == [Send("auction", "reclaim", (1, 0, ME)), SealBid(0, 2, 4, 80)]


def test_bidding_again__where_the_reserve_grew__takes_no_more_slots_than_what_the_old_bid_locked():
    """Four at a reserve of 100 lock what three do at 125."""
    grown = replace(LOT, attempt=2, reserve=125, lock=lock_of(125, TERMS.audit_bps))
    reopened = opening(1_000, lots={0: grown}, bids={(0, ME): BID})
    due = duties(reopened, replace(ME_PROVIDER, free=0), TIMED)
    assert due == [Send("auction", "reclaim", (1, 0, ME)), SealBid(0, 2, 3, 80)]


def test_a_bid_smaller_than_the_lot_takes__is_not_sent():
    """The contract takes bids for a 64th of a lot at least."""
    lots = {0: replace(LOT, units=257)}
    assert duties(opening(1_000, lots=lots), ME_PROVIDER, TIMED) == []
    assert duties(opening(1_000, lots={0: replace(LOT, units=256)}), ME_PROVIDER, TIMED) == [SealBid(0, 1, 4, 80)]


@pytest.mark.parametrize(
    ("me", "progress", "why"),
    [
        ({"free": 9}, TIMED, "collateral 9 wei free, 10 wei needed a slot; zoo node deposit 0.000000000000000001"),
        (
            {"free": 9, "token": Token("USDC", 0, "0xA")},
            TIMED,
            "collateral 9 USDC free, 10 USDC needed a slot; zoo node deposit 1 --token 0xA",
        ),
        (
            {"token": None, "is_provider": False},
            TIMED,
            "it pays in 0xT, and operator.json has no price in it; zoo node configure --price N --token 0xT",
        ),
        ({"price": 121}, TIMED, "the price is 121 wei a slot-round, and the job pays 120 wei at most"),
        ({"max_job_s": 399}, TIMED, "the job may take 6 min 40 s, and longest_job_days allows 6 min 39 s"),
        ({"capacity": 0}, TIMED, "all slots of this node are in other jobs"),
        (
            {"ring_conflicts": {0: 257}},
            TIMED,
            "the bid in job 257 has its place on chain, and keeps it until that job is over",
        ),
        ({}, Progress(failed=True, why="no CUDA"), "its files cannot be used here: no CUDA"),
        (
            {},
            Progress(slot_s=35),
            "a slot takes 35 s here beside other jobs, too long for the job's slot_s of 40" + MEASURED_AGAIN,
        ),
        (
            {},
            Progress(slot_s=99),
            "a slot takes 1 min 39 s here, too long to do again in a dispute: the job's reexecute_s is 40"
            + MEASURED_AGAIN,
        ),
        ({}, TIMED, ""),
        ({"price": 110}, TIMED, ""),
    ],
)
def test_what_keeps_an_operator_from_bidding__is_told_in_words_and_agrees_with_its_duties(
    me: dict, progress: Progress, why: str
):
    one = replace(ME_PROVIDER, **me)
    job = opening(1_000)
    assert reasons_not_to_bid(job, one, progress) == why
    bids = any(isinstance(duty, SealBid) for duty in duties(job, one, progress))
    assert bids == (not why and one.price <= 100)


def test_an_operator_of_two_roles__is_told_which_of_them_cannot_bid():
    both = replace(ME_PROVIDER, is_aggregator=True, aggregator_price=130)
    reason = "as aggregator: the price is 130 wei an aggregation, and the job pays 120 wei at most"
    assert reasons_not_to_bid(opening(1_000), both, TIMED) == reason


def test_collateral_for_one_lot__is_not_bid_in_both():
    both = replace(ME_PROVIDER, is_aggregator=True, free=45)
    lots = {0: LOT, 1: replace(LOT, units=1)}
    assert duties(opening(1_000, lots=lots), both, TIMED) == [SealBid(0, 1, 4, 80)]
    assert len(duties(opening(1_000, lots=lots), replace(both, free=50), TIMED)) == 2
