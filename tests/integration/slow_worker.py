"""A worker whose slot-rounds last an hour, and whose moves last as long as the request says, else no time. Options are those of
`keepers.processes.run worker`."""

from __future__ import annotations

import sys
import time
from typing import Any

from keepers.processes import run
from keepers.queue.work_queue import MOVE_TASK

SLOT_ROUND_S = 3_600


def train(request: dict[str, Any], store: Any, **_: Any) -> dict[str, Any]:
    time.sleep(SLOT_ROUND_S)
    return {}


def move(request: dict[str, Any], store: Any) -> dict[str, Any]:
    time.sleep(request.get("takes_s", 0))
    return {"name": None, "args": []}


if __name__ == "__main__":
    sys.exit(run.main(["worker", *sys.argv[1:]], {"work.train": train, MOVE_TASK: move}))
