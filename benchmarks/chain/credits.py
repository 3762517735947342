"""Gas of burn and mint, read from receipts on anvil: what buys, pledges, posts and claims; and what a payment in credits adds.

    python -m benchmarks.chain.credits [--json]

Two jobs of one size are paid, in ZEN and in credits, each the second of its kind, so that what they write was written before. `_first` is
a function's first transaction, which writes fresh storage.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.devnet_driver import DevnetDriver, DevnetOperator
from tests.support.job_driver import Offer
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import DEVNET, DOLLAR, ZEN

RESULT = Path(__file__).parents[1] / "results" / "credits_gas.json"


class CreditsBench(DevnetDriver):
    """Pays jobs on a devnet, and keeps the gas of each operation under a name."""

    def __init__(self, devnet: Devnet) -> None:
        super().__init__(devnet)
        self.gas: dict[str, int] = {}
        self.poster = Sender(self.chain, devnet.account("deployer"), folder=devnet.folder)

    def measured(self, name: str, receipt: Receipt) -> None:
        self.gas.setdefault(f"{name}_first", receipt.gas_used)
        self.gas[name] = receipt.gas_used

    def paid(self, token: str, worker: DevnetOperator, aggregator: DevnetOperator) -> int:
        """The gas of the `finalise` that pays a job of one round, of both roles."""
        job = self.running({worker: Offer(10, 2)}, {aggregator: Offer(5)}, token=token)
        self.commit(job, worker)
        self.post_checkpoint(job, aggregator)
        self.finalise(job)
        return self.last.gas_used


def measure() -> dict[str, Any]:
    """operation -> gas."""
    with tempfile.TemporaryDirectory(prefix="zoo-gas-") as name, Devnet(Path(name) / "chain") as devnet:
        bench = CreditsBench(devnet)
        chain, me = devnet.chain, bench.submitter
        worker, aggregator = bench.operator("worker", 10), bench.operator("aggregator", 5)
        for sender in (me, worker.sender, aggregator.sender):
            sender.send(chain.zen.approve(chain.credits.address, 100 * ZEN))
        me.send(chain.credits.approve(chain.tasks.address, 100 * ZEN))
        for _ in range(2):
            bench.measured("buy", me.send(chain.credits.buy(10 * DOLLAR, 10 * ZEN)))
            bench.measured("pledge", worker.send(chain.credits.pledge(worker.id, ZEN)))
            devnet.warp(DEVNET.rate_step_s)
            bench.measured("post_rate", bench.poster.send(chain.credits.post_rate(DOLLAR)))
        aggregator.send(chain.credits.pledge(aggregator.id, ZEN))
        for token in (chain.zen.address, chain.credits.address):
            gas = [bench.paid(token, worker, aggregator) for _ in range(2)]
            bench.gas[f"finalise_in_{'zen' if token == chain.zen.address else 'credits'}"] = gas[1]
        owner = worker.account.address
        bench.measured("withdraw_used_up", me.send(chain.tasks.withdraw(chain.credits.address, owner)))
        bench.measured("withdraw_pledge", worker.send(chain.registry.withdraw(worker.id, chain.credits.address, 10)))
        epoch = chain.now() // DEVNET.epoch_s
        devnet.warp((epoch + 1) * DEVNET.epoch_s - chain.now())
        for back in (0, 1):
            if chain.credits.shares(owner, epoch - back):
                bench.measured("claim", me.send(chain.credits.claim(owner, epoch - back)))
        adds = bench.gas["finalise_in_credits"] - bench.gas["finalise_in_zen"]
        once = {f"{name}_first" for name in bench.gas if bench.gas.get(f"{name}_first") == bench.gas[name]}
        return {**{name: gas for name, gas in bench.gas.items() if name not in once}, "finalise_in_credits_adds": adds}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object: operation -> gas")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    gas = measure()
    options.out.write_text(json.dumps(gas, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(gas) if options.json else "\n".join(f"{name:<32}{value:>10,}" for name, value in gas.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
