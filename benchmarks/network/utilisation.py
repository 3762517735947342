"""What share of its time does a node train in a network across the internet? The real network, on shaped links.

Operators of one slot each and one that only aggregates: real keepers, workers and gateways, and anvil as the chain. Their
stores reach each other and the submitter's only over links of --mbit and --rtt-ms (benchmarks/lab counts the bytes that
arrive). Their RPC is local. An inner step is real training of the model below, then sleeps until --step-s is over
(benchmarks/network/fixed_step_process.py): the time of a GPU for a batch of `gpu_step_tokens` (an A100 at the share of its
peak that a core reaches here). --updates chooses the compression; the default is the kind that the loss gap is measured
for (benchmarks/training/loss_gap.py).

  utilisation  inner steps times --step-s against wall seconds, from the first step of round 1 to that of the last round, of all nodes
  lost_s       where the rest goes in a round, means over nodes and rounds:
    roots      within the steps: roots of segments, and steps that took longer than their time
    finish     last step to the worker's answer: last root, update, its file, what is kept for the next round
    commit     to the seat's own commitment on chain
    others     to the last commitment of the turn
    fetch      to the beginning of the combination: the claims are fetched from their authors
    combine    the next checkpoint is made
    begin      to the first step: the request, the checkpoint, its root, loading
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.lab import Laboratory, Link, laboratory
from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network.cost import PEAK_TFLOPS, share_of_peak
from benchmarks.network.event_log import LOOK_S, ChainWatcher
from benchmarks.training.loss_gap import DECLARED, NETWORKS
from keepers.config import OperatorConfig
from keepers.processes.daemon import commands
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from repops.profile import Profile
from tests.support.local_jobs import submit
from zoo_compute.chain.events import Event
from zoo_compute.chain.network import load, write_atomically
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.store import BlockStore

CONTEXT = 64  # tokens of a step: a batch of one example
A100_FLOPS = 1e12 * PEAK_TFLOPS[2][1]
AGGREGATOR, SUBMITTER = "aggregator", "submitter"
PARTS = ("roots", "finish", "commit", "others", "fetch", "combine", "begin")


def plans(nodes: int) -> tuple[OperatorPlan, ...]:
    trainers = [OperatorPlan(f"node{index}", price="0.001", capacity=1) for index in range(nodes)]
    return (*trainers, OperatorPlan(AGGREGATOR, roles=("aggregator",), aggregator_price="0.001"))


def job(options: argparse.Namespace) -> dict[str, Any]:
    slot_s = options.inner_steps * options.step_s
    kind = NETWORKS[options.updates]
    rate, momentum = kind["outer"]
    return {
        "model": {"architecture": "gpt", "layers": options.layers, "heads": 4, "width": options.width, "context": CONTEXT, "vocab": 256},
        "training": {
            "learning_rate": 0.001,
            "batch_size": 1,
            "inner_steps": options.inner_steps,
            "segment_steps": max(1, options.inner_steps // 3),
            "rounds": options.rounds,
            "slots": options.nodes,
            "quorum": options.nodes,
            "carry_rounds": options.rounds,
            "outer_learning_rate": rate,
            "outer_momentum": momentum,
        },
        "compression": kind["compression"] or {},
        "aggregation": {"rule": kind["rule"]},
        "market": {"reserve": "0.001", "max_price": "0.00125", "aggregator_reserve": "0.001", "aggregator_max_price": "0.00125"},
        "limits": {"slot_s": math.ceil(60 + 3 * slot_s), "aggregate_s": 90, "reexecute_s": math.ceil(2 * slot_s), "depth": 16},
    }  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class ShapedNetwork(LocalNetwork):
    """A local network whose operators' stores reach each other only over the laboratory's links. step_s: of an inner step, by operator."""

    lab: Laboratory
    step_s: Mapping[str, float]

    def start(self) -> None:
        super().start()
        storage = load(self.network_path).storage[0]
        places = {name: (d.config.gateway_port, d.config.endpoint) for name, d in self.daemons.items()}
        places[SUBMITTER] = (int(storage.rpartition(":")[2]), storage)
        for name in self.daemons:
            ways = {
                url: "http://{}:{}".format(*self.lab.endpoint(other, port, seen_from=name))
                for other, (port, url) in places.items()
                if other != name
            }
            write_atomically(self.routes(name), json.dumps(ways).encode(), mode=0o644)

    def command_overrides(self, plan: OperatorPlan, config: OperatorConfig) -> dict[str, list[str]]:
        stepped = [
            sys.executable,
            "-m",
            "benchmarks.network.fixed_step_process",
            "--step-s",
            str(self.step_s.get(plan.name, 0.0)),
        ]
        stepped += ["--log", str(self.log(plan.name)), "--routes", str(self.routes(plan.name))]
        self.log(plan.name).touch()
        return {
            part: [*stepped, *command[command.index("keepers.processes.run") + 1 :]]
            for part, command in commands(config).items()
            if part in ("keeper", "worker-0")
        }

    def routes(self, name: str) -> Path:
        return self.folder / f"{name}-routes.json"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def worker_events(self, nodes: int) -> list[list[dict[str, Any]]]:
        """By node its worker's events."""
        return [
            [json.loads(line) for line in self.log(f"node{index}").read_text().splitlines()] for index in range(nodes)
        ]


class ClaimTimes(ChainWatcher):
    """When each commitment and checkpoint was seen on chain: by turn, of commitments by operator."""

    def __init__(self, network: LocalNetwork) -> None:
        super().__init__(network)
        self.commits: dict[int, dict[int, float]] = defaultdict(dict)
        self.checkpoints: dict[int, float] = {}

    def wait(self, network: LocalNetwork, rounds: int, longest_s: float, closed: Callable[[], None]) -> None:
        """Keep the processes running until so many rounds are closed, then stop watching. closed: called after each."""
        deadline, printed = time.time() + longest_s, 0
        while printed < rounds:
            if time.time() > deadline:
                raise SystemExit(f"{printed} rounds were closed in time; see {network.folder}/*/logs")
            while printed < len(self.checkpoints):
                printed += 1
                closed()
                print(f"{printed} of {rounds} rounds are closed", file=sys.stderr, flush=True)
            network.poll()
            time.sleep(LOOK_S)
        self.stopped.set()
        self.join()

    def see(self, event: Event) -> None:
        claim = event.args["claim"]
        if event.name == "ResultsCommitted":
            self.commits[int(claim["turn"])].setdefault(int(claim["operator"]), time.time())
        else:
            self.checkpoints.setdefault(int(claim["turn"]), time.time())


@dataclasses.dataclass
class Run:
    """The records of a run. worker_events: by node. numbers: the nodes' operators. moved: bytes that arrived, by host, since round 1."""

    worker_events: list[list[dict[str, Any]]]
    numbers: list[int]
    commits: dict[int, dict[int, float]]
    checkpoints: dict[int, float]
    moved: dict[str, int]
    link: dict[str, Any]
    update_bytes: int
    profile: Profile


def run(options: argparse.Namespace, folder: Path) -> Run:
    names = [plan.name for plan in plans(options.nodes)]
    link = Link.of_round_trip(options.mbit, options.rtt_ms / 1000)
    with (
        laboratory(dict.fromkeys([*names, SUBMITTER], link), "relay") as lab,
        ShapedNetwork(folder, plans(options.nodes), lab=lab, step_s=dict.fromkeys(names, options.step_s)) as network,
    ):
        speeds = lab.measured(names[0], names[1])
        submit(network, job(options))
        watching = ClaimTimes(network)
        watching.start()
        counts = list[dict[str, dict[str, int]]]()
        longest_s = 240 + 2 * options.rounds * (options.inner_steps * options.step_s + 10)
        watching.wait(network, options.rounds, longest_s, lambda: counts.append(lab.counts()))
        before, after = counts[0], lab.counts()
        moved = {host: after[host].get("bytes", 0) - before[host].get("bytes", 0) for host in after}
        numbers = {name: number for number, name in network.operators.items()}
        worker_events = network.worker_events(options.nodes)
        update = next(event["update"] for event in reversed(worker_events[0]) if event["event"] == "train")
        size = len(BlockStore(network.daemons["node0"].config.path("store")).read(update, max_bytes=2**30))
        return Run(
            worker_events=worker_events,
            numbers=[numbers[f"node{index}"] for index in range(options.nodes)],
            commits=dict(watching.commits),
            checkpoints=watching.checkpoints,
            moved=moved,
            link={"kind": lab.kind, **speeds},
            update_bytes=size,
            profile=traced(options).profile,
        )


def traced(options: argparse.Namespace, batch_size: int = 1) -> ComputeJob:
    """The benchmark's module as a job of its own, with this batch."""
    config = job(options)
    return ComputeJob(config["model"], {}, config["training"] | {"batch_size": batch_size}, "1")


def lost(result: Run, options: argparse.Namespace) -> list[dict[str, float]]:
    """The time that each node did not train, by cause, in each round but the first and last."""
    inner_s, parts = options.inner_steps * options.step_s, []
    for worker_events, number in zip(result.worker_events, result.numbers, strict=True):
        trains = {event["round"]: event for event in worker_events if event["event"] == "train"}
        advances = {event["round"]: event for event in worker_events if event["event"] == "advance"}
        for round_ in range(1, options.rounds - 1):
            this, following, made = trains[round_], trains[round_ + 1], advances.get(round_)
            committed = result.commits[round_]
            known = made["began"] if made else result.checkpoints[round_]
            combined = made["ended"] if made else known
            parts.append(
                {
                    "roots": this["last"] - this["first"] - inner_s,
                    "finish": this["ended"] - this["last"],
                    "commit": committed[number] - this["ended"],
                    "others": max(committed.values()) - committed[number],
                    "fetch": known - max(committed.values()),
                    "combine": combined - known,
                    "begin": following["first"] - combined,
                    "whole": following["first"] - this["first"] - inner_s,
                }
            )
    return parts


def mean(values: Iterable[float]) -> float:
    return statistics.mean(values)


def reckon(result: Run, options: argparse.Namespace) -> dict[str, Any]:
    parts = lost(result, options)
    inner_s = options.inner_steps * options.step_s
    wall_s = mean(part["whole"] for part in parts) + inner_s
    trains = [
        event
        for worker_events in result.worker_events
        for event in worker_events
        if event["event"] == "train" and event["round"] > 0
    ]
    computed_s = mean(event["computed_s"] for event in trains) / options.inner_steps
    share = share_of_peak(traced(options, batch_size=16))
    advanced = [
        event for worker_events in result.worker_events for event in worker_events if event["event"] == "advance"
    ]
    return {
        "utilisation": inner_s / wall_s,
        "round_s": wall_s,
        "lost_s": {name: mean(part[name] for part in parts) for name in (*PARTS, "whole")},
        "computed_step_s": computed_s,
        "made_here": len(advanced) / max(1, options.nodes * (options.rounds - 1)),
        "gpu_share_of_peak": share,
        "gpu_step_tokens": int(options.step_s * share * A100_FLOPS / (result.profile.flops / CONTEXT)),
        "model_parameters": result.profile.parameters,
        "update_bytes": result.update_bytes,
        "bytes_in_a_round": {host: count // max(1, options.rounds - 1) for host, count in result.moved.items()},
        "link": result.link,
        "chain": "a transaction is mined at once; the RPC is on this machine",
    }


def measured(options: argparse.Namespace) -> dict[str, Any]:
    if options.folder:
        return reckon(run(options, options.folder), options)
    with tempfile.TemporaryDirectory(prefix="utilisation") as folder:
        return reckon(run(options, Path(folder)), options)


def rounds(text: str) -> int:
    if (count := int(text)) < 3:
        raise argparse.ArgumentTypeError(f"expected at least 3, got {count}: the first and the last are not counted")
    return count


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=rounds, default=4, help="the first and the last are not counted (default: 4)")
    parser.add_argument("--inner-steps", type=int, default=30)
    parser.add_argument("--step-s", type=float, default=7.0, help="seconds of a node's inner step")
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--updates", choices=tuple(NETWORKS), default=DECLARED, help="how they are compressed")
    parser.add_argument("--folder", type=Path, help="to keep the logs in")


def main() -> int:
    parser = argparse.ArgumentParser(description="Utilisation of nodes across the internet")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = {"parameters": parameters_of(options), **measured(options)}
    print(json.dumps(result) if options.json else "\n".join(f"{key:<18} {value}" for key, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
