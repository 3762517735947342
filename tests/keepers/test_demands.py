"""What a keeper fetches, demands and closes, from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.decisions.demands import deposits_outstanding
from keepers.decisions.duties import duties
from keepers.decisions.orders import Aggregate, DemandChunk, Fetch, MissingData, Progress, Send, Train
from tests.keepers.test_duties import (
    AGGREGATOR,
    CHAIR,
    ME,
    ME_AGGREGATOR,
    ME_PROVIDER,
    OPENED,
    OTHER,
    OTHERS,
    ROOT,
    RUN,
    SEAT,
    SLOT_S,
    WHOLE,
    view,
)
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, Commit, JobStake, JobView

ANSWER_S, MADE = 60, OPENED + 5
WINDOWED = replace(RUN, window_s=600, missing=0b10, committed=2)
LATEST = MADE + 600 - 2 * ANSWER_S
CLAIM = Commit(1, 1, 0, ME, 2, 90, ROOT, b"\2" * 32, MADE + 600, made_at=MADE, bundle=b"\3" * 32)
MADE_BY_OTHER = Checkpoint(0, 0, AGGREGATOR_SEAT, OTHER, 0b11, 50, ROOT, ROOT, OPENED + 600, made_at=OPENED, cid=ROOT)
THE_AGGREGATOR = replace(ME_AGGREGATOR, hot="0xA", answer_s=ANSWER_S, demand_after_s=20)
THE_PROVIDER = replace(ME_PROVIDER, hot="0xP", answer_s=ANSWER_S, demand_after_s=20)
PLACES = {0: None, 1: (3, 4)}


def job(now: int, **changes: object) -> JobView:
    run = replace(WINDOWED, aggregator_due=OPENED + 400)
    return view(now, **{"run": run, "commits": (CLAIM,)} | changes)


def missing(asked_at: int, seat: int = 0, **changes: object) -> Progress:
    return Progress(missing={seat: MissingData(asked_at, PLACES)}, **changes)  # type: ignore[arg-type]


def demand(claim: Commit | Checkpoint = CLAIM, lane: int = AGGREGATOR_SEAT, **changes: object) -> Demand:
    made = Demand(claim, claim.operator, lane, 0, 1, 2, 100, True, 7, opened_at=MADE + 30, demander="0xA")
    return replace(made, **changes)  # type: ignore[arg-type]


def demanded(due: list) -> list[DemandChunk]:
    return [duty for duty in due if isinstance(duty, DemandChunk)]


# -- fetching


def test_an_aggregator__fetches_what_is_committed_long_before_it_combines_it():
    assert duties(job(MADE + 1), THE_AGGREGATOR, Progress()) == [Fetch(0)]
    assert duties(job(MADE + 1), THE_AGGREGATOR, Progress(fetched=frozenset({0}))) == []
    assert Fetch(0) not in duties(job(MADE + 1), THE_PROVIDER, Progress())


def test_an_aggregation__begins_when_everything_is_here():
    whole = job(MADE + 1, run=replace(WHOLE, window_s=600), commits=(CLAIM, replace(CLAIM, seat=1, scope=2 << 16 | 4)))
    assert Aggregate() not in duties(whole, THE_AGGREGATOR, Progress(fetched=frozenset({0})))
    assert duties(whole, THE_AGGREGATOR, Progress(fetched=frozenset({0, 1}))) == [Aggregate()]


# -- demanding


def test_a_withheld_update__is_demanded_from_the_aggregators_lane_when_it_is_missing_for_a_while():
    expected = [DemandChunk(CLAIM, AGGREGATOR_SEAT, PLACES)]
    assert demanded(duties(job(MADE + 21), THE_AGGREGATOR, missing(MADE + 20))) == expected
    assert demanded(duties(job(MADE + 99), THE_AGGREGATOR, missing(MADE + 19))) == [], "it was not tried since"
    assert demanded(duties(job(MADE + 99), THE_AGGREGATOR, Progress())) == []


def test_a_demand__comes_early_enough_for_the_window_and_for_my_own_clock():
    patient = replace(THE_AGGREGATOR, demand_after_s=10_000)
    early, late = MADE + 98, MADE + 99  # a quarter of what is left to the aggregator at the commitment, 395 s
    assert demanded(duties(job(early), patient, missing(early))) == []
    assert demanded(duties(job(late), patient, missing(late))) != []
    unpressed = replace(WINDOWED, aggregator_due=OPENED + 10**6)
    half = MADE + (LATEST - MADE) // 2
    assert demanded(duties(job(half - 1, run=unpressed), patient, missing(half - 1))) == []
    assert demanded(duties(job(half, run=unpressed), patient, missing(half))) != []
    assert demanded(duties(job(LATEST), THE_AGGREGATOR, missing(LATEST))) != []
    assert demanded(duties(job(LATEST + 1), THE_AGGREGATOR, missing(LATEST + 1))) == [], "the contract says no"


@pytest.mark.parametrize(
    ("demands", "again_from"),
    [
        ((demand(),), None),
        ((demand(end="bytes", opened_at=MADE + 30),), MADE + 30 + ANSWER_S + 20),
        ((demand(end="bytes", opened_at=MADE + 30, lane=130),), MADE + 20),
        ((demand(end="bytes", claim=replace(CLAIM, turn=0)),), MADE + 20),
        ((demand(end="bytes"),) * 4, None),
    ],
    ids=["open", "answered", "another's", "of another claim", "spent"],
)
def test_a_claim__is_demanded_again_when_it_is_still_missing_after_an_answer__four_times_in_all(demands, again_from):
    answers = [
        now
        for now in range(MADE + 10, MADE + 200)
        if demanded(duties(job(now, demands=demands), THE_AGGREGATOR, missing(now)))
    ]
    assert (answers[0] if answers else None) == again_from


def test_a_checkpoint_nobody_serves__is_demanded_from_the_seat_that_must_train_from_it():
    checkpoint = {"checkpoints": (MADE_BY_OTHER,), "run": replace(WINDOWED, missing=0b11), "commits": ()}
    lacking = missing(OPENED + 5, AGGREGATOR_SEAT)
    demands = demanded(duties(job(OPENED + 6, **checkpoint), THE_PROVIDER, lacking))
    assert demands == [DemandChunk(MADE_BY_OTHER, 0, PLACES)], "a quarter of a seat's time is 5 s"
    taken_over = replace(THE_AGGREGATOR, operator=AGGREGATOR)
    later = missing(OPENED + 20, AGGREGATOR_SEAT)
    demands = demanded(duties(job(OPENED + 30, **checkpoint), taken_over, later))
    assert demands == [DemandChunk(MADE_BY_OTHER, AGGREGATOR_SEAT, PLACES)]


def test_nothing__is_demanded_of_final_claims_of_my_own_or_without_a_lane():
    lacking = missing(OPENED + 20, AGGREGATOR_SEAT)
    for claim, seats in (
        (replace(MADE_BY_OTHER, state=ClaimState.PAID), {0: SEAT, 1: OTHERS}),
        (replace(MADE_BY_OTHER, operator=ME), {0: SEAT, 1: OTHERS}),
        (MADE_BY_OTHER, {1: OTHERS, AGGREGATOR_SEAT: CHAIR}),
    ):
        assert demanded(duties(job(OPENED + 20, checkpoints=(claim,), seats=seats), THE_PROVIDER, lacking)) == []


def test_what_is_answered_and_still_not_served__is_computed_anew():
    answered = job(MADE + 40, demands=(demand(end="bytes"),))
    progress = missing(MADE + 39, trained=frozenset({1}))
    assert [d for d in duties(answered, THE_AGGREGATOR, progress) if isinstance(d, Train)] == [Train(0)]
    for waits in (replace(answered, demands=(demand(),)), replace(answered, demands=(demand(end="bytes", lane=130),))):
        assert [d for d in duties(waits, THE_AGGREGATOR, progress) if isinstance(d, Train)] == []


def test_deposits__of_all_lanes_of_mine_count_until_they_come_back():
    asked = (
        demand(),
        demand(end="bytes"),
        demand(end="convicted"),
        demand(end="unanswered"),
        demand(end="forfeited", help_tx="0x1"),
        demand(lane=130),
        demand(demander="0xP"),
    )
    assert deposits_outstanding(job(MADE, demands=asked), "0xA") == 400


# -- ending

END = MADE + 30 + ANSWER_S


def closes(due: list) -> list[tuple[object, ...]]:
    return [duty.args for duty in due if isinstance(duty, Send) and duty.function == "close"]


def test_my_demand__is_closed_in_the_second_after_its_time():
    over = job(END + 1, demands=(demand(),))
    assert closes(duties(over, THE_AGGREGATOR, Progress())) == [(1, CLAIM.fields, AGGREGATOR_SEAT)]
    assert closes(duties(replace(over, now=END), THE_AGGREGATOR, Progress())) == []
    ended = replace(over, demands=(demand(end="bytes"),))
    assert closes(duties(ended, THE_AGGREGATOR, Progress())) == []


def test_anothers_demand__is_closed_in_my_turn_by_who_is_concerned():
    others = {"demands": (demand(replace(CLAIM, operator=OTHER)),), "stakes": {ME: JobStake(20, 1, 1, 0)}}
    assert closes(duties(job(END + 1, **others), THE_PROVIDER, Progress())) == []
    assert len(closes(duties(job(END + 30, **others), THE_PROVIDER, Progress()))) == 1
    stranger = others | {"stakes": {}}
    assert closes(duties(job(END + 30, **stranger), THE_PROVIDER, Progress())) == []


def test_a_demand_of_my_own_claim__is_never_closed_by_me():
    assert closes(duties(job(END + SLOT_S * 9, demands=(demand(),)), THE_PROVIDER, Progress())) == []
