"""An aggregator's worker whose checkpoints differ in one number.

python -m tests.support.liars.lying_aggregator [--round R --share N]     in every checkpoint, or in one of several aggregators' shares of one
Its other options are those of `keepers.processes.run worker`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from keepers.processes import run
from node import tasks
from node.compute.programs import State
from zoo_compute.store.interface import Store

honest_aggregate, honest_task = tasks.aggregate, tasks.run_aggregation


def false(*arguments: Any) -> State:
    made = honest_aggregate(*arguments)
    name = min(made)
    made[name] = made[name].copy()
    made[name].reshape(-1)[0] += 1
    return made


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--round", type=int)
    parser.add_argument("--share", type=int)
    arguments, of_worker = parser.parse_known_args()
    if arguments.round is None:
        tasks.aggregate = false
        return run.main(["worker", *of_worker])

    def run_aggregation(request: Mapping[str, Any], store: Store, **options: Any) -> dict[str, Any]:
        is_false = (request["round"], request.get("share")) == (arguments.round, arguments.share)
        tasks.aggregate = false if is_false else honest_aggregate
        try:
            return honest_task(request, store, **options)
        finally:
            tasks.aggregate = honest_aggregate

    return run.main(["worker", *of_worker], {"work.aggregate": run_aggregation})


if __name__ == "__main__":
    sys.exit(main())
