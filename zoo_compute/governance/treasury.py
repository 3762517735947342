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
    """In the token's smallest unit. owed: fees in TaskRegistry; arrived: in the treasury, but in no bucket yet; audits_owed: parts of
    convictions, in TaskRegistry or the audit pool, which are the audits' alone. `collect` books all of them.
    """

    buckets: dict[str, int]
    arrived: int
    owed: int
    audits_owed: int


def treasury_balances(chain: Chain, token: Token) -> TreasuryBalances:
    """The treasury's balances of one token."""
    buckets = {name: chain.treasury.buckets(token.address, number) for name, number in BUCKETS.items()}
    arrived = chain.token(token.address).balanceOf(chain.treasury.address) - sum(buckets.values())
    pool, tasks = chain.audit_pool.address, chain.tasks
    audits = tasks.owed(token.address, pool) + chain.token(token.address).balanceOf(pool)
    return TreasuryBalances(buckets, arrived, tasks.owed(token.address, chain.treasury.address), audits)


def collect(sender: Sender, token: Token) -> int:
    """Withdraw the owed fees and split them among the buckets; the audits' parts of convictions go to their bucket whole. Returns the
    amount. Anyone may call it; rerun to resume.
    """
    chain = sender.chain
    pool, treasury = chain.audit_pool.address, chain.treasury.address
    audits = treasury_balances(chain, token).audits_owed
    for account in (treasury, pool):
        if chain.tasks.owed(token.address, account):
            sender.send(chain.tasks.withdraw(token.address, account))
    if audits:
        sender.send(chain.audit_pool.collect(token.address))
    arrived = treasury_balances(chain, token).arrived
    if arrived:
        sender.send(chain.treasury.collect(token.address))
    return arrived + audits


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
