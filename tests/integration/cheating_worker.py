"""A worker that flips one bit of one update and commits to it. Run in place of the real one by the tests."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from celery.signals import worker_ready

from keepers import broker, worker
from keepers.app import make_app
from keepers.config import load
from keepers.process import configure_logging, say_ready
from keepers.work import WorkLog
from node.faults import flip_bit
from node.worker import run_shard
from zoo_compute.store import open_store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--round", type=int, required=True)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--tensor", required=True)
    arguments = parser.parse_args()
    configure_logging()
    config = load(arguments.home)
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    tamper = flip_bit(round=arguments.round, slot=arguments.slot, tensor=arguments.tensor, element=3, bit=20)
    worklog = WorkLog(client, f"{config.name}-0")
    worklog.start_afresh()
    cheat = functools.partial(run_shard, tamper=tamper)
    functools.update_wrapper(cheat, run_shard)
    worker.bind(app, worklog, open_store(config.store_location), {"work.train": cheat})
    worker_ready.connect(say_ready, weak=False)
    worker.start(app, f"{config.name}-0")


if __name__ == "__main__":
    main()
