"""What a Chain asks of its RPC while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from zoo_compute.chain import connection
from zoo_compute.chain.connection import BLOCK_POLL_S, Chain


class Clock:
    """Time that passes when somebody sleeps; the RPC's newest block is one more every second."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def block_number(self) -> int:
        self.asked += 1
        return 100 + int(self.now + 1e-6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(connection, "time", clock := Clock())
    return clock


def waited(clock: Clock, seen: int, longest_s: float) -> float:
    chain: Any = Chain.__new__(Chain)
    chain.w3 = type("W3", (), {"eth": clock})
    began = clock.now
    chain.wait_for_block(seen, longest_s)
    return clock.now - began


def test_waiting__ends_with_the_next_block(clock: Clock) -> None:
    assert waited(clock, 100, 5) == pytest.approx(1.0)
    assert clock.asked <= 1 / BLOCK_POLL_S + 2


def test_waiting_for_a_block_that_is_there__takes_one_question(clock: Clock) -> None:
    assert waited(clock, 99, 5) == 0
    assert clock.asked == 1


def test_waiting__ends_without_a_block(clock: Clock) -> None:
    assert waited(clock, 200, 2) == pytest.approx(2.0, abs=BLOCK_POLL_S)


def test_what_another_thread_forgets_while_it_is_made__is_not_kept() -> None:
    chain: Any = Chain.__new__(Chain)
    chain._cache, chain._pace = {}, None

    def made() -> str:
        chain.forget_all()
        return "read before"

    assert chain.cached("job", made) == "read before"
    assert chain.cached("job", lambda: "read since") == "read since"


def test_what_another_thread_forgets_once_it_was_seen__is_no_error() -> None:
    class Forgotten(dict[Any, Any]):
        """Empty once somebody saw that an entry is there."""

        def __contains__(self, key: object) -> bool:
            is_there = super().__contains__(key)
            self.clear()
            return is_there

    chain: Any = Chain.__new__(Chain)
    chain._cache = Forgotten(job="read before")
    assert chain.cached("job", lambda: "read since") in ("read before", "read since")
