"""Signs an account's transactions, hands them to the node, and raises the fees of those that are stuck: the lowest nonce first."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import TransactionNotFound, Web3RPCError
from web3.types import BlockData

from zoo_compute.chain import fees
from zoo_compute.chain.pending_transactions import PendingEntries, PendingTransaction, PendingTransactions
from zoo_compute.chain.simulate import not_funded
from zoo_compute.errors import ChainError, FeeTooHigh

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.fence import Fence

STUCK_AFTER_BLOCKS = 2  # if the chain makes no blocks, a higher fee does not help
FILLER, FILLER_GAS = "filler", 21_000  # a transfer of nothing to oneself


class Signer(Protocol):
    """eth-account's LocalAccount, or a RemoteSigner."""

    @property
    def address(self) -> Any: ...

    def sign_transaction(self, transaction_dict: Any) -> Any:
        """Something with `.raw_transaction`."""


class Broadcaster:
    """Of one account on one chain. Use it under the outbox's lock, except `clear_way`, which takes it."""

    def __init__(
        self,
        chain: Chain,
        account: Signer,
        outbox: PendingTransactions,
        limits: fees.FeeLimits,
        fence: Fence | None = None,
    ) -> None:
        self._chain, self._account, self._outbox, self._limits = chain, account, outbox, limits
        self.passed = 0  # below it, each nonce was seen to be mined: this sender's, or one before its time
        self._fence = fence
        self._address = Web3.to_checksum_address(account.address)

    def nonce(self, block: str) -> int:
        return self._chain.w3.eth.get_transaction_count(self._address, block)  # type: ignore[arg-type]

    def broadcast(self, entry: PendingTransaction, box: PendingEntries) -> bool:
        """Whether the node has the transaction now, under any of its hashes; False when another one has the nonce.

        The hash is on disk before the node has the transaction: whoever finds the entry after a crash recognises what was mined.
        """
        self._check()
        raw = bytes(self._account.sign_transaction(self._transaction(entry)).raw_transaction)
        digest = "0x" + keccak(raw).hex()
        if digest not in entry.hashes:
            entry.hashes.append(digest)
        box.put(entry)
        self._check()  # signing and writing took time
        try:
            self._chain.w3.eth.send_raw_transaction(HexBytes(raw))
        except Web3RPCError as error:
            if fees.is_nonce_taken(error):
                # By itself, if an answer was lost and the provider repeated the request; or by its replacement.
                is_ours = any(self._has(known) for known in reversed(entry.hashes))
                if not is_ours:
                    self.note_another(entry.nonce)
                return is_ours
            if fees.is_unfunded(error):
                raise not_funded(self._chain.w3, self._address, entry.gas * entry.max_fee + entry.value) from None
            if not fees.is_known(error):
                raise ChainError(f"{entry.operation}: the RPC refuses the transaction: {error.message}") from error
        return True

    def clear_way(self, entry: PendingTransaction) -> bool:
        """Raise the fees of what keeps `entry` from being mined. Whether anything was tried: blocks went by without it.

        A node mines an account's transactions in the order of their nonces. So the lowest is raised first, whoever sent it and
        whether or not anybody still waits for it; of the others only those that today's blocks would not take.
        """
        block = self._chain.w3.eth.get_block("latest")
        if block["number"] < max(entry.sent_block, entry.bumped_block) + STUCK_AFTER_BLOCKS:
            return False
        limit = self._limits.of(entry.operation)
        with self._outbox.locked() as box:
            mined = self.nonce("latest")
            with suppress(FeeTooHigh):  # keep waiting
                self._fill_gaps(max(mined, self.nonce("pending")), entry, box, block, limit)
            waiting = sorted(
                nonce
                for nonce, each in box.entries.items()
                if mined <= nonce <= entry.nonce
                and each.sent_block <= block["number"]  # else of a chain before it was reset
            )
            for nonce in waiting:
                each = box.entries[nonce]
                since = block["number"] - max(each.sent_block, each.bumped_block)
                try:
                    now = fees.suggest(self._chain.w3, block, limit, self._limits.priority)
                    is_dear_enough = each.max_fee >= block.get("baseFeePerGas", 0) + now.priority_fee
                    if since < STUCK_AFTER_BLOCKS or (nonce != waiting[0] and is_dear_enough):
                        self._give_again(each, box)
                        continue
                    fee = fees.bumped(now, each.max_fee, each.priority_fee, limit)
                except FeeTooHigh:
                    break  # keep waiting; what was sent may still be mined
                each.max_fee, each.priority_fee = fee.max_fee, fee.priority_fee
                each.bumped_block = block["number"]
                self.broadcast(each, box)  # False: mined meanwhile, which its sender will see
        return True

    def _give_again(self, entry: PendingTransaction, box: PendingEntries) -> None:
        """A node that forgot what was before it may have forgotten this one, too."""
        with suppress(ChainError):
            self.broadcast(entry, box)

    def _fill_gaps(
        self, first: int, entry: PendingTransaction, box: PendingEntries, block: BlockData, limit: int
    ) -> None:
        """Use the nonces from `first` to the entry's that no transaction has: a reorganisation undid those that were mined, and the node forgot them.

        The entry itself keeps its nonce: a node that has it could mine it there as well as at another one. What the undone ones did is
        decided anew, from the chain as it is now. Raises FeeTooHigh.
        """
        for nonce in range(first, entry.nonce):
            if nonce in box.entries:
                continue
            fee = fees.suggest(self._chain.w3, block, limit, self._limits.priority)
            filler = PendingTransaction(
                nonce=nonce,
                operation=FILLER,
                to=self._address,
                data="0x",
                value=0,
                gas=FILLER_GAS,
                max_fee=fee.max_fee,
                priority_fee=fee.priority_fee,
                sent_block=block["number"],
            )
            if not self.broadcast(filler, box):
                box.remove(filler)

    def note_another(self, nonce: int) -> None:
        """A transaction that is not in the outbox has this nonce. Behind a fence that ends this sender: it was not the only one. Unless the
        nonce is `passed`: then the RPC's count lags.
        """
        if self._fence is not None and nonce >= self.passed:
            self._fence.left(f"nonce {nonce} of {self._address} was used by another sender")

    def _check(self) -> None:
        """Return only where this process may sign and send."""
        if self._fence is not None:
            self._fence.check()

    def _has(self, digest: str) -> bool:
        try:
            self._chain.w3.eth.get_transaction(HexBytes(digest))
        except TransactionNotFound:
            return False
        return True

    def _transaction(self, entry: PendingTransaction) -> dict[str, Any]:
        return {
            "type": 2,
            "chainId": self._chain.network.chain_id,
            "nonce": entry.nonce,
            "to": entry.to,
            "data": entry.data,
            "value": entry.value,
            "gas": entry.gas,
            "maxFeePerGas": entry.max_fee,
            "maxPriorityFeePerGas": entry.priority_fee,
        }
