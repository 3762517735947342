"""When a keeper has claims paid, its locks released and its bids' places freed."""

from __future__ import annotations

from dataclasses import replace

from keepers.decisions.duties import PAYMENT_DELAY_S, duties
from keepers.decisions.orders import Progress, Send
from tests.keepers.test_duties import (
    AGGREGATOR,
    CHAIR,
    ME,
    ME_AGGREGATOR,
    ME_PROVIDER,
    OTHERS,
    ROOT,
    RUN,
    SEAT,
    WHOLE,
    sends,
    view,
)
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, Commit, JobStake, JobState

OVER = replace(RUN, state=JobState.ENDED, round=4, turn=4, opened_at=0)


def committed(turn: int, seat: int = 0, deadline: int = 1_000, **changes: object) -> Commit:
    """A claim on the two slots of seat 0, or on the four of seat 1."""
    holder = (SEAT, OTHERS)[seat]
    claim = Commit(
        turn, turn, seat, holder.operator, holder.first << 16 | holder.count, 90 * holder.count, ROOT, ROOT, deadline
    )
    return replace(claim, **changes)  # type: ignore[arg-type]


def aggregated(turn: int, deadline: int = 1_000) -> Checkpoint:
    return Checkpoint(turn, turn, AGGREGATOR_SEAT, AGGREGATOR, 0b11, 50, ROOT, ROOT, deadline)


def test_claims__are_paid_several_turns_at_once__when_the_place_of_the_oldest_is_needed():
    run = replace(WHOLE, rounds=9, round=4, turn=4)
    claims = tuple(committed(turn) for turn in (1, 2, 3))
    theirs = committed(1, 1)
    due = view(1_001, run=run, commits=(*claims, theirs), seats={1: OTHERS, AGGREGATOR_SEAT: CHAIR}, stakes={})
    assert duties(due, ME_PROVIDER, Progress()) == [Send("settlement", "finalise", (1, [c.fields for c in claims]))]
    assert duties(replace(due, now=1_000), ME_PROVIDER, Progress()) == []
    sooner = replace(due, run=replace(run, round=3, turn=3))
    assert duties(sooner, ME_PROVIDER, Progress()) == []
    waiting = replace(sooner, run=replace(run, turn=4, opened_at=0))
    assert duties(waiting, ME_PROVIDER, Progress()) == [], "its place is that of turn 0"
    [*_, paid] = duties(replace(sooner, now=1_001 + PAYMENT_DELAY_S), ME_PROVIDER, Progress())
    assert [ref[:3] for ref in paid.args[1]][:2] == [(1, 1, 0), (2, 2, 0)]


def test_a_turn_that_waits__is_waited_for_by_all_and_its_way_paid_by_anyone():
    run = replace(RUN, rounds=9, round=6, turn=6, opened_at=0)
    claims = (committed(2), committed(2, 1), committed(3))
    waits = view(1_001, run=run, commits=claims)
    mine = Send("settlement", "finalise", (1, [claims[0].fields, claims[2].fields]))
    assert duties(waits, ME_PROVIDER, Progress(10, frozenset({0, 1}))) == [mine]
    assert duties(replace(waits, now=1_000), ME_PROVIDER, Progress()) == []
    [later] = duties(replace(waits, now=1_050), ME_AGGREGATOR, Progress(aggregated=frozenset({AGGREGATOR_SEAT})))
    assert later == Send("settlement", "finalise", (1, [claims[0].fields, claims[1].fields]))


def test_claims_of_others__are_paid_when_left_lying():
    claims, made = (committed(1, 1),), (aggregated(1, 990),)
    over = view(1_001, state=JobState.ENDED, run=OVER, stakes={}, commits=claims, checkpoints=made)
    assert duties(over, ME_PROVIDER, Progress()) == []
    [all_of_them] = duties(replace(over, now=1_030), ME_PROVIDER, Progress())
    assert [ref[2] for ref in all_of_them.args[1]] == [1, AGGREGATOR_SEAT]


def test_a_claim_in_dispute__is_not_paid_and_does_not_hold_the_others_up():
    claims = (committed(0), committed(1, disputed=True, deadline=2_000))
    over = view(1_001, state=JobState.ENDED, run=OVER, commits=claims)
    assert duties(over, ME_PROVIDER, Progress()) == [Send("settlement", "finalise", (1, [claims[0].fields]))]


def test_a_finished_job__releases_my_lock_when_nothing_is_pending():
    over = view(2_000, state=JobState.ENDED, run=OVER)
    assert sends(duties(over, ME_PROVIDER, Progress())) == ["release"]
    unpaid = replace(over, commits=(committed(1, 1, deadline=2_000),))
    assert sends(duties(unpaid, ME_PROVIDER, Progress())) == []
    convicted = replace(over, commits=(committed(1, 1, state=ClaimState.CONVICTED),))
    assert sends(duties(convicted, ME_PROVIDER, Progress())) == ["release"]


def test_an_operator_that_lost_its_seat__releases_its_lock_when_the_turns_it_served_are_final():
    run = replace(WHOLE, round=3, turn=3)
    gone = {"seats": {1: OTHERS, AGGREGATOR_SEAT: CHAIR}, "stakes": {ME: JobStake(18, 1, 0, 2)}, "bids": {}}
    left = view(1_000, run=run, commits=(committed(2, 1),), **gone)
    assert sends(duties(left, ME_PROVIDER, Progress())) == ["release"]
    for waits in (
        {"commits": (committed(1, 1),)},
        {"stakes": {ME: JobStake(18, 1, 0, 4)}},
        {"stakes": {ME: JobStake(18, 1, 1, 0)}},
        {"stakes": {ME: JobStake(0, 0, 0, 2)}},
    ):
        assert "release" not in sends(duties(replace(left, **waits), ME_PROVIDER, Progress()))
