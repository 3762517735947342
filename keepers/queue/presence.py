"""Which workers of an operator are present, how fast each is, and when one leaves a slot to another.

GPUs of unequal speed serve one queue. The slowest could take the last slot of a round, and all would wait for it. So a worker puts
a slot back if the others would finish without it sooner (`zoo_compute.spec.schedule.leaves`). A worker's record in the
operator's own Redis expires within seconds, so nobody waits long for a worker that died.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError

from keepers.queue.app import RESULT_TTL_S, WORK_QUEUE
from zoo_compute.spec.schedule import Pace, leaves

log = logging.getLogger("zoo.worker")

RedisClient = Any  # as in keepers/queue/work_queue.py

WORKERS = (
    "zoo:workers"  # names of those that were present lately: a look at all keys takes 0.1 s where a year's outcomes are
)
PRESENCE_TTL_S = 10
RENEWAL_S = 2.0
PAUSE_S = 0.5  # after a slot was put back, before the queue is asked again
OVERDUE_FACTOR = 2  # times the time a slot takes: who works longer at something is not waited for
YIELD_FACTOR = 0.8  # of my time: who would be done no sooner is not waited for, since speeds vary from slot to slot


def speeds_of(client: RedisClient) -> dict[str, float]:
    """Present workers -> flops a second of their last slot-round; 0: none yet."""
    return {worker: known["flops_per_s"] for worker, known in _present(client).items()}


def _present(client: RedisClient) -> dict[str, Any]:
    names = sorted(member.decode() for member in client.smembers(WORKERS))
    records = client.mget([f"zoo:worker:{name}" for name in names]) if names else []
    workers = {name: json.loads(record) for name, record in zip(names, records, strict=True) if record is not None}
    if gone := [name for name in names if name not in workers]:
        client.srem(WORKERS, *gone)
    return workers


class Presence:
    """A worker's own word about itself."""

    def __init__(self, client: RedisClient, worker: str) -> None:
        self._redis = client
        self._worker = worker
        self._speed_key = f"zoo:speed:{worker}"
        self._since = 0.0  # when it began what it does; 0: it is idle
        self._left: set[str] = set()  # what it put back since it worked last

    def start(self) -> None:
        """Be present until the process ends."""
        self.announce()
        threading.Thread(target=self._renew, name="presence", daemon=True).start()

    def announce(self) -> None:
        """Work does not fail with this: a broker that is gone for a moment hears it at the next renewal."""
        try:
            record = {"flops_per_s": self._speed(), "since": self._since}
            self._redis.set(f"zoo:worker:{self._worker}", json.dumps(record), ex=PRESENCE_TTL_S)
            self._redis.sadd(WORKERS, self._worker)
        except RedisError as error:
            log.warning("the broker does not answer: %s", error)

    @contextmanager
    def working(self) -> Iterator[None]:
        self._since = time.time()
        self._left.clear()
        self.announce()
        try:
            yield
        finally:
            self._since = 0.0
            self.announce()

    def record_speed(self, flops: int, seconds: float) -> None:
        """It trained a slot-round of so many flops."""
        self._redis.set(self._speed_key, flops / max(seconds, 1e-3), ex=RESULT_TTL_S)
        self.announce()

    def should_yield(self, name: str, flops: int) -> bool:
        """Whether the slot called `name`, of so many flops, just taken from the queue, is better put back for the others."""
        speed = self._speed()
        if not speed or not flops:
            return False
        waiting, now = int(self._redis.llen(WORK_QUEUE)) + 1, time.time()
        others: list[Pace] = []
        for worker, known in _present(self._redis).items():
            if worker == self._worker or not known["flops_per_s"]:
                continue
            each = flops / known["flops_per_s"]
            spent = now - known["since"] if known["since"] else each
            # Who is idle takes what is put back at once: if I am given it again, nobody is idle.
            if spent <= OVERDUE_FACTOR * each and (known["since"] or name not in self._left):
                others.append(Pace(len(others), _ms(each), _ms(max(0.0, each - spent))))
        if not leaves(waiting, Pace(-1, _ms(YIELD_FACTOR * flops / speed)), others):
            return False
        self._left.add(name)
        return True

    def _speed(self) -> float:
        return float(self._redis.get(self._speed_key) or 0)

    def _renew(self) -> None:
        while True:
            time.sleep(RENEWAL_S)
            self.announce()


def _ms(seconds: float) -> int:
    return math.ceil(1_000 * seconds)
