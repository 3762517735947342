"""The protocol on anvil, where dispute games are played and their gas is read from receipts. For benchmarks/disputes/dispute.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak
from requests import Session

from benchmarks.chain.gas import Bench
from node.disputes.moves import Move
from tests.support.games.hashed_computation import plain
from zoo_compute.chain.call import Call, functions_of
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec.frames import Frame, Kind, Outcome, Position, Result, Work
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim

PRICE = ZEN // 1_000
BOND = 10**17  # coin, more than any bond here
GAS_LIMIT = 2_000_000
HIGHEST_GWEI = 200
LATE_S = 100_000  # after which a side is out of time
AHEAD_S = 100  # of the block that opened a job, when games about it are played
CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"
CHALLENGERS = frozenset({"pick", "dispute_state", "ask_parts", "convict", "time_out"})


@dataclass(frozen=True)
class GasUsed:
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


class GameChain:
    """One provider, one aggregator, one challenger. A job at a time; whatever is played there is undone by `again`."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        self._session = Session()
        self._session.trust_env = False  # looking for proxies takes longer than the request
        self._bench = Bench(devnet, folder)
        self.provider = self._bench.operator("provider", PRICE // 2)
        self.aggregator = self._bench.operator("aggregator", PRICE // 2)
        challenger = Sender(self.chain, devnet.account("challenger", zen=ZEN), folder=folder)
        challenger.send(self.chain.zen.approve(self.chain.referee.address, ZEN))
        self.challenger = challenger.account.address
        self.job, self._number, self._now = 0, 0, 0
        self._snapshot = ""
        self._nonces: dict[str, int] = {}
        self._claim = self._aggregation = Claim(0, 0, 0, 0, 0, 0, 0, b"", b"")
        devnet.rpc("anvil_autoImpersonateAccount", [True])

    def open(self, manifest: Manifest, work: Work) -> None:
        """A job of one slot, up to its first turn."""
        chain = self.chain
        roots = {"state_root": manifest.state_root, "data_root": manifest.data_root, "manifest": manifest.digest}
        terms = {**roots, "work_root": work.root, "rounds": 2, "slots": 1, "depth": 2}
        self._rpc("evm_setAutomine", True)
        self.job = self._bench.auction([self.provider], self.aggregator, **terms)
        self._number = chain.referee.game_count() + 1
        self._now = chain.now() + AHEAD_S
        senders = (self.provider.hot.account.address, self.aggregator.hot.account.address, self.challenger)
        self._nonces = {each: int(self._rpc("eth_getTransactionCount", each, "latest"), 16) for each in senders}
        self._rpc("evm_setAutomine", False)
        self._snapshot = self._rpc("evm_snapshot")
        committed, posted = self._mined([*self._committed(b"\x01" * 32), *self._aggregated(b"\x01" * 32)])
        self._claim, self._aggregation = _claim(committed), _claim(posted)
        self.reset()

    def reset(self) -> None:
        """Undo everything since the job was opened."""
        self._rpc("evm_revert", self._snapshot)
        self._snapshot = self._rpc("evm_snapshot")

    def claim(self, root: bytes) -> Claim:
        """What `play` commits to."""
        return replace(self._claim, root=root)

    def aggregation(self, root: bytes) -> Claim:
        """What `play` posts over a claim."""
        return replace(self._aggregation, root=root)

    def play(
        self,
        claim: Claim,
        kind: Kind,
        work: Work,
        result: Result,
        moves: Sequence[Move],
        position: Position | None,
        *,
        over: Claim | None = None,
        traced_above: int = 0,
    ) -> GasUsed:
        """The claim, and a game about it as it went on paper; its last move, where it is a `convict`, is also judged alone at
        `position`.

        All is mined in one block, which takes the transactions in their order, but for a `time_out`, which comes late.
        over: of an aggregation, the claim it is of. traced_above: of games that use more gas, how much of it is Settlement's.
        """
        referee, hot = self.chain.referee, (self.aggregator if over else self.provider).hot.account.address
        number, end = self._number, moves[-1]
        opening = referee.challenge(*_plain(self.job, claim, kind.value, 0, work, result))
        claims = [*self._committed(over.root), *self._aggregated(claim.root)] if over else self._committed(claim.root)
        sent = [*claims, (self.challenger, opening, BOND)]
        for move in moves:
            mover = self.challenger if move.name in CHALLENGERS else hot
            sent.append((mover, getattr(referee, move.name)(*_plain(number, *move.args)), 0))
        if end.name == "convict":
            _, frame, evidence, data = end.args
            sent.append((self.challenger, self._judging(evidence, frame, position, data), 0))
            opened, *moved, judged = self._mined(sent)[len(claims) :]
        else:
            opened, *moved = self._mined(sent[:-1], sent[-1:])[len(claims) :]
            judged = None
        spent = tuple((move.name, _gas(receipt)) for move, receipt in zip(moves, moved, strict=True))
        is_convicted = _outcome(moved[-1]) == Outcome.CONVICTED
        used = GasUsed(_gas(opened), spent, _gas(judged) if judged else 0, 0, is_convicted)
        if used.total <= traced_above:
            return used
        shares = (self._settlements(each["transactionHash"]) for each in (opened, moved[-1]))
        return replace(used, settlement=sum(shares))

    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        """Call `Evidence`; raises Refused if it rejects the evidence."""
        call = self._judging(kind, frame, position, data)
        asked = {"to": call.address, "data": "0x" + call.encode().hex(), "gas": hex(GAS_LIMIT)}
        answer = self._ask("eth_call", asked, "latest")
        if "error" in answer:
            raise Refused(str(answer["error"]["message"]))
        assert int(answer["result"], 16) == 1, "evidence that is neither refused nor true"

    def _judging(self, kind: int, frame: Frame, position: Position, data: bytes) -> Call:
        entry = functions_of("Evidence")["judge"]
        args = _plain(kind, frame, position, data)
        return Call("Evidence", self.chain.evidence.address, "judge", args, entry)

    def _committed(self, root: bytes) -> list[tuple[str, Call, int]]:
        return [(self.provider.hot.account.address, self.chain.settlement.commit(self.job, 0, 0, root, root), 0)]

    def _aggregated(self, root: bytes) -> list[tuple[str, Call, int]]:
        call = self.chain.settlement.post_checkpoint(self.job, 0, 1, root, root)
        return [(self.aggregator.hot.account.address, call, 0)]

    def _mined(self, *blocks: Sequence[tuple[str, Call, int]]) -> list[Any]:
        """The receipts of transactions of blocks, LATE_S apart; a block takes those first that pay more."""
        nonces, mined = dict(self._nonces), []
        for number, sent in enumerate(blocks):
            questions = []
            for at, (sender, call, value) in enumerate(sent):
                asked = {"from": sender, "to": call.address, "data": "0x" + call.encode().hex(), "value": hex(value)}
                price = hex((HIGHEST_GWEI - at) * 10**9)
                asked |= {"gas": hex(GAS_LIMIT), "gasPrice": price, "nonce": hex(nonces[sender])}
                nonces[sender] += 1
                questions.append(("eth_sendTransaction", [asked]))
            self._rpc("evm_setNextBlockTimestamp", self._now + number * LATE_S)
            hashes = self._batch(questions)
            self._rpc("evm_mine")
            receipts = self._batch([("eth_getTransactionReceipt", [each]) for each in hashes])
            for (_, call, _), receipt in zip(sent, receipts, strict=True):
                assert int(receipt["status"], 16) == 1, f"{call.function} reverted"
            mined += receipts
        return mined

    def _settlements(self, transaction: str) -> int:
        """The gas of a transaction that was used inside Settlement."""
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
        return self._post(_question(0, method, params))

    def _batch(self, questions: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        answers = self._post([_question(at, *each) for at, each in enumerate(questions)])
        assert all("error" not in each for each in answers), answers
        return [each["result"] for each in sorted(answers, key=lambda each: int(each["id"]))]

    def _post(self, body: Any) -> Any:
        return self._session.post(self.devnet.url, json=body, timeout=120).json()


def _question(number: int, method: str, params: Sequence[Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def _gas(receipt: Any) -> int:
    return int(receipt["gasUsed"], 16)


def _claim(receipt: Any) -> Claim:
    names = ("ResultsCommitted", "CheckpointPosted")
    topics = ["0x" + keccak(text=f"{name}(uint256,uint256,{CLAIM},bytes32)").hex() for name in names]
    (log,) = [each for each in receipt["logs"] if each["topics"][0] in topics]
    return Claim(*decode([CLAIM, "bytes32"], bytes.fromhex(log["data"][2:]))[0])


def _outcome(receipt: Any) -> int:
    topic = "0x" + keccak(text="GameEnded(uint256,uint256,address,uint256)").hex()
    (log,) = [each for each in receipt["logs"] if each["topics"][0] == topic]
    return int(log["data"][-64:], 16)


def _plain(*args: Any) -> tuple[Any, ...]:
    return tuple(plain(each) for each in args)
