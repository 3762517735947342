"""Do the bytes that large_models.py reckons arrive? A real job of a hundredth of 7B, on a network whose links count them.

    python -m benchmarks.scaling.traffic [--json] [--mbit 400] [--rtt-ms 20]

Two operators train two slots each, two aggregators divide the model, three custodians keep it: real keepers, workers and gateways, that reach
each other's stores over the links of benchmarks/lab alone. Counted are the bytes into each from the end of round 0 to that of the
last round but one; reckoned is what large_models.py says of such a job, less the slots that a holder trained itself.

  worst   of the roles, the largest difference between what arrived and what was reckoned, as a share of the latter
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.lab import Link, laboratory
from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network.utilisation import SUBMITTER, ClaimTimes, ShapedNetwork
from benchmarks.scaling.large_models import BITS, CUSTODIANS, KEEP, checked_bytes, fractions_of, measured_codec
from keepers.processes.local_network import OperatorPlan
from tests.support.local_jobs import submit
from zoo_compute.chain.snapshot import read_job
from zoo_compute.client.results import manifest_of
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.store import BlockStore
from zoo_compute.training.rounds import checkpoint_bytes

SLOTS, AGGREGATORS, ROUNDS = 4, 2, 8
# 66 million parameters in matrices that every step changes: of a large table most rows would stay as they are in so few steps, and a block
# that is the same is not sent again.
MODEL = {"name": "llama-68m", "layers": 7, "vocab": 256, "context": 16}
POLL_S = 1.0  # between looks of a keeper
OWN = 2  # slots of each who trains
ROLES = {
    "holder of a slot": ("train0", "train1"),
    "aggregator": ("share0", "share1"),
    "custodian": ("keep0", "keep1", "keep2"),
}
LONGEST_S = 1_500


def plans() -> tuple[OperatorPlan, ...]:
    asked = {"holder of a slot": "provider", "aggregator": "aggregator", "custodian": "custodian"}
    return tuple(
        OperatorPlan(
            name,
            roles=(asked[role],),
            price="0.001",
            aggregator_price="0.001",
            capacity=OWN,
            settings={"poll_s": POLL_S},
        )
        for role, names in ROLES.items()
        for name in names
    )


def job() -> dict[str, Any]:
    return {
        "model": MODEL,
        "training": {"batch_size": 1, "inner_steps": 2, "segment_steps": 2, "rounds": ROUNDS, "slots": SLOTS, "quorum": SLOTS},
        "compression": {"keep": KEEP, "bits": BITS},
        "aggregation": {"rule": "mean", "aggregators": AGGREGATORS},
        "checkpoint": {"redundancy": CUSTODIANS},
        "market": {"reserve": "0.001", "max_price": "0.00125", "aggregator_reserve": "0.001", "aggregator_max_price": "0.00125"},
        "limits": {"slot_s": 600, "aggregate_s": 300, "reexecute_s": 120, "depth": 16},
    }  # fmt: skip


def reckoned(config: dict[str, Any]) -> dict[str, float]:
    """Bytes into each of a role in a round, as `large_models.measure`."""
    checks = checked_bytes(AGGREGATORS)
    sections = {f"{name}_config": config[name] for name in ("compression", "aggregation", "checkpoint")}
    made = ComputeJob(config["model"], {}, config["training"], "100", **sections)
    graph, spec = made.traced.graph, made.outline().aggregation_spec
    update = 4 * made.profile.parameters / measured_codec()["ratio"]
    return {
        "holder of a slot": (SLOTS - OWN) * update + checks,
        "aggregator": SLOTS * update * statistics.mean(fractions_of(graph, spec)) + checks,  # the mean of both
        "custodian": SLOTS * update + checkpoint_bytes(graph, spec),
    }


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    link, names = Link.of_round_trip(options.mbit, options.rtt_ms / 1000), [plan.name for plan in plans()]
    config = job()
    with (
        laboratory(dict.fromkeys([*names, SUBMITTER], link), "relay") as lab,
        ShapedNetwork(folder, plans(), lab=lab, step_s=dict.fromkeys(names, 0.0)) as network,
    ):
        speeds = lab.measured(names[0], names[1])
        number = submit(network, config)
        watching = ClaimTimes(network)
        watching.start()
        counts = list[tuple[float, dict[str, dict[str, int]]]]()
        watching.wait(network, ROUNDS, LONGEST_S, lambda: counts.append((time.time(), lab.counts())))
        assert manifest_of(read_job(network.devnet.chain, number), BlockStore(network.submitter_store)).slots == SLOTS
    (began, first), (ended, last) = counts[0], counts[-2]
    round_s = (ended - began) / (ROUNDS - 2)
    arrived = {
        role: sum(last[name].get("bytes", 0) - first[name].get("bytes", 0) for name in hosts)
        / len(hosts)
        / (ROUNDS - 2)
        for role, hosts in ROLES.items()
    }
    wanted = reckoned(config)
    return {
        "round_s": round_s,
        "arrived": arrived,
        "reckoned": wanted,
        "ratio": {role: arrived[role] / wanted[role] for role in ROLES},
        "worst": max(abs(arrived[role] / wanted[role] - 1) for role in ROLES),
        "link": {"kind": lab.kind, **speeds},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbit", type=float, default=400)
    parser.add_argument("--rtt-ms", type=float, default=20)
    parser.add_argument("--folder", type=Path, help="to keep the logs in")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="traffic") as scratch:
        result = {"parameters": parameters_of(options), **measured(options, options.folder or Path(scratch))}
    print(json.dumps(result, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
