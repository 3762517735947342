"""Redis, in memory."""

from __future__ import annotations

import fnmatch
from typing import Any

from redis.exceptions import ResponseError

from keepers.queue.app import DISPUTE_QUEUE, KEEPER_QUEUE, WORK_QUEUE


def _text(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else key


class Transaction:
    """Its commands take effect together."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._commands: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._commands.append((name, args))

    def execute(self) -> list[Any]:
        return [getattr(self._client, name)(*args) for name, args in self._commands]


class Redis:
    """As much of it as the queue and presence ask for. queues: how much waits in each."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.sets: dict[str, set[str]] = {}
        self.queues = {KEEPER_QUEUE: 0, DISPUTE_QUEUE: 0, WORK_QUEUE: 0}

    def get(self, key: str | bytes) -> Any:
        return self.values.get(_text(key))

    def set(self, key: str, value: Any, nx: bool = False, **_: Any) -> bool:
        free = not nx or key not in self.values
        if free:
            self.values[key] = value if isinstance(value, bytes) else str(value).encode()
        return free

    def delete(self, *keys: str | bytes) -> int:
        return sum(self.values.pop(_text(key), None) is not None for key in keys)

    def incr(self, key: str) -> int:
        self.values[key] = int(self.values.get(key, 0)) + 1
        return int(self.values[key])

    def hincrby(self, key: str, field: str, count: int) -> int:
        values = self.values.setdefault(key, {})
        values[field.encode()] = int(values.get(field.encode(), 0)) + count
        return int(values[field.encode()])

    def hincrbyfloat(self, key: str, field: bytes, amount: float) -> float:
        values = self.values.setdefault(key, {})
        values[field] = float(values.get(field, 0)) + amount
        return float(values[field])

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        return {field: str(count).encode() for field, count in self.values.get(key, {}).items()}

    def pipeline(self, transaction: bool) -> Transaction:
        assert transaction
        return Transaction(self)

    def expire(self, key: str, seconds: int) -> None: ...

    def exists(self, key: str) -> bool:
        return key in self.values

    def rpush(self, key: str, value: str) -> None:
        self.values.setdefault(key, []).append(value.encode())

    def lrange(self, key: str, first: int, last: int) -> list[bytes]:
        values = self.values.get(key, [])
        if not isinstance(values, list):
            raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return list(values)

    def llen(self, queue: str) -> int:
        return self.queues.get(queue, len(self.values.get(queue, [])))

    def lindex(self, queue: str, at: int) -> bytes | None:
        return None

    def lmove(self, queue: str, to: str, source: str, destination: str) -> None:
        """See tests/integration/test_keepers_work.py."""

    def smembers(self, key: str) -> set[bytes]:
        return {member.encode() for member in self.sets.get(key, ())}

    def sadd(self, key: str, member: str) -> None:
        self.sets.setdefault(key, set()).add(member)

    def srem(self, key: str, *members: str) -> None:
        self.sets[key].difference_update(members)

    def mget(self, keys: list[str]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan_iter(self, match: str, count: int) -> Any:
        return (key.encode() for key in fnmatch.filter([*self.values], match))
