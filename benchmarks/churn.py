"""Does a network go on while its workers die? One worker of six is killed every 30 s, and the chain watches.

One operator has --workers workers, another aggregates; both are the real processes on a devnet chain. A slot-round is real training of a
tiny GPT, and then sleeps until --slot-s is over: so six workers have a capacity that the machine's cores do not limit (benchmarks/paced.py).

  utilisation        tokens of distinct slot-rounds against those of the workers that were ready, at one slot-round a --slot-s;
                     calm: before the first kill; churn: from then on. Both of whole rounds
  goodput            utilisation in churn against calm: what the kills cost of the surviving capacity
  survivor_commit_s  from the end of the last slot-round that a round needs to its commitment on chain (worst and median, of churn)
  checkpoint_s       from that commitment to the checkpoint on chain (fetching, aggregation), which opens the next round
  rejoin_s           from a restarted worker's launch to its readiness (worst and median), with the parts
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # beside this file lies one that bears the name of a package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.lab import Faults
from keepers.config import save
from keepers.daemon import Daemon, commands
from keepers.localnet import LocalNetwork, OperatorPlan
from tests.integration.network_kit import submit
from zoo_compute.chain.events import scan

LOOK_S = 0.05
ROUNDS = 400  # more than any run lasts
LAUNCH_PARTS = ("imported", "ready", "began", "fetched", "first_step")


def plans(slots: int) -> tuple[OperatorPlan, ...]:
    return (
        OperatorPlan("alpha", price="0.001", capacity=slots),
        OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.001"),
    )


def job(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "model": {"architecture": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 16, "vocab": 256},
        "training": {
            "learning_rate": 0.01,
            "batch_size": 4,
            "inner_steps": 4,
            "rounds": ROUNDS,
            "slots": options.slots,
            "quorum": 1,
            "segment_steps": 4,
        },
        "market": {
            "reserve": "0.001",
            "max_price": "0.00125",
            "aggregator_reserve": "0.001",
            "aggregator_max_price": "0.00125",
        },
        "limits": {"slot_s": 300, "aggregate_s": 90, "reexecute_s": 4},
    }


class Churned(LocalNetwork):
    """A local network whose first operator has many paced workers."""

    def grow(self, workers: int, slot_s: float) -> None:
        """Start the first operator's daemon anew with so many paced workers."""
        old = self.daemons["alpha"]
        old.stop()
        config = dataclasses.replace(old.config, workers=workers)
        save(config)
        paced = [sys.executable, "-m", "benchmarks.paced", "--slot-s", str(slot_s)]
        instead = {
            name: [*paced, "--log", str(self.log(name)), *command[command.index("worker") + 1 :]]
            for name, command in commands(config).items()
            if name.startswith("worker-") and name != "worker-moves"
        }
        self.daemons["alpha"] = Daemon(config, instead=instead)
        self.daemons["alpha"].start()
        self.wait_ready()

    def log(self, worker: str) -> Path:
        return self.folder / f"{worker}.jsonl"

    def told(self, workers: int) -> dict[str, list[dict[str, Any]]]:
        names = [f"worker-{index}" for index in range(workers)]
        return {name: [json.loads(line) for line in self.log(name).read_text().splitlines()] for name in names}


class Watching(threading.Thread):
    """When each round's commitment and checkpoint were seen on chain."""

    def __init__(self, network: LocalNetwork) -> None:
        super().__init__(daemon=True)
        self.chain = network.devnet.chain
        self.seen: dict[str, dict[int, float]] = {"ResultsCommitted": {}, "CheckpointPosted": {}}
        self.stopped = threading.Event()

    def run(self) -> None:
        unseen = self.chain.head().number
        while not self.stopped.wait(LOOK_S):
            head = self.chain.head().number
            if head >= unseen:
                for event in scan(self.chain, unseen, head, names=tuple(self.seen)):
                    self.seen[event.name].setdefault(int(event.args["claim"]["turn"]), time.time())
                unseen = head + 1


@dataclasses.dataclass
class Run:
    """What a run left to be reckoned."""

    told: dict[str, list[dict[str, Any]]]
    kills: list[tuple[float, str]]
    seen: dict[str, dict[int, float]]
    churn_from: float
    fired: dict[str, int]


def run(options: argparse.Namespace, folder: Path) -> Run:
    faults, kills, churn_from = Faults(), list[tuple[float, str]](), 0.0
    with Churned(folder, plans(options.slots)) as network:
        network.grow(options.workers, options.slot_s)
        submit(network, job(options))
        watching = Watching(network)
        watching.start()
        alpha = network.daemons["alpha"]
        calm_until, ends = float("inf"), float("inf")
        deadline = time.time() + 240
        while time.time() < ends:
            closed = watching.seen["CheckpointPosted"]
            if calm_until == float("inf") and closed:  # the first round warms everything up
                calm_until = time.time() + options.calm_s
            if time.time() > deadline and not closed:
                raise SystemExit(f"no round was closed in 240 s; see {folder}/*/logs")
            if not churn_from and time.time() > calm_until:
                churn_from, ends = time.time(), time.time() + options.seconds
            if churn_from and time.time() >= churn_from + len(kills) * options.every_s:
                name = f"worker-{len(kills) % options.workers}"
                process = alpha.children[name].process
                assert process is not None
                faults.kill(process)
                kills.append((time.time(), name))
            network.poll()
            time.sleep(LOOK_S)
        watching.stopped.set()
        watching.join()
        return Run(network.told(options.workers), kills, watching.seen, churn_from, dict(faults.fired()))


def ready_seconds(run: Run, begin: float, end: float) -> float:
    """Seconds of workers that were ready and not yet killed, in a window."""
    total = 0.0
    for name, events in run.told.items():
        deaths = [at for at, killed in run.kills if killed == name]
        for ready in (event["at"] for event in events if event["event"] == "ready"):
            dead = min((at for at in deaths if at > ready), default=end)
            total += max(0.0, min(dead, end) - max(ready, begin))
    return total


def reckon(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    began, ended = defaultdict[int, list[float]](list), dict[tuple[int, int], tuple[float, int]]()
    twice = 0
    for event in sorted((e for events in run.told.values() for e in events), key=lambda e: e["at"]):
        if event["event"] == "began":
            began[event["round"]].append(event["at"])
        elif event["event"] == "ended":
            twice += (event["round"], event["slot"]) in ended
            ended.setdefault((event["round"], event["slot"]), (event["at"], event["tokens"]))
    closed = run.seen["CheckpointPosted"]
    starts = {r: min(times) for r, times in began.items() if r in closed or r - 1 in closed}
    order = sorted(starts)
    first_churned = next((r for r in order if starts[r] >= run.churn_from), order[-1])
    if not 2 < first_churned < order[-1]:
        raise SystemExit(
            "too short: no whole round before the kills, or none with them; give --calm-s and --seconds more"
        )
    windows = {"calm": (1, first_churned - 1), "churn": (first_churned, order[-1])}
    result: dict[str, Any] = {}
    for name, (first, last) in windows.items():
        begin, end = starts[first], starts[last]
        tokens = sum(t for (r, _), (_, t) in ended.items() if first <= r < last)
        slot_tokens = next(iter(ended.values()))[1]
        capacity = ready_seconds(run, begin, end) / options.slot_s * slot_tokens
        result[name] = {
            "rounds": last - first,
            "seconds": end - begin,
            "tokens": tokens,
            "capacity_tokens": capacity,
            "utilisation": tokens / capacity,
        }
    first, last = windows["churn"]
    done = {r: max(at for (turn, _), (at, _) in ended.items() if turn == r) for r in range(first, last)}
    commits = [run.seen["ResultsCommitted"][r] - done[r] for r in done]
    closes = [closed[r] - run.seen["ResultsCommitted"][r] for r in done]
    rejoins = rejoined(run)
    return result | {
        "goodput": result["churn"]["utilisation"] / result["calm"]["utilisation"],
        "survivor_commit_s": statistics.median(commits),
        "survivor_commit_worst_s": max(commits),
        "checkpoint_s": statistics.median(closes),
        "rejoin_s": statistics.median(r["ready"] for r in rejoins),
        "rejoin_worst_s": max(r["ready"] for r in rejoins),
        "rejoin_parts_s": {
            part: statistics.median(times)
            for part in LAUNCH_PARTS
            if (times := [r[part] for r in rejoins if part in r])
        },
        "restart_s": statistics.median(r["launched"] for r in rejoins),
        "done_twice": twice,
        "kills": len(run.kills),
        "fired": run.fired,
    }


def rejoined(run: Run) -> list[dict[str, float]]:
    """Of every restart, seconds from the launch to each part of it, and (launched) from the kill to the launch."""
    found = []
    for killed_at, name in run.kills:
        after = [event for event in run.told[name] if event["at"] > killed_at]
        launch = next((event["at"] for event in after if event["event"] == "launched"), None)
        if launch is None:
            continue
        parts = {"launched": launch - killed_at}
        for part in LAUNCH_PARTS:
            at = next((event["at"] for event in after if event["event"] == part and event["at"] >= launch), None)
            if at is not None:
                parts[part] = at - launch
        if "ready" in parts:
            found.append(parts)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Goodput while workers are killed")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument(
        "--slots", type=int, default=120, help="of a round: many a worker, so that they divide among the living"
    )
    parser.add_argument("--slot-s", type=float, default=3.0, help="seconds that a slot-round takes a worker")
    parser.add_argument("--every-s", type=float, default=30.0, help="between kills")
    parser.add_argument("--seconds", type=float, default=600.0, help="of kills")
    parser.add_argument("--calm-s", type=float, default=200.0, help="before them")
    parser.add_argument("--folder", type=Path, help="to keep the logs in")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.folder:
        made = run(options, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="churn") as folder:
            made = run(options, Path(folder))
    parameters = {k: v for k, v in vars(options).items() if k not in ("json", "folder")}
    result = {"parameters": parameters, **reckon(made, options)}
    print(json.dumps(result) if options.json else "\n".join(f"{key:<24} {value}" for key, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
