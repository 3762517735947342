"""Threads share a look at the newest block, and a slow chain is looked at less often."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from zoo_compute.chain import head_pace
from zoo_compute.chain.head_pace import Head, HeadPace


class Chain:
    """A block every `block_s` of a clock that only `looks` moves on."""

    def __init__(self, block_s: float) -> None:
        self.block_s, self.now, self.asked = block_s, 1_000.0, 0

    def head(self) -> Head:
        self.asked += 1
        number = int(self.now / self.block_s)
        return Head(number, 0, bytes([number % 251]) * 32, b"")


def looks(chain: Chain, pace: HeadPace, seconds: float, every_s: float = 0.05) -> int:
    """How many questions four threads ask that look all the time."""
    before = chain.asked
    for _ in range(round(seconds / every_s)):
        chain.now += every_s
        for _ in range(4):
            pace.newest(chain.head)
    return chain.asked - before


@pytest.mark.parametrize(("block_s", "a_day"), [(12.0, 86_400 / 3.0), (4.0, 86_400 / 1.0)])
def test_questions__follow_the_chains_pace(monkeypatch: pytest.MonkeyPatch, block_s: float, a_day: float) -> None:
    chain, pace = Chain(block_s), HeadPace()
    monkeypatch.setattr(head_pace, "time", SimpleNamespace(monotonic=lambda: chain.now))
    looks(chain, pace, 20 * block_s)  # until it knows the pace
    assert looks(chain, pace, 100 * block_s) == pytest.approx(a_day * 100 * block_s / 86_400, rel=0.2)


def test_a_quick_chain__is_not_asked_more_often_than_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, pace = Chain(0.01), HeadPace()
    monkeypatch.setattr(head_pace, "time", SimpleNamespace(monotonic=lambda: chain.now))
    looks(chain, pace, 10, every_s=0.01)
    assert looks(chain, pace, 100, every_s=0.01) <= 1_001


def test_after_something_was_mined__the_next_look_is_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, pace = Chain(12.0), HeadPace()
    monkeypatch.setattr(head_pace, "time", SimpleNamespace(monotonic=lambda: chain.now))
    pace.newest(chain.head)
    pace.newest(chain.head)
    assert chain.asked == 1
    pace.forget()
    pace.newest(chain.head)
    assert chain.asked == 2
