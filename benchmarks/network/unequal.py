"""What share of their time do unequal nodes train in one job? The real network on shaped links, as utilisation.py beside this file.

    python -m benchmarks.network.unequal [--json] [--step-s 3] [--mbit 100] [--rtt-ms 50] [--inner-steps 8] [--rounds 5]

One node of each class; the fastest takes --step-s for a step, the others up to four times as long, and each bids for the slots that it
trains in a round's time. The job is delayed (`training.delay: 1`): its slots start one checkpoint behind, so that nobody waits for the
exchange; what that costs in loss is decision 19's figure.

  utilisation  of all nodes: inner steps times their time against wall seconds, from the first step of round 1 to that of the last round
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lab import Link, laboratory
from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network import utilisation
from benchmarks.network.utilisation import AGGREGATOR, SUBMITTER, ClaimTimes, ShapedNetwork
from keepers.processes.local_network import OperatorPlan
from tests.support.local_jobs import submit

# Class of GPU, and the slots of a round that it trains: the more, the shorter its steps.
CLASSES = {"datacenter": (3, 4), "professional": (2, 3), "consumer": (1, 2), "apple": (4, 1)}
MOST = max(slots for _, slots in CLASSES.values())
SLOTS = sum(slots for _, slots in CLASSES.values())


def plans() -> tuple[OperatorPlan, ...]:
    trainers = [
        OperatorPlan(name, price="0.001", gpu_class=gpu_class, vram_gb=48, capacity=slots)
        for name, (gpu_class, slots) in CLASSES.items()
    ]
    return (*trainers, OperatorPlan(AGGREGATOR, roles=("aggregator",), aggregator_price="0.001"))


def steps_of(step_s: float) -> dict[str, float]:
    return {name: step_s * MOST / slots for name, (_, slots) in CLASSES.items()}


def job(options: argparse.Namespace) -> dict[str, Any]:
    made = utilisation.job(options)
    slot_s = max(steps_of(options.step_s).values()) * options.inner_steps
    made["training"] |= {"slots": SLOTS, "quorum": SLOTS, "delay": 1, "carry_rounds": 1}
    made["training"] |= {"outer_learning_rate": 0.5, "outer_momentum": 0.0}
    made["limits"] |= {"slot_s": math.ceil(60 + 3 * slot_s), "reexecute_s": math.ceil(2 * slot_s)}
    return made


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    link, names = Link.of_round_trip(options.mbit, options.rtt_ms / 1000), [plan.name for plan in plans()]
    steps = steps_of(options.step_s)
    with (
        laboratory(dict.fromkeys([*names, SUBMITTER], link), "relay") as lab,
        ShapedNetwork(folder, plans(), lab=lab, step_s=steps) as network,
    ):
        speeds = lab.measured(names[0], names[1])
        submit(network, job(options))
        watching = ClaimTimes(network)
        watching.start()
        longest_s = 300 + 2 * options.rounds * MOST * options.inner_steps * options.step_s
        watching.wait(network, options.rounds, longest_s, lambda: None)
        events = {name: [json.loads(line) for line in network.log(name).read_text().splitlines()] for name in CLASSES}
    nodes = {name: shares(trains(events[name]), steps[name], options) for name in CLASSES}
    return {
        "utilisation": sum(node["busy_s"] for node in nodes.values()) / sum(node["wall_s"] for node in nodes.values()),
        "nodes": nodes,
        "slots": SLOTS,
        "link": {"kind": lab.kind, **speeds},
    }


def trains(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == "train"]


def shares(trained: list[dict[str, Any]], step_s: float, options: argparse.Namespace) -> dict[str, float]:
    """Of one node: seconds of steps, and of everything, from the first step of round 1 to the first of the last round."""
    last = options.rounds - 1
    firsts = {round_: min(e["first"] for e in trained if e["round"] == round_) for round_ in (1, last)}
    counted = [event for event in trained if 1 <= event["round"] < last]
    busy_s, wall_s = len(counted) * options.inner_steps * step_s, firsts[last] - firsts[1]
    return {"slots_a_round": len(counted) / (last - 1), "step_s": step_s, "busy_s": busy_s, "wall_s": wall_s,
            "utilisation": busy_s / wall_s}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    utilisation.add_options(parser)
    parser.set_defaults(step_s=3.0, inner_steps=8, rounds=5, nodes=len(CLASSES))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unequal") as scratch:
        result = {"parameters": parameters_of(options), **measured(options, options.folder or Path(scratch))}
    print(json.dumps(result, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
