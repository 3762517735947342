"""The soak's figures can be bad: growth is seen, and so are a missed deadline, a slash, a payment that is lost or doubled."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.soak import outcome, resources
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.resources import Sample, disk_of, growth
from zoo_compute.chain.events import Event
from zoo_compute.spec.clocks import End

ZEN, OWNER, OTHER = "0xzen", "0xowner", "0xother"
HONEST = 7
PRICE, FEE = 1_000, 50


def test_growth__compares_the_end_with_what_follows_the_warm_up() -> None:
    flat = [(float(at), 100.0 if at > 20 else 10.0) for at in range(101)]
    assert growth(flat) == 0, "what fills during the warm-up does not count"
    rising = [(float(at), 100.0 + at) for at in range(101)]
    assert 0.3 < growth(rising) < 0.4


def test_a_keeper_that_leaks__is_what_the_report_says() -> None:
    samples = [
        Sample(
            float(at),
            {"alpha/keeper": 100.0 + at, "beta/keeper": 100.0, "beta/broker": 100.0 + 9 * at},
            {"alpha/keeper": 10.0, "beta/keeper": 10.0 + at},
            {
                "alpha/store": 50.0 + at,
                "alpha/logs": 5.0,
                "alpha/redis": 5.0,
                "alpha/disputes": 0.0,
                "alpha/state": 5.0,
            },
            {"alpha/keeper": 1 if at < 50 else 2, "beta/keeper": 3},
        )
        for at in range(101)
    ]
    report: dict[str, Any] = resources.report(samples)
    assert report["rss_growth"] == pytest.approx(report["rss_growth_by_process"]["alpha/keeper"], abs=1e-4)
    assert 0.3 < report["rss_growth"] < 0.4, "of keepers, the worst"
    assert report["handles_growth"] > 0.9
    assert 0.4 < report["disk_growth"] < 0.6
    assert report["disk_growth_by_part"]["logs"] == 0
    assert report["restarts"] == {"alpha/keeper": 1}


def test_disk__is_counted_by_part(tmp_path: Path) -> None:
    for name, size in (("store/a/b", 10), ("store/c", 5), ("logs/keeper.log", 3), ("operator.json", 2)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    sizes = disk_of(tmp_path)
    assert (sizes["store"], sizes["logs"], sizes["state"], sizes["redis"]) == (15, 3, 2, 0)


def test_a_claim_that_is_paid_once__is_in_order() -> None:
    assert wrong(claimed(), *paid()) == []


def test_a_claim_that_is_not_paid__or_paid_twice__or_less__is_wrong() -> None:
    assert wrong(claimed()) == ["claim (1, 0, 0): paid 0 times"]
    assert any("paid 2 times" in each for each in wrong(claimed(), *paid(), *paid()))
    assert any(f"paid {PRICE - 1} of {PRICE}" in each for each in wrong(claimed(), *paid(PRICE - 1)))


def test_a_payment_that_was_booked_for_another__is_wrong() -> None:
    found = wrong(claimed(), *paid(account=OTHER))
    assert any("was booked 0" in each for each in found)


def test_a_fee_that_is_too_high__is_wrong() -> None:
    """Net and fee together are what the claim says, and the owner's balance is the net: only the fee itself shows it."""
    finalised, payment, withdrawal = paid()
    dear = {**payment.args, "net": payment.args["net"] - 10, "fee": FEE + 10}
    less = {**withdrawal.args, "amount": withdrawal.args["amount"] - 10}
    found = wrong(claimed(), finalised, event("Paid", **dear), event("Withdrawn", contract="tasks", **less))
    assert [each for each in found if each.startswith("wrong fee: Paid in block")] == found != []


def test_a_balance_that_lacks_a_wei__is_wrong() -> None:
    assert [each for each in wrong(claimed(), *paid(), has=PRICE - FEE - 1) if OWNER in each] != []


def test_deadlines_and_slashes__are_of_honest_operators_only() -> None:
    counted = Outcome({HONEST})
    for operator in (HONEST, HONEST + 1):
        counted.record(event("SeatVacated", job=1, operator=operator, seat=0, turn=0, slashed=1), ZEN)
        counted.record(event("BidReclaimed", job=1, operator=operator, kind=0, forfeited=0), ZEN)
        counted.record(event("CollateralSlashed", operator=operator, token=ZEN, amount=5), ZEN)
        counted.record(event("CollateralSlashed", operator=operator, token=ZEN, amount=0), ZEN)
    report = outcome.report(counted, [])
    assert (report["deadlines_missed"], report["honest_slashes"]) == (1, 1)


@pytest.mark.parametrize(("end", "missed"), [(End.SILENT, 1), (End.EXHAUSTED, 1), (End.JUDGED, 0)])
def test_a_conviction_by_silence__is_a_missed_deadline(end: End, missed: int) -> None:
    counted = Outcome({HONEST})
    counted.record(event("ClaimConvicted", job=1, operator=HONEST, turn=0, seat=0, slashed=9), ZEN)
    counted.record(event("ClaimResolved", job=1, claim=b"c", outcome=int(end), node=b""), ZEN)
    report = outcome.report(counted, [])
    assert (report["deadlines_missed"], report["honest_slashes"]) == (missed, 1)


def claimed() -> list[Event]:
    claim = {"turn": 0, "seat": 0, "operator": HONEST, "price": PRICE}
    return [
        event("JobPosted", job=1, escrow=3 * PRICE),
        event("ResultsCommitted", job=1, operator=HONEST, claim=claim),
        event("JobClosed", job=1, refunded=2 * PRICE),
    ]


def paid(amount: int = PRICE, account: str = OWNER) -> list[Event]:
    return [
        event("ClaimFinalised", job=1, operator=HONEST, turn=0, seat=0, paid=amount),
        event("Paid", job=1, account=account, net=amount - FEE, fee=FEE),
        event("Withdrawn", contract="tasks", token=ZEN, account=account, amount=amount - FEE),
    ]


def wrong(before: list[Event], *after: Event, has: int | None = None) -> list[str]:
    """What is wrong where the chain's books are as the events say, and the owner has what it withdrew or `has`."""
    counted = Outcome({HONEST})
    for each in (*before, *after):
        counted.record(each, ZEN)
    tasks = SimpleNamespace(jobs=lambda job, block: SimpleNamespace(escrow=counted.escrows[job]), owed=lambda *_: 0)
    balance = counted.withdrawn[OWNER, "tasks"] if has is None else has
    chain: Any = SimpleNamespace(tasks=tasks, zen=SimpleNamespace(address=ZEN, balanceOf=lambda *_: balance))
    return counted.wrong_payments(chain, {HONEST: OWNER}, {OWNER: 0}, 1)


def event(name: str, contract: str = "", **args: Any) -> Event:
    return Event(name, contract, 1, 0, "0xtx", b"", args)
