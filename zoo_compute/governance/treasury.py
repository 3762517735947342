"""The treasury: balances of its buckets, collecting fees, and spending through the timelock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.amounts import Token
from zoo_compute.errors import NotFunded
from zoo_compute.governance.timelock import ScheduledCall, send_as_governor
from zoo_compute.spec.treasury import AUDITS, DEVELOPMENT, GRANTS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender

BUCKETS = {"development": DEVELOPMENT, "audits": AUDITS, "grants": GRANTS}


@dataclass(frozen=True)
class TreasuryBalances:
    """In the token's smallest unit. owed: fees in TaskRegistry; arrived: in the treasury, but in no bucket yet. `collect` books both."""

    buckets: dict[str, int]
    arrived: int
    owed: int


def treasury_balances(chain: Chain, token: Token) -> TreasuryBalances:
    """The treasury's balances of one token."""
    buckets = {name: chain.treasury.buckets(token.address, number) for name, number in BUCKETS.items()}
    arrived = chain.token(token.address).balanceOf(chain.treasury.address) - sum(buckets.values())
    return TreasuryBalances(buckets, arrived, chain.tasks.owed(token.address, chain.treasury.address))


def collect(sender: Sender, token: Token) -> int:
    """Withdraw the owed fees and split them among the buckets; returns the amount. Anyone may call it; rerun to resume."""
    chain = sender.chain
    if treasury_balances(chain, token).owed:
        sender.send(chain.tasks.withdraw(token.address, chain.treasury.address))
    arrived = treasury_balances(chain, token).arrived
    if arrived:
        sender.send(chain.treasury.collect(token.address))
    return arrived


def spend(
    sender: Sender,
    token: Token,
    bucket: str,
    to: str,
    amount: int,
    *,
    again: bool,
    wait: bool,
    say: Callable[[str], None],
) -> ScheduledCall:
    """Send from a bucket, through the timelock. Raises NotFunded for more than the bucket holds."""
    chain = sender.chain
    there = treasury_balances(chain, token).buckets[bucket]
    call = chain.treasury.spend(token.address, BUCKETS[bucket], to, amount)
    if amount > there:
        raise NotFunded(
            f"the bucket {bucket} holds {token.format(there)}, less than {token.format(amount)}",
            hint="`zoo treasury collect` collects the fees owed; `zoo treasury show` prints the balances",
        )
    return send_as_governor(sender, chain.treasury.governor(), call, again=again, wait=wait, say=say)
