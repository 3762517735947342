"""A worker that lies once and commits to it, for the demo and the tests. Nothing else starts it.

python -m tests.support.liars.lying_worker --round R --slot S --tensor NAME ...    one bit of the update, for which it cannot answer
python -m tests.support.liars.lying_worker --round R --slot S --step H ...         one bit of one number in a step; it goes on from there,
                                                               and answers for it in a dispute as if it were right
Its other options are those of `keepers.processes.run worker`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from keepers.processes import run, worker
from keepers.queue.work_queue import DISPUTE_TASK
from node.disputes.player import run_dispute
from node.tasks import run_shard
from tests.support.liars.faults import Lie, flip_bit


def lying_tasks(arguments: argparse.Namespace) -> dict[str, worker.TaskBody]:
    """The tasks that are done falsely."""
    place = (arguments.round, arguments.slot)
    if arguments.tensor:
        fault = flip_bit(round=place[0], slot=place[1], tensor=arguments.tensor, element=3, bit=20)
        return {"work.train": _named(run_shard, tamper=fault)}
    where = {name: getattr(arguments, name) for name in ("step", "op", "entry", "element", "bit")}
    lie = Lie(*place, **where)
    return {"work.train": _named(run_shard, tamper=lie), DISPUTE_TASK: _named(run_dispute, made=lie.answered)}


def _named(body: Any, **options: Any) -> worker.TaskBody:
    changed = partial(body, **options)
    changed.__name__ = body.__name__  # type: ignore[attr-defined]
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.support.liars.lying_worker",
        allow_abbrev=False,
        description=__doc__.split("\n")[0] if __doc__ else "",
    )
    parser.add_argument("--round", type=int, required=True)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--tensor", help="of the update")
    parser.add_argument("--step", type=int, default=0, help="the inner step in which it lies")
    parser.add_argument("--op", default="dot", help="the operator; of its nodes the one in the middle lies")
    parser.add_argument("--entry", default="", help="of the state, instead of --op: the node that gives it lies")
    parser.add_argument("--element", type=int, default=3, help="the false element of that node")
    parser.add_argument("--bit", type=int, default=20, help="its false bit")
    arguments, of_worker = parser.parse_known_args()
    return run.main(["worker", *of_worker], lying_tasks(arguments))


if __name__ == "__main__":
    sys.exit(main())
