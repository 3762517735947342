"""An operator's keeper answers a recall with a trial, and settles it once its window is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keepers.services.own_trials import LOOK_S, OwnTrials
from zoo_compute.chain.connection import Head
from zoo_compute.operators.admission import AdmissionStatus, TrialFailed

ME, PENDING = 7, b"\x01" * 32


class Net:
    def __init__(self) -> None:
        self.due, self.word, self.deadline, self.disputed = 0, bytes(32), 0, False
        self.begun: list[tuple[int, list[str]]] = []
        self.fails = False
        admissions = SimpleNamespace(
            recalls=lambda operator, block: SimpleNamespace(due=self.due),
            claims=lambda job, seat, operator, block: self.word,
            trials=lambda operator, block: SimpleNamespace(deadline=self.deadline),
            is_disputed=lambda operator, block: self.disputed,
        )
        self.chain: Any = SimpleNamespace(admissions=admissions, time=lambda head: head.timestamp)

    def advance(self, chain: Any, sender: Any, operator: int, options: Any) -> AdmissionStatus:
        self.begun.append((operator, list(options)))
        if self.fails:
            raise TrialFailed("no memory")
        return AdmissionStatus(operator, True, 1, 0)

    def keeper(self, device: str = "") -> OwnTrials:
        return OwnTrials(self.chain, None, ME, device, self.advance)  # type: ignore[arg-type]


def look(keeper: OwnTrials, second: int) -> None:
    keeper.look(Head(1, second, b"", b""))
    if keeper._running is not None:
        keeper._running.join()


def test_a_recall__is_answered_with_a_trial_while_there_is_time() -> None:
    net = Net()
    keeper = net.keeper("cuda:1")
    look(keeper, 100)
    assert net.begun == [], "nobody asked"
    net.due = 200
    look(keeper, 100 + LOOK_S)
    assert net.begun == [(ME, ["--device", "cuda:1"])]
    look(keeper, 200 + LOOK_S)
    assert len(net.begun) == 1, "it is too late"


def test_an_answered_trial__is_settled_after_its_window_unless_it_is_disputed() -> None:
    net = Net()
    keeper = net.keeper("pipeline:2")
    net.word, net.deadline, net.due = PENDING, 500, 900
    look(keeper, 500)
    assert net.begun == []
    net.disputed = True
    look(keeper, 600)
    assert net.begun == []
    net.disputed = False
    look(keeper, 700)
    assert net.begun == [(ME, [])], "one process computes a trial"


def test_a_trial_that_fails__is_said_and_not_tried_again_for_the_same_recall(caplog: pytest.LogCaptureFixture) -> None:
    net = Net()
    net.due, net.fails = 1_000, True
    keeper = net.keeper()
    for second in (100, 200):
        look(keeper, second)
    assert len(net.begun) == 1
    assert keeper.trouble == [f"the trial of operator {ME} failed: no memory"]
    net.due, net.fails = 2_000, False
    look(keeper, 300)
    assert (len(net.begun), keeper.trouble) == (2, [])
