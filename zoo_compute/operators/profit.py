"""What an operator keeps of what it earns: exact arithmetic on sums, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo_compute.operators.balances import Earnings, OperatorBalances
    from zoo_compute.spending import Spent

COIN_PRICE = "3000"  # of one coin, in ZEN, unless operator.json says otherwise
WATT_SECONDS_PER_KWH = 3_600_000
WEI_PER_COIN = 10**18


def power_cost(watt_s: float, per_kwh: int) -> int:
    """Smallest units of ZEN, rounded down. per_kwh: likewise."""
    return int(Decimal(per_kwh) * Decimal(repr(watt_s)) / WATT_SECONDS_PER_KWH)


def gas_cost(wei: int, coin_price: int) -> int:
    """Smallest units of ZEN, rounded down. coin_price: of a whole coin, likewise."""
    return wei * coin_price // WEI_PER_COIN


@dataclass(frozen=True)
class Profit:
    """In the smallest units of ZEN."""

    paid: int
    rewards: int
    gas: int
    power: int
    slashed: int

    @property
    def total(self) -> int:
        return self.paid + self.rewards - self.gas - self.power - self.slashed

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings."""
        return {**{key: str(value) for key, value in vars(self).items()}, "total": str(self.total)}


def profit_of(earned: Earnings, spent: Spent, coin_price: int, power_price: int) -> Profit:
    return Profit(
        paid=earned.paid,
        rewards=earned.rewards,
        gas=gas_cost(spent.wei, coin_price),
        power=power_cost(spent.watt_s, power_price),
        slashed=earned.slashed,
    )


def locked_percent(balances: OperatorBalances) -> float:
    """The share of the collateral that is locked."""
    return round(100 * balances.locked / balances.collateral, 1) if balances.collateral else 0.0


def next_payment(earned: Earnings) -> tuple[int, int] | None:
    """When the next claim becomes payable, in seconds since 1970, and the gross amount that is payable then; None if no time is known."""
    times = [claim.payable_at for claim in earned.claims if claim.is_pending and claim.payable_at is not None]
    if not times:
        return None
    first = min(times)
    due = [c for c in earned.claims if c.is_pending and c.payable_at is not None and c.payable_at <= first]
    return first, sum(claim.amount for claim in due)
