"""Gas of each operation, read from receipts on anvil, all in one run and measured the same way.

    python benchmarks/gas.py [--json]

Jobs of 1,024 slots are walked from post to withdrawal with the production preset's windows: one with a single operator, one
with four that hold 256 slots each, and one more in the same ring places. A figure is the last of its kind in the walk, when
what it writes was written before (a turn after more turns than the depth, a bid in a place of the ring that a settled job
left); `_first` is the first one, which writes fresh storage. `finalise_per_shard` counts all transactions of a turn: every
seat's commitment, the checkpoint, and its part of the `finalise` that pays several turns at once, over the turn's slots.
The market's published figures beside ours come from other contracts and chains: they are a mark, not a comparison in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount

from keepers.services.bid_seals import BidSealer
from zoo_compute.chain.generated.bindings.task_registry import Terms
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.pricing import RevealedBid, order_bids

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


@dataclass
class Operator:
    """A registered operator: its owner's and its hot key's senders."""

    number: int
    owner: Sender
    hot: Sender
    price: int


@dataclass
class Bench:
    """Walks jobs on a devnet and keeps the gas of each operation under a name."""

    devnet: Devnet
    folder: Path
    gas: dict[str, int] = field(default_factory=dict)

    def sender(self, account: LocalAccount) -> Sender:
        return Sender(self.devnet.chain, account, folder=self.folder)

    def note(self, name: str, receipt: Receipt) -> Receipt:
        """Keep the first measurement of `name`, and the last."""
        self.gas.setdefault(f"{name}_first", receipt.gas_used)
        self.gas[name] = receipt.gas_used
        return receipt

    def operator(self, name: str, price: int) -> Operator:
        chain = self.devnet.chain
        owner = self.sender(self.devnet.account(f"{name}-owner", zen=200_000 * ZEN))
        hot = self.sender(self.devnet.account(name))
        owner.send(chain.zen.approve(chain.registry.address, 200_000 * ZEN))
        call = chain.registry.register(hot.address, 1, 24, 1_000 * ZEN, "http://127.0.0.1:4001")
        number = int(self.note("register", owner.send(call)).event("OperatorRegistered").args["operator"])
        self.note("deposit", owner.send(chain.registry.deposit(number, chain.zen.address, 100_000 * ZEN)))
        return Operator(number, owner, hot, price)

    def post(self, submitter: Sender, *, slots: int = SLOTS, rounds: int = ROUNDS) -> int:
        chain = self.devnet.chain
        terms = Terms(
            token=chain.zen.address, work_root=ROOT, state_root=ROOT, data_root=ROOT, manifest=ROOT, rounds=rounds,
            slots=slots, quorum=1, reserve=PRICE, max_price=PRICE, aggregator_reserve=PRICE, aggregator_max_price=PRICE,
            slot_s=600, aggregate_s=600, reexecute_s=3, flops=10**12, depth=DEPTH, policy=0,
        )  # fmt: skip
        return int(self.note("post", submitter.send(chain.tasks.post(terms))).event("JobPosted").args["job"])

    def job(self, submitter: Sender, operators: Sequence[Operator], aggregator: Operator) -> int:
        """One job from post to withdrawal; gas of all transactions of a turn in the steady state, over its slots."""
        job = self.post(submitter)
        self.auction(job, submitter, operators, aggregator)
        chain = self.devnet.chain
        for seat, operator in self._holders(job, operators):
            self.note("ready", operator.hot.send(chain.settlement.ready(job, seat, 60)))
        per_shard = self._turns(job, submitter, operators, aggregator)
        for operator in [*operators, aggregator]:
            self.note("release", submitter.send(chain.settlement.release(job, operator.number)))
            self.note("retire", submitter.send(chain.auction.retire(job, int(operator is aggregator), operator.number)))
        owner = operators[0].owner
        self.note("withdraw", owner.send(chain.tasks.withdraw(chain.zen.address, owner.address)))
        return per_shard

    def auction(
        self, job: int, submitter: Sender, operators: Sequence[Operator], aggregator: Operator, *, slots: int = SLOTS
    ) -> None:
        """Both lots of a job, the slots' in equal parts."""
        chain = self.devnet.chain
        bidders = [(0, o) for o in operators] + [(1, aggregator)]
        for kind, operator in bidders:
            capacity = 1 if kind else slots // len(operators)
            seal = self._sealer.seal(job, kind, 1, operator.number, operator.price, capacity)
            call = chain.auction.bid(job, kind, operator.number, seal, capacity, False)
            self.note("bid", operator.hot.send(call))
        self.devnet.warp_to(chain.auction.lots(job, 0).bid_end)
        for kind, operator in bidders:
            salt = self._sealer.salt(job, kind, 1)
            call = chain.auction.reveal(job, kind, operator.number, operator.price, salt)
            self.note("reveal", operator.hot.send(call))
        self.devnet.warp_to(chain.auction.lots(job, 0).reveal_end)
        for kind, found in ((0, operators), (1, [aggregator])):
            order = [b.operator for b in order_bids(RevealedBid(o.number, o.price, 0, slots) for o in found)]
            label = f"_aggregator_{len(operators)}" if kind else f"_{len(operators)}"
            self.note("clear" + label, submitter.send(chain.auction.clear(job, kind, order)))
            self.note("award" + label, submitter.send(chain.auction.award(job, kind, order)))

    def _holders(self, job: int, operators: Sequence[Operator]) -> Iterator[tuple[int, Operator]]:
        by_number = {operator.number: operator for operator in operators}
        for seat in range(self.devnet.chain.settlement.runs(job).seats):
            yield seat, by_number[self.devnet.chain.settlement.seats(job, seat).operator]

    def _turns(self, job: int, submitter: Sender, operators: Sequence[Operator], aggregator: Operator) -> int:
        """All turns; pays when the next turn needs the place of the oldest, and when all are over."""
        chain, holders = self.devnet.chain, list(self._holders(job, operators))
        unpaid: list[tuple[Any, ...]] = []
        spent: list[int] = []  # gas of all transactions, of the turns in `unpaid` at first, of each batch once paid
        batches: list[tuple[int, int]] = []  # (turns, gas of all transactions of these)
        turn_gas = 0
        for turn in range(ROUNDS):
            for seat, operator in holders:
                done = self.note("commit", operator.hot.send(chain.settlement.commit(job, seat, turn, ROOT, ROOT)))
                turn_gas += done.gas_used
                unpaid.append(_claim(done.event("ResultsCommitted").args))
            closed = len(spent)
            if closed == PAID_AT_ONCE:
                paid = self._finalise(job, submitter, [claim for claim in unpaid if claim[0] < turn])
                batches.append((closed, sum(spent) + paid.gas_used))
                unpaid, spent = [claim for claim in unpaid if claim[0] == turn], []
            mask = (1 << len(holders)) - 1
            call = chain.settlement.post_checkpoint(job, turn, mask, ROOT, ROOT)
            posted = self.note("post_checkpoint", aggregator.hot.send(call))
            unpaid.append(_claim(posted.event("CheckpointPosted").args))
            spent.append(turn_gas + posted.gas_used)
            turn_gas = 0
        self._finalise(job, submitter, unpaid)
        warm = batches[2:]  # every place of the ring of turns was written before
        return round(sum(gas for _, gas in warm) / sum(turns for turns, _ in warm) / SLOTS)

    def _finalise(self, job: int, submitter: Sender, claims: Sequence[tuple[Any, ...]]) -> Receipt:
        chain = self.devnet.chain
        now, last = chain.now(), max(claim[-1] for claim in claims)
        if now <= last:
            self.devnet.warp_to(last + 1)
        # Consecutive claims of one operator are paid at once.
        by_seat = sorted(claims, key=lambda claim: (claim[2], claim[0]))
        found = submitter.send(chain.settlement.finalise(job, by_seat))  # type: ignore[arg-type]
        return self.note(f"finalise_{len(claims)}_claims", found)

    @property
    def _sealer(self) -> BidSealer:
        return BidSealer(b"benchmark")


def _claim(args: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(args["claim"].values())


def measure() -> dict[str, Any]:
    """operation -> gas, and the parameters."""
    with (
        tempfile.TemporaryDirectory(prefix="zoo-gas-") as name,
        Devnet(Path(name) / "chain", preset="production", block_time=1) as devnet,
    ):
        bench = Bench(devnet, Path(name))
        chain = devnet.chain
        submitter = bench.sender(devnet.account("submitter", zen=10_000 * ZEN))
        submitter.send(chain.zen.approve(chain.tasks.address, 10_000 * ZEN))
        providers = [bench.operator(f"provider-{i}", PRICE * (5 + i) // 10) for i in range(4)]
        aggregator = bench.operator("aggregator", PRICE // 2)
        bench.job(submitter, providers[:1], aggregator)
        four = bench.job(submitter, providers, aggregator)
        for _ in range(RING - 2):  # until the next job's bids lie where those of the first one lay
            bench.post(submitter, slots=1, rounds=1)
        one = bench.job(submitter, providers[:1], aggregator)
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
            **bench.gas,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object: operation -> gas")
    arguments = parser.parse_args()
    found = measure()
    if arguments.json:
        print(json.dumps(found))
        return 0
    for key, value in found.items():
        if key != "parameters":
            print(f"{key:<32}{value:>10,}   {PUBLISHED.get(key, '')}")
    print(f"\n{found['parameters']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
