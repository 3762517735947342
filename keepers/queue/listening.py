"""A consumer that lost Redis may come back deaf: connected again, it never takes a message. Its process notices, and ends; the daemon starts it anew.

Seen with celery 5.6 and kombu 5.6 after one of four restarts of Redis; the watchdog alone would have taken ten minutes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from celery.signals import task_postrun, task_prerun, worker_ready

log = logging.getLogger("zoo.process")

DEAF_AFTER_S = 20.0  # in which a message waits though nothing is done
LOOK_EVERY_S = 2.0
DEAF_EXIT_CODE = 75


class Listening:
    """Of one process with a solo pool. queue: the one that it consumes."""

    def __init__(self, client: redis.Redis, queue: str, end: Callable[[int], object] = os._exit) -> None:
        self._redis, self._queue, self._end = client, queue, end
        self._running = 0
        self._waits_since: float | None = None

    def start(self) -> None:
        """Look from the moment on at which the process takes work."""
        task_prerun.connect(self.began, weak=False)
        task_postrun.connect(self.ended, weak=False)
        worker_ready.connect(
            lambda **_: threading.Thread(target=self._run, name="listening", daemon=True).start(), weak=False
        )

    def began(self, **_: Any) -> None:
        self._running += 1

    def ended(self, **_: Any) -> None:
        self._running -= 1
        self._waits_since = None

    def look(self, now: float) -> None:
        """End the process where a message has waited for too long. now: of time.monotonic."""
        try:
            waits = not self._running and int(self._redis.llen(self._queue)) > 0  # type: ignore[arg-type]
        except redis.RedisError:
            waits = False
        if not waits:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since >= DEAF_AFTER_S:
            log.critical(
                "a message has waited in %s for %.0f s, though this process does nothing: it ends, to be started again",
                self._queue,
                now - self._waits_since,
            )
            self._end(DEAF_EXIT_CODE)

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            self.look(time.monotonic())
