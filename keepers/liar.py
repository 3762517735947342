"""A worker that lies once and commits to it, for the demo and the tests. Nothing else starts it.

python -m keepers.liar --home DIR --round R --slot S --tensor NAME    one bit of the update, which it cannot defend
python -m keepers.liar --home DIR --round R --slot S --step H         one bit of one number in a step; it goes on from there,
                                                                      and defends it in a dispute game as if it were right
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from celery.signals import worker_ready

from keepers import broker, worker
from keepers.app import make_app
from keepers.config import load
from keepers.process import configure_logging, say_ready
from keepers.work import MOVE, WorkLog
from node.device import use_threads
from node.disputes.computation import SlotRound
from node.disputing import run_move
from node.faults import Lie, flip_bit
from node.worker import run_shard
from zoo_compute.store import Store, open_store


def bodies(arguments: argparse.Namespace) -> dict[str, worker.Body]:
    """The tasks that are done falsely."""
    place = (arguments.round, arguments.slot)
    if arguments.tensor:
        fault = flip_bit(round=place[0], slot=place[1], tensor=arguments.tensor, element=3, bit=20)
        return {"work.train": _named(run_shard, tamper=fault)}
    lie = Lie(*place, step=arguments.step, op=arguments.op)

    def move(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
        return run_move(request, store, made=lie.slot_round if lie.is_about(request) else SlotRound)

    return {"work.train": _named(run_shard, tamper=lie), MOVE: move}


def _named(body: Any, **options: Any) -> worker.Body:
    changed = partial(body, **options)
    changed.__name__ = body.__name__  # type: ignore[attr-defined]
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(prog="keepers.liar", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--home", type=Path, required=True, help="the operator's folder")
    parser.add_argument("--round", type=int, required=True)
    parser.add_argument("--slot", type=int, help="with --step: every one that it trains, if it is left out")
    parser.add_argument("--tensor", help="of the update")
    parser.add_argument("--step", type=int, default=0, help="the inner step in which it lies")
    parser.add_argument("--op", default="dot", help="the operator; of its nodes the one in the middle lies")
    arguments = parser.parse_args()
    configure_logging()
    config = load(arguments.home)
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    worklog = WorkLog(client, f"{config.name}-0")
    worklog.start_afresh()
    if config.threads:
        use_threads(config.threads)
    worker.bind(app, worklog, open_store(config.store_location), bodies(arguments), device=config.device)
    worker_ready.connect(say_ready, weak=False)
    worker.start(app, f"{config.name}-0")


if __name__ == "__main__":
    main()
