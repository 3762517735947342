"""Gas of each operation, read from receipts on anvil, all in one run and measured the same way.

    python benchmarks/gas.py [--json]

Jobs of 1,024 slots are walked from post to withdrawal with the production preset's windows: one with a single operator, one
with four that hold 256 slots each, and one more in the same ring places. A figure is the last of its kind in the walk, when
what it writes was written before (a turn after more turns than the depth, a bid in a place of the ring that a settled job
left); `_first` is the first one, which writes fresh storage. `finalise_per_shard` counts all transactions of a turn: every
seat's commitment, the checkpoint, and its part of the `finalise` that pays several turns at once, over the turn's slots.
`verdicts_turn` is one auditor's transaction of verdicts on all 1,025 units of a turn. What the jobs of `verdicts_turn` and
`custody_turn` do besides is not counted: they bid in fresh places of the ring. `bid_asked_..._adds` is what a bid costs more in a job
that asks something of its operators.
The market's published figures beside ours come from other contracts and chains: they are a mark, not a comparison in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from eth_utils.crypto import keccak
from web3.types import RPCEndpoint

from benchmarks.chain.channels import ChannelBench
from benchmarks.chain.custody import CustodyBench
from tests.support.devnet_driver import DevnetDriver
from tests.support.job_driver import AGGREGATOR, Offer
from zoo_compute.chain.generated.bindings.audits import Verdicts
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.auditing import words_of
from zoo_compute.spec.params import PRODUCTION, UNITS_PER_STAKE, ZEN
from zoo_compute.spec.requirements import Requirements
from zoo_compute.spec.state import JobState

ROOT = b"\x11" * 32
SLOTS = 1_024
ROUNDS = 48
DEPTH = 16  # rounds of eight minutes under a window of two hours
PAID_AT_ONCE = 12  # turns: of four operators and an aggregator, 60 claims of the 64 that one call takes
RING = 256  # a bid lies at its job's number modulo this
PRICE = ZEN // 1_000  # the most per slot-round and per aggregation
# Boundless, as docs of its market state them: a published mark for the same kind of operation.
PUBLISHED = {
    "bid": "59,000 (Boundless deposit)",
    "award": "149,000 (Boundless)",
    "finalise_per_shard": "117,000 (Boundless, alone)",
}


@dataclass(frozen=True)
class Operator:
    """A registered operator: its owner's and its hot key's senders, and its price."""

    id: int
    owner: Sender
    hot: Sender
    price: int


class Bench(DevnetDriver):
    """Walks jobs on a devnet and keeps the gas of each operation under a name."""

    TERMS: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), PRICE),
        "rounds": ROUNDS,
        "slots": SLOTS,
        "quorum": 1,
        "slot_s": 600,
        "aggregate_s": 600,
        "reexecute_s": 3,
        "depth": DEPTH,
    }

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.folder, self.gas, self.spent, self.bidding = folder, dict[str, int](), 0, 0
        chain = devnet.chain
        submitter = Sender(chain, devnet.account("submitter", zen=10_000 * ZEN), folder=folder)
        submitter.send(chain.zen.approve(chain.tasks.address, 10_000 * ZEN))
        super().__init__(devnet, submitter)

    def send(self, contract: str, function: str, sender: Sender, *args: Any, value: int = 0) -> Receipt:
        """Keep the first measurement of an operation, and the last."""
        receipt = super().send(contract, function, sender, *args, value=value)
        name = self._name(contract, function, args)
        self.gas.setdefault(f"{name}_first", receipt.gas_used)
        self.gas[name] = receipt.gas_used
        self.spent += receipt.gas_used
        return receipt

    def _name(self, contract: str, function: str, args: Sequence[Any]) -> str:
        if function in ("clear", "award"):
            return f"{function}{'_aggregator' if args[1] == AGGREGATOR else ''}_{self.bidding}"
        if contract == "custody":
            return f"custody_{function}"
        return f"finalise_{len(args[1])}_claims" if function == "finalise" else function

    def operator(self, name: str, price: int) -> Operator:
        chain = self.chain
        owner = Sender(chain, self.devnet.account(f"{name}-owner", zen=200_000 * ZEN), folder=self.folder)
        hot = Sender(chain, self.devnet.account(name), folder=self.folder)
        owner.send(chain.zen.approve(chain.registry.address, 200_000 * ZEN))
        stake = PRODUCTION.min_stake * SLOTS // UNITS_PER_STAKE  # one operator may bid for all slots
        args = (hot.address, 1, 24, stake, "http://127.0.0.1:4001")
        number = int(self.send("registry", "register", owner, *args).event("OperatorRegistered").args["operator"])
        self.send("registry", "deposit", owner, number, chain.zen.address, 100_000 * ZEN)
        self.operators[number] = Operator(number, owner, hot, price)
        return self.operators[number]

    @property
    def round_price(self) -> int:
        """The most that a round costs."""
        return SLOTS * PRICE + PRICE

    def salt(self, party: Operator) -> bytes:
        return bytes(keccak(party.id.to_bytes(32, "big")))  # few zero bytes, as a keeper's

    def results(self, job: int, turn: int, seat: Any) -> tuple[bytes, bytes]:
        return ROOT, ROOT

    def checkpoint(self, job: int, turn: int) -> tuple[bytes, bytes]:
        return ROOT, ROOT

    def auction(self, operators: Sequence[Operator], aggregator: Operator, **terms: Any) -> int:
        """A job at its first turn; the operators bid for equal parts of the slots."""
        self.bidding = len(operators)
        capacity = terms.get("slots", SLOTS) // len(operators)
        offers = {operator: Offer(operator.price, capacity) for operator in operators}
        return self.running(offers, {aggregator: Offer(aggregator.price)}, **terms)

    def job(self, operators: Sequence[Operator], aggregator: Operator) -> int:
        """One job from post to withdrawal; gas of all transactions of a turn in the steady state, over its slots."""
        job = self.auction(operators, aggregator)
        per_shard = self._turns(job)
        self.release(job, *operators, aggregator)
        owner = operators[0].owner
        self.send("tasks", "withdraw", owner, self.chain.zen.address, owner.address)
        return per_shard

    def verdicts(self, operators: Sequence[Operator], aggregator: Operator, auditor: Operator) -> int:
        """One auditor's verdicts of a turn, on every unit of the job, where what it writes beside them was written before."""
        chain, audits, submitter = self.chain, self.chain.audits, self.submitter
        auditor.owner.send(chain.zen.approve(audits.address, 9_000 * ZEN))
        auditor.owner.send(audits.deposit(auditor.id, chain.zen.address, 9_000 * ZEN))
        auditor.owner.send(audits.offer(auditor.id, 1))
        submitter.send(chain.zen.approve(audits.address, 100 * ZEN))
        job = self.auction(operators, aggregator, rounds=4)
        submitter.send(audits.fund(job, 100 * ZEN))
        gas = []
        for turn, units in enumerate(([1], list(range(SLOTS + 1)))):
            self.commit_all(job)
            self.post_checkpoint(job)
            for _ in range(2):
                self.anyone.send(audits.draw_units(job, turn))
                chain.w3.provider.make_request(RPCEndpoint("anvil_mine"), [hex(chain.params.draw_blocks + 2)])
            bitmap = Verdicts(list(words_of(units)), [])
            gas.append(auditor.hot.send(audits.give_verdicts(job, turn, auditor.id, bitmap)).gas_used)
        self.gas["verdicts_turn_first"], self.gas["verdicts_turn"] = gas
        return gas[-1]

    def asked(self, operator: Operator) -> dict[str, int]:
        """What requirements add to a bid: those that are registered, and all of them. Each bid lies in a fresh place of the ring."""
        registry, epoch_s = self.chain.registry, PRODUCTION.epoch_s
        for call in (registry.declare_region(operator.id, 0x45554445), registry.declare(operator.id, 0, 2**24 - 1)):
            operator.owner.send(call)
        self.to((self.now // epoch_s + 1) * epoch_s)
        nothing, machine = Requirements(), Requirements(vram_gb=24, classes=1 << 1)
        gas = []
        for asks in (nothing, nothing, machine, replace(machine, region=0x45550000, hours=24)):
            job = self.post(slots=1, requirements=asks.word)
            self.bid(job, 0, operator, Offer(operator.price))
            gas.append(self.gas["bid"])
        return {"bid_asked_for_a_machine_adds": gas[2] - gas[1], "bid_asked_for_a_promise_adds": gas[3] - gas[1]}

    def pending(self, job: int) -> list[tuple[Any, ...]]:
        """Claims of closed turns; consecutive claims of one operator are paid at once."""
        run, claims = self.run(job), self.refs[job]
        closed = [claim for claim in claims if claim[0] < run.turn or run.state == JobState.ENDED]
        self.refs[job] = [claim for claim in claims if claim not in closed]
        return sorted(closed, key=lambda claim: (claim[2], claim[0]))

    def _turns(self, job: int) -> int:
        """All turns; pays when the next turn needs the place of the oldest, and when all are over."""
        batches: list[tuple[int, int]] = []  # (turns, gas of all transactions of these)
        start = closed = 0
        for _ in range(ROUNDS):
            opened = self.spent
            start = start or opened
            self.commit_all(job)
            committed = self.spent - opened  # which the next batch counts
            if closed == PAID_AT_ONCE:
                self.finalise(job)
                batches.append((closed, self.spent - committed - start))
                start, closed = self.spent - committed, 0
            self.post_checkpoint(job)
            closed += 1
        self.finalise(job)
        warm = batches[2:]  # every place of the ring of turns was written before
        return round(sum(gas for _, gas in warm) / sum(turns for turns, _ in warm) / SLOTS)


def measure() -> dict[str, Any]:
    """operation -> gas, and the parameters."""
    with (
        tempfile.TemporaryDirectory(prefix="zoo-gas-") as name,
        Devnet(Path(name) / "chain", preset="production", block_time=1) as devnet,
    ):
        bench = Bench(devnet, Path(name))
        providers = [bench.operator(f"provider-{i}", PRICE * (5 + i) // 10) for i in range(4)]
        aggregator = bench.operator("aggregator", PRICE // 2)
        bench.job(providers[:1], aggregator)
        four = bench.job(providers, aggregator)
        for _ in range(RING - 2):  # until the next job's bids lie where those of the first one lay
            bench.post(slots=1, rounds=1)
        one = bench.job(providers[:1], aggregator)
        walked = dict(bench.gas)  # the jobs below write fresh storage, and differ
        bench.verdicts(providers, aggregator, bench.operator("auditor", PRICE))
        custody = CustodyBench(bench, providers, aggregator).measure()
        channels = ChannelBench(bench.submitter, providers[0].id, providers[0].hot).measure()
        asked = bench.asked(bench.operator("asked", PRICE))
        return {
            "parameters": {
                "slots": SLOTS,
                "rounds": ROUNDS,
                "depth": DEPTH,
                "turns_paid_at_once": PAID_AT_ONCE,
                "preset": "production",
                "token": "ZEN",
                "evm": "anvil",
            },
            "operators": 1,
            "finalise_per_shard": one,
            "finalise_per_shard_4": four,
            **custody,
            **channels,
            **asked,
            **bench.gas,
            **walked,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object: operation -> gas")
    arguments = parser.parse_args()
    measured = measure()
    if arguments.json:
        print(json.dumps(measured))
        return 0
    for key, value in measured.items():
        if key != "parameters":
            print(f"{key:<32}{value:>10,}   {PUBLISHED.get(key, '')}")
    print(f"\n{measured['parameters']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
