"""Treasury: the fee in three buckets (docs/protocol/treasury.md)."""

from zoo_compute.spec.params import BPS
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Message, World

DEVELOPMENT, AUDITS, GRANTS = BUCKETS = range(3)
AUDITS_BPS: int = 3_000
GRANTS_BPS: int = 2_000  # development takes the rest: 5,000 bps and the dust


def collect(w: World, msg: Message, token: str) -> int:
    """Splits new income among the buckets."""
    bucketed = sum(w.buckets.get((token, bucket), 0) for bucket in BUCKETS)
    arrived = w.balances.get((token, w.config.treasury), 0) - bucketed
    require(arrived > 0, "treasury: nothing to collect")
    audits, grants = arrived * AUDITS_BPS // BPS, arrived * GRANTS_BPS // BPS
    for bucket, amount in ((DEVELOPMENT, arrived - audits - grants), (AUDITS, audits), (GRANTS, grants)):
        w.buckets[token, bucket] = w.buckets.get((token, bucket), 0) + amount
    return arrived


def fund(w: World, msg: Message, token: str, bucket: int, amount: int) -> None:
    """Adds the sender's tokens to one bucket."""
    require(bucket in BUCKETS, "treasury: unknown bucket")
    require(amount > 0, "treasury: zero amount")
    w.buckets[token, bucket] = w.buckets.get((token, bucket), 0) + amount
    w.move(token, msg.sender, w.config.treasury, amount, by="treasury")


def collect_audits(w: World, msg: Message, token: str) -> int:
    """AuditPool.collect: what it was paid goes to the audits, whole."""
    amount = w.balances.get((token, w.config.audit_pool), 0)
    require(amount > 0, "pool: nothing to collect")
    fund(w, Message(w.config.audit_pool, msg.now, block_time=msg.block_time), token, AUDITS, amount)
    return amount


def spend(w: World, msg: Message, token: str, bucket: int, to: str, amount: int) -> None:
    """The timelock spends from one bucket."""
    require(msg.sender == w.config.treasury_governor, "treasury: not the governor")
    require(bucket in BUCKETS, "treasury: unknown bucket")
    require(amount <= w.buckets.get((token, bucket), 0), "treasury: amount exceeds bucket")
    w.buckets[token, bucket] = w.buckets.get((token, bucket), 0) - amount
    w.move(token, w.config.treasury, to, amount, by="treasury")
