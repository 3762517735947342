"""A worker process: Celery tasks that train, re-execute and aggregate. It holds no keys and trusts no request.

Run by `zoo node start`, alone with `--only worker`. Killing it at any line costs the time since its task began and nothing else:
its lease expires and the keeper sends the work again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery

from keepers.app import MOVE_QUEUE, WORK_QUEUE
from keepers.requests import PREPARE
from keepers.work import MOVE, WorkLog
from node import disputing
from node import worker as node_worker
from node.errors import Withheld
from zoo_compute.errors import Retryable
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.errors import ContentMissing, StoreUnreachable

log = logging.getLogger("zoo.worker")

Body = Callable[[dict[str, Any], Store], dict[str, Any]]

TASKS: dict[str, Body] = {
    "work.prepare": node_worker.prepare,
    "work.train": node_worker.run_shard,
    "work.fetch": node_worker.run_fetching,
    "work.aggregate": node_worker.run_aggregation,
    "work.verify": node_worker.run_verification,
    "work.check": node_worker.run_aggregation_check,
    "work.keep": node_worker.run_keeping,
    MOVE: disputing.run_move,
}


def bind(
    app: Celery, worklog: WorkLog, store: Store, tasks: dict[str, Body] | None = None, *, device: str = ""
) -> None:
    """Register the worker's tasks on `app`. `tasks` replaces bodies (a cheating worker in a test, say).

    device: such as `cuda:1`; empty takes the best there is.
    """
    for task, body in (TASKS | (tasks or {})).items():
        app.task(name=task, ignore_result=True)(_task(body, worklog, store, device))


def _task(body: Body, worklog: WorkLog, store: Store, device: str) -> Callable[[str, dict[str, Any]], None]:
    def task(name: str, request: dict[str, Any]) -> None:
        run(body, worklog, store, name, {**request, "device": device} if device else request)

    task.__name__ = body.__name__
    return task


def run(body: Body, worklog: WorkLog, store: Store, name: str, request: dict[str, Any]) -> None:
    """Do the work called `name` once: skipped when it is done or another worker holds its lease."""
    if worklog.finished(name):
        return
    with worklog.lease(name) as mine:
        if not mine:
            return
        try:
            if isinstance(store, BlockStore):
                store.set_peers(request.get("peers", []))
            worklog.record(name, body(request, store))
            log.info("%s done", name)
        except Withheld as error:
            log.warning("%s: %s; will be tried again", name, error)
            worklog.miss(name, {**error.to_dict(), "asked_at": request.get("asked_at", 0)})
        except (Retryable, ContentMissing, StoreUnreachable) as error:
            log.warning("%s: %s; will be tried again", name, error)
            if name.startswith(PREPARE):  # before a bid nothing is owed: a job whose files cannot be had is left alone
                worklog.record_failure(name, str(error))
            else:
                worklog.forget(name)
        except Exception as error:
            log.exception("%s failed", name)
            worklog.record_failure(name, f"{type(error).__name__}: {error}")


def start(app: Celery, name: str) -> None:
    """Serve the work queue until told to stop. One task at a time: torch uses the threads."""
    worker = app.Worker(
        pool="solo",
        queues=[MOVE_QUEUE, WORK_QUEUE],
        hostname=f"worker@{name}",
        loglevel="INFO",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
    )
    worker.start()
