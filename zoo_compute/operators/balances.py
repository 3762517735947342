"""Values about an operator: its registration, money and earnings. Built in `account.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoo_compute.chain.ledger import Penalty
from zoo_compute.chain.views import OperatorView
from zoo_compute.operators.bandwidth import EpochBandwidth
from zoo_compute.requirement_words import format_region
from zoo_compute.spec.bits import slots_in


@dataclass(frozen=True)
class RegistrationResult:
    operator: int
    owner: str
    hot: str
    stake: int
    new: bool


@dataclass(frozen=True)
class OperatorBalances:
    """An operator with its money in one payment token."""

    view: OperatorView
    token: str

    @property
    def collateral(self) -> int:
        return self.view.collateral.get(self.token, (0, 0))[0]

    @property
    def locked(self) -> int:
        return self.view.collateral.get(self.token, (0, 0))[1]

    @property
    def free(self) -> int:
        return self.view.free(self.token)

    @property
    def owed(self) -> int:
        return self.view.owed.get(self.token, 0)

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings in wei."""
        view = self.view
        return {
            "operator": view.operator, "owner": view.owner, "hot": view.hot, "hot_coin": str(view.hot_coin),
            "stake": str(view.stake), "gpu_class": view.gpu_class, "vram_gb": view.vram_gb, "admitted": view.admitted,
            "multiplier_percent": view.multiplier_percent, "reputation": view.reputation,
            "discount_bps": view.discount_bps, "eligible": view.eligible, "endpoint": view.endpoint, "exit_at": view.exit_at and view.exit_at + view.stopped_s,
            "tier": view.tier, "hours": list(slots_in(view.hours)), "region": format_region(view.region),
            "locks": view.locks, "token": self.token, "collateral": str(self.collateral), "locked": str(self.locked),
            "free": str(self.free), "owed": str(self.owed),
        }  # fmt: skip


OVER = ("paid", "convicted", "void", "absent")  # states of a claim that pays nothing more


@dataclass(frozen=True)
class EarnedClaim:
    """One claim of the operator.

    payable_at: when its window is over, in seconds since 1970; None while its turn or a dispute is open, and once it is over.
    """

    job: int
    round: int
    what: str
    state: str
    amount: int  # gross
    payable_at: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.state not in OVER


@dataclass(frozen=True)
class Earnings:
    """In the token's smallest unit. paid: all time, net of the fee. pending: accepted, not paid yet, gross."""

    paid: int
    pending: int
    rewards: int
    slashed: int
    claims: tuple[EarnedClaim, ...]
    penalties: tuple[Penalty, ...]
    bandwidth: tuple[EpochBandwidth, ...]

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings in wei."""
        return {
            "paid": str(self.paid), "pending": str(self.pending), "rewards": str(self.rewards), "slashed": str(self.slashed),
            "claims": [{**vars(c), "amount": str(c.amount)} for c in self.claims],
            "penalties": [{**vars(p), "amount": str(p.amount), "returned": str(p.returned)} for p in self.penalties],
            "bandwidth": [{**vars(b), "earned": str(b.earned)} for b in self.bandwidth],
        }  # fmt: skip
