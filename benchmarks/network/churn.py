"""Does a network keep training while its workers die? One worker of six is killed every 30 s.

One operator has --workers workers and a spare, another aggregates; both are the real processes on a devnet chain. Their job is delayed
(docs/design/decisions/0019), so that workers have slots of its next round while one closes; --jobs 2 --delay 0 are two jobs that take turns. A slot-round is real training of a tiny GPT, and then
sleeps until --slot-s is over: so six workers have a capacity that the machine's cores do not limit (benchmarks/network/fixed_time_worker.py).

  ready_s            seconds of workers between their readiness and their death, or the window's end
  utilisation        tokens of distinct slot-rounds against what ready_s give at one slot-round a --slot-s. calm: after the first
                     rounds and before the first kill; churn: from then on, until the last kill is --every-s old. A slot-round that
                     is in a window in part counts for that part
  surviving_s        ready_s without the part of a slot-round that died with its worker: seconds of capacity that did not survive
  goodput            utilisation in churn against calm, both of ready_s: all that the kills cost, lost work included
  goodput_survivors  the same with churn's surviving_s: what the kills cost those who live
  survivor_commit_s  from the end of the last slot-round that a round needs to its commitment on chain (median and worst, of churn)
  checkpoint_s       from that commitment to the checkpoint on chain (fetching, aggregation), which opens the next round
  rejoin_s           from a restarted worker's launch to its readiness (median and worst), with the parts up to its first step; launch
                     is when the daemon forks it, or assigns a spare
  restart_s          from the kill to the launch
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.lab import Faults
from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network.event_log import CLAIM_EVENTS, LOOK_S, ChainWatcher
from keepers.config import save
from keepers.processes.daemon import Daemon, commands, is_training_worker
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import submit
from zoo_compute.chain.events import Event

ROUNDS = 400  # more than any run lasts
WARM_S = 300  # in which the first rounds are over
GRACE = 3  # slot-rounds that are waited for at the end
LAUNCH_PARTS = ("imported", "ready", "began", "fetched", "first_step")
Place = tuple[int, int]  # job, round


def plans(slots: int) -> tuple[OperatorPlan, ...]:
    return (
        OperatorPlan("alpha", price="0.001", capacity=slots),  # of all jobs
        OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.001"),
    )


def job(options: argparse.Namespace, number: int) -> dict[str, Any]:
    """One of several: the same job is not posted twice."""
    return {
        "model": {"architecture": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 16, "vocab": 256},
        "training": {
            "learning_rate": 0.01,
            "batch_size": 4,
            "inner_steps": 4,
            "rounds": ROUNDS + number,
            "slots": options.slots,
            "quorum": 1,
            "segment_steps": 4,
            "delay": options.delay,
        },
        "market": {
            "reserve": "0.001",
            "max_price": "0.00125",
            "aggregator_reserve": "0.001",
            "aggregator_max_price": "0.00125",
        },
        "limits": {"slot_s": 300, "aggregate_s": 90, "reexecute_s": 4},
    }


class ChurnNetwork(LocalNetwork):
    """A local network whose first operator has many paced workers."""

    def grow(self, workers: int, spares: int, slot_s: float) -> None:
        """Start the first operator's daemon anew with so many paced workers."""
        old = self.daemons["alpha"]
        old.stop()
        config = dataclasses.replace(old.config, workers=workers, spares=spares)
        save(config)
        paced = [sys.executable, "-m", "benchmarks.network.fixed_time_worker", "--slot-s", str(slot_s)]
        command_overrides = {
            name: [*paced, "--log", str(self.log(name)), *command[command.index("worker") + 1 :]]
            for name, command in commands(config).items()
            if is_training_worker(name)
        }
        self.daemons["alpha"] = Daemon(config, command_overrides=command_overrides)
        self.daemons["alpha"].start()
        self.wait_ready()

    def log(self, worker: str) -> Path:
        return self.folder / f"{worker}.jsonl"

    def worker_events(self, workers: int) -> dict[str, list[dict[str, Any]]]:
        names = [f"worker-{index}" for index in range(workers)]
        return {name: [json.loads(line) for line in self.log(name).read_text().splitlines()] for name in names}


class ClaimTimes(ChainWatcher):
    """When each round's commitment and checkpoint were seen on chain."""

    def __init__(self, network: LocalNetwork) -> None:
        super().__init__(network)
        self.seen: dict[str, dict[Place, float]] = {name: {} for name in CLAIM_EVENTS}

    def see(self, event: Event) -> None:
        place = int(event.args["job"]), int(event.args["claim"]["turn"])
        self.seen[event.name].setdefault(place, time.time())


@dataclasses.dataclass
class Run:
    """The records of a run. calm, churn: (start, end)."""

    worker_events: dict[str, list[dict[str, Any]]]
    kills: list[tuple[float, str]]
    launches: list[tuple[float, str]]
    seen: dict[str, dict[Place, float]]
    calm: tuple[float, float]
    churn: tuple[float, float]
    fired: dict[str, int]


def run(options: argparse.Namespace, folder: Path) -> Run:
    faults = Faults()
    with ChurnNetwork(folder, plans(options.jobs * options.slots)) as network:
        network.grow(options.workers, options.spares, options.slot_s)
        jobs = [submit(network, job(options, number)) for number in range(options.jobs)]
        watching = ClaimTimes(network)
        watching.start()
        warm_at = first_rounds(network, watching, jobs)
        wait(network, options.calm_s)
        kills, launches = churn(network, options, faults)
        churned = kills[0][0], time.time()
        wait(network, GRACE * options.slot_s)
        watching.stopped.set()
        watching.join()
        worker_events = network.worker_events(options.workers)
        return Run(worker_events, kills, launches, watching.seen, (warm_at, churned[0]), churned, dict(faults.fired()))


def wait(network: LocalNetwork, seconds: float) -> None:
    ends = time.time() + seconds
    while time.time() < ends:
        network.poll()
        time.sleep(LOOK_S)


def first_rounds(network: LocalNetwork, watching: ClaimTimes, jobs: list[int]) -> float:
    """When the first round of every job ended; everything is warm then."""
    deadline = time.time() + WARM_S
    while not all((job, 0) in watching.seen["CheckpointPosted"] for job in jobs):
        if time.time() > deadline:
            raise SystemExit(f"no round of each job was closed in {WARM_S} s; see {network.folder}/*/logs")
        wait(network, LOOK_S)
    return time.time()


Moments = list[tuple[float, str]]


def churn(network: LocalNetwork, options: argparse.Namespace, faults: Faults) -> tuple[Moments, Moments]:
    """Kill one worker after another. Returns the times of kills and of launches."""
    kills, launches, alpha, ends = Moments(), Moments(), network.daemons["alpha"], time.time() + options.seconds
    due = time.time()
    while time.time() < ends:
        if time.time() >= due:
            name, due = f"worker-{len(kills) % options.workers}", due + options.every_s
            child = alpha.children[name]
            assert child.process is not None
            faults.kill(child.process)
            kills.append((time.time(), name))
        before = {name: child.started for name, child in alpha.children.items() if is_training_worker(name)}
        network.poll()
        behind = time.time() - time.monotonic()
        launches += [
            (behind + alpha.children[n].started, n) for n, at in before.items() if alpha.children[n].started != at
        ]
        time.sleep(LOOK_S)
    return kills, launches


@dataclasses.dataclass(frozen=True)
class Span:
    """One slot-round that a worker did to its end, or until it died (tokens: 0)."""

    began: float
    ended: float
    tokens: int
    place: Place

    def within(self, begin: float, end: float) -> float:
        return max(0.0, min(self.ended, end) - max(self.began, begin))


def spans(run: Run) -> tuple[list[Span], list[Span], int]:
    """The slot-rounds that were done, each once; those that died with their worker; and how many were done twice."""
    done, lost, known = list[Span](), list[Span](), set[tuple[Place, int]]()
    whole = list[tuple[float, float, int, Place, int]]()
    for name, events in run.worker_events.items():
        deaths = [at for at, killed in run.kills if killed == name]
        began: dict[str, Any] | None = None
        for event in (e for e in events if e["event"] in ("began", "ended")):
            if event["event"] == "ended" and began is not None:
                whole.append((event["at"], began["at"], event["tokens"], (event["job"], event["round"]), event["slot"]))
            elif event["event"] == "began" and began is not None:
                lost += _dead(began, deaths)
            began = event if event["event"] == "began" else None
        if began is not None:
            lost += _dead(began, deaths)
    for ended, start, tokens, place, slot in sorted(whole):
        if (place, slot) not in known:
            done.append(Span(start, ended, tokens, place))
        known.add((place, slot))
    return done, lost, len(whole) - len(done)


def _dead(began: dict[str, Any], deaths: list[float]) -> list[Span]:
    """The slot-round that a worker had begun when it was killed."""
    return [Span(began["at"], at, 0, (began["job"], began["round"])) for at in deaths if at > began["at"]][:1]


def ready_seconds(run: Run, begin: float, end: float) -> float:
    """Seconds of workers that were ready and not yet killed, in a window."""
    total = 0.0
    for name, events in run.worker_events.items():
        deaths = [at for at, killed in run.kills if killed == name]
        for ready in (event["at"] for event in events if event["event"] == "ready"):
            dead = min((at for at in deaths if at > ready), default=end)
            total += max(0.0, min(dead, end) - max(ready, begin))
    return total


def reckon(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    done, lost, twice = spans(run)
    slot_tokens = done[0].tokens
    result: dict[str, Any] = {}
    for name, window in (("calm", run.calm), ("churn", run.churn)):
        tokens = sum(span.tokens * span.within(*window) / (span.ended - span.began) for span in done)
        ready_s = ready_seconds(run, *window)
        result[name] = {
            "seconds": window[1] - window[0],
            "tokens": round(tokens),
            "ready_s": ready_s,
            "surviving_s": ready_s - sum(span.within(*window) for span in lost),
            "utilisation": tokens / slot_tokens * options.slot_s / ready_s,
        }
    churned, calm = result["churn"], result["calm"]["utilisation"]
    last: dict[Place, float] = {}
    for span in done:
        last[span.place] = max(last.get(span.place, 0.0), span.ended)
    commits, posts = run.seen["ResultsCommitted"], run.seen["CheckpointPosted"]
    closed = [place for place in posts if place in commits and run.churn[0] <= last[place] <= run.churn[1]]
    if not closed:
        raise SystemExit("too short: no round was closed while workers were killed; give --seconds more")
    commit_s = [commits[place] - last[place] for place in closed]
    rejoins = rejoined(run)
    return result | {
        "goodput": churned["utilisation"] / calm,
        "goodput_survivors": churned["utilisation"] * churned["ready_s"] / churned["surviving_s"] / calm,
        "lost_s_a_kill": (churned["ready_s"] - churned["surviving_s"]) / len(run.kills),
        "survivor_commit_s": statistics.median(commit_s),
        "survivor_commit_worst_s": max(commit_s),
        "checkpoint_s": statistics.median(posts[place] - commits[place] for place in closed),
        "rejoin_s": statistics.median(r["ready"] for r in rejoins),
        "rejoin_worst_s": max(r["ready"] for r in rejoins),
        "rejoin_parts_s": {
            part: statistics.median(times)
            for part in LAUNCH_PARTS
            if (times := [r[part] for r in rejoins if part in r])
        },
        "restart_s": statistics.median(r["launched"] for r in rejoins),
        "rounds": len(closed),
        "done_twice": twice,
        "kills": len(run.kills),
        "fired": run.fired,
    }


def rejoined(run: Run) -> list[dict[str, float]]:
    """Of every restart, seconds from the launch to each part of it, and (launched) from the kill to the launch."""
    rejoins = []
    for killed_at, name in run.kills:
        launch = next((at for at, launched in run.launches if launched == name and at >= killed_at), None)
        if launch is None:
            continue
        parts = {"launched": launch - killed_at}
        for part in LAUNCH_PARTS:
            at = next((e["at"] for e in run.worker_events[name] if e["event"] == part and e["at"] >= launch), None)
            if at is not None:
                parts[part] = at - launch
        if "ready" in parts:
            rejoins.append(parts)
    return rejoins


def main() -> int:
    parser = argparse.ArgumentParser(description="Goodput while workers are killed")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--spares", type=int, default=1, help="processes that wait to become a worker that died")
    parser.add_argument("--jobs", type=int, default=1, help="at once")
    parser.add_argument(
        "--slots", type=int, default=120, help="of a round: many a worker, so that they divide among the living"
    )
    parser.add_argument("--delay", type=int, choices=(0, 1), default=1, help="of the jobs")
    parser.add_argument("--slot-s", type=float, default=3.0, help="seconds that a slot-round takes a worker")
    parser.add_argument("--every-s", type=float, default=30.0, help="between kills")
    parser.add_argument("--seconds", type=float, default=600.0, help="of kills")
    parser.add_argument("--calm-s", type=float, default=100.0, help="before them")
    parser.add_argument("--folder", type=Path, help="to keep the logs in")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.folder:
        made = run(options, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="churn") as folder:
            made = run(options, Path(folder))
    result = {"parameters": parameters_of(options), **reckon(made, options)}
    print(json.dumps(result) if options.json else "\n".join(f"{key:<24} {value}" for key, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
