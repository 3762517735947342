"""What a keeper decides, from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.decisions.bidding import stagger_delay_s
from keepers.decisions.duties import announced_s, duties, estimate_s
from keepers.decisions.obstacles import RECOVERY_S
from keepers.decisions.orders import (
    Aggregate,
    CommitTrained,
    OperatorContext,
    PostAggregate,
    Prepare,
    Progress,
    SealBid,
    Send,
    Train,
)
from keepers.decisions.requests import prepare_request
from zoo_compute.chain.views import (
    AGGREGATOR_SEAT,
    Bid,
    Checkpoint,
    ClaimState,
    Commit,
    JobStake,
    JobState,
    JobView,
    Lot,
    LotPhase,
    Run,
    Seat,
    Terms,
)
from zoo_compute.spec.params import POLICY_CARRIES, POLICY_ROLL_BACK, lock_of

ROOT = b"\1" * 32
ME, OTHER, AGGREGATOR = 1, 2, 9
OPENED, SLOT_S, ESTIMATE = 1_000, 40, 10

TERMS = Terms("0xT", ROOT, ROOT, ROOT, ROOT, 4, 6, 4, 100, 120, 50, 60, SLOT_S, 20, SLOT_S, 10**9, 4, 0, 500)
LOT = Lot(LotPhase.OPEN, "0xT", 6, 100, 120, 10, 0, 1, 1_010, 1_020, 0, 0, 0, 0, 0, 0, 0, 0)
BID = Bid(1, 100, 4, True, 80, 0, 2, 0, bytes(32))
SEAT = Seat(ME, 0, 2, 90, 0, 0, ESTIMATE, OPENED)
OTHERS = Seat(OTHER, 2, 4, 90, 0, 0, ESTIMATE, OPENED)
CHAIR = Seat(AGGREGATOR, 0, 1, 50, 0, 0, 0, OPENED)
RUN = Run(
    state=JobState.RUNNING, round=1, turn=1, rounds=4, slots=6, quorum=4, depth=4, policy=0, opened_at=OPENED, window_s=15,
    slot_s=SLOT_S, aggregate_s=20, aggregators=1, aggregator_due=1_100, token="0xT", flops=10**9, seats=2,
    missing=0b11, committed=0, holds=0, held_s=0, start_root=ROOT,
)  # fmt: skip
WHOLE = replace(RUN, missing=0, committed=6)
ME_PROVIDER = OperatorContext(ME, True, False, 80, 50, 4, True, 10**6, 3, 20)
ME_AGGREGATOR = replace(ME_PROVIDER, operator=AGGREGATOR, is_provider=False, is_aggregator=True)


def view(now: int, **changes: object) -> JobView:
    base = JobView(
        job=1, block=5, now=now, state=JobState.RUNNING, submitter="0xS", token="0xT", terms=TERMS, escrow=10**6, posted_block=1,
        run=RUN, lots={0: LOT, 1: replace(LOT, units=1)}, bids={(0, ME): BID, (0, OTHER): BID},
        seats={0: SEAT, 1: OTHERS, AGGREGATOR_SEAT: CHAIR}, stakes={ME: JobStake(20, 1, 1, 0)},
        checkpoint_roots={0: ROOT, 1: ROOT}, checkpoint_cids={1: (ROOT,)}, commits=(), checkpoints=(),
    )  # fmt: skip
    if "seats" in changes:  # whoever awards seats awards the aggregator's
        changes["seats"] = {AGGREGATOR_SEAT: CHAIR} | changes["seats"]  # type: ignore[operator]
    return replace(base, **changes)  # type: ignore[arg-type]


def chaired(seen: JobView, operator: int) -> JobView:
    """The job with another aggregator."""
    return replace(seen, seats={**seen.seats, AGGREGATOR_SEAT: replace(CHAIR, operator=operator)})


def sends(due: list) -> list[str]:
    return [duty.function for duty in due if isinstance(duty, Send)]


def opening(now: int, **changes: object) -> JobView:
    return view(now, **{"state": JobState.OPEN, "run": None, "bids": {}, "seats": {}, "stakes": {}} | changes)


TIMED = Progress(slot_s=5)


# -- ready


def awarded(now: int, **changes: object) -> JobView:
    run = replace(RUN, state=JobState.AWARDED, round=0, turn=0)
    return view(now, **{"state": JobState.AWARDED, "run": run} | changes)


def test_awarded__prepares_then_tells_its_timed_estimate():
    assert duties(awarded(1_001), ME_PROVIDER, Progress()) == [Prepare()]
    assert duties(awarded(1_001), ME_PROVIDER, Progress(slot_s=99)) == [Send("settlement", "ready", (1, 0, SLOT_S))]


def test_awarded__declines_what_it_cannot_hold():
    due = duties(awarded(1_001), ME_PROVIDER, Progress(failed=True))
    assert due == [Send("settlement", "decline", (1, 0, 2))]


def test_awarded__expires_a_silent_holder_after_the_ready_window():
    quiet = awarded(1_100)
    assert Send("settlement", "expire", (1, 1)) in duties(quiet, ME_PROVIDER, Progress(slot_s=5))
    assert "expire" not in sends(duties(awarded(1_020), ME_PROVIDER, Progress(slot_s=5)))


# -- turns


def test_running__prepares_again_once_the_record_of_it_expired():
    """After a restart, bids in other jobs took the workers for free."""
    running = view(1_060, state=JobState.RUNNING, run=RUN, seats={0: SEAT, 1: OTHERS})
    assert duties(running, ME_PROVIDER, Progress())[-1] == Prepare()
    for me, progress in ((ME_PROVIDER, TIMED), (replace(ME_PROVIDER, operator=99, standby=False), Progress())):
        assert Prepare() not in duties(running, me, progress)


def test_running__trains_what_it_holds_and_commits_a_seat_in_one_transaction():
    assert duties(view(1_001), ME_PROVIDER, Progress(10)) == [Train(0), Train(1)]
    assert duties(view(1_001), ME_PROVIDER, Progress(10, frozenset({0}))) == [Train(1)]
    assert duties(view(1_001), ME_PROVIDER, Progress(10, frozenset({0, 1}))) == [CommitTrained(0)]


def test_running__trains_the_seat_first_that_is_due_first():
    late = replace(SEAT, first=4, estimate_s=5)
    two = view(1_001, seats={0: SEAT, 1: late}, run=RUN)
    assert duties(two, ME_PROVIDER, Progress(10)) == [Train(4), Train(5), Train(0), Train(1)]


def test_near_its_deadline__the_end_of_a_seat_is_given_up_so_that_the_rest_can_be_committed():
    near = view(OPENED + 2 * ESTIMATE - 6, seats={0: SEAT})
    gives_up = Send("settlement", "decline", (1, 0, 1))
    assert duties(near, ME_PROVIDER, Progress(10, frozenset({0}))) == [Train(1), gives_up]
    assert duties(near, ME_PROVIDER, Progress(10, frozenset({1}))) == [Train(0)], "its first slot may still be trained"
    shorter = replace(near, seats={0: replace(SEAT, count=1)})
    assert duties(shorter, ME_PROVIDER, Progress(10, frozenset({0}))) == [CommitTrained(0)]


def test_a_slot_that_cannot_be_trained__is_given_up_with_those_after_it():
    lost_slots = Progress(10, frozenset({0}), failed_slots=frozenset({1}))
    assert duties(view(1_001), ME_PROVIDER, lost_slots) == [Send("settlement", "decline", (1, 0, 1))]
    first = Progress(10, frozenset({1}), failed_slots=frozenset({0}))
    assert duties(view(1_001), ME_PROVIDER, first) == [Send("settlement", "decline", (1, 0, 2))]


def test_running__does_nothing_after_inputs_closed():
    closed = view(OPENED + 2 * SLOT_S, run=replace(RUN, missing=0b1, committed=4), seats={0: SEAT})
    assert duties(closed, ME_PROVIDER, Progress(10, frozenset({0, 1}))) == []


def test_a_silent_holder__is_timed_out_after_its_deadline_and_not_in_it():
    at, late = OPENED + 2 * ESTIMATE, Send("settlement", "time_out", (1, 1))
    done = Progress(10, frozenset())
    assert "time_out" not in sends(duties(view(at), ME_PROVIDER, done))
    assert late in duties(view(at + 10), ME_PROVIDER, done)
    assert late not in duties(view(at + 10, run=replace(RUN, holds=1)), ME_PROVIDER, done)
    vacant = view(at + 10, seats={0: SEAT, 1: replace(OTHERS, operator=0)})
    assert late not in duties(vacant, ME_PROVIDER, done)


def test_who_took_over_too_late_to_commit__is_spared():
    since = OPENED + 2 * SLOT_S - 2 * ESTIMATE
    for spared in (False, True):
        taken = view(OPENED + 2 * SLOT_S + 20, seats={0: SEAT, 1: replace(OTHERS, since=since + spared)})
        assert ("time_out" in sends(duties(taken, ME_PROVIDER, Progress(10)))) != spared


@pytest.mark.parametrize(("ready_window_s", "trouble_s"), [(20, RECOVERY_S), (90, 30), (4_500, 60)])
def test_what_is_announced_for_a_slot_of_seconds__has_time_for_what_a_keeper_survives(
    ready_window_s: int, trouble_s: int
) -> None:
    """Twice of it is the deadline: an RPC that hung for half a minute cost the seat."""
    me, long_slots = replace(ME_PROVIDER, ready_window_s=ready_window_s), replace(RUN, slot_s=600)
    waits = awarded(1_001, run=replace(long_slots, state=JobState.AWARDED, round=0, turn=0))
    assert duties(waits, me, Progress(slot_s=4)) == [Send("settlement", "ready", (1, 0, 2 * 4 + trouble_s))]
    takes = taken(duties(vacant_at(OPENED + 12, run=replace(long_slots, missing=0b11)), me, Progress(4)))
    assert takes == [Send("settlement", "take_over", (1, 1, ME, 1, 3 * 4 + trouble_s))]
    with_a_checkpoint = Progress(slot_s=4, load_s=7.5)  # fetched once for all slots
    assert duties(waits, me, with_a_checkpoint) == [Send("settlement", "ready", (1, 0, 2 * 4 + 8 + trouble_s))]
    assert announced_s(Progress(4.0), 2, me, replace(RUN, slot_s=20)) <= 20


def vacant_at(now: int, count: int = 1, **changes: object) -> JobView:
    gap = Seat(0, 2, count, 90, 0, 0, ESTIMATE, OPENED)
    return view(now, **{"run": replace(RUN, missing=0b11), "seats": {0: SEAT, 1: gap}} | changes)


def taken(due: list) -> list[Send]:
    return [duty for duty in due if isinstance(duty, Send)]


ONE_SLOT = lock_of(99, TERMS.audit_bps)  # at the price of the vacant seat, a turn after it was left at 90


def test_a_vacant_seat__is_taken_by_who_has_spare_capacity_collateral_and_time():
    vacant = vacant_at(OPENED + 12)
    takes = Send("settlement", "take_over", (1, 1, ME, 1, 3 * 10 + RECOVERY_S))  # for all it then holds, in every turn
    assert taken(duties(vacant, ME_PROVIDER, Progress(10))) == [takes]
    assert taken(duties(replace(vacant, bids={}), ME_PROVIDER, Progress(10))) == [takes], "whether it bid or not"
    no_standby, poor = replace(ME_PROVIDER, standby=False), replace(ME_PROVIDER, free=ONE_SLOT - 1)
    for me in (poor, no_standby, replace(ME_PROVIDER, is_drained=True), replace(ME_PROVIDER, max_job_s=1)):
        assert taken(duties(vacant, me, Progress(10))) == []
    late = replace(vacant, now=OPENED + 2 * SLOT_S - 5)
    assert taken(duties(late, ME_PROVIDER, Progress(10))) == []
    assert taken(duties(vacant, ME_PROVIDER, Progress(12))) == []  # three slots would not fit slot_s
    committed_to = replace(vacant, run=replace(RUN, missing=0b01))
    assert taken(duties(committed_to, ME_PROVIDER, Progress(10))) == [takes], "whole, though it committed this turn"
    assert taken(duties(vacant, replace(ME_PROVIDER, capacity=2), Progress(10))) == []


@pytest.mark.parametrize(
    ("me", "slot_s", "count"),
    [
        (ME_PROVIDER, 8, 2),  # of its capacity of four it holds two
        (replace(ME_PROVIDER, free=ONE_SLOT + 1), 8, 1),
        (ME_PROVIDER, 11, 1),  # four slots of eleven seconds exceed slot_s, three do not
    ],
    ids=["capacity", "collateral", "time"],
)
def test_a_large_vacant_seat__is_taken_in_part(me: OperatorContext, slot_s: float, count: int):
    estimate = -(-slot_s * (2 + count) // 1) + RECOVERY_S
    takes = Send("settlement", "take_over", (1, 1, ME, count, estimate))
    assert taken(duties(vacant_at(OPENED + 1, count=4), me, Progress(slot_s))) == [takes]
    whole = vacant_at(OPENED + 1, count=4, run=replace(RUN, missing=0b01))
    assert taken(duties(whole, me, Progress(slot_s))) == [], "its claim in this turn stands for all of its slots"


@pytest.mark.parametrize(
    ("price", "turn", "is_taken"),
    [(90, 1, True), (91, 1, False), (99, 2, True), (100, 2, False), (100, 3, True), (101, 9, False)],
)
def test_a_vacant_seat__is_taken_once_it_pays_my_price(price: int, turn: int, is_taken: bool):
    """It fell vacant in turn 1 at 90, rises by a tenth a turn, and pays 100 at most: the reserve of its lot."""
    vacant = vacant_at(OPENED + 1, count=4, run=replace(RUN, turn=turn, missing=0b11))
    vacant.seats[1] = replace(vacant.seats[1], left_turn=1)
    assert bool(taken(duties(vacant, replace(ME_PROVIDER, price=price), Progress(8)))) == is_taken


def test_a_vacant_seat_of_a_large_job__is_taken_in_parts_no_smaller_than_a_bid():
    large = vacant_at(OPENED + 1, count=4, run=replace(RUN, slots=65, missing=0b11))
    least_two = replace(ME_PROVIDER, free=ONE_SLOT + 1)  # room for one
    assert taken(duties(large, least_two, Progress(8))) == []
    assert len(taken(duties(large, ME_PROVIDER, Progress(8)))) == 1


def test_a_slot_i_lost__is_left_to_others():
    vacant = vacant_at(OPENED + 1, count=4, lost_slots={ME: 0b1000, OTHER: 0b111111})
    assert taken(duties(vacant, ME_PROVIDER, Progress(8))) == []
    assert taken(duties(replace(vacant, lost_slots={ME: 0b1000011, OTHER: 0b111111}), ME_PROVIDER, Progress(8))) != []


# -- aggregation


def test_the_aggregator__waits_for_inputs_then_aggregates_then_posts():
    assert duties(view(1_001), ME_AGGREGATOR, Progress()) == []
    complete = view(1_001, run=WHOLE)
    assert duties(complete, ME_AGGREGATOR, Progress()) == [Aggregate()]
    assert duties(complete, ME_AGGREGATOR, Progress(aggregated=frozenset({AGGREGATOR_SEAT}))) == [PostAggregate(0b11)]


def test_the_aggregator__times_out_silent_holders_before_it_closes_a_turn_without_them():
    closing = view(OPENED + 2 * SLOT_S, run=replace(RUN, missing=0b1, committed=4))
    due = duties(closing, ME_AGGREGATOR, Progress(aggregated=frozenset({AGGREGATOR_SEAT})))
    assert Send("settlement", "time_out", (1, 0)) in due
    assert due[-1] == PostAggregate(0b10)


def test_a_turn_without_quorum__is_abandoned():
    short = view(OPENED + 2 * SLOT_S + 30, run=replace(RUN, missing=0b10, committed=2))
    assert sends(duties(short, ME_PROVIDER, Progress()))[-1] == "abandon"


def test_a_silent_aggregator__is_timed_out_and_replaced_once_the_seat_pays():
    silent = view(1_200, run=WHOLE)
    assert Send("settlement", "time_out", (1, AGGREGATOR_SEAT)) in duties(silent, ME_PROVIDER, Progress())
    chair = replace(CHAIR, operator=0, left_at=1_200)
    vacant = view(1_200, run=WHOLE, seats={0: SEAT, 1: OTHERS, AGGREGATOR_SEAT: chair}, bids={})
    standby = replace(ME_AGGREGATOR, operator=7, free=10**6)
    takes = Send("settlement", "take_over", (1, AGGREGATOR_SEAT, 7, 1, 20))
    assert duties(vacant, standby, Progress()) == [takes]
    assert sends(duties(vacant, replace(standby, free=0), Progress())) == ["abandon"]
    dearer = replace(standby, aggregator_price=51)
    assert sends(duties(vacant, dearer, Progress())) == ["abandon"], "the seat pays 50"
    assert duties(replace(vacant, now=1_202), dearer, Progress()) == [takes], "and 55 a sixteenth of aggregate_s later"
    assert sends(duties(vacant, ME_PROVIDER, Progress())) == ["abandon"]


# -- parked claims


def disputed_view(now: int, *commits: Commit, **changes: object) -> JobView:
    """Turn 5 waits for turn 1."""
    waiting = replace(WHOLE, turn=5, opened_at=0)
    return view(now, run=waiting, commits=commits, **changes)


def disputed_commit(**fields: object) -> Commit:
    made = Commit(1, 1, 1, OTHER, 2 << 16 | 4, 9, ROOT, ROOT, deadline=2_000, disputed=True)
    return replace(made, **fields)  # type: ignore[arg-type]


def parks(due: list) -> list[Send]:
    return [duty for duty in due if isinstance(duty, Send) and duty.function == "finalise"]


def test_a_disputed_claim_that_the_next_turn_waits_for__is_parked_by_whoever_has_money_in_the_job():
    claim = disputed_commit()
    at = 2_000 + ME_PROVIDER.stagger_s + stagger_delay_s(disputed_view(0), ME_PROVIDER, 5)
    assert parks(duties(disputed_view(at, claim), ME_PROVIDER, Progress())) == []
    [sent] = parks(duties(disputed_view(at + 1, claim), ME_PROVIDER, Progress()))
    assert sent.args == (1, [claim.fields])
    assert parks(duties(disputed_view(at + 1, claim, stakes={}), ME_PROVIDER, Progress())) == []
    mine = replace(claim, operator=ME, seat=0)
    assert len(parks(duties(disputed_view(2_001, mine), ME_PROVIDER, Progress()))) == 1, "its operator does it at once"
    assert parks(duties(disputed_view(2_000, mine), ME_PROVIDER, Progress())) == [], "its window is open"


@pytest.mark.parametrize(
    "changes",
    [
        {"run": replace(WHOLE, turn=5, opened_at=0, policy=POLICY_ROLL_BACK)},
        {"run": replace(WHOLE, turn=5, opened_at=0, policy=POLICY_CARRIES)},
        {"run": replace(WHOLE, turn=5, opened_at=1_900)},
        {"commits": (disputed_commit(turn=2),)},
        {"commits": (disputed_commit(parked=True),)},
        {
            "commits": (),
            "checkpoints": (Checkpoint(1, 1, AGGREGATOR_SEAT, OTHER, 3, 9, ROOT, ROOT, 2_000, disputed=True),),
        },
    ],
)
def test_a_claim_that_holds_nothing_up_or_may_undo_something__is_not_parked(changes: dict[str, object]):
    shown = replace(disputed_view(9_000, disputed_commit()), **changes)  # type: ignore[arg-type]
    assert parks(duties(shown, ME_PROVIDER, Progress())) == []


def test_what_is_disputed_when_a_job_ends__is_parked_and_keeps_the_lock_of_its_operator_alone():
    ended = disputed_view(9_000, disputed_commit(turn=4), state=JobState.ENDED)
    assert len(parks(duties(ended, ME_PROVIDER, Progress()))) == 1
    parked = disputed_commit(turn=4, parked=True)
    held = {operator: JobStake(20, 1, 1, 0) for operator in (ME, OTHER)}
    for operator, released in ((ME, ["release"]), (OTHER, [])):
        me = replace(ME_PROVIDER, operator=operator)
        after = replace(ended, commits=(parked,), stakes=held)
        assert sends(duties(after, me, Progress())) == released
    paid = replace(parked, state=ClaimState.PAID, disputed=False)
    over = replace(ended, commits=(paid,), stakes=held)
    assert sends(duties(over, replace(ME_PROVIDER, operator=OTHER), Progress())) == ["release"]


def test_what_is_set_aside__comes_back_once_the_job_is_closed_with_all_its_rounds():
    aside = {ME: 90, OTHER: 45}
    ended = disputed_view(9_000, disputed_commit(turn=4), state=JobState.ENDED, stakes={}, set_aside=aside)
    paid = replace(ended.commits[0], state=ClaimState.PAID, disputed=False)
    complete = replace(WHOLE, turn=5, opened_at=0, round=WHOLE.rounds)
    closed = replace(ended, commits=(paid,), closed=True, run=complete)
    [sent] = duties(closed, ME_PROVIDER, Progress())
    assert sent == Send("locks", "return_set_aside", (1, ME))
    assert duties(replace(closed, run=replace(complete, round=complete.rounds - 1)), ME_PROVIDER, Progress()) == []
    assert duties(replace(closed, set_aside={OTHER: 45}), ME_PROVIDER, Progress()) == []
    assert "return_set_aside" not in sends(duties(replace(closed, closed=False), ME_PROVIDER, Progress()))
    mine = replace(closed, commits=(replace(ended.commits[0], operator=ME, parked=True),))
    assert "return_set_aside" not in sends(duties(mine, ME_PROVIDER, Progress())), "the contract waits for its dispute"


def test_every_request__carries_the_terms_that_the_contracts_judge_by():
    """A manifest with other slots than the chain's would have honest work convicted by the data of another slot."""
    counts = {"rounds": TERMS.rounds, "slots": TERMS.slots, "aggregators": 1}
    assert prepare_request(opening(1_000))["terms"] == counts | {"policy_bits": 0}


def test_unequal_workers__are_bid_for_what_each_of_them_trains_in_time():
    able = replace(ME_PROVIDER, capacity=100, free=10**6)
    lots = {0: replace(LOT, units=100), 1: replace(LOT, units=1)}

    def capacity(relative_paces: tuple[float, ...]) -> int:
        due = duties(opening(1_005, lots=lots), replace(able, relative_paces=relative_paces), TIMED)
        return next(duty.capacity for duty in due if isinstance(duty, SealBid))

    assert SLOT_S - RECOVERY_S == 34  # seconds to train in, of which a slot takes 5
    assert capacity((1.0,)) == 6
    assert capacity((1.0, 1.0)) == 12
    assert capacity((1.0, 4.0)) == 7  # the slow one trains one
    assert capacity((1.0, 0.25)) == 6 + 27


def test_the_estimate__is_when_the_last_of_unequal_workers_is_done():
    cases = {(4, 1.0): 20, (4, 1.0, 1.0): 10, (5, 1.0, 1.0): 15, (4, 1.0, 6.0): 20, (7, 1.0, 6.0): 30}
    for (slots, *relative_paces), seconds in cases.items():
        assert (
            estimate_s(5, int(slots), replace(ME_PROVIDER, relative_paces=tuple(relative_paces)))
            == seconds + RECOVERY_S
        )
