"""A broker's records with times, by a clock that a test turns: as much of Redis as the sender's lease asks for."""

from __future__ import annotations

import threading
from typing import Any

import redis

from keepers.queue.sender_lease import RELEASE, RENEW


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Broker:
    """is_down: it answers nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.records: dict[str, tuple[bytes, float]] = {}
        self.hashes: dict[str, dict[bytes, bytes]] = {}
        self.is_down = False

    def _answers(self) -> None:
        if self.is_down:
            raise redis.ConnectionError("gone")

    def get(self, key: str) -> bytes | None:
        self._answers()
        record, end = self.records.get(key, (None, 0.0))
        return record if self._clock.now < end else None

    def set(self, key: str, value: bytes, *, nx: bool, px: int) -> bool:
        assert nx
        with self._lock:
            if self.get(key) is not None:
                return False
            self.records[key] = value, self._clock.now + px / 1_000
            return True

    def eval(self, script: str, keys: int, key: str, value: bytes, ms: int = 0) -> int:
        assert keys == 1
        if self.get(key) != value:
            return 0
        if script == RENEW:
            self.records[key] = value, self._clock.now + ms / 1_000
        else:
            assert script == RELEASE
            del self.records[key]
        return 1

    def hset(self, key: str, field: str, value: str) -> None:
        self._answers()
        self.hashes.setdefault(key, {})[field.encode()] = value.encode()

    def hsetnx(self, key: str, field: str, value: str) -> None:
        self._answers()
        self.hashes.setdefault(key, {}).setdefault(field.encode(), value.encode())

    def hdel(self, key: str, *fields: str) -> None:
        self._answers()
        for field in fields:
            self.hashes.get(key, {}).pop(field.encode(), None)

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        self._answers()
        return dict(self.hashes.get(key, {}))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the lease does not need {name}")
