"""The operator's own work queue: dispatch once, know what runs, send again what was lost with its worker.

A piece of work has a name that says what it is (job, round, slot, start root), so that asking twice is asking once.
States: absent -> queued -> running -> done | failed. A worker that dies takes no state with it: its lease
(keepers/queue/worker_leases.py) expires, and the work is queued again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from celery import Celery

from keepers.queue.app import DISPUTE_QUEUE, KEEPER_QUEUE, RESULT_TTL_S, WATCH_TASK, WORK_QUEUE
from keepers.queue.names import is_of
from keepers.queue.presence import speeds_of
from keepers.queue.seals import FILE, Seals
from keepers.queue.worker_leases import DEATHS, DONE, FAILED, MISSING, quarantine_s

log = logging.getLogger("zoo.keeper")

RedisClient = Any  # redis.Redis, whose every answer is typed as a value or an awaitable

RESEND_AFTER_S = 3.0
ATTEMPTS = 3
# So many workers died of a work, alone or beside other work: then it is left alone (worker_leases.quarantine_s).
DEATHS_ALONE, DEATHS_BESIDE = 3, 9
MEMO = "memo"  # a record of the keeper's own, sealed as those of workers are
RECORDS = {DONE, MISSING, FAILED, DEATHS, MEMO, "by", "sent"}
DISPUTE_TASK = "work.dispute"  # the task that computes answers and asks


@dataclass(frozen=True)
class WorkStatus:
    """`state` as in the module's docstring; `result` when done, `error` when failed for good.

    missing: data that others did not serve in the last attempt (node.errors.Withheld).
    """

    state: str
    result: dict[str, Any] | None = None
    error: str | None = None
    missing: dict[str, Any] | None = None


class WorkQueue:
    """Work sent to the operator's own workers, kept in the operator's own Redis: first come, first served, but what was lost at once."""

    def __init__(self, app: Celery, client: RedisClient, seals: Seals) -> None:
        self._app = app
        self._seals = seals
        self._redis = client

    def submit(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        """Run `task` with `request`, unless it runs, ran or waits already. Returns its status."""
        status = self.status(name)
        if status.state in ("done", "failed"):
            return status
        key = f"zoo:sent:{name}"
        queue = DISPUTE_QUEUE if task == DISPUTE_TASK else WORK_QUEUE
        if status.state == "running" or not self._lost(key, queue):
            return status if status.state == "running" else WorkStatus("queued")
        self._redis.set(key, time.time(), ex=RESULT_TTL_S)
        self._app.send_task(task, args=[name, request, self._seals.of(task, name, request)], queue=queue)
        if int(self._redis.get(f"zoo:begun:{name}") or 0) == 1:
            # And lost with its worker: others' work waits for it, so it goes before what was sent later. But once: what
            # takes one worker after another with it must not keep all else waiting.
            self._redis.lmove(queue, queue, "LEFT", "RIGHT")
        return WorkStatus("queued")

    def status(self, name: str) -> WorkStatus:
        """The status of the work called `name`."""
        done = self._opened(DONE, name)
        if done is not None:
            return WorkStatus("done", result=done)
        missing = self._opened(MISSING, name)
        if self._redis.exists(f"zoo:lease:{name}"):
            return WorkStatus("running", missing=missing)
        failures = self._counted(FAILED, name, RESULT_TTL_S)
        if len(failures) >= ATTEMPTS:
            return WorkStatus("failed", error=failures[-1]["error"])
        deaths = self._counted(DEATHS, name, quarantine_s(name))
        alone = sum(death["alone"] for death in deaths)
        if alone * DEATHS_BESIDE + (len(deaths) - alone) * DEATHS_ALONE >= DEATHS_ALONE * DEATHS_BESIDE:
            return WorkStatus(
                "failed",
                error=f"{len(deaths)} workers died of it (out of memory, or a crash); the daemon's log has the times",
            )
        return WorkStatus("queued" if self._redis.exists(f"zoo:sent:{name}") else "absent", missing=missing)

    def forget(self, name: str) -> None:
        """What came of the work called `name`: the next request does it again."""
        self._redis.delete(f"zoo:{DONE}:{name}")

    def _opened(self, kind: str, name: str) -> Any:
        """A record that a worker of this operator made; None where there is none. A forged one is deleted: the work is done again."""
        record = self._redis.get(f"zoo:{kind}:{name}")
        if record is None:
            return None
        try:
            return self._seals.open(kind, name, record)
        except ValueError as error:
            log.error("%s: it is deleted; somebody else writes the broker, or a worker has another %s", error, FILE)
            self._redis.delete(f"zoo:{kind}:{name}")
            return None

    def _counted(self, kind: str, name: str, for_s: int) -> list[dict[str, Any]]:
        """What workers and daemons of this operator recorded in so much time. Copied in the broker, or kept there for longer, it counts no more."""
        records: dict[str, dict[str, Any]] = {}
        for record in self._redis.lrange(f"zoo:{kind}:{name}", 0, -1):
            try:
                value = self._seals.open(kind, name, record)
            except ValueError as error:
                log.error("%s: it does not count", error)
                continue
            if value["at"] + value.get("for_s", for_s) > time.time():
                records[value["id"]] = value
        return list(records.values())

    def first_value(self, key: str, value: int) -> int:
        """The integer first remembered under `key`: `value`, unless there is one already."""
        self._redis.set(f"zoo:{MEMO}:{key}", self._seals.close(MEMO, key, value), nx=True, ex=RESULT_TTL_S)
        known = self._opened(MEMO, key)
        return value if known is None else int(known)

    def forget_job(self, job: int, claims: Collection[str]) -> None:
        """Delete the records of a job's work, which nobody asks for again. claims: `names.is_of`.

        Those of work that is under way stay, and expire.
        """
        for key in list(self._redis.scan_iter(match="zoo:*:*", count=1000)):
            _, kind, name = key.decode().split(":", 2)
            if kind in RECORDS and is_of(name, job, claims):
                self._redis.delete(key)
        self._redis.delete(f"zoo:newest:{job}")

    def workers(self) -> list[str]:
        """Those that train and are present, on every machine of this operator."""
        return sorted(speeds_of(self._redis))

    def relative_paces(self, timed: str, workers: int) -> tuple[float, ...]:
        """Of each worker that is present, the time it takes over that of the one that did the work called `timed`.

        1 where either is not known yet; and for so many more that `workers` are counted: they are about to start.
        """
        by = (self._redis.get(f"zoo:by:{timed}") or b"").decode()
        reference = float(self._redis.get(f"zoo:speed:{by}") or 0)
        paces = [
            reference / speed if reference and speed else 1.0 for _, speed in sorted(speeds_of(self._redis).items())
        ]
        return (*paces, *[1.0] * (workers - len(paces)))

    def wake(self) -> None:
        """Make the keeper look at the chain now, unless it is about to."""
        if not self._redis.llen(KEEPER_QUEUE):
            self._app.send_task(WATCH_TASK, expires=60, queue=KEEPER_QUEUE)

    def announce_turn(self, job: int, round: int, start_root: bytes) -> None:
        """Which round the chain's newest turn does, and from what: what starts from another root is not wanted any more."""
        self._redis.set(f"zoo:newest:{job}", json.dumps([round, start_root.hex()]), ex=RESULT_TTL_S)

    def depth(self) -> int:
        """Messages that no worker has taken yet."""
        return int(self._redis.llen(WORK_QUEUE)) + int(self._redis.llen(DISPUTE_QUEUE))

    def _lost(self, key: str, queue: str) -> bool:
        """Never sent, or begun by a worker that died; or sent a while ago, and nothing waits in the queue. Sent twice, it is done once."""
        sent = self._redis.get(key)
        if sent is None:
            return True
        return time.time() - float(sent) >= RESEND_AFTER_S and not self._redis.llen(queue)
