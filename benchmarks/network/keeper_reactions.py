"""How soon a keeper's transaction follows the block that calls for it.

A reaction is the time from the block with the cause to the block with the answer, each as an observer sees it who asks the chain's RPC
for its newest block every LOOK_S. The keepers are the processes of `zoo node start`, on a devnet that mines every transaction at once:
so it is what the keeper itself takes to notice the block, read the chain, build or compute the answer, simulate it and send it. A chain
adds the wait for its next block; in production a keeper looks for demands every 10 s, on a devnet every 0.5 s, as the time for an answer
is so much shorter there.

reaction_p50_s, reaction_p99_s   of ANSWERS: a demand for a claim's data, answered with the bytes; an ask about a claim, answered with
                                 what a worker computes
reactions                        how many these are
reactions_missed                 demands and asks that nobody answered until the run ended, but for those of its last LAST_S
reaction_by_kind                 each kind: count, p50_s, p99_s, worst_s. Besides: `turn`, from a turn's opening to a seat's results, which
                                 includes training; `results`, from the last results of a turn to its checkpoint, with the aggregation
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.network.event_log import ChainWatcher
from benchmarks.network.hostile_asker import HostileAsker
from keepers.processes.local_network import LocalNetwork, LocalOperators
from tests.support.withholding_jobs import PLANS, post
from zoo_compute.chain import explorations
from zoo_compute.chain.events import Event
from zoo_compute.chain.snapshot import read_job

ROUNDS = 8
LONGEST_S = 900.0  # for all events
LAST_S = 5.0

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """What calls for an answer, and what answers it: names of events, and of arguments that are equal in both."""

    causes: Sequence[str]
    answers: Sequence[str]
    key: Sequence[str]


ANSWERS = {
    "demand": Kind(("ChunkDemanded",), ("DemandAnswered",), ("job", "turn", "seat", "author", "lane")),
    "ask": Kind(explorations.ASKS, explorations.ANSWERS, ("id",)),
}
WORK = {
    "turn": Kind(("TurnOpened",), ("ResultsCommitted",), ("job", "turn")),
    "results": Kind(("ResultsCommitted",), ("CheckpointPosted",), ("job", "turn")),
}
KINDS = {**ANSWERS, **WORK}


class Reactions(ChainWatcher):
    """The seconds of each reaction, by kind, as they are seen."""

    names = tuple({name for kind in KINDS.values() for name in (*kind.causes, *kind.answers)})

    def __init__(self, network: LocalOperators) -> None:
        super().__init__(network)
        self.seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.waiting: dict[str, dict[Key, float]] = {kind: {} for kind in KINDS}

    def see(self, event: Event) -> None:
        self.record(event, time.monotonic())

    def record(self, event: Event, now: float) -> None:
        for name, kind in KINDS.items():
            waiting, key = self.waiting[name], key_of(event, kind)
            if event.name in kind.answers and key in waiting:
                self.seconds[name].append(now - waiting.pop(key))
            if event.name in kind.causes:
                waiting[key] = now

    @property
    def answers(self) -> int:
        return sum(len(self.seconds[kind]) for kind in ANSWERS)

    def missed(self, now: float) -> int:
        return sum(now - since > LAST_S for kind in ANSWERS for since in self.waiting[kind].values())


def key_of(event: Event, kind: Kind) -> Key:
    claim = event.args.get("claim")
    args = {**event.args, **claim} if isinstance(claim, Mapping) else event.args
    return tuple(args.get(name) for name in kind.key)


def summary(seconds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """What is reported of reactions, by kind."""
    answers = sorted(taken for kind in ANSWERS for taken in seconds[kind])
    return {
        "reactions": len(answers),
        "reaction_p50_s": percentile(answers, 50),
        "reaction_p99_s": percentile(answers, 99),
        "reaction_by_kind": {kind: _figures(sorted(each)) for kind, each in seconds.items() if each},
    }


def _figures(taken: Sequence[float]) -> dict[str, float]:
    p50, p99 = percentile(taken, 50), percentile(taken, 99)
    return {"count": len(taken), "p50_s": p50, "p99_s": p99, "worst_s": taken[-1]}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The least value that so many percent do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def measured(folder: Path, events: int) -> dict[str, Any]:
    """So many answers, of jobs that run one after another while somebody asks about all their claims."""
    with LocalNetwork(folder, PLANS) as network:
        seen, asker = Reactions(network), HostileAsker(network, "asker")
        seen.start()
        job, ends = post(network, ROUNDS), time.monotonic() + LONGEST_S
        while seen.answers < events:
            network.poll()
            view = read_job(network.devnet.chain, job)
            asker.pester(view)
            if view.over and not view.pending:
                job = post(network, ROUNDS)
            if time.monotonic() > ends:
                raise SystemExit(f"{seen.answers} of {events} answers in {LONGEST_S:.0f} s; see {folder}/*/logs")
        seen.stopped.set()
        seen.join()
        return summary(seen.seconds) | {"reactions_missed": seen.missed(time.monotonic())}
