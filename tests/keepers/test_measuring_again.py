"""What was measured while the machine was busy keeps no node from a job for good: it is measured again, ever less often."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.duties import duties
from keepers.decisions.obstacles import is_measured_short, reasons_not_to_bid
from keepers.decisions.open_jobs import OpenJobs
from keepers.decisions.orders import MeasureAgain, OperatorContext, Prepare, Progress, SealBid
from keepers.decisions.requests import prepare_name
from keepers.processes.worker import run
from keepers.queue.work_queue import ATTEMPTS, WorkQueue
from keepers.queue.worker_leases import PASSING_S, WorkLog
from keepers.services.progress import measured_progress
from tests.keepers.redis_double import Redis
from tests.keepers.test_duties import LOT, ME_AGGREGATOR, ME_PROVIDER, TERMS, TIMED, opening
from tests.keepers.test_keeper import bids, numbered, setup  # noqa: F401
from tests.support.queue_seals import SEALS
from zoo_compute.store import BlockStore
from zoo_compute.store.errors import StoreUnreachable

SLOW, QUICK = {"slot_s": 99.0, "opening_s": 20.0}, {"slot_s": 1.0, "opening_s": 0.1}
FAILED = opening(1_100, lots={0: LOT, 1: replace(LOT, units=1)})


class Worker:
    """A queue and the worker that serves it at once. Each time that it measures it is as quick as `answers` says next."""

    def __init__(self, folder: Path, *answers: Mapping[str, Any]) -> None:
        self._answers = list(answers)
        self._known: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        redis, store = Redis(), BlockStore(folder)
        log = WorkLog(redis, SEALS, "alpha-0")

        def send(task: str, args: list[Any], queue: str) -> None:
            name, request, _ = args
            self.asked.append(request)
            run(self._prepare, log, store, name, request)

        app: Any = SimpleNamespace(send_task=send)
        self.queue = WorkQueue(app, redis, SEALS)

    def _prepare(self, request: dict[str, Any], store: Any) -> dict[str, Any]:
        """As node.tasks.prepare: what is known is measured again only where a job is refused for it."""
        if not self._known or request.get("too_slow_at", -1.0) >= self._known.get("measured_at", 0.0):
            self._known = {"measured_at": float(len(self.asked)), "again_at": 0.0, **self._answers.pop(0)}
        return self._known


def test_a_measurement_that_was_slow_once__keeps_no_node_from_a_later_attempt(setup: Any, tmp_path: Path) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    worker = Worker(tmp_path / "store", SLOW, QUICK)
    keeper.work = keeper._actions._work = worker.queue
    for at, attempt in ((1_000, 1), (1_001, 1), (1_030, 2), (1_031, 2), (1_032, 2)):
        keeper.chain.clock["now"] = at
        lots = {
            kind: replace(lot, attempt=attempt, bid_end=at + 10, reveal_end=at + 20)
            for kind, lot in opening(at).lots.items()
        }
        views[1] = numbered(opening(at, lots=lots), 1)
        keeper.tick()
    assert [request.get("too_slow_at") for request in worker.asked] == [None, 1.0]
    assert (1, 4) in bids(recorder)


def test_a_machine_that_is_slow__measures_only_when_it_may(setup: Any, tmp_path: Path) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    worker = Worker(tmp_path / "store", {**SLOW, "again_at": time.time() + 3_600}, QUICK)
    keeper.work = keeper._actions._work = worker.queue
    for at in range(1_000, 1_009):
        keeper.chain.clock["now"] = at
        views[1] = numbered(opening(at), 1)
        keeper.tick()
    assert len(worker.asked) == 1
    assert bids(recorder) == []


@pytest.mark.parametrize(
    ("me", "progress", "again"),
    [
        (ME_PROVIDER, Progress(slot_s=99), True),
        (ME_PROVIDER, Progress(slot_s=1, opening_s=10**4), True),
        (ME_PROVIDER, Progress(failed=True, why="took more than 150 s", over_limit=True), True),
        (ME_PROVIDER, Progress(failed=True, why="no CUDA"), False),
        (ME_AGGREGATOR, Progress(slot_s=1, aggregation_s=TERMS.aggregate_s + 1), True),
        (ME_AGGREGATOR, Progress(slot_s=1, cannot_aggregate="it needs 9 GB"), False),
        (replace(ME_PROVIDER, free=0), Progress(slot_s=99), False),
        (replace(ME_PROVIDER, price=121), Progress(slot_s=99), False),
        (ME_PROVIDER, TIMED, False),
    ],
)
def test_only_where_the_time_alone_keeps_it_from_a_bid__a_keeper_measures_again(
    me: OperatorContext, progress: Progress, again: bool
) -> None:
    old = replace(progress, can_measure_again=True)
    for job in (opening(1_000, lots=FAILED.lots), FAILED):
        assert (MeasureAgain() in duties(job, me, old)) is again
        assert MeasureAgain() not in duties(job, me, progress)
    assert ("; it is measured again after a while" in reasons_not_to_bid(FAILED, me, old)) is again


def test_a_node_that_bids_for_fewer_slots_than_it_could__bids_first_and_measures_once_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    progress = Progress(slot_s=11.4, can_measure_again=True)
    assert is_measured_short(opening(1_000), ME_PROVIDER, progress, 0)
    due = duties(opening(1_000), ME_PROVIDER, progress)
    assert due == [SealBid(0, 1, 2, 80)]
    with caplog.at_level(logging.WARNING, "zoo.keeper"):
        OpenJobs().record(opening(1_000), ME_PROVIDER, progress, due)
    assert "job 1: bids for 2 of 6 slots: a slot takes 11.4 s here, and answering one opening 0 s; it is" in caplog.text
    assert MeasureAgain() in duties(FAILED, ME_PROVIDER, progress)


def test_a_job_that_is_not_timed_yet__is_timed_and_not_timed_again() -> None:
    assert duties(opening(1_000), ME_PROVIDER, Progress(can_measure_again=True)) == [Prepare()]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    at = [time.time()]
    monkeypatch.setattr(time, "time", lambda: at[0])

    def sleep(seconds: float) -> None:
        at[0] += seconds

    return sleep


def test_files_that_nobody_served_in_three_attempts__are_tried_again_ever_less_often(
    clock: Callable[[float], None], tmp_path: Path
) -> None:
    """Where a gateway was too busy to answer, a job was left alone for a week."""
    redis, tries, store = Redis(), [], BlockStore(tmp_path)
    log = WorkLog(redis, SEALS, "alpha-0")

    def unserved(request: dict[str, Any], store: Any) -> dict[str, Any]:
        tries.append(time.time())
        raise StoreUnreachable("no answer in 120 s")

    app: Any = SimpleNamespace(send_task=lambda task, args, queue: run(unserved, log, store, args[0], args[1]))
    queue, view = WorkQueue(app, redis, SEALS), opening(1_000)
    for _ in range(24 * 60):
        queue.submit("work.prepare", prepare_name(view), {})
        clock(60)
    assert tries[ATTEMPTS - 1] - tries[0] <= 120
    assert measured_progress(queue, view).why == "no answer in 120 s"
    pauses = [late - early for early, late in zip(tries[ATTEMPTS - 1 :], tries[ATTEMPTS:], strict=False)]
    assert pauses[0] <= PASSING_S
    assert len(tries) <= 12, "a day of a job whose files nobody has"
