"""Whom an operator serves, what it asks of each job, and what a bid puts at risk: decided from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.decisions.duties import duties
from keepers.decisions.obstacles import is_permanent, reasons_not_to_bid
from keepers.decisions.open_jobs import OpenJobs
from keepers.decisions.orders import AskPrice, OperatorContext, Prepare, Progress, SealBid
from keepers.decisions.pricing import BidRisk, price_key, question, risk_of
from tests.keepers.test_duties import (
    BID,
    CHAIR,
    LOT,
    ME,
    ME_PROVIDER,
    OTHERS,
    SEAT,
    TERMS,
    TIMED,
    WHOLE,
    opening,
    sends,
    view,
)
from zoo_compute.amounts import WEI, ZEN, Token
from zoo_compute.chain.views import AGGREGATOR_SEAT
from zoo_compute.spec.params import DEVNET, PRODUCTION, lock_of

STRANGER = "0xS"  # who posted the jobs of these snapshots
VACANT = {0: replace(SEAT, operator=0), 1: OTHERS, AGGREGATOR_SEAT: CHAIR}
SCRIPTED = replace(ME_PROVIDER, price=0, unpriced={0: ""})
REFUSED = replace(SCRIPTED, unpriced={0: "ended with exit code 1: not on my list"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"deny": frozenset({STRANGER})}, "its submitter 0xS is in `deny` of operator.json"),
        ({"allow": frozenset({"0xF"})}, "its submitter 0xS is not in `allow` of operator.json"),
        (
            {"allow": frozenset({STRANGER}), "deny": frozenset({STRANGER})},
            "its submitter 0xS is in `deny` of operator.json",
        ),
        ({"allow": frozenset({"0xF", STRANGER})}, ""),
        ({"deny": frozenset({"0xF"})}, ""),
    ],
    ids=["denied", "not allowed", "both", "allowed", "another is denied"],
)
def test_a_submitter_whom_the_operator_does_not_serve__gets_no_bid_and_no_takeover(changes: dict, why: str) -> None:
    me = replace(ME_PROVIDER, **changes)
    assert reasons_not_to_bid(opening(1_000), me, TIMED) == why
    assert duties(opening(1_000), me, TIMED) == ([] if why else [SealBid(0, 1, 4, 80)])
    assert is_permanent(opening(1_000), me, 0) is bool(why)
    assert ("take_over" in sends(duties(view(1_001, seats=VACANT), me, TIMED))) is not bool(why)


def test_a_job_of_a_submitter_who_is_not_served__is_not_even_measured() -> None:
    assert duties(opening(1_000), replace(ME_PROVIDER, deny=frozenset({STRANGER})), Progress()) == []


def test_a_seat_in_the_job_of_a_submitter_who_was_denied_later__is_served_to_its_end() -> None:
    denying = replace(ME_PROVIDER, deny=frozenset({STRANGER}))
    assert duties(view(1_001), denying, TIMED) == duties(view(1_001), ME_PROVIDER, TIMED) != []


def test_price_script__is_asked_once_the_job_is_measured_and_nothing_else_is_in_the_way() -> None:
    assert duties(opening(1_000), SCRIPTED, Progress()) == [Prepare()]
    assert duties(opening(1_000), SCRIPTED, TIMED) == [AskPrice(0, 4)]
    assert duties(opening(1_000), replace(SCRIPTED, free=9), TIMED) == []
    assert duties(opening(1_000), replace(SCRIPTED, price=100, unpriced={}), TIMED) == [SealBid(0, 1, 4, 100)]
    assert duties(opening(1_000), replace(SCRIPTED, price=101, unpriced={}), TIMED) == []


def test_price_script__without_a_price__leaves_the_job_alone_and_says_why() -> None:
    assert duties(opening(1_000), REFUSED, TIMED) == []
    assert reasons_not_to_bid(opening(1_000), REFUSED, TIMED) == "price_script ended with exit code 1: not on my list"
    assert not is_permanent(opening(1_000), REFUSED, 0)


def test_price_script__is_asked_before_an_attempt_that_failed_is_opened_again() -> None:
    failed = opening(1_030)
    assert "reopen" in sends(duties(failed, ME_PROVIDER, TIMED))
    assert duties(failed, SCRIPTED, TIMED) == [AskPrice(0, 4)]
    assert duties(failed, REFUSED, TIMED) == []


@pytest.mark.parametrize(("me", "expected"), [(SCRIPTED, [AskPrice(0, 4)]), (REFUSED, [])])
def test_price_script__is_asked_before_a_vacant_seat_is_taken(me: OperatorContext, expected: list) -> None:
    vacant = view(1_001, seats=VACANT, stakes={})
    assert "take_over" in sends(duties(vacant, ME_PROVIDER, TIMED))
    due = duties(vacant, me, TIMED)
    assert [duty for duty in due if isinstance(duty, AskPrice)] == expected
    assert "take_over" not in sends(due)


def test_price_script__is_asked_before_the_aggregators_seat_is_taken() -> None:
    me = replace(ME_PROVIDER, is_provider=False, is_aggregator=True, aggregator_price=50)
    empty = view(
        1_060,
        run=WHOLE,
        seats={0: OTHERS, AGGREGATOR_SEAT: replace(CHAIR, operator=0, left_at=1_000)},
    )
    assert "take_over" in sends(duties(empty, me, TIMED))
    due = duties(empty, replace(me, aggregator_price=0, unpriced={1: ""}), TIMED)
    assert AskPrice(1, 1) in due
    assert "take_over" not in sends(due)
    due = duties(empty, replace(me, aggregator_price=0, unpriced={1: "printed no price"}), TIMED)
    assert "take_over" not in sends(due)


def test_the_reason_that_a_script_gave__stays_while_it_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    jobs, job = OpenJobs(), opening(1_000)
    for me, due in ((REFUSED, []), (SCRIPTED, [AskPrice(0, 4)]), (REFUSED, []), (SCRIPTED, [AskPrice(0, 4)])):
        jobs.record(job, me, TIMED, due)
        assert jobs.reasons == {1: "price_script ended with exit code 1: not on my list"}
    assert caplog.text.count("cannot bid") == 1
    jobs.record(job, replace(SCRIPTED, price=80, unpriced={}), TIMED, [SealBid(0, 1, 4, 80)])
    assert jobs.reasons == {}


@pytest.mark.parametrize(
    ("changed", "progress"),
    [
        (opening(1_000 + 3_600), TIMED),
        (opening(1_000, lots={0: replace(LOT, attempt=2), 1: LOT}), TIMED),
        (opening(1_000, lots={0: replace(LOT, reserve=110), 1: LOT}), TIMED),
        (opening(1_000), replace(TIMED, slot_s=6)),
    ],
    ids=["an hour", "an attempt", "a reserve", "a measurement"],
)
def test_an_answer__holds_until_the_terms_or_the_hour_change(changed, progress: Progress) -> None:
    assert price_key(opening(1_000), 0, TIMED) == price_key(opening(1_009), 0, TIMED)
    assert price_key(changed, 0, progress) != price_key(opening(1_000), 0, TIMED)


def test_risk__of_a_bid_for_four_slots() -> None:
    """The lot locks 10 a unit and nothing once. Deadlines cost a tenth of the lock that four slots at the reserve of 100 have."""
    risk = risk_of(opening(1_000), 0, 4, DEVNET, is_zen=True)
    window = max(DEVNET.min_window_s, 3 * TERMS.reexecute_s)
    rounds = 4 * (2 * TERMS.slot_s + 20)  # in a depth of four none waits
    longest = 20 + DEVNET.ready_window_s + rounds + window
    assert risk == BidRisk(locks=40, longest_s=longest, missed=lock_of(400, 500) // 10, unopened=400, most=40)
    assert risk.to_dict(Token("USDC", 6))["locks"] == "0.00004"


def test_risk__counts_what_is_locked_once_and_longer_windows() -> None:
    once = opening(1_000, lots={0: replace(LOT, once=7), 1: LOT})
    assert risk_of(once, 0, 2, DEVNET, is_zen=True).locks == 27
    short, long = (risk_of(once, 0, 2, PRODUCTION, is_zen=is_zen).longest_s for is_zen in (True, False))
    assert long - short == 3 * PRODUCTION.min_window_s  # the last window; four rounds of a depth of four wait for none


def test_risk__lock_is_what_the_lot_says_in_real_numbers() -> None:
    """A reserve of 1 ZEN at the usual rate of audits: 98.4 prices, of which a miss takes a tenth."""
    lot = replace(LOT, reserve=WEI, lock=lock_of(WEI, 500))
    risk = risk_of(opening(1_000, lots={0: lot, 1: LOT}), 0, 3, PRODUCTION, is_zen=True)
    assert (ZEN.format(risk.locks), ZEN.format(risk.missed)) == ("~295 ZEN", "29.5 ZEN")


def test_the_question__says_terms_measurements_costs_and_risk() -> None:
    me = replace(SCRIPTED, free=500 * WEI)
    lot = replace(LOT, reserve=WEI, max_reserve=2 * WEI, lock=lock_of(WEI, 500))
    asked = question(
        opening(1_000, lots={0: lot, 1: LOT}),
        me,
        replace(TIMED, opening_s=0.5),
        0,
        4,
        PRODUCTION,
        {"price": "1"},
        is_zen=True,
    )
    assert {key: asked[key] for key in ("job", "role", "unit", "submitter", "rounds", "slots", "units", "reserve", "max_price")} == {
        "job": 1, "role": "provider", "unit": "slot-round", "submitter": STRANGER, "rounds": 4, "slots": 6, "units": 4,
        "reserve": "1", "max_price": "2",
    }  # fmt: skip
    assert asked["measured"] == {"slot_s": 5, "opening_s": 0.5, "aggregation_s": 0.0}
    assert (asked["collateral_free"], asked["price"]) == ("500", "1")
    assert asked["locks"] == ZEN.exact(4 * lock_of(WEI, 500))


def test_a_bid_that_was_sealed__is_opened_at_its_price_whatever_the_hour() -> None:
    sealed = opening(1_015, bids={(0, ME): replace(BID, revealed=False)})
    due = duties(sealed, replace(ME_PROVIDER, price=77), TIMED)
    assert [duty.price for duty in due if hasattr(duty, "price")] == [77]
