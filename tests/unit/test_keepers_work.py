"""Work that was lost with its worker is sent again; a move of a game does not wait for other work to tell."""

from __future__ import annotations

import fnmatch
from types import SimpleNamespace
from typing import Any

import pytest

from keepers import work
from keepers.app import MOVE_QUEUE, WORK_QUEUE
from keepers.work import MOVE, RESEND_AFTER_S, WorkQueue


class Redis:
    """As much of it as the queue asks for."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.queues = {MOVE_QUEUE: 0, WORK_QUEUE: 0}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any, **_: Any) -> None:
        self.values[key] = value

    def exists(self, key: str) -> bool:
        return key in self.values

    def lrange(self, key: str, first: int, last: int) -> list[bytes]:
        return []

    def llen(self, queue: str) -> int:
        return self.queues[queue]

    def scan_iter(self, match: str, count: int) -> Any:
        return iter(fnmatch.filter(self.values, match))


@pytest.mark.parametrize(
    ("task", "changes", "sent"),
    [
        (MOVE, {}, 2),
        (MOVE, {"waiting": MOVE_QUEUE}, 1),
        (MOVE, {"after_s": 1.0}, 1),
        (MOVE, {"leased": "train-1"}, 2),
        (MOVE, {"leased": "it"}, 1),
        ("work.train", {}, 2),
        ("work.train", {"waiting": WORK_QUEUE}, 1),
        ("work.train", {"leased": "train-1"}, 1),
    ],
)
def test_work_that_was_lost__is_sent_again(
    monkeypatch: pytest.MonkeyPatch, task: str, changes: dict[str, Any], sent: int
):
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(work, "time", SimpleNamespace(time=lambda: clock.now))
    messages: list[str] = []
    app: Any = SimpleNamespace(send_task=lambda task, args, queue: messages.append(queue))
    redis = Redis()
    queue = WorkQueue(app, redis)
    queue.submit(task, "it", {})
    clock.now += changes.get("after_s", RESEND_AFTER_S)
    if "waiting" in changes:
        redis.queues[changes["waiting"]] = 1
    if "leased" in changes:
        redis.values[f"zoo:lease:{changes['leased']}"] = b"a worker"
    queue.submit(task, "it", {})
    assert len(messages) == sent
