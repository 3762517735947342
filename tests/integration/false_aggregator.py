"""An aggregator's worker whose checkpoints differ in one number. Options are those of `keepers.process worker`."""

from __future__ import annotations

import sys
from typing import Any

from keepers import process
from node import worker
from node.programs import State

honest = worker.aggregate


def false(*given: Any) -> State:
    made = honest(*given)
    name = min(made)
    made[name] = made[name].copy()
    made[name].reshape(-1)[0] += 1
    return made


if __name__ == "__main__":
    worker.aggregate = false
    sys.exit(process.main(["worker", *sys.argv[1:]]))
