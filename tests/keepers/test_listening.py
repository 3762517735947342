"""A process that takes no message any more, though Redis answers, ends, so that its daemon starts it again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import redis

from keepers.queue.listening import DEAF_AFTER_S, DEAF_EXIT_CODE, Listening


class Queue:
    """length: of the queue; down: Redis does not answer."""

    def __init__(self) -> None:
        self.length, self.down, self.codes = 1, False, list[int]()

    def llen(self, name: str) -> int:
        assert name == "work"
        if self.down:
            raise redis.ConnectionError("down")
        return self.length


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def process(queue: Queue) -> Listening:
    client: Any = SimpleNamespace(llen=queue.llen)
    return Listening(client, "work", queue.codes.append)


def test_a_message_that_nobody_takes__ends_a_process_that_does_nothing(process: Listening, queue: Queue) -> None:
    for now in (0.0, DEAF_AFTER_S - 1):
        process.look(now)
    assert queue.codes == []
    process.look(DEAF_AFTER_S)
    assert queue.codes == [DEAF_EXIT_CODE]


@pytest.mark.parametrize("meanwhile", ["works", "worked", "took it", "lost Redis"])
def test_a_process_that_hears__goes_on(meanwhile: str, process: Listening, queue: Queue) -> None:
    process.look(0.0)
    match meanwhile:
        case "works":
            process.began()
        case "worked":
            process.began()
            process.ended()
        case "took it":
            queue.length = 0
            process.look(1.0)
            queue.length = 1
        case "lost Redis":
            queue.down = True
            process.look(1.0)
            queue.down = False
    process.look(DEAF_AFTER_S + 5)
    assert queue.codes == []


def test_work_that_ends_and_leaves_a_process_deaf__ends_it_after_a_while(process: Listening, queue: Queue) -> None:
    process.began()
    process.look(0.0)
    process.ended()
    process.look(100.0)
    process.look(100.0 + DEAF_AFTER_S)
    assert queue.codes == [DEAF_EXIT_CODE]
