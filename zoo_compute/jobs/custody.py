"""What a job offers its custodians, and what that costs: exact arithmetic, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zoo_compute.amounts import Token
from zoo_compute.formats.manifest import JobError
from zoo_compute.spec.custody import capture_chance, escrow_of, fee_of
from zoo_compute.spec.params import SIGNED_BYTES
from zoo_compute.spec.params import ZEN as UNIT

DEFAULT_PRICE = UNIT // 50  # per GiB and round; operators ask half of it unless they say otherwise
BUDGET_PARTS = 20  # of a budget from which maximum prices follow, one is left for custodians
HOSTILE = (
    Fraction(1, 10),
    Fraction(33, 100),
)  # shares of the offered stake, for which a quote shows the chance of collusion


@dataclass(frozen=True)
class CustodyTerms:
    """price: per GiB and round, in the token's smallest unit. size: bytes that a custodian holds of a round."""

    custodians: int
    price: int
    size: int
    rounds: int

    @property
    def cost(self) -> int:
        """What all signatures of all rounds cost."""
        return escrow_of(fee_of(self.price, self.size), self.custodians, self.rounds)

    @property
    def majority(self) -> int:
        return (self.custodians + 1) // 2

    @property
    def capture(self) -> tuple[float, ...]:
        """The chance that a majority is hostile, for each of HOSTILE."""
        return tuple(float(capture_chance(self.custodians, share)) for share in HOSTILE)

    def to_dict(self) -> dict[str, Any]:
        chances = {f"{float(share):g}": chance for share, chance in zip(HOSTILE, self.capture, strict=True)}
        return {
            "custodians": self.custodians,
            "majority": self.majority,
            "price": str(self.price),
            "bytes_per_round": self.size,
            "cost": str(self.cost),
            "capture": chances,
        }


def custody_terms(custodians: int, price: str | float | None, token: Token, size: int, rounds: int) -> CustodyTerms:
    """price: as the file has it; by default DEFAULT_PRICE, which only ZEN has. Raises JobError."""
    if price is None and not token.is_worth_zen:
        raise JobError(
            f"market.custody_price: missing; custody has no usual price in {token.symbol}",
            hint="set it to whole tokens per GiB and round, or checkpoint.redundancy to 2 or less",
        )
    asked = DEFAULT_PRICE if price is None else token.parse(price, what="market.custody_price")
    if asked < 1:
        raise JobError("market.custody_price: expected more than 0")
    return CustodyTerms(
        custodians, max(asked, -(-SIGNED_BYTES // size)), size, rounds
    )  # a signature is paid at least one unit
