"""Gas of each operation, read from receipts on anvil, all in one run and measured the same way.

    python benchmarks/gas.py [--json]

Two jobs are walked from post to withdrawal: one of 6 slots shared by three operators (2 slots each), one of 64 slots held by a
single operator. `first` rounds write fresh storage; no figure is a best case picked from several. The market's published
figures beside ours come from other contracts and chains: they are a mark, not a comparison in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount

from keepers.bidding import Sealer
from zoo_compute.chain.bindings.task_registry import Terms
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet import Devnet
from zoo_compute.spec.bits import full
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.pricing import RevealedBid, order_bids

ROOT = b"\x11" * 32
# Boundless, as docs of its market state them: a published mark for the same kind of operation.
PUBLISHED = {
    "bid": "59,000 (Boundless deposit)",
    "award": "149,000 (Boundless)",
    "finalise": "117,000 (Boundless, alone)",
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
        """Keep the first measurement of `name`."""
        self.gas.setdefault(name, receipt.gas_used)
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

    def job(self, submitter: Sender, operators: list[Operator], aggregator: Operator, slots: int, suffix: str) -> None:
        """One job of two rounds, from post to withdrawal; names get `suffix`."""
        chain = self.devnet.chain
        terms = Terms(
            token=chain.zen.address, program_root=ROOT, state_root=ROOT, data_root=ROOT, manifest=ROOT, rounds=2, slots=slots,
            quorum=1, reserve=ZEN, max_price=ZEN, aggregator_reserve=ZEN, aggregator_max_price=ZEN, slot_s=600,
            aggregate_s=600, reexecute_s=3, flops=10**12,
        )  # fmt: skip
        escrow = (slots + 1) * 2 * ZEN
        submitter.send(chain.zen.approve(chain.tasks.address, escrow))
        job = int(self.note("post" + suffix, submitter.send(chain.tasks.post(terms))).event("JobPosted").args["job"])
        bidders = [(0, o) for o in operators] + [(1, aggregator)]
        for kind, operator in bidders:
            capacity = 1 if kind else -(-slots // len(operators))
            seal = self._sealer.seal(job, kind, 1, operator.number, operator.price, capacity)
            call = chain.auction.bid(job, kind, operator.number, seal, capacity, True)
            self.note("bid" + suffix, operator.hot.send(call))
        self.devnet.warp_to(chain.auction.lots(job, 0).bid_end)
        for kind, operator in bidders:
            salt = self._sealer.salt(job, kind, 1)
            call = chain.auction.reveal(job, kind, operator.number, operator.price, salt)
            self.note("reveal" + suffix, operator.hot.send(call))
        self.devnet.warp_to(chain.auction.lots(job, 0).reveal_end)
        for kind, found in ((0, operators), (1, [aggregator])):
            order = [b.operator for b in order_bids(RevealedBid(o.number, o.price, 0, slots) for o in found)]
            label = suffix if kind == 0 else "_aggregator" + suffix
            self.note("clear" + label, submitter.send(chain.auction.clear(job, kind, order)))
            self.note("award" + label, submitter.send(chain.auction.award(job, kind, order)))
        for operator in operators:
            self.note("ready" + suffix, operator.hot.send(chain.settlement.ready(job, operator.number, 60)))
        claims = [
            claim for round_ in range(2) for claim in self._round(job, round_, operators, aggregator, slots, suffix)
        ]
        self.devnet.warp_to(max(claim[-1] for claim in claims) + 1)
        for index, claim in enumerate(claims):
            aggregation = "_aggregation" if claim[1] == 256 else ""
            name = "finalise" + aggregation + suffix + ("_last" if index == len(claims) - 1 else "")
            self.note(name, submitter.send(chain.settlement.finalise(job, [claim])))
        for operator in [*operators, aggregator]:
            self.note("release" + suffix, submitter.send(chain.settlement.release(job, operator.number)))
        self.note(
            "withdraw", operators[0].owner.send(chain.tasks.withdraw(chain.zen.address, operators[0].owner.address))
        )

    def _round(
        self, job: int, round_: int, operators: list[Operator], aggregator: Operator, slots: int, suffix: str
    ) -> list[tuple[int, int, int, int, bytes, int]]:
        """Commitments and a checkpoint; the claims they made."""
        chain, claims = self.devnet.chain, []
        for operator in operators:
            held = chain.settlement.seats(job, operator.number).held
            call = chain.settlement.commit(job, round_, operator.number, held, ROOT, ROOT)
            done = self.note("commit" + suffix, operator.hot.send(call)).event("ResultsCommitted").args
            key = (held & -held).bit_length() - 1
            claims.append((round_, key, operator.number, held, ROOT, done["deadline"]))
        call = chain.settlement.post_checkpoint(job, round_, aggregator.number, full(slots), ROOT, ROOT)
        posted = self.note("post_checkpoint" + suffix, aggregator.hot.send(call)).event("CheckpointPosted").args
        return [*claims, (round_, 256, aggregator.number, full(slots), ROOT, posted["deadline"])]

    @property
    def _sealer(self) -> Sealer:
        return Sealer(b"benchmark")


def measure() -> dict[str, Any]:
    """operation -> gas, and the parameters."""
    with tempfile.TemporaryDirectory(prefix="zoo-gas-") as name, Devnet(Path(name) / "chain", block_time=1) as devnet:
        bench = Bench(devnet, Path(name))
        submitter = bench.sender(devnet.account("submitter", zen=10_000 * ZEN))
        providers = [bench.operator(f"provider-{i}", ZEN * (7 + i) // 10) for i in range(3)]
        aggregator = bench.operator("aggregator", ZEN // 2)
        bench.job(submitter, providers, aggregator, 6, "")
        bench.job(submitter, providers[:1], aggregator, 64, "_64")
        bench.gas["finalise_per_shard_64"] = round(bench.gas["finalise_64"] / 64)
        return {
            "parameters": {
                "slots": 6,
                "operators": 3,
                "slots_64": 64,
                "operators_64": 1,
                "rounds": 2,
                "token": "ZEN",
                "evm": "anvil",
            },
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
