"""The protocol on anvil, where dispute games are played and their gas is read from receipts. For benchmarks/dispute.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak
from requests import Session

from benchmarks.gas import Bench
from node.disputes.moves import Move
from tests.referee.computed import plain
from zoo_compute.chain.bindings.task_registry import Terms
from zoo_compute.chain.call import Call, functions_of
from zoo_compute.devnet import Devnet
from zoo_compute.manifest import Manifest
from zoo_compute.spec.games import Frame, Kind, Outcome, Position, Result, Work
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.refusal import Refused
from zoo_compute.spec.state import Claim

PRICE = ZEN // 1_000
BOND = 10**17  # coin, more than any bond here
GAS_LIMIT = 8_000_000
CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32,uint256)"
CHALLENGERS = frozenset({"pick", "dispute_state", "ask_parts", "convict"})


@dataclass(frozen=True)
class Spent:
    """Gas of one game. judge: of the same evidence as a transaction to `Evidence.judge`, 0 where none was asked for."""

    challenge: int
    moves: tuple[tuple[str, int], ...]
    judge: int
    settlement: int
    is_convicted: bool

    @property
    def challenger(self) -> int:
        return self.challenge + sum(gas for name, gas in self.moves if name in CHALLENGERS)

    @property
    def committer(self) -> int:
        return sum(gas for name, gas in self.moves if name not in CHALLENGERS)

    @property
    def total(self) -> int:
        return self.challenger + self.committer


class Court:
    """One provider, one aggregator, one challenger. A job at a time; whatever is played there is undone by `again`."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        self._session = Session()
        self._bench = Bench(devnet, folder)
        self._submitter = self._bench.sender(devnet.account("submitter", zen=10_000 * ZEN))
        self._submitter.send(self.chain.zen.approve(self.chain.tasks.address, 10_000 * ZEN))
        self.provider = self._bench.operator("provider", PRICE // 2)
        self.aggregator = self._bench.operator("aggregator", PRICE // 2)
        challenger = self._bench.sender(devnet.account("challenger", zen=ZEN))
        challenger.send(self.chain.zen.approve(self.chain.referee.address, ZEN))
        self.challenger = challenger.account.address
        self.job = 0
        self._snapshot = ""
        devnet.rpc("anvil_autoImpersonateAccount", [True])

    def open(self, manifest: Manifest, work: Work) -> None:
        """A job of one slot, up to its first turn."""
        chain = self.chain
        terms = Terms(
            token=chain.zen.address, work_root=work.root, state_root=manifest.state_root, data_root=manifest.data_root,
            manifest=manifest.digest, rounds=2, slots=1, quorum=1, reserve=PRICE, max_price=PRICE,
            aggregator_reserve=PRICE, aggregator_max_price=PRICE, slot_s=600, aggregate_s=600, reexecute_s=3,
            flops=10**12, depth=2, policy=0,
        )  # fmt: skip
        posted = self._submitter.send(chain.tasks.post(terms))
        self.job = int(posted.event("JobPosted").args["job"])
        self._bench.auction(self.job, self._submitter, [self.provider], self.aggregator, slots=1)
        self.provider.hot.send(chain.settlement.ready(self.job, 0, 60))
        self._snapshot = self._rpc("evm_snapshot")

    def again(self) -> None:
        """Undoes all since the job was opened."""
        self._rpc("evm_revert", self._snapshot)
        self._snapshot = self._rpc("evm_snapshot")

    def commit(self, root: bytes) -> Claim:
        """The provider's claim of its slot in the first turn."""
        call = self.chain.settlement.commit(self.job, 0, 0, root, root)
        receipt = self._send(self.provider.hot.account.address, call)
        topic = "0x" + keccak(text=f"ResultsCommitted(uint256,uint256,{CLAIM},bytes32)").hex()
        (log,) = [each for each in receipt["logs"] if each["topics"][0] == topic]
        return Claim(*decode([CLAIM, "bytes32"], bytes.fromhex(log["data"][2:]))[0])

    def play(
        self,
        claim: Claim,
        kind: Kind,
        work: Work,
        result: Result,
        moves: Sequence[Move],
        position: Position,
        *,
        traced_above: int = 0,
    ) -> Spent:
        """A game as it went on paper, before the contracts; its last move, a `convict`, is also judged alone. position: where it ends.

        traced_above: of games that use more gas, how much of it is Settlement's.
        """
        referee = self.chain.referee
        number = referee.game_count() + 1
        opening = referee.challenge(*_plain(self.job, claim, kind.value, 0, work, result))
        opened = self._send(self.challenger, opening, value=BOND)
        spent, judge, receipt = [], 0, opened
        for move in moves:
            if move.name == "convict":
                judge = _gas(self._send(self.challenger, self._judging(*move.args[1:], position)))
            mover = self.challenger if move.name in CHALLENGERS else self.provider.hot.account.address
            receipt = self._send(mover, getattr(referee, move.name)(*_plain(number, *move.args)))
            spent.append((move.name, _gas(receipt)))
        found = Spent(_gas(opened), tuple(spent), judge, 0, _outcome(receipt) == Outcome.CONVICTED)
        if found.total <= traced_above:
            return found
        return replace(found, settlement=sum(self._settlements(each["transactionHash"]) for each in (opened, receipt)))

    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        """What `Evidence` says; raises Refused where it does not hold."""
        call = self._judging(frame, kind, data, position)
        asked = {"to": call.address, "data": "0x" + call.encode().hex(), "gas": hex(GAS_LIMIT)}
        answer = self._ask("eth_call", asked, "latest")
        if "error" in answer:
            raise Refused(str(answer["error"]["message"]))
        assert int(answer["result"], 16) == 1, "evidence that is neither refused nor true"

    def _judging(self, frame: Frame, kind: int, data: bytes, position: Position) -> Call:
        entry = functions_of("Evidence")["judge"]
        args = _plain(kind, frame, position, data)
        return Call("Evidence", self.chain.evidence.address, "judge", args, entry)

    def _send(self, sender: str, call: Call, value: int = 0) -> Any:
        data = "0x" + call.encode().hex()
        sent = {"from": sender, "to": call.address, "data": data, "value": hex(value), "gas": hex(GAS_LIMIT)}
        receipt = self._rpc("eth_sendTransactionSync", sent)
        assert int(receipt["status"], 16) == 1, f"{call.function} reverted"
        return receipt

    def _settlements(self, transaction: str) -> int:
        """What of a transaction's gas was used inside Settlement."""
        traced = self._rpc("debug_traceTransaction", transaction, {"tracer": "callTracer"})
        return sum(
            int(each["gasUsed"], 16)
            for each in traced.get("calls", ())
            if each["type"] == "CALL" and each["to"].lower() == self.chain.settlement.address.lower()
        )

    def _rpc(self, method: str, *params: Any) -> Any:
        answer = self._ask(method, *params)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return self._session.post(self.devnet.url, json=question, timeout=60).json()


def _gas(receipt: Any) -> int:
    return int(receipt["gasUsed"], 16)


def _outcome(receipt: Any) -> int:
    topic = "0x" + keccak(text="GameEnded(uint256,uint256,address,uint256)").hex()
    (log,) = [each for each in receipt["logs"] if each["topics"][0] == topic]
    return int(log["data"][-64:], 16)


def _plain(*args: Any) -> tuple[Any, ...]:
    return tuple(plain(each) for each in args)
