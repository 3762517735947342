"""A small job on a local network, followed to its end: what the end-to-end and chaos tests share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.waiting import HANG_S
from zoo_compute import Client
from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.spec.params import ZEN

TINY: dict[str, Any] = {
    "model": {"architecture": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 16, "vocab": 256},
    "training": {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 8, "rounds": 3, "slots": 3, "quorum": 2, "segment_steps": 4},
    "market": {"reserve": "1", "max_price": "1.25", "aggregator_reserve": "1", "aggregator_max_price": "1.25"},
    "limits": {"slot_s": 90, "aggregate_s": 90, "reexecute_s": 2},
}  # fmt: skip

PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    OperatorPlan("beta", price="0.90", capacity=3),
    OperatorPlan("gamma", price="1.00", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0),
)


@dataclass
class Finished:
    """A job that ended and settled."""

    view: JobView
    events: list[Event]
    reports: list[dict[str, Any]]

    def total(self, event: str, field: str) -> int:
        return sum(e.args[field] for e in self.events if e.name == event)

    def balances(self) -> dict[str, int]:
        return {
            "escrowed": self.total("JobPosted", "escrow"),
            "restored": self.total("JobFunded", "amount"),
            "paid_nodes": self.total("Paid", "net"),
            "fee_treasury": self.total("Paid", "fee"),
            "refunded": self.total("JobClosed", "refunded"),
            "slashed": self.total("CollateralSlashed", "amount"),
        }


def text(folder: Path) -> Path:
    """Text enough for the tiny job, the same every time."""
    path = folder / "text.txt"
    path.write_bytes(b"".join(b"%d bottles of beer on the wall\n" % n for n in range(3000)))
    return path


def submit(network: LocalNetwork, config: dict[str, Any] = TINY) -> int:
    account = network.devnet.account("submitter", zen=200 * ZEN)
    client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
    path = network.folder / "job.json"
    import json

    path.write_text(json.dumps(config))
    return client.train(config=path, data=text(network.folder), max_budget=200).id


def poll_until_block(network: LocalNetwork, seen: int, longest_s: float = 1.0) -> None:
    """Keep the processes running until there is a block after `seen`: before that, reading a job again says the same."""
    deadline = time.monotonic() + longest_s
    while True:
        network.poll()
        if network.devnet.chain.w3.eth.block_number > seen or time.monotonic() > deadline:
            return
        time.sleep(0.1)


def follow(
    network: LocalNetwork,
    job: int,
    *,
    disturb: Callable[[JobView, list[Event]], None] | None = None,
    timeout_s: float = 3 * HANG_S,
) -> Finished:
    """Poll until every claim is paid, every lock released, every payment withdrawn and every sample verified."""
    chain, first = network.devnet.chain, network.devnet.network.first_block
    deadline = time.monotonic() + timeout_s
    seen = first
    while time.monotonic() < deadline:
        network.poll()
        view = read_job(chain, job)
        fresh = list(scan(chain, seen, view.block)) if seen <= view.block else []
        seen = max(seen, view.block + 1)
        if disturb is not None:
            disturb(view, fresh)
        if view.state == JobState.ENDED and view.settled:
            operators = [read_operator(chain, number, view.block) for number in network.operators]
            committed = sum(commit.count for commit in view.commits) + len(view.checkpoints)
            if (
                all(not o.locks and not any(o.owed.values()) for o in operators)
                and len(network.verification_reports()) == committed
            ):
                return Finished(view, list(scan(chain, first, view.block)), network.verification_reports())
        poll_until_block(network, view.block)
    raise AssertionError(
        f"the job did not settle within {timeout_s} s: {read_job(chain, job).state!r}; logs in {network.folder}"
    )
