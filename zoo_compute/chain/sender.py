"""Sends transactions: simulates each first, sends it once, replaces it when stuck, waits, decodes and records it."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import TransactionNotFound
from web3.types import TxReceipt

from zoo_compute import spending
from zoo_compute.chain import fees
from zoo_compute.chain.broadcasting import Broadcaster, Signer
from zoo_compute.chain.call import Call, decode_outputs
from zoo_compute.chain.events import decode
from zoo_compute.chain.pending_transactions import PendingEntries, PendingTransaction, PendingTransactions
from zoo_compute.chain.receipt import Receipt as Receipt
from zoo_compute.chain.simulate import Request, dry_run, estimate_gas, not_funded, request_of, why_reverted
from zoo_compute.chain.unsigned import UnsignedAccount
from zoo_compute.errors import ChainError, NotFunded, TransactionPending, Unreachable
from zoo_compute.spending import Spent

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.fence import Fence

log = logging.getLogger("zoo.keeper")

TIMEOUT_S = 180.0
STUCK_AFTER_S = 30.0
UNDONE_AFTER_S = 2.0  # the same where a reorganisation undid some: fewer of the account's are mined than were
ADOPTED_FOR_BLOCKS = 50  # how long the next sender of the same call gets the outcome of a dead process's transaction
SHORTEST_POLL_S = 0.02
LONGEST_POLL_S = 1.0
ATTEMPTS = 8  # to win a nonce against processes on other machines


class Sender:
    """One account on one chain. Several threads and processes can use the same account.

    ledger: a file to which one JSON line is appended per mined transaction (operation, gas_used, wei, tx, block, sender); its folder's
        sums (zoo_compute/spending.py) grow by the same.
    folder: for the account's pending transactions; all its processes on a machine must share it.
    fence: of an account that keepers on several machines send for, one at a time; the one whose turn begins calls `take_over` first.
    routine_s: how long to wait for what can wait (fees.ROUTINE), once: while such a transaction is pending, later calls do not wait, and
        send no other. None: as long as for all else.
    """

    def __init__(
        self,
        chain: Chain,
        account: Signer,
        *,
        ledger: Path | None = None,
        folder: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        routine_s: float | None = None,
        stuck_after_s: float = STUCK_AFTER_S,
        limits: fees.FeeLimits = fees.FeeLimits(),  # noqa: B008, which is frozen
        fence: Fence | None = None,
    ) -> None:
        self.chain = chain
        self.account = account
        self.address = Web3.to_checksum_address(account.address)
        self.ledger = ledger
        self.timeout_s, self.routine_s = timeout_s, routine_s
        self.stuck_after_s = stuck_after_s
        self.limits = limits
        self._fence = fence
        self._next: int | None = None  # with a fence: one above the highest nonce that is this sender's
        self._outbox = PendingTransactions(folder, chain.network.chain_id, self.address, fence)
        self._broadcaster = Broadcaster(chain, account, self._outbox, limits, fence)

    def take_over(self) -> int:
        """Go on where the account's last sender ended, perhaps on another machine. Before anything is decided.

        Returns how many pending transactions of the account nobody here knows: until they are mined, the same calls could be sent again.
        From here on, a nonce that somebody else used ends this sender: it was not the only one.
        """
        assert self._fence is not None, "without a fence nobody is succeeded"
        with self._outbox.locked() as box:
            mined, pending = self._broadcaster.nonce("latest"), self._broadcaster.nonce("pending")
            box.succeed(self._fence.read(), mined)
            self._next = max([pending, *(nonce + 1 for nonce in box.entries)])
            self._broadcaster.passed = mined
            return max(0, pending - mined) - sum(mined <= nonce < pending for nonce in box.entries)

    def simulate(self, call: Call) -> Any:
        """The call's return value in the next block. Costs nothing. Raises Refusal."""
        return result_of(call, dry_run(self.chain.w3, request_of(call, self.address, 0)))

    def send(self, call: Call, *, value: int = 0) -> Receipt:
        """Simulate, send, wait. Raises Refusal (before gas is paid, or mined and reverted), NotFunded, FeeTooHigh,
        Unreachable, TransactionPending (not mined in `timeout_s`; sending again resumes).
        """
        return self._deliver(request_of(call, self.address, value), call)

    def send_coin(self, to: str, wei: int) -> Receipt:
        """A plain transfer of native coin."""
        return self._deliver(Request("transfer", self.address, Web3.to_checksum_address(to), "0x", wei), None)

    def needs_mined(self, why: str) -> None:
        """What follows needs all that was sent to be mined. Raises NotMinedYet where it is only recorded (chain/unsigned.py)."""
        if isinstance(self.account, UnsignedAccount):
            self.account.needs_mined(why)

    # -- one request: adopt or submit, wait, and repeat if another transaction took the nonce

    def _deliver(self, request: Request, call: Call | None) -> Receipt:
        if isinstance(self.account, UnsignedAccount):
            return self.account.record(self.chain, request, call)
        patient = self.routine_s is None or request.operation not in fees.ROUTINE
        for _ in range(ATTEMPTS):
            result, stuck_after_s = None, self.stuck_after_s
            timeout_s = self.timeout_s if patient else self.routine_s or 0.0
            entry = self._adopt(request)
            if entry is None:
                if not patient:
                    self._hold_back(request)
                returned = dry_run(self.chain.w3, request)
                result = result_of(call, returned)
                entry = self._submit(request, estimate_gas(self.chain.w3, request))
            elif not patient:
                timeout_s = stuck_after_s = 0.0
            mined = self._wait(entry, timeout_s, stuck_after_s)
            if mined is not None:
                return self._receipt(request, mined, result)
            self._broadcaster.note_another(entry.nonce)
        raise Unreachable(f"{request.operation}: other senders of {self.address} took the nonce {ATTEMPTS} times")

    def _adopt(self, request: Request) -> PendingTransaction | None:
        """The same call, if one of our processes sent it and then died or stopped waiting."""
        with self._outbox.locked() as box:
            nonce = self._broadcaster.nonce
            head, mined, pending = self.chain.head().number, nonce("latest"), nonce("pending")
            # Mined long ago; or above the pending nonce: the chain was reset, or an earlier transaction was never sent.
            old = {
                n for n, e in box.entries.items() if n < mined and not 0 <= head - e.sent_block <= ADOPTED_FOR_BLOCKS
            }
            box.drop(lambda entry: not entry.is_awaited and (entry.nonce in old or entry.nonce > pending))
            for entry in list(box.entries.values()):
                same = (entry.to, entry.data, entry.value) == (request.to, request.data, request.value)
                if same and not entry.is_awaited and (entry.nonce < mined or self._sent_again(entry, box)):
                    entry.take()
                    return entry
        return None

    def _sent_again(self, entry: PendingTransaction, box: PendingEntries) -> bool:
        """Like `broadcast`; also True where the node refuses the entry as it is, perhaps for its fee: who waits for it may raise that."""
        try:
            return self._broadcaster.broadcast(entry, box)
        except (Unreachable, NotFunded):
            raise
        except ChainError:
            return True

    def _hold_back(self, request: Request) -> None:
        """Raises TransactionPending where another that can wait, and that nobody waits for, is in the way.

        That is sent first, at a higher fee if it must. But not what is old: perhaps nobody wants it any more.
        """
        with self._outbox.locked() as box:
            mined, head = self._broadcaster.nonce("latest"), self.chain.head().number
            left = [
                entry
                for nonce, entry in box.entries.items()
                if nonce >= mined
                and entry.operation in fees.ROUTINE
                and 0 <= head - entry.sent_block <= ADOPTED_FOR_BLOCKS
                and not entry.is_awaited
            ]
            first = min(left, key=lambda entry: entry.nonce, default=None)
            try:
                if first is None or not self._broadcaster.broadcast(first, box):
                    return
            except ChainError:  # the node takes it no more
                return
        self._broadcaster.clear_way(first)
        raise TransactionPending(
            f"{request.operation} waits for {first.operation}, which is not mined", first.hashes[-1]
        )

    def _submit(self, request: Request, gas: int) -> PendingTransaction:
        """Sign with the next nonce and send. Locks the account, so that no other process takes the nonce."""
        w3 = self.chain.w3
        for attempt in range(ATTEMPTS):
            with self._outbox.locked() as box:
                block = w3.eth.get_block("latest")
                fee = fees.suggest(w3, block, self.limits.of(request.operation), self.limits.priority)
                needed = gas * fee.max_fee + request.value
                if self.chain.coin(self.address) < needed:
                    raise not_funded(w3, self.address, needed)
                entry = PendingTransaction(
                    nonce=self._free_nonce(box, block["number"]),
                    operation=request.operation,
                    to=request.to,
                    data=request.data,
                    value=request.value,
                    gas=gas,
                    max_fee=fee.max_fee,
                    priority_fee=fee.priority_fee,
                    sent_block=block["number"],
                )
                entry.take()
                if self._first_broadcast(entry, box):
                    return entry
            time.sleep(0.05 * 2**attempt)  # the RPC's count lags, or another machine sends for this account
        raise Unreachable(f"{request.operation}: no free nonce for {self.address}", hint="does another machine use it?")

    def _free_nonce(self, box: PendingEntries, head: int) -> int:
        """The next nonce that no transaction of ours has. A node that dropped one, or never had it, gets it again."""
        nonce = self._broadcaster.nonce("pending")
        if self._next is not None and nonce > self._next:
            self._broadcaster.note_another(nonce - 1)
        while (known := box.entries.get(nonce)) and known.sent_block <= head:
            if not known.is_awaited and head - known.sent_block > ADOPTED_FOR_BLOCKS:
                break
            try:
                if not self._broadcaster.broadcast(known, box):
                    break
            except Unreachable:  # it may take it yet
                raise
            except ChainError:  # it takes this one no more
                break
            nonce += 1
        if self._next is not None:
            self._next = max(self._next, nonce + 1)
        return nonce

    def _first_broadcast(self, entry: PendingTransaction, box: PendingEntries) -> bool:
        """Like `broadcast`; what did not reach the node leaves no entry."""
        try:
            sent = self._broadcaster.broadcast(entry, box)
        except BaseException as error:
            if isinstance(error, ChainError) and not isinstance(error, Unreachable):  # refused
                box.remove(entry)
            elif entry.hashes:  # signed, so it may have arrived
                entry.leave()
                box.put(entry)
            raise
        if not sent:
            box.remove(entry)
        return sent

    def _wait(self, entry: PendingTransaction, timeout_s: float, stuck_after_s: float) -> TxReceipt | None:
        """The receipt under any of the entry's hashes; None when another transaction took its nonce.

        If the wait ends early (timeout, unreachable RPC, Ctrl-C), the entry remains for the next `send`.
        """
        try:
            mined = self._watch(entry, timeout_s, stuck_after_s)
        except BaseException:
            with self._outbox.locked() as box:
                if self._merge(entry, box):
                    entry.leave()
                    box.put(entry)
            raise
        with self._outbox.locked() as box:
            box.remove(entry)
            if mined is not None:
                self._broadcaster.passed = max(self._broadcaster.passed, entry.nonce + 1)
        self.chain.forget_head()
        return mined

    def _watch(self, entry: PendingTransaction, timeout_s: float, stuck_after_s: float) -> TxReceipt | None:
        start = last_raised = time.monotonic()
        pause = SHORTEST_POLL_S
        while True:
            # Read first, so that a receipt that arrives in between is not missed.
            count = self._broadcaster.nonce("latest")
            taken, undone = count > entry.nonce, count < min(entry.nonce, self._broadcaster.passed)
            if taken:
                self._catch_up(entry)
            mined = self._mined(entry)
            if mined is not None or (taken and self._is_lost(entry)):
                return mined
            now = time.monotonic()
            stuck_s = min(stuck_after_s, UNDONE_AFTER_S) if undone else stuck_after_s
            if now - last_raised >= stuck_s and self._broadcaster.clear_way(entry):
                self._catch_up(entry)
                last_raised = now
            if now - start >= timeout_s:
                self._catch_up(entry)
                raise TransactionPending(f"{entry.operation}: not mined in {timeout_s:g} s", entry.hashes[-1])
            time.sleep(pause)
            pause = min(LONGEST_POLL_S, pause * 1.5)

    def _catch_up(self, entry: PendingTransaction) -> None:
        """Other senders of the account raise the fee of whatever is in their way: take over the hashes that they added."""
        with self._outbox.locked() as box:
            self._merge(entry, box)

    def _merge(self, entry: PendingTransaction, box: PendingEntries) -> bool:
        """Whether the entry at this nonce is still this one."""
        known = box.entries.get(entry.nonce)
        if known is None or not set(known.hashes) & set(entry.hashes):
            return False
        entry.hashes = list(dict.fromkeys([*entry.hashes, *known.hashes]))
        if known.max_fee > entry.max_fee:
            entry.max_fee, entry.priority_fee, entry.bumped_block = (
                known.max_fee, known.priority_fee, known.bumped_block,
            )  # fmt: skip
        return True

    def _mined(self, entry: PendingTransaction) -> TxReceipt | None:
        for digest in reversed(entry.hashes):
            try:
                return self.chain.w3.eth.get_transaction_receipt(HexBytes(digest))
            except TransactionNotFound:
                continue
        return None

    def _is_lost(self, entry: PendingTransaction) -> bool:
        """Whether another transaction has the entry's nonce. A node may count ours before it returns its receipt;
        mistaking it for another's would send it twice.
        """
        eth = self.chain.w3.eth
        for number in range(entry.sent_block, eth.block_number + 1):
            block: Any = eth.get_block(number, full_transactions=True)
            for mined in block["transactions"]:
                if (mined["from"], mined["nonce"]) == (self.address, entry.nonce):
                    return "0x" + mined["hash"].hex() not in entry.hashes
        return False

    def _receipt(self, request: Request, mined: TxReceipt, result: Any) -> Receipt:
        block, gas_used = mined["blockNumber"], mined["gasUsed"]
        digest = "0x" + mined["transactionHash"].hex()
        self._record(request.operation, gas_used, gas_used * int(mined.get("effectiveGasPrice", 0)), digest, block)
        if mined["status"] != 1:
            raise why_reverted(self.chain.w3, request, block)
        return Receipt(digest, block, gas_used, request.operation, decode(self.chain, mined["logs"]), result)

    # -- small parts

    def _record(self, operation: str, gas_used: int, wei: int, digest: str, block: int) -> None:
        if self.ledger is None:
            return
        paid = {"gas_used": gas_used, "wei": str(wei)}
        line = {"operation": operation, **paid, "tx": digest, "block": block, "sender": self.address}
        try:
            self.ledger.parent.mkdir(parents=True, exist_ok=True)
            with open(self.ledger, "a") as file:  # one short append: lines of several processes do not mix
                file.write(json.dumps(line) + "\n")
            spending.add(self.ledger.parent, Spent(transactions=1, wei=wei))
        except OSError as error:  # a full disk: the transaction is mined all the same
            log.warning("%s is not recorded in %s: %s", digest, self.ledger, error)


def result_of(call: Call | None, returned: bytes) -> Any:
    """The decoded return value; None if the function returns nothing, as some tokens' do."""
    return decode_outputs(call.abi, returned) if call and call.abi["outputs"] and returned else None
