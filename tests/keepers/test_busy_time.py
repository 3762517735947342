"""Seconds and watts of workers: measured while they work, summed in the broker, counted once by the keeper."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from keepers.monitoring import power
from keepers.monitoring.power import PowerMeter, card_of, mean, watts_of
from keepers.processes.worker import bind
from keepers.queue.busy_time import BusyTime
from keepers.queue.worker_leases import WorkLog
from tests.keepers.redis_double import Redis
from tests.support.queue_seals import SEALS
from zoo_compute.spending import Spent
from zoo_compute.store import BlockStore


def test_busy_time__is_taken_once_and_knows_whose_watts_nobody_measured() -> None:
    busy = BusyTime(Redis())
    busy.add(10, 300.0)
    busy.add(2.5, 100.0)
    busy.add(4, None)
    assert busy.take() == Spent(busy_s=16.5, watt_s=3_250.0, unknown_s=4.0)
    assert busy.take() == Spent()


def test_a_broker_that_is_gone__costs_no_work() -> None:
    class Gone:
        def hincrbyfloat(self, *_: Any) -> None:
            raise ConnectionError("gone")

    BusyTime(Gone()).add(1, 1.0)


@pytest.mark.parametrize(
    ("declared", "card", "watts"),
    [(250.0, 0, 250.0), (250.0, None, 250.0), (0.0, None, None)],
    ids=["both", "CPU", "unknown"],
)
def test_watts_of_operator_json__count_before_what_is_measured(
    declared: float, card: int | None, watts: float | None
) -> None:
    def sample(card: int) -> float:
        raise AssertionError("nothing is measured")

    with PowerMeter(declared, card, sample).working() as samples:
        pass
    assert mean(samples) == watts


def test_a_card__is_measured_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "EVERY_S", 0.0)
    answers, enough = iter([100.0, 200.0, 300.0, None]), threading.Event()

    def sample(card: int) -> float | None:
        assert card == 1
        watts = next(answers)
        if watts is None:
            enough.set()
        return watts

    with PowerMeter(0.0, 1, sample).working() as samples:
        enough.wait()
    assert mean(samples) == 200


def test_a_driver_that_says_no_watts__leaves_them_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert watts_of(0) is None
    tool = tmp_path / "nvidia-smi"
    for answer, watts in (("echo 312.54", 312.54), ("echo '[N/A]'", None), ("exit 9", None)):
        tool.write_text(
            f"#!/bin/sh\n[ \"$*\" = '-i 1 --query-gpu=power.draw --format=csv,noheader,nounits' ] || exit 1\n{answer}\n"
        )
        tool.chmod(0o700)
        assert watts_of(1) == watts


@pytest.mark.parametrize(
    ("device", "card"), [("", 0), ("cuda", 0), ("cuda:1", 1), ("cpu", None), ("mps", None), ("pipeline:2", None)]
)
def test_the_card_of_a_device(device: str, card: int | None) -> None:
    assert card_of(device) == card


def test_a_worker__counts_the_time_of_its_work(tmp_path: Path) -> None:
    redis, tasks = Redis(), dict[str, Any]()
    app: Any = SimpleNamespace(task=lambda name, ignore_result: lambda body: tasks.update({name: body}))
    app.send_task = lambda *_, **__: None
    busy, done = BusyTime(redis), threading.Event()
    bind(
        app,
        WorkLog(redis, SEALS),
        BlockStore(tmp_path),
        {"work.fetch": lambda request, store: done.set() or {}},  # type: ignore[func-returns-value]
        meter=PowerMeter(200.0, None),
        busy=busy,
    )
    request: dict[str, Any] = {"job": 1}
    tasks["work.fetch"]("fetch:1", request, SEALS.of("work.fetch", "fetch:1", request))
    assert done.is_set()
    spent = busy.take()
    assert spent.watt_s == pytest.approx(200 * spent.busy_s)
    assert spent.busy_s > 0
