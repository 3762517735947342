"""A node's transaction pool by geth's rules: what is too cheap stays, counts as pending, and keeps those after it from being mined.

anvil drops such transactions, so no devnet shows what a stuck one does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from eth_account.typed_transactions import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3.exceptions import TransactionNotFound, Web3RPCError

GWEI = 10**9
ACCOUNT_COIN = 10**24


@dataclass
class GethPool:
    """The `eth` of a Web3 for one account. `mine` makes a block of what pays enough."""

    base: int = 20 * GWEI
    max_priority_fee: int = GWEI
    block_number: int = 100
    nonce: int = 0
    pool: dict[int, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    mined: dict[bytes, int] = field(default_factory=dict)
    blocks: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)  # all that was accepted, in order

    def get_block(self, number: Any, full_transactions: bool = False) -> dict[str, Any]:
        at = self.block_number if isinstance(number, str) else number
        return {"number": at, "baseFeePerGas": self.base, "transactions": self.blocks.get(at, [])}

    def get_transaction_count(self, account: str, block: str) -> int:
        count = self.nonce
        while block == "pending" and count in self.pool:
            count += 1
        return count

    def call(self, *_: Any) -> bytes:
        return b""

    def estimate_gas(self, *_: Any) -> int:
        return 21_000

    def get_balance(self, *_: Any) -> int:
        return ACCOUNT_COIN

    def send_raw_transaction(self, raw: bytes) -> bytes:
        transaction, digest = TypedTransaction.from_bytes(HexBytes(raw)).as_dict(), keccak(bytes(raw))
        old = self.pool.get(transaction["nonce"])
        if transaction["nonce"] < self.nonce:
            raise Web3RPCError("nonce too low")
        if old and old[1] == digest:
            raise Web3RPCError("already known")
        for name in ("maxFeePerGas", "maxPriorityFeePerGas"):
            if old and old[0][name] * 11 > transaction[name] * 10:
                raise Web3RPCError("replacement transaction underpriced")
        self.pool[transaction["nonce"]] = (transaction, digest)
        self.sent.append(transaction)
        return digest

    def get_transaction_receipt(self, digest: bytes) -> dict[str, Any]:
        if bytes(digest) not in self.mined:
            raise TransactionNotFound("not mined")
        number = self.mined[bytes(digest)]
        return {"blockNumber": number, "gasUsed": 1, "transactionHash": HexBytes(digest), "status": 1, "logs": []}

    def get_transaction(self, digest: bytes) -> dict[str, Any]:
        known = {each for _, each in self.pool.values()} | self.mined.keys()
        if bytes(digest) not in known:
            raise TransactionNotFound("unknown")
        return {}

    def mine(self, sender: str) -> None:
        self.block_number += 1
        block = self.blocks.setdefault(self.block_number, [])
        while self.nonce in self.pool and self.pool[self.nonce][0]["maxFeePerGas"] >= self.base:
            transaction, digest = self.pool.pop(self.nonce)
            self.mined[digest] = self.block_number
            block.append({"from": sender, "nonce": self.nonce, "hash": HexBytes(digest), "to": transaction["to"]})
            self.nonce += 1

    def undo(self, number: int) -> None:
        """A reorganisation replaces this block and later ones by empty ones, and the node forgets what they had."""
        for each in range(number, self.block_number + 1):
            for transaction in self.blocks.pop(each, []):
                del self.mined[bytes(transaction["hash"])]
                self.nonce -= 1

    def drop(self) -> None:
        """Forget what is not mined, as a node does that is restarted or full."""
        self.pool.clear()

    @property
    def chain(self) -> Any:
        """What a Sender asks of a Chain."""
        return SimpleNamespace(
            w3=SimpleNamespace(eth=self),
            network=SimpleNamespace(chain_id=1, contracts={}),
            head=lambda: SimpleNamespace(number=self.block_number),
            coin=lambda _: ACCOUNT_COIN,
            forget_head=lambda: None,
        )
