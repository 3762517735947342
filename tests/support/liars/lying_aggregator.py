"""An aggregator's worker whose checkpoints differ in one number. Options are those of `keepers.processes.run worker`."""

from __future__ import annotations

import sys
from typing import Any

from keepers.processes import run
from node import tasks
from node.compute.programs import State

honest = tasks.aggregate


def false(*arguments: Any) -> State:
    made = honest(*arguments)
    name = min(made)
    made[name] = made[name].copy()
    made[name].reshape(-1)[0] += 1
    return made


if __name__ == "__main__":
    tasks.aggregate = false
    sys.exit(run.main(["worker", *sys.argv[1:]]))
