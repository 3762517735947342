"""The processes of an operator: `python -m keepers.processes.run keeper|worker --home DIR`, normally run by the daemon."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celery.signals import worker_ready, worker_shutting_down

from keepers.config import OperatorConfig, load
from keepers.monitoring import metrics
from keepers.monitoring.logs import configure_logging
from keepers.monitoring.power import PowerMeter, card_of
from keepers.monitoring.server import serve_daemon
from keepers.processes import worker
from keepers.processes.worker import TaskBody
from keepers.queue import broker, seals
from keepers.queue.app import DISPUTE_QUEUE, WORK_QUEUE, make_app, print_ready
from keepers.queue.busy_time import BusyTime
from keepers.queue.listening import Listening
from keepers.queue.presence import Presence
from keepers.queue.received_bytes import open_counted
from keepers.queue.worker_leases import WorkLog, worker_name
from node.hardware import use_memory, use_state_folder, use_time_margin
from node.measurement.limited_process import stop_all
from zoo_compute.errors import ZooError

log = logging.getLogger("zoo.process")
END_S = 10  # from the first request to end; a daemon that lives waits for half of it


def run_worker(config: OperatorConfig, name: str, queue: str, tasks: Mapping[str, TaskBody]) -> None:
    """A worker: the store and a queue; no keys, no chain. `tasks` replaces bodies (of a cheating worker, say)."""
    serve_daemon(metrics.WORKER, lambda: {"ok": True})
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    worklog = WorkLog(client, seals.load(config.folder), worker_name(config.name, name))
    worklog.release_leases()
    bodies = {task: tasks.get(task, body) for task, body in worker.tasks_of(queue).items()}
    presence = Presence(client, worker_name(config.name, name)) if queue == WORK_QUEUE else None
    if presence:
        presence.start()
    store = open_counted(config, client)
    if queue == WORK_QUEUE:
        from node.device import ensure_checked

        ensure_checked(config.device or None)  # a GPU's first check takes a minute: before work, not within it
    use_memory(config.memory_bytes)
    use_time_margin(config.time_margin)
    if config.state_folder:
        use_state_folder(config.path(config.state_folder))
    options: Any = {"device": config.device, "threads": config.threads, "dispute_workers": config.dispute_workers}
    meter = PowerMeter(config.power_watts, card_of(config.device))
    worker.bind(app, worklog, store, bodies, presence=presence, meter=meter, busy=BusyTime(client), **options)
    Listening(client, queue).start()
    worker_ready.connect(print_ready, weak=False)
    worker_shutting_down.connect(lambda **_: stop_all(), weak=False)
    worker.start(app, worker_name(config.name, name), queue)


def _end_in_time(**_: object) -> None:
    """Have the kernel end this process soon: Celery lets a task run to its end, which may be hours away, and a daemon that died ends nobody."""
    signal.alarm(END_S)


def main(argv: list[str] | None = None, tasks: Mapping[str, TaskBody] | None = None) -> int:
    """tasks: bodies instead of a worker's own."""
    parser = argparse.ArgumentParser(prog="keepers.processes.run", description=__doc__)
    parser.add_argument("role", choices=("keeper", "worker"))
    parser.add_argument("--home", type=Path, required=True, help="the operator's folder")
    parser.add_argument("--role", dest="roles", action="append", help="instead of those that operator.json lists")
    parser.add_argument("--name", default="0", help="unique among the operator's workers")
    parser.add_argument("--queue", default=WORK_QUEUE, choices=(WORK_QUEUE, DISPUTE_QUEUE), help="what a worker serves")
    arguments = parser.parse_args(argv)
    configure_logging()
    worker_shutting_down.connect(_end_in_time, weak=False)
    os.umask(0o077)  # the broker's file holds sealed prices, the logs say what was decided
    try:
        config = load(arguments.home)
        configure_logging(config.log_format)
        if arguments.roles:
            config = dataclasses.replace(config, roles=arguments.roles)
        if arguments.role == "keeper":
            from keepers.processes.keeper_process import (
                run_keeper,  # web3, which takes seconds to load: a worker does without
            )

            run_keeper(config)
        else:
            run_worker(config, arguments.name, arguments.queue, tasks or {})
    except ZooError as error:
        log.error("%s (%s)", error, error.hint)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
