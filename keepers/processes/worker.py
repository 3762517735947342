"""A worker process: Celery tasks of one queue. It holds no keys and trusts no request.

Training, re-execution and aggregation share one queue. Disputes have a queue and processes of their own, since their clocks do not
wait until a slot-round is done; nor for another job's disputes: one job's never take the last process.

Run by `zoo node start`, alone with `--only worker`. Killing it at any line costs only the time since its task began:
its lease expires and the keeper sends the work again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from celery import Celery
from redis.exceptions import RedisError

from keepers.monitoring import metrics
from keepers.monitoring.power import PowerMeter, mean
from keepers.queue.app import DISPUTE_QUEUE, KEEPER_QUEUE, WATCH_TASK, WORK_QUEUE
from keepers.queue.busy_time import BusyTime
from keepers.queue.names import PREPARE_PREFIX
from keepers.queue.presence import PAUSE_S, Presence
from keepers.queue.seals import FILE
from keepers.queue.work_queue import DISPUTE_TASK
from keepers.queue.worker_leases import WorkLog
from node.errors import BackendFailed, Interrupted, Withheld
from zoo_compute.errors import Retryable
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.errors import ContentMissing, StoreUnreachable

log = logging.getLogger("zoo.worker")

TRAIN_TASK = "work.train"
UNMEASURED = PowerMeter(0, None)
ASK_EVERY_S = 0.2  # whether a training is still wanted: a step of a small program takes as long as the question


class StaleTraining(Exception):
    """The chain went on from another root than this training starts from."""


TaskBody = Callable[[dict[str, Any], Store], dict[str, Any]]


def tasks_of(queue: str) -> dict[str, TaskBody]:
    """Name -> body. The worker for disputes imports node.disputes with its first dispute."""
    if queue == DISPUTE_QUEUE:
        return {DISPUTE_TASK: _dispute}
    from node import tasks as worker
    from node.disputes.trial_check import run_trial_check

    return {
        "work.prepare": worker.prepare,
        TRAIN_TASK: worker.run_shard,
        "work.fetch": worker.run_fetching,
        "work.aggregate": worker.run_aggregation,
        "work.advance": worker.run_precompute,
        "work.verify": worker.run_verification,
        "work.check": worker.run_aggregation_check,
        "work.trial": run_trial_check,
        "work.keep": worker.run_pinning,
        "work.hold": worker.run_holding,
    }


def _dispute(request: dict[str, Any], store: Store) -> dict[str, Any]:
    from node.disputes.player import run_dispute

    return run_dispute(request, store)


def bind(
    app: Celery,
    worklog: WorkLog,
    store: Store,
    tasks: dict[str, TaskBody],
    *,
    presence: Presence | None = None,
    device: str = "",
    threads: int = 0,
    dispute_workers: int = 1,
    meter: PowerMeter = UNMEASURED,
    busy: BusyTime | None = None,
) -> None:
    """Register tasks on `app`. presence: of who trains. device: such as `cuda:1`; empty takes the best there is. threads: 0: as many as torch would.
    dispute_workers: the operator's, of whom one job's disputes take all but one. meter, busy: measure and count what work takes."""

    def made(task: str, body: TaskBody) -> Callable[[str, dict[str, Any], str], None]:
        trains = presence if task == TRAIN_TASK else None

        def do(name: str, request: dict[str, Any], seal: str = "") -> None:
            if not worklog.is_asked_for(task, name, request, seal):
                log.error("%s: the keeper did not send this; or copy %s from its folder to this one", name, FILE)
                return
            if trains and trains.should_yield(name, request.get("flops", 0)):
                app.send_task(task, args=[name, request, seal], queue=WORK_QUEUE)
                time.sleep(PAUSE_S)
                return
            if task == DISPUTE_TASK:
                # Without room the message is spent: the keeper sends it again, as one that was lost, behind other jobs' disputes.
                with worklog.lane(request.get("job", "trial"), max(1, dispute_workers - 1)) as has_room:
                    if has_room:
                        work(name, request)
                return
            work(name, request)

        def work(name: str, request: dict[str, Any]) -> None:
            if threads:
                from node.hardware import use_threads

                use_threads(threads)
            began = time.monotonic()
            metrics.BUSY_S.set_function(lambda: time.monotonic() - began)
            with presence.working() if presence else nullcontext(), meter.working() as watts:
                wanted = _while_wanted(body, worklog) if trains else body
                done = run(wanted, worklog, store, name, {**request, "device": device} if device else request)
            metrics.BUSY_S.set_function(lambda: 0.0)
            metrics.WORK.labels(task, "done" if done else "not done").inc()
            metrics.WORK_S.labels(task).observe(time.monotonic() - began)
            if busy:
                busy.add(time.monotonic() - began, mean(watts))
            if trains and done:
                trains.record_speed(request.get("flops", 0), time.monotonic() - began)
            if worklog.is_awaited(name):
                app.send_task(WATCH_TASK, expires=60, queue=KEEPER_QUEUE)

        do.__name__ = body.__name__
        return do

    for task, body in tasks.items():
        app.task(name=task, ignore_result=True)(made(task, body))


def _while_wanted(body: Callable[..., dict[str, Any]], worklog: WorkLog) -> TaskBody:
    """A training that ends where the chain goes on from another root."""

    def train(request: dict[str, Any], store: Store) -> dict[str, Any]:
        asked_at = -ASK_EVERY_S

        def progress(step: int, loss: float) -> None:
            nonlocal asked_at
            if time.monotonic() - asked_at < ASK_EVERY_S:
                return
            asked_at = time.monotonic()
            try:
                wanted = worklog.is_wanted(request)
            except RedisError as error:  # a broker that is gone for a moment takes no training with it
                log.warning("the broker does not answer: %s", error)
                return
            if not wanted:
                raise StaleTraining(f"round {request['round']} does not start from {request['start_root']}")

        return body(request, store, progress=progress)

    return train


def run(body: TaskBody, worklog: WorkLog, store: Store, name: str, request: dict[str, Any]) -> bool:
    """Do the work called `name` once: skipped when it is done or another worker holds its lease. Whether it was done here and now."""
    if worklog.finished(name):
        return False
    with worklog.lease(name) as mine:
        if not mine:
            return False
        try:
            if isinstance(store, BlockStore):
                store.set_peers(request.get("peers", []), Scope(request.get("scope", Scope.ANY.value)))
            if worklog.take_crash(name):
                request = _after_crash(name, request)
            worklog.record(name, body(request, store))
            log.info("%s done", name)
            return True
        except (StaleTraining, Interrupted) as error:
            log.warning("%s is abandoned: %s", name, error)
            worklog.allow_resend(name)
        except Withheld as error:
            log.warning("%s: %s; will be tried again", name, error)
            worklog.record_unavailable(name, {**error.to_dict(), "asked_at": request.get("asked_at", 0)})
        except (Retryable, ContentMissing, StoreUnreachable, OSError) as error:  # OSError: as from a full disk
            log.warning("%s: %s; will be tried again", name, error)
            if name.startswith(
                PREPARE_PREFIX
            ):  # before a bid nothing is owed: a job whose files cannot be had is left alone for a while
                worklog.record_passing(name, str(error))
            else:
                worklog.allow_resend(name)
        except Exception as error:
            log.exception("%s failed", name)
            worklog.record_failure(name, f"{type(error).__name__}: {error}")
    return False


def _after_crash(name: str, request: dict[str, Any]) -> dict[str, Any]:
    """The request as it is done on other kernels than those that a worker crashed with."""
    from node.backends import on_next
    from node.device import kernels_of

    crash = RuntimeError(f"a worker crashed in {name}")
    return dict(on_next(request, BackendFailed(kernels_of(request), crash)))


def start(app: Celery, name: str, queue: str) -> None:
    """Serve a queue until the process is stopped. One task at a time: torch uses the threads."""
    worker = app.Worker(
        pool="solo",
        queues=[queue],
        hostname=f"worker@{name}",
        loglevel="INFO",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=not app.conf.worker_send_task_events,
    )
    worker.start()
