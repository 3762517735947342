"""The operator's own work queue: dispatch once, know what runs, send again what was lost with its worker.

A piece of work has a name that says what it is (job, round, slot, start root), so that asking twice is asking once.
States: absent -> queued -> running -> done | failed. A worker that dies takes no state with it: its lease expires and
the work is queued again.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery import Celery

from keepers.queue.app import KEEPER_QUEUE, MOVE_QUEUE, RESULT_TTL_S, WATCH_TASK, WORK_QUEUE
from keepers.queue.names import round_of
from keepers.queue.presence import speeds_of

RedisClient = Any  # redis.Redis, whose every answer is typed as a value or an awaitable

LEASE_S = 10
LEASE_RENEWAL_S = 2.0
RESEND_AFTER_S = 3.0
ATTEMPTS = 3
MOVE_TASK = "work.move"  # the task that computes a move of a dispute game


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

    def __init__(self, app: Celery, client: RedisClient) -> None:
        self._app = app
        self._redis = client

    def submit(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        """Run `task` with `request`, unless it runs, ran or waits already. Returns its status."""
        status = self.status(name)
        if status.state in ("done", "failed"):
            return status
        key = f"zoo:sent:{name}"
        queue = MOVE_QUEUE if task == MOVE_TASK else WORK_QUEUE
        if status.state == "running" or not self._lost(key, queue):
            return status if status.state == "running" else WorkStatus("queued")
        self._redis.set(key, time.time(), ex=RESULT_TTL_S)
        self._app.send_task(task, args=[name, request], queue=queue)
        if int(self._redis.get(f"zoo:begun:{name}") or 0) == 1:
            # And lost with its worker: others' work waits for it, so it goes before what was sent later. But once: what
            # takes one worker after another with it must not keep all else waiting.
            self._redis.lmove(queue, queue, "LEFT", "RIGHT")
        return WorkStatus("queued")

    def status(self, name: str) -> WorkStatus:
        """The status of the work called `name`."""
        done = self._redis.get(f"zoo:done:{name}")
        if done is not None:
            return WorkStatus("done", result=json.loads(done))
        missing = json.loads(self._redis.get(f"zoo:missing:{name}") or "null")
        if self._redis.exists(f"zoo:lease:{name}"):
            return WorkStatus("running", missing=missing)
        failures = self._redis.lrange(f"zoo:failed:{name}", 0, -1)
        if len(failures) >= ATTEMPTS:
            return WorkStatus("failed", error=failures[-1].decode())
        return WorkStatus("queued" if self._redis.exists(f"zoo:sent:{name}") else "absent", missing=missing)

    def first_value(self, key: str, value: int) -> int:
        """The integer first remembered under `key`: `value`, unless there is one already."""
        self._redis.set(f"zoo:memo:{key}", value, nx=True)
        return int(self._redis.get(f"zoo:memo:{key}") or value)

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
        return int(self._redis.llen(WORK_QUEUE)) + int(self._redis.llen(MOVE_QUEUE))

    def _lost(self, key: str, queue: str) -> bool:
        """Never sent, or begun by a worker that died; or sent a while ago, and nothing waits in the queue. Sent twice, it is done once."""
        sent = self._redis.get(key)
        if sent is None:
            return True
        return time.time() - float(sent) >= RESEND_AFTER_S and not self._redis.llen(queue)


def _name_in(message: bytes) -> str:
    """Of the work that a message asks for, as Celery writes it."""
    arguments, *_ = json.loads(b64decode(json.loads(message)["body"]))
    return str(arguments[0])


def worker_name(operator: str, name: str) -> str:
    """A worker's name in its leases. name: unique among the operator's workers."""
    return f"{operator}-{name}"


class WorkLog:
    """The worker's side: a lease while it works, and the outcome, each under the work's name."""

    def __init__(self, client: RedisClient, worker: str = "worker") -> None:
        self._redis = client
        self._worker = worker

    def release_leases(self) -> None:
        """Give up the leases of the last process with this worker's name: it died."""
        for key in self._redis.scan_iter(match="zoo:lease:*", count=1000):
            if self._redis.get(key) == self._worker.encode():
                self._redis.delete(key)

    def finished(self, name: str) -> bool:
        return bool(self._redis.exists(f"zoo:done:{name}"))

    def is_awaited(self, name: str) -> bool:
        """Whether the keeper should look now that `name` is done: nothing of its round is taken next, and no look is due anyway."""
        waiting = self._redis.lindex(WORK_QUEUE, -1)
        alike = waiting is not None and round_of(_name_in(waiting)) == round_of(name)
        return not alike and not self._redis.llen(KEEPER_QUEUE)

    def is_wanted(self, request: dict[str, Any]) -> bool:
        """Whether training can still be committed: it is of the chain's newest turn, or of the round after it."""
        newest = json.loads(self._redis.get(f"zoo:newest:{request['job']}") or "null")
        ahead = newest is not None and request["round"] == newest[0] + 1
        return newest is None or ahead or [request["round"], request["start_root"]] == newest

    @contextmanager
    def lease(self, name: str) -> Iterator[bool]:
        """Hold the lease while the block runs; yields False when another worker holds it.

        The message is spent with it: where there is neither lease nor outcome, the worker died, and the work is sent again at once.
        """
        key = f"zoo:lease:{name}"
        if not self._redis.set(key, self._worker, nx=True, ex=LEASE_S):
            yield False
            return
        self._redis.incr(f"zoo:begun:{name}")  # by workers that did not live to see its end
        self._redis.expire(f"zoo:begun:{name}", RESULT_TTL_S)
        self.allow_resend(name)
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(LEASE_RENEWAL_S):
                self._redis.set(key, self._worker, ex=LEASE_S)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield True
        finally:
            stop.set()
            thread.join()
            self._redis.delete(key, f"zoo:begun:{name}")

    def record(self, name: str, result: dict[str, Any]) -> None:
        self._redis.set(f"zoo:by:{name}", self._worker, ex=RESULT_TTL_S)
        self._redis.set(f"zoo:done:{name}", json.dumps(result), ex=RESULT_TTL_S)
        self._redis.delete(f"zoo:failed:{name}", f"zoo:missing:{name}")

    def record_unavailable(self, name: str, missing: dict[str, Any]) -> None:
        """Record data that others do not serve, and let the keeper send the work again."""
        self._redis.set(f"zoo:missing:{name}", json.dumps(missing), ex=RESULT_TTL_S)
        self.allow_resend(name)

    def allow_resend(self, name: str) -> None:
        """Let the keeper send the work again: this attempt gave nothing, and nobody is to blame."""
        self._redis.delete(f"zoo:sent:{name}")

    def record_failure(self, name: str, error: str) -> None:
        self._redis.rpush(f"zoo:failed:{name}", error[:2000])
        self._redis.expire(f"zoo:failed:{name}", RESULT_TTL_S)
        self._redis.delete(f"zoo:sent:{name}")
