"""The protocol on anvil, where claims are explored and gas is read from receipts. For benchmarks/disputes/dispute.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak
from requests import Session

from benchmarks.chain.gas import Bench
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker
from tests.support.contract import Interface, Log
from tests.support.evm import Result as CallResult
from tests.support.evm import Reverted, intrinsic_gas
from zoo_compute.chain.artifacts import abi
from zoo_compute.chain.call import Call as ContractCall
from zoo_compute.chain.call import functions_of
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.disputes.exploration import Call, Event, Exploration
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec.descents import Answer, Ask
from zoo_compute.spec.frames import Work
from zoo_compute.spec.params import AGGREGATOR_SEAT, ZEN
from zoo_compute.spec.state import Claim

PRICE = ZEN // 1_000
GAS_LIMIT = 10_000_000
GAS_PRICE = 20 * 10**9  # what transactions pay and what asks prepay by: above any base fee here
COIN = 10**24  # of the asker
MOST_CALLS = 200
CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"


@dataclass(frozen=True)
class GasOfCall:
    """Of one transaction. evidence: of the same evidence as a transaction to `Evidence`; settlement: used inside Settlement.

    Both are of the judgement or expiry, settlement of the first ask too; 0 of others.
    """

    name: str
    is_committers: bool
    gas: int
    evidence: int = 0
    settlement: int = 0


@dataclass(frozen=True)
class ExplorationGas:
    """Of one claim, from the first ask to the conviction."""

    calls: tuple[GasOfCall, ...]
    is_convicted: bool

    @property
    def pairs(self) -> int:
        return sum(each.is_committers for each in self.calls)

    @property
    def committer(self) -> int:
        return sum(each.gas for each in self.calls if each.is_committers)

    @property
    def asker(self) -> int:
        return sum(each.gas for each in self.calls if not each.is_committers)

    @property
    def total(self) -> int:
        return self.committer + self.asker

    @property
    def settlement(self) -> int:
        return sum(each.settlement for each in self.calls)

    @property
    def end(self) -> GasOfCall:
        return self.calls[-1]


class ExplorationChain:
    """One provider, one aggregator, one asker. A job at a time; what happens in it is undone by `reset`."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        self._session = Session()
        self._session.trust_env = False  # looking for proxies takes longer than the request
        self._bench = Bench(devnet, folder)
        self.provider = self._bench.operator("provider", PRICE // 2)
        self.aggregator = self._bench.operator("aggregator", PRICE // 2)
        asker = Sender(self.chain, devnet.account("asker", coin=COIN, zen=ZEN), folder=folder)
        asker.send(self.chain.zen.approve(self.chain.referee.address, ZEN))
        self.asker = asker.account.address
        self.events = Interface(abi("Referee"))
        self.job = self.now = self._opened_at = 0
        self._snapshot = ""
        self._claim = self._aggregation = Claim(0, 0, 0, 0, 0, 0, b"", b"")
        devnet.rpc("anvil_autoImpersonateAccount", [True])

    def open(self, manifest: Manifest, work: Work) -> None:
        """A job of one slot, up to its first turn."""
        roots = {"state_root": manifest.state_root, "data_root": manifest.data_root, "manifest": manifest.digest}
        terms = {**roots, "work_root": work.root, "rounds": 2, "slots": 1, "depth": 2}
        self.rpc("evm_setAutomine", True)
        self.job = self._bench.auction([self.provider], self.aggregator, **terms)
        self.now = self._opened_at = self.chain.now()
        self.rpc("evm_setAutomine", False)
        self._snapshot = self.rpc("evm_snapshot")
        self._claim = self._aggregation = replace(self._claim, root=b"\x01" * 32)
        committed, posted = self.commit(self._claim)
        self._claim, self._aggregation = _claim(committed), _claim(posted)
        self.reset()

    def reset(self) -> None:
        """Undo everything since the job was opened."""
        self.rpc("evm_revert", self._snapshot)
        self._snapshot = self.rpc("evm_snapshot")
        self.now = self._opened_at

    def claim(self, root: bytes) -> Claim:
        """What `commit` commits to."""
        return replace(self._claim, root=root)

    def aggregation(self, root: bytes) -> Claim:
        """What `commit` posts over a claim."""
        return replace(self._aggregation, root=root)

    def commit(self, claim: Claim, posted: Claim | None = None) -> list[Any]:
        """The slot's claim, and the checkpoint that closes its turn: deadlines are known then. The receipts."""
        settlement, root = self.chain.settlement, (posted or self._aggregation).root
        calls = (
            (self.provider.hot.account.address, settlement.commit(self.job, 0, 0, claim.root, claim.root)),
            (
                self.aggregator.hot.account.address,
                settlement.post_checkpoint(self.job, AGGREGATOR_SEAT, 0, 1, root, root),
            ),
        )
        receipts = [self.mined(sender, call) for sender, call in calls]
        assert all(int(each["status"], 16) for each in receipts), "the claim is refused"
        return receipts

    def referee_call(self, name: str, args: Sequence[Any]) -> ContractCall:
        address = self.chain.referee.address
        return ContractCall("Referee", address, name, tuple(args), functions_of("Referee")[name])

    def mined(self, sender: str, call: ContractCall, value: int = 0) -> Any:
        """The receipt of a block of its own, a second after the last one."""
        self.now += 1
        asked = {"from": sender, "to": call.address, "data": "0x" + call.encode().hex(), "value": hex(value)}
        self.rpc("evm_setNextBlockTimestamp", self.now)
        hash_ = self.rpc("eth_sendTransaction", asked | {"gas": hex(GAS_LIMIT), "gasPrice": hex(GAS_PRICE)})
        self.rpc("evm_mine")
        return self.rpc("eth_getTransactionReceipt", hash_)

    def traced(self, transaction: str) -> list[Any]:
        """The calls that a transaction made."""
        calls: list[Any] = self.rpc("debug_traceTransaction", transaction, {"tracer": "callTracer"}).get("calls", [])
        return calls

    def rpc(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 0, "method": method, "params": list(params)}
        answer = self._session.post(self.devnet.url, json=body, timeout=120).json()
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]


@dataclass
class ExploredClaim:
    """One claim on this chain. picture: from the contract's events alone."""

    court: ExplorationChain
    is_aggregation: bool = False
    picture: Exploration = field(default_factory=Exploration)
    calls: list[GasOfCall] = field(default_factory=list)

    def explore(self, asker: Asker, answerer: Answerer) -> ExplorationGas:
        """To the conviction; where the answerer has no answer, the asker waits until silence convicts."""
        for _ in range(MOST_CALLS):
            step = asker.next(self.picture, self.court.now + 1)
            if step is None:
                break
            if isinstance(step, Call):
                self.send(step, "asker")
            elif not self.answers(answerer):
                self.court.now = step.until
        is_convicted = self.calls[-1].name in ("judge", "expire") and self.picture.end is not None
        return ExplorationGas(tuple(self.calls), is_convicted)

    def answers(self, answerer: Answerer) -> int:
        """All that is open; how many were answered."""
        answered = 0
        for call in answerer.calls(self.picture, self.court.now + 1):
            self.send(call, "hot")
            answered += 1
        return answered

    def send(self, call: Call, sender: str) -> None:
        """Raises Reverted. sender: `hot` is the committer, everybody else the asker."""
        court, is_committers = self.court, sender == "hot"
        party = court.aggregator if self.is_aggregation else court.provider
        account = party.hot.account.address if is_committers else court.asker
        receipt = court.mined(account, court.referee_call(call.name, call.args), call.value(GAS_PRICE))
        if not int(receipt["status"], 16):
            raise Reverted(CallResult(b"", "Revert", 0, ()))
        for log in receipt["logs"]:
            if log["address"].lower() == court.chain.referee.address.lower():
                self.picture.apply(self._event(log))
        self.calls.append(self._gas_of(call, is_committers, receipt))

    def _event(self, log: Any) -> Event:
        topics = [bytes.fromhex(each[2:]) for each in log["topics"]]
        read = self.court.events.event(log["address"], Log(log["address"], topics, bytes.fromhex(log["data"][2:])))
        return Event(type(read).__name__, self.court.now, tuple(read[1:]))

    def _gas_of(self, call: Call, is_committers: bool, receipt: Any) -> GasOfCall:
        made = GasOfCall(_label(call), is_committers, int(receipt["gasUsed"], 16))
        if call.name not in ("judge", "expire") and self.calls:
            return made
        chain, traced = self.court.chain, self.court.traced(receipt["transactionHash"])
        settled = [each for each in traced if each["to"] == chain.settlement.address.lower()]
        judged = [each for each in traced if each["to"] == chain.evidence.address.lower()]
        return replace(
            made,
            settlement=sum(int(each["gasUsed"], 16) for each in settled if each["type"] == "CALL"),
            evidence=sum(int(each["gasUsed"], 16) + intrinsic_gas(bytes.fromhex(each["input"][2:])) for each in judged),
        )


def _label(call: Call) -> str:
    """What a call's gas depends on most."""
    if call.name == "answer":
        return f"answer_{len(call.args[2])}"
    if call.name == "answer_stage":
        return f"answer_{Answer(call.args[2]).name.lower()}"
    if call.name == "ask_stage":
        return f"ask_{Ask(call.args[2]).name.lower()}"
    return f"{call.name}_heavy" if call.is_heavy else call.name


def _claim(receipt: Any) -> Claim:
    names = ("ResultsCommitted", "CheckpointPosted")
    topics = ["0x" + keccak(text=f"{name}(uint256,uint256,{CLAIM},bytes32)").hex() for name in names]
    (log,) = [each for each in receipt["logs"] if each["topics"][0] in topics]
    return Claim(*decode([CLAIM, "bytes32"], bytes.fromhex(log["data"][2:]))[0])
