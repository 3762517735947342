"""Gas fees (EIP-1559), and the errors with which nodes reject a transaction."""

from __future__ import annotations

from dataclasses import dataclass

from web3 import Web3
from web3.exceptions import Web3RPCError
from web3.types import BlockData

from zoo_compute.errors import FeeTooHigh

GWEI = 10**9
BUMP_PERCENT = 25  # nodes accept a replacement from +10 %

# What can wait for cheaper blocks, and costs nothing but time while it does. All else has a deadline, and missing that costs a lock.
ROUTINE = frozenset({
    "NodeRegistry.announce", "NodeRegistry.heartbeat",
    "Rewards.claim", "Rewards.claim_data", "Rewards.claim_verification", "Rewards.record", "Rewards.recycle", "Rewards.redeem",
    "TaskRegistry.withdraw", "Availability.withdraw", "Referee.withdraw", "Audits.withdraw", "Custody.withdraw",
    "Referee.settle", "Audits.pay_out", "transfer",
})  # fmt: skip

# geth, reth, erigon, nethermind and anvil word these differently; matched in lower case.
_NONCE_TAKEN = (
    "nonce too low",
    "replacement transaction underpriced",
    "could not replace existing",
    "nonce is too low",
)
_KNOWN = ("already known", "already imported", "known transaction", "alreadyknown")
_UNFUNDED = ("insufficient funds", "insufficient balance", "insufficientfunds")


@dataclass(frozen=True)
class FeeLimits:
    """Wei per gas. What an RPC says about fees is believed up to these.

    routine: for what can wait. urgent: for what has a deadline. priority: of the tip, which is paid whatever the base fee is.
    """

    routine: int = 500 * GWEI
    urgent: int = 500 * GWEI
    priority: int = 50 * GWEI

    def of(self, operation: str) -> int:
        return self.routine if operation in ROUTINE else self.urgent


@dataclass(frozen=True)
class Fee:
    """In wei per gas."""

    max_fee: int
    priority_fee: int


def suggest(w3: Web3, block: BlockData, limit: int, most_priority: int) -> Fee:
    """Enough for six full blocks in a row (the base fee grows by 12.5 % at most in each). Raises FeeTooHigh."""
    base = block.get("baseFeePerGas", 0)
    priority = min(w3.eth.max_priority_fee, most_priority)
    if base + priority > limit:
        raise FeeTooHigh(f"gas costs {(base + priority) / GWEI:.3g} gwei, the limit is {limit / GWEI:.3g}")
    return Fee(min(limit, 2 * base + priority), priority)


def next_base_fee(w3: Web3) -> int:
    """The highest possible base fee of the next block: an eighth above the newest. (Views see 0, because calls pay no fee.)"""
    return w3.eth.get_block("latest").get("baseFeePerGas", 0) * 9 // 8


def bumped(now: Fee, max_fee: int, priority_fee: int, limit: int) -> Fee:
    """At least BUMP_PERCENT above the last fees, and enough for the current block, which asks for `now`. Raises FeeTooHigh."""
    wanted = max(now.max_fee, max_fee + max_fee * BUMP_PERCENT // 100)
    if wanted > limit:
        raise FeeTooHigh(f"a replacement needs {wanted / GWEI:.3g} gwei, the limit is {limit / GWEI:.3g}")
    return Fee(
        wanted, min(wanted, max(now.priority_fee, priority_fee + 1, priority_fee + priority_fee * BUMP_PERCENT // 100))
    )


def is_nonce_taken(error: object) -> bool:
    return _says(error, _NONCE_TAKEN)


def is_known(error: object) -> bool:
    """error: web3's, or as the RPC sent it."""
    return _says(error, _KNOWN)


def is_unfunded(error: Web3RPCError) -> bool:
    return _says(error, _UNFUNDED)


def _says(error: object, words: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(word in text for word in words)
