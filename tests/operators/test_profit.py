"""What an operator keeps: exact sums of gas, power and payments."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from zoo_compute import spending
from zoo_compute.amounts import WEI
from zoo_compute.chain.ledger import Penalty
from zoo_compute.operators.balances import EarnedClaim, Earnings
from zoo_compute.operators.profit import Profit, gas_cost, next_payment, power_cost, profit_of
from zoo_compute.spending import FILE, Spent

CLAIM = EarnedClaim(7, 0, "slots 0-3", "challenge window", 4 * WEI, 5_000)
EARNED = Earnings(
    paid=100 * WEI,
    pending=0,
    rewards=7 * WEI,
    slashed=2 * WEI,
    claims=(),
    penalties=(Penalty(1, 3, 0, 0, 3 * WEI, "was late", WEI),),
    bandwidth=(),
)


@pytest.mark.parametrize(
    ("watt_s", "per_kwh", "cost"),
    [(300 * 3_600, WEI // 5, 60 * 10**15), (3.6, WEI, 10**12), (0.0, WEI, 0), (3_599_999.0, 1, 0), (3_600_000.0, 1, 1)],
)
def test_power__costs_watts_times_seconds_at_the_price_of_a_kwh(watt_s: float, per_kwh: int, cost: int) -> None:
    assert power_cost(watt_s, per_kwh) == cost


def test_gas__costs_what_its_coin_is_worth() -> None:
    assert gas_cost(2 * 10**15, 3_000 * WEI) == 6 * WEI
    assert gas_cost(0, 3_000 * WEI) == 0


def test_profit__is_payments_and_rewards_less_gas_power_and_slashes() -> None:
    """2 mcoin at 3,000 ZEN a coin, and 5 kWh at a fifth of a ZEN."""
    spent = Spent(since=1.0, transactions=20, wei=2 * 10**15, busy_s=60_000, watt_s=5 * 3_600_000.0)
    profit = profit_of(EARNED, spent, 3_000 * WEI, WEI // 5)
    assert profit == Profit(paid=100 * WEI, rewards=7 * WEI, gas=6 * WEI, power=WEI, slashed=2 * WEI)
    assert profit.total == 98 * WEI
    assert profit.to_dict()["total"] == str(98 * WEI)


def test_the_next_payment__is_of_the_claims_whose_window_ends_first() -> None:
    claims = (
        replace(CLAIM, payable_at=6_000, amount=1),
        CLAIM,
        replace(CLAIM, round=1, amount=3 * WEI),
        replace(CLAIM, state="in turn", payable_at=None),
        replace(CLAIM, state="paid", payable_at=1),
        replace(CLAIM, state="convicted", payable_at=2),
    )
    assert next_payment(replace(EARNED, claims=claims)) == (5_000, 7 * WEI)
    assert next_payment(EARNED) is None


def test_sums__grow_with_each_transaction_and_each_work(tmp_path: Path) -> None:
    assert spending.read(tmp_path) == Spent()
    spending.add(tmp_path / "node", Spent(transactions=1, wei=10**30))
    first = spending.read(tmp_path / "node")
    assert first.since > 0
    spending.add(tmp_path / "node", Spent(transactions=1, wei=1, busy_s=10, watt_s=2_000))
    spending.add(tmp_path / "node", Spent(busy_s=5, unknown_s=5))
    total = spending.read(tmp_path / "node")
    assert total == Spent(first.since, 2, 10**30 + 1, 15.0, 2_000.0, 5.0)
    assert total.mean_watts == 200
    assert first.mean_watts is None


def test_sums__lose_nothing_that_several_threads_add(tmp_path: Path) -> None:
    adding = [threading.Thread(target=spending.add, args=(tmp_path, Spent(transactions=1, wei=5))) for _ in range(20)]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    total = spending.read(tmp_path)
    assert (total.transactions, total.wei) == (20, 100)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"wei": "x"}', "\0"])
def test_damaged_sums__begin_again(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    spending.add(tmp_path, Spent(transactions=1, wei=9))
    assert json.loads((tmp_path / FILE).read_text())["wei"] == "9"


def test_sums_that_cannot_be_written__stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spending.add(tmp_path / "file", Spent(transactions=1))
