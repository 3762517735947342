"""A pool of transactions by geth's rules, between operators and anvil, which has none: what is too cheap stays and blocks what follows.

`stick` transactions stay in the pool until they are replaced at a higher fee, as those below what block builders take; `drop` of them are
forgotten, as by a node that is full or restarts. What pays goes on to anvil in the order of its nonces.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from eth_account.typed_transactions import TypedTransaction  # type: ignore[attr-defined]
from eth_utils.crypto import keccak
from hexbytes import HexBytes

Question = dict[str, Any]
Ask = Callable[[Question], dict[str, Any]]


@dataclass
class Pooled:
    raw: str
    hash: str
    transaction: dict[str, Any]
    is_stuck: bool = False


@dataclass
class GethNode:
    """fired: transactions that were stuck, dropped, and replaced afterwards."""

    stick: int = 0
    drop: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    _pool: dict[tuple[str, int], Pooled] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_empty(self) -> bool:
        return not self._pool

    def answer(self, question: Question, ask: Ask) -> dict[str, Any] | None:
        """None: the chain's answer is the pool's."""
        params = question["params"]
        with self._lock:
            match question["method"]:
                case "eth_sendRawTransaction":
                    return self._take(question, params[0], ask)
                case "eth_getTransactionCount" if params[1] == "pending":
                    count = self._mined(params[0], ask)
                    while (params[0].lower(), count) in self._pool:
                        count += 1
                    return _result(question, hex(count))
                case "eth_getTransactionByHash":
                    known = next((each for each in self._pool.values() if each.hash == params[0]), None)
                    return _result(question, _described(known)) if known else None
        return None

    def _take(self, question: Question, raw: str, ask: Ask) -> dict[str, Any]:
        data = HexBytes(raw)
        transaction, digest = TypedTransaction.from_bytes(data).as_dict(), "0x" + keccak(bytes(data)).hex()
        sender = str(Account.recover_transaction(raw))
        place = sender.lower(), int(transaction["nonce"])
        old = self._pool.get(place)
        if place[1] < self._mined(sender, ask):
            return _error(question, "nonce too low")
        if old is not None and old.hash == digest:
            return _error(question, "already known")
        if old is not None and any(
            old.transaction[name] * 11 > transaction[name] * 10 for name in ("maxFeePerGas", "maxPriorityFeePerGas")
        ):
            return _error(question, "replacement transaction underpriced")
        if old is not None and old.is_stuck:
            self.fired["replaced"] += 1
        entry = Pooled(raw, digest, transaction, is_stuck=old is None and self.stick > 0)
        if entry.is_stuck:
            self.stick -= 1
            self.fired["stuck"] += 1
        if old is None and self.drop > 0 and not entry.is_stuck:
            self.drop -= 1
            self.fired["dropped"] += 1
        else:
            self._pool[place] = entry
        self._pump(sender, ask)
        return _result(question, digest)

    def pump(self, ask: Ask) -> None:
        """Pass on what the next block takes, of all accounts. Call it now and then."""
        with self._lock:
            for sender in {sender for sender, _ in self._pool}:
                self._pump(sender, ask)

    def release(self) -> None:
        """Nothing is stuck any more."""
        with self._lock:
            self.stick = self.drop = 0
            for entry in self._pool.values():
                entry.is_stuck = False

    def _pump(self, sender: str, ask: Ask) -> None:
        nonce = self._mined(sender, ask)
        for place in [place for place in self._pool if place[0] == sender.lower() and place[1] < nonce]:
            del self._pool[place]
        while (entry := self._pool.get((sender.lower(), nonce))) and not entry.is_stuck:
            answer = ask(_question("eth_sendRawTransaction", [entry.raw]))
            if "error" in answer:
                return
            del self._pool[sender.lower(), nonce]
            nonce += 1

    def _mined(self, sender: str, ask: Ask) -> int:
        return int(ask(_question("eth_getTransactionCount", [sender, "latest"]))["result"], 16)


def _question(method: str, params: list[Any]) -> Question:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _described(entry: Pooled) -> dict[str, Any]:
    return {
        "hash": entry.hash,
        "nonce": hex(entry.transaction["nonce"]),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
    }


def _result(question: Question, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def _error(question: Question, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32000, "message": message}}
