"""What `zoo node estimate` says: exact numbers of one job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.keepers.test_duties import TERMS
from zoo_compute.amounts import WEI
from zoo_compute.operators import estimate as module
from zoo_compute.operators.estimate import Costs, Estimate, Offer, estimate
from zoo_compute.spec.params import PRODUCTION, lock_of

GAS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "gas.json"
# Four rounds of six slots, at most 10 min a slot and 5 min an aggregation; windows of the least two hours.
OFFER = Offer(
    replace(TERMS, reserve=2 * WEI, max_price=3 * WEI, slot_s=600, aggregate_s=300, reexecute_s=600), 2 * WEI, 60
)
COSTS = Costs(price=WEI, units=4, slot_s=90, watts=400, gas_price=10**10, coin_price=3_000 * WEI, power_price=WEI // 5)


def test_estimate__of_four_slots_in_four_rounds() -> None:
    """16 slot-rounds: 15.2 ZEN after the fee at 1 ZEN, 30.4 at the reserve of 2. 635,558 gas at 10 gwei of a coin for 3,000 ZEN;
    400 W for 16 times 90 s at 0.2 ZEN a kWh."""
    result = estimate(OFFER, COSTS, PRODUCTION)
    gas_units = 51_992 + 49_700 + 95_044 + 57_681 + 39_973 + 4 * (53_240 + 32_052)
    gas, power = gas_units * 10**10 * 3_000, 400 * 16 * 90 * WEI // 5 // 3_600_000
    longest_s = 60 + PRODUCTION.ready_window_s + 4 * 1_500 + 7_200
    least, most = 152 * WEI // 10 - gas - power, 304 * WEI // 10 - gas - power
    assert (gas, power) == (635_558 * 3 * 10**13, 32 * 10**15)
    assert result == Estimate(
        units=4,
        least_price=WEI,
        most_price=2 * WEI,
        gas=gas,
        power=power,
        least_profit=least,
        most_profit=most,
        least_profit_per_day=least * 86_400 // longest_s,
        most_profit_per_day=most * 86_400 // longest_s,
        capital=4 * lock_of(2 * WEI, 500),
        first_payment_s=60 + PRODUCTION.ready_window_s + 1_500 + 7_200,
        longest_s=longest_s,
    )
    assert result.to_dict()["gas"] == str(gas)


def test_estimate__of_a_price_above_the_reserve__is_of_that_price_alone() -> None:
    result = estimate(OFFER, replace(COSTS, price=5 * WEI), PRODUCTION)
    assert (result.least_price, result.most_price) == (5 * WEI, 5 * WEI)
    assert result.least_profit == result.most_profit


@pytest.mark.parametrize("key", [*module.GAS_ONCE, "commit"])
def test_gas__is_what_was_measured(key: str) -> None:
    measured = json.loads(GAS.read_text())
    assert {**module.GAS_ONCE, "commit": module.GAS_COMMIT}[key] == measured[key]
    assert measured["finalise_10_claims"] // 10 == module.GAS_FINALISE
