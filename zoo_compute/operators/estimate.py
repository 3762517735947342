"""What a job would bring an operator that bids for it: exact arithmetic on its terms, no I/O (docs/guides/money.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoo_compute.operators.profit import gas_cost, power_cost
from zoo_compute.spec.durations import longest_run_s
from zoo_compute.spec.params import Preset, Terms, fee_of, lock_of, lock_once, window_s, windows

# Gas of a provider's transactions, from the second on (benchmarks/results/gas.json; a test compares them).
GAS_ONCE = {"bid": 51_992, "reveal_first": 49_700, "ready": 95_044, "release": 57_681, "withdraw": 39_973}
GAS_COMMIT = 53_240  # each round
GAS_FINALISE = 320_523 // 10  # of a claim, ten together
DAY_S = 86_400


@dataclass(frozen=True)
class Offer:
    """A job that is open, or would be. reserve: of the attempt that bids are for; auction_s: until it ends."""

    terms: Terms
    reserve: int
    auction_s: int


@dataclass(frozen=True)
class Costs:
    """Of an operator: its price in ZEN's smallest unit, the slots it bids for, seconds and watts of a slot-round here; wei of a unit of
    gas; and what a coin and a kWh are worth."""

    price: int
    units: int
    slot_s: float
    watts: float
    gas_price: int
    coin_price: int
    power_price: int


@dataclass(frozen=True)
class Estimate:
    """In ZEN's smallest unit and seconds. least: if it is paid its own price; most: if it is paid the reserve."""

    units: int
    least_price: int
    most_price: int
    gas: int
    power: int
    least_profit: int
    most_profit: int
    least_profit_per_day: int
    most_profit_per_day: int
    capital: int
    first_payment_s: int
    longest_s: int

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings."""
        plain = ("units", "first_payment_s", "longest_s")
        return {key: value if key in plain else str(value) for key, value in vars(self).items()}


def estimate(offer: Offer, costs: Costs, preset: Preset) -> Estimate:
    """A price above the reserve wins nothing; it is then both prices."""
    terms, units = offer.terms, costs.units
    most_price = max(costs.price, offer.reserve)
    gas_units = sum(GAS_ONCE.values()) + terms.rounds * (GAS_COMMIT + GAS_FINALISE)
    gas = gas_cost(gas_units * costs.gas_price, costs.coin_price)
    power = power_cost(costs.watts * costs.slot_s * units * terms.rounds, costs.power_price)
    least, most = (_net(units * terms.rounds, price) - gas - power for price in (costs.price, most_price))
    window = window_s(preset, terms.reexecute_s, windows(terms, preset.window_value))
    longest_s = offer.auction_s + longest_run_s(terms, preset, is_zen=True)
    return Estimate(
        units=units,
        least_price=costs.price,
        most_price=most_price,
        gas=gas,
        power=power,
        least_profit=least,
        most_profit=most,
        least_profit_per_day=least * DAY_S // longest_s,
        most_profit_per_day=most * DAY_S // longest_s,
        capital=units * lock_of(offer.reserve, terms.audit_bps) + lock_once(terms),
        first_payment_s=offer.auction_s + preset.ready_window_s + 2 * terms.slot_s + terms.aggregate_s + window,
        longest_s=longest_s,
    )


def _net(slot_rounds: int, price: int) -> int:
    """What is paid for so many, after the treasury's fee."""
    return slot_rounds * price - fee_of(slot_rounds * price)
