"""What keepers decide in a job that several operators aggregate, each a share of the model."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from keepers.decisions.demands import shares_to_fetch
from keepers.decisions.duties import duties
from keepers.decisions.orders import (
    NEWEST_CHECKPOINT,
    Aggregate,
    DemandChunk,
    MissingData,
    OperatorContext,
    PostAggregate,
    Progress,
    Send,
)
from keepers.decisions.requests import (
    aggregate_name,
    aggregation_check_request,
    hold_request,
    precompute_work,
    train_request,
)
from keepers.decisions.urgency import deadlines
from keepers.queue.work_queue import WorkStatus
from keepers.services.precompute import provisional_checkpoint, unknown_checkpoint, with_checkpoint
from tests.keepers.test_duties import AGGREGATOR, CHAIR, ME, ME_AGGREGATOR, ME_PROVIDER, ROOT, RUN, TERMS, WHOLE, view
from tests.keepers.test_progress import Queue
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, JobView
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.spec.params import POLICY_DELAYED
from zoo_compute.store.cid import raw_cid

FIRST, SECOND, THIRD = range(AGGREGATOR_SEAT, AGGREGATOR_SEAT + 3)
ROOTS = tuple(bytes([n]) * 32 for n in (11, 12, 13))
CIDS = tuple(bytes([n]) * 32 for n in (21, 22, 23))
MADE = tuple(
    Checkpoint(0, 0, seat, AGGREGATOR + share, 0b11, 50, ROOT, root, 2_000, made_at=1_000, cid=cid)
    for share, (seat, root, cid) in enumerate(zip((FIRST, SECOND, THIRD), ROOTS, CIDS, strict=True))
)
WHOLE_ROOT = root_of_shares(ROOTS)


def job(now: int = 1_001, *, posted: int = 0, **changes: object) -> JobView:
    """Turn 1 of a job of three aggregators, 9 to 11; it starts from what they posted in turn 0."""
    run = replace(WHOLE, aggregators=3, start_root=WHOLE_ROOT, posted=posted)
    chairs = {AGGREGATOR_SEAT + share: replace(CHAIR, operator=AGGREGATOR + share) for share in range(3)}
    base = view(now, terms=replace(TERMS, aggregators=3), run=run, checkpoints=MADE)
    shown = replace(
        base,
        seats={**base.seats, **chairs},
        checkpoint_roots={0: ROOT, 1: WHOLE_ROOT},
        checkpoint_cids={1: CIDS},
    )
    return replace(shown, **changes)  # type: ignore[arg-type]


def aggregator(share: int) -> OperatorContext:
    return replace(ME_AGGREGATOR, operator=AGGREGATOR + share)


@pytest.mark.parametrize("share", [0, 1, 2])
def test_each__combines_and_posts_its_share_until_it_has_posted(share: int) -> None:
    me, seat = aggregator(share), AGGREGATOR_SEAT + share
    assert duties(job(), me, Progress()) == [Aggregate(seat)]
    done = Progress(aggregated=frozenset({seat}))
    assert duties(job(), me, done) == [PostAggregate(0b11, seat)]
    assert duties(job(posted=1 << share), me, done) == []
    assert [what for what, _ in deadlines(job(), AGGREGATOR + share, 10, 10)] == ["aggregation"]
    assert not list(deadlines(job(posted=1 << share), AGGREGATOR + share, 10, 10))


def test_one_operator_in_two_seats__does_the_work_of_both() -> None:
    shown = job()
    twice = replace(shown, seats={**shown.seats, THIRD: replace(CHAIR, operator=AGGREGATOR)})
    done = Progress(aggregated=frozenset({THIRD}))
    assert duties(twice, aggregator(0), done) == [Aggregate(FIRST), PostAggregate(0b11, THIRD)]


def test_who_is_silent__is_timed_out_alone__and_the_seat_taken() -> None:
    late = job(1_200, posted=0b101)
    assert duties(late, ME_PROVIDER, Progress(5)) == [Send("settlement", "time_out", (1, SECOND))]
    assert duties(late, aggregator(1), Progress(aggregated=frozenset({SECOND}))) == [PostAggregate(0b11, SECOND)]
    gone = replace(late, now=1_050, seats={**late.seats, SECOND: replace(CHAIR, operator=0, left_at=1_050)})
    standby = replace(ME_AGGREGATOR, operator=7)
    assert duties(gone, standby, Progress()) == [Send("settlement", "take_over", (1, SECOND, 7, 1, 20))]


def test_several_silent_ones__are_timed_out_one_at_a_time() -> None:
    assert duties(job(1_200), ME_PROVIDER, Progress(5)) == [Send("settlement", "time_out", (1, FIRST))]


@pytest.mark.parametrize("share", [0, 1, 2])
def test_a_share_that_is_withheld__is_demanded_of_its_author(share: int) -> None:
    waiting = replace(job(1_100).run or RUN, missing=0b01, committed=4)
    for first in (AGGREGATOR_SEAT, NEWEST_CHECKPOINT):
        lacks = Progress(missing={first + share: MissingData(1_090, {0: None})})
        [asked] = [
            duty for duty in duties(job(1_100, run=waiting), ME_PROVIDER, lacks) if isinstance(duty, DemandChunk)
        ]
        assert (asked.claim, asked.lane) == (MADE[share], 0)


def test_requests__name_all_pointers__and_the_share() -> None:
    shown = job()
    assert train_request(shown, 0)["checkpoint"] == [raw_cid(cid) for cid in CIDS]
    assert train_request(shown, 0)["terms"]["aggregators"] == 3
    assert len({aggregate_name(shown, seat) for seat in (FIRST, SECOND, THIRD)}) == 3
    assert [hold_request(shown, made)["share"] for made in MADE] == [0, 1, 2]
    assert [aggregation_check_request(shown, made)["share"] for made in MADE] == [0, 1, 2]
    alone = view(1_001, run=WHOLE)
    assert aggregation_check_request(alone, replace(MADE[0], start_root=ROOT))["share"] is None


def test_a_checkpoint__is_whole_once_all_have_posted_in_one_turn() -> None:
    shown = job()
    assert shown.made_checkpoint(1) == MADE
    assert shown.checkpoint_of(1) == MADE[0]
    assert replace(shown, checkpoints=MADE[:2]).made_checkpoint(1) == ()
    mixed = (*MADE[:2], replace(MADE[2], turn=1, round=0))
    assert replace(shown, checkpoints=mixed).made_checkpoint(1) == ()


def test_a_delayed_job__trains_ahead_from_what_all_posted() -> None:
    delayed = job(terms=replace(TERMS, aggregators=3, policy=POLICY_DELAYED))
    follows = with_checkpoint(delayed, unknown_checkpoint(delayed))
    assert follows.run is not None
    assert follows.slots_root == WHOLE_ROOT, "it starts from the newest that was posted"
    assert [made.seat for made in follows.checkpoints[-3:]] == [FIRST, SECOND, THIRD]
    assert not follows.seats_of(ME) or follows.made_checkpoint(follows.run.round, follows.run.start_root)


def test_a_holder_of_slots__trains_ahead_from_all_shares_that_its_worker_made() -> None:
    shown, made = job(), [{"root": f"0{share}" * 32, "pointer": raw_cid(bytes([share]) * 32)} for share in range(3)]
    name, request = precompute_work(shown)
    assert request["share"] is None
    done = WorkStatus("done", {"root": "09" * 32, "shares": made})
    work: Any = Queue({name: done})
    ahead = provisional_checkpoint(work, shown, ME)
    assert ahead is not None
    follows = with_checkpoint(shown, ahead)
    assert [(each.root.hex(), raw_cid(each.cid)) for each in follows.checkpoints[-3:]] == [
        (each["root"], each["pointer"]) for each in made
    ]
    assert follows.checkpoint_roots[follows.run.round] == ahead.root if follows.run else False
    work[name] = WorkStatus("done", {"root": None})
    assert provisional_checkpoint(work, shown, ME) is None


def test_several_aggregators__fetch_their_shares_alone_unless_they_keep_whole_updates() -> None:
    shown = job()
    holders = {number: seat.operator for number, seat in shown.aggregator_seats.items()}
    for operator in set(holders.values()):
        own = tuple(number - FIRST for number, holder in holders.items() if holder == operator)
        assert shares_to_fetch(shown, operator) == own
    committed = replace(shown, custody=cast(Any, SimpleNamespace(place_of=lambda operator: 0)))
    assert shares_to_fetch(committed, holders[FIRST]) == ()
    assert shares_to_fetch(view(1_001, run=WHOLE), holders[FIRST]) == ()
