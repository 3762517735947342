"""A worker with a fixed time per slot-round, so that one machine can run more workers than it has cores.

    python -m benchmarks.network.fixed_time_worker --slot-s S --log FILE ...     other options are those of `keepers.processes.run worker`

The work and its results are real; the worker sleeps for the rest of the time. FILE gets one JSON line per event: imports
done, ready, slot-round begun, slot-round ended.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery.signals import worker_ready

from benchmarks.network.event_log import event_writer
from keepers.processes import run
from node.inputs.job_files import fetch_inputs
from node.tasks import prepare, run_shard
from zoo_compute.store import Store

IMPORTED_AT = time.time()
ESTIMATE = 1.3  # what the worker says a slot-round takes, of what it takes: a few are done twice


class PacedTasks:
    """The bodies of a paced worker's tasks."""

    def __init__(self, slot_s: float, tell: Callable[..., None]) -> None:
        self._slot_s = slot_s
        self._tell = tell

    def prepare(self, request: dict[str, Any], store: Store) -> dict[str, Any]:
        return {**prepare(request, store), "slot_s": ESTIMATE * self._slot_s}

    def train(self, request: dict[str, Any], store: Store, progress: Callable[[int, float], None]) -> dict[str, Any]:
        place = {"job": request["job"], "round": request["round"], "slot": request["slot"]}
        began = time.time()
        self._tell("began", **place)
        fetch_inputs(store, request)
        self._tell("fetched", **place)
        first = True

        def log_step(step: int, loss: float) -> None:
            nonlocal first
            if first:
                self._tell("first_step", **place)
            first = False
            progress(step, loss)

        answer = run_shard(request, store, progress=log_step)
        worked_s = time.time() - began
        time.sleep(max(0.0, self._slot_s - worked_s))
        self._tell("ended", **place, worked_s=worked_s, tokens=answer["tokens"])
        return answer


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.network.fixed_time_worker", allow_abbrev=False)
    parser.add_argument("--slot-s", type=float, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options, of_worker = parser.parse_known_args()
    tell = event_writer(options.log)
    tell("imported", IMPORTED_AT)
    worker_ready.connect(lambda **_: tell("ready"), weak=False)
    paced = PacedTasks(options.slot_s, tell)
    tasks = {"work.prepare": _named(paced.prepare, "prepare"), "work.train": _named(paced.train, "run_shard")}
    return run.main(["worker", *of_worker], tasks)


def _named(body: Callable[..., Any], name: str) -> Callable[..., Any]:
    changed = functools.partial(body)
    changed.__name__ = name  # type: ignore[attr-defined]
    return changed


if __name__ == "__main__":
    sys.exit(main())
