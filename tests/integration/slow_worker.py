"""A worker whose slot-rounds and measurements last an hour, and whose answers take as long as the request says, else no time.
Options are those of `keepers.processes.run worker`."""

from __future__ import annotations

import sys
import time
from typing import Any

from keepers.processes import run
from keepers.queue.work_queue import DISPUTE_TASK
from node.measurement.limited_process import Limits, run_limited

SLOT_ROUND_S = 3_600


def train(request: dict[str, Any], store: Any, **_: Any) -> dict[str, Any]:
    time.sleep(SLOT_ROUND_S)
    return {}


def answer(request: dict[str, Any], store: Any) -> dict[str, Any]:
    time.sleep(request.get("takes_s", 0))
    return {"name": None, "args": []}


def prepare(request: dict[str, Any], store: Any) -> dict[str, Any]:
    """As node.measurement.step_cost runs its child. It writes its number into the file that the request names."""
    sleep = f"import os, time; open({request['pid']!r}, 'w').write(str(os.getpid())); time.sleep({SLOT_ROUND_S})"
    return run_limited([sys.executable, "-c", sleep], Limits(SLOT_ROUND_S, SLOT_ROUND_S, 10**9, 10**6))


if __name__ == "__main__":
    sys.exit(run.main(["worker", *sys.argv[1:]], {"work.train": train, "work.prepare": prepare, DISPUTE_TASK: answer}))
