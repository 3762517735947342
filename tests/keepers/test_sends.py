"""Transactions of different jobs wait for their blocks side by side, those of one job one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.services.sends import Sends
from zoo_compute.errors import NotFunded, Refusal, Unreachable

JOBS = 20


class Sender:
    """What `send` does with each call, by function; else it is mined at once."""

    address = "0xH"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.does: dict[str, Callable[[], object]] = {}

    def send(self, call: Any, *, value: int = 0) -> Any:
        self.sent.append(call.function)
        self.does.get(call.function, lambda: None)()
        return SimpleNamespace(transaction_hash="0x1")


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def sends(sender: Any) -> Sends:
    look: Any = SimpleNamespace(confirm=lambda call, view: None)
    return Sends(sender, look, lambda: None)


def add(sends: Sends, job: int, *functions: str) -> None:
    view: Any = SimpleNamespace(job=job)
    for function in functions:
        sends.add(view, SimpleNamespace(contract="C", function=function))  # type: ignore[arg-type]


def fails(error: Exception) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


def finish(sends: Sends) -> list[int]:
    done = []
    for job, wait in sends.finished():
        wait()
        done.append(job)
    return done


def test_jobs__wait_for_their_blocks_side_by_side(sends: Sends, sender: Sender) -> None:
    """One by one, a keeper of twenty jobs needed twenty blocks: four minutes of a chain with a block every 12 seconds."""
    all_sent = threading.Barrier(JOBS, timeout=10)
    for job in range(JOBS):
        sender.does[f"commit {job}"] = all_sent.wait
        add(sends, job, f"commit {job}")
        sends.start(job)
    assert finish(sends) == list(range(JOBS)), "each waited until all were sent"
    assert finish(sends) == [], "nothing is waited for twice"


def test_one_job__sends_in_order_each_after_the_one_before_is_mined(sends: Sends, sender: Sender) -> None:
    mined = threading.Event()
    sender.does["ready"] = lambda: mined.wait(0.2)
    add(sends, 1, "ready", "commit", "finalise")
    assert sender.sent == [], "nothing is sent before the job is decided"
    sends.start(1)
    assert "commit" not in sender.sent
    mined.set()
    finish(sends)
    assert sender.sent == ["ready", "commit", "finalise"]


def test_what_is_dropped__is_not_sent(sends: Sends, sender: Sender) -> None:
    add(sends, 1, "commit")
    sends.drop()
    add(sends, 2, "reveal")
    sends.start(2)
    assert finish(sends) == [2]
    assert sender.sent == ["reveal"]


def test_a_refusal__does_not_keep_the_next_one_back(sends: Sends, sender: Sender) -> None:
    sender.does["expire"] = fails(Refusal("settlement: no such turn"))
    add(sends, 1, "expire", "commit")
    sends.start(1)
    finish(sends)
    assert sender.sent == ["expire", "commit"]


def test_what_needs_a_person__is_reported_after_the_others_are_sent(sends: Sends, sender: Sender) -> None:
    sender.does["demand"] = fails(NotFunded("no coin"))
    add(sends, 1, "demand", "commit")
    sends.start(1)
    with pytest.raises(NotFunded):
        finish(sends)
    assert sender.sent == ["demand", "commit"]


def test_what_was_not_mined__keeps_back_what_follows_in_its_job_alone(sends: Sends, sender: Sender) -> None:
    sender.does["ready"] = fails(Unreachable("no RPC answers"))
    add(sends, 1, "ready", "commit")
    sends.start(1)
    add(sends, 2, "reveal")
    sends.start(2)
    (_, first), (_, second) = sends.finished()
    with pytest.raises(Unreachable):
        first()
    second()
    assert sorted(sender.sent) == ["ready", "reveal"]
