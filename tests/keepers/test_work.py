"""Work that was lost with its worker is sent again; an answer in a dispute does not wait for other work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.processes.worker import run
from keepers.queue import work_queue
from keepers.queue.app import DISPUTE_QUEUE, WORK_QUEUE
from keepers.queue.work_queue import DISPUTE_TASK, RESEND_AFTER_S, WorkQueue
from keepers.queue.worker_leases import DEATHS, WorkLog
from node import backends
from repops import backend
from tests.keepers.redis_double import Redis
from tests.support.queue_seals import SEALS
from tests.support.waiting import HANG_S
from zoo_compute.store import BlockStore


@pytest.mark.parametrize(
    ("task", "changes", "sent"),
    [
        (DISPUTE_TASK, {}, 2),
        (DISPUTE_TASK, {"waiting": DISPUTE_QUEUE}, 1),
        (DISPUTE_TASK, {"after_s": 1.0}, 1),
        (DISPUTE_TASK, {"leased": "train-1"}, 2),
        (DISPUTE_TASK, {"leased": "it"}, 1),
        ("work.train", {}, 2),
        ("work.train", {"waiting": WORK_QUEUE}, 1),
        ("work.train", {"leased": "train-1"}, 2),
        ("work.train", {"leased": "it"}, 1),
    ],
)
def test_work_that_was_lost__is_sent_again(
    monkeypatch: pytest.MonkeyPatch, task: str, changes: dict[str, Any], sent: int
):
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(time=lambda: clock.now))
    messages: list[str] = []
    app: Any = SimpleNamespace(send_task=lambda task, args, queue: messages.append(queue))
    redis = Redis()
    queue = WorkQueue(app, redis, SEALS)
    queue.submit(task, "it", {})
    clock.now += changes.get("after_s", RESEND_AFTER_S)
    if "waiting" in changes:
        redis.queues[changes["waiting"]] = 1
    if "leased" in changes:
        redis.values[f"zoo:lease:{changes['leased']}"] = b"a worker"
    queue.submit(task, "it", {})
    assert len(messages) == sent


def test_work_whose_worker_died__is_sent_again_at_once_though_other_work_waits():
    messages: list[str] = []
    app: Any = SimpleNamespace(send_task=lambda task, args, queue: messages.append(queue))
    redis = Redis()
    queue, log = WorkQueue(app, redis, SEALS), WorkLog(redis, SEALS, "alpha-0")
    queue.submit("work.train", "it", {})
    redis.queues[WORK_QUEUE] = 5
    with log.lease("it") as mine:
        assert mine
        assert queue.submit("work.train", "it", {}).state == "running"
        WorkLog(redis, SEALS, "alpha-1").release_leases()
        assert queue.submit("work.train", "it", {}).state == "running", "another worker's lease is not given up"
        WorkLog(redis, SEALS, "alpha-0").release_leases()  # as the daemon does that sees it dead
        assert queue.submit("work.train", "it", {}).state == "queued"
    assert len(messages) == 2


@pytest.mark.parametrize("name", ["prepare-1-ab", "dispute-1-ab"])
def test_work_that_three_workers_died_of__is_left_alone(name: str):
    """p3: it was sent again for ever, and its worker did nothing else."""
    app: Any = SimpleNamespace(send_task=lambda *_, **__: None)
    redis, expiries = Redis(), []
    redis.expire = lambda key, seconds: expiries.append((key, seconds))  # type: ignore[method-assign]
    queue, log = WorkQueue(app, redis, SEALS), WorkLog(redis, SEALS, "alpha-0")
    with ExitStack() as dead:  # no worker leaves its lease
        for deaths in range(3):
            assert queue.submit("work.prepare", name, {}).state == "queued", f"after {deaths} deaths"
            dead.enter_context(log.lease(name))
            log.release_leases()  # ended on purpose: at the next start of the daemon
            dead.enter_context(log.lease(name))
            log.release_leases(died=True)
        status = queue.submit("work.prepare", name, {})
        assert (status.state, status.error and status.error[:22]) == ("failed", "3 workers died of it (")
    pause_s = {seconds for key, seconds in expiries if DEATHS in key}
    assert pause_s == {600 if name.startswith("dispute") else 86_400}
    log.record(name, {})
    assert queue.status(name).state == "done"


def test_a_worker_killed_beside_others__need_not_have_died_of_its_own_work():
    """The kernel kills for the whole machine's memory: a good slot was declined for what another piece of work took."""
    app: Any = SimpleNamespace(send_task=lambda *_, **__: None)
    redis = Redis()
    queue, log = WorkQueue(app, redis, SEALS), WorkLog(redis, SEALS, "alpha-0")
    redis.set("zoo:lease:lane-1-0", "alpha-disputes-0")

    def die(*, beside_work: bool) -> str:
        redis.set("zoo:lease:good", "alpha-0")
        if beside_work:
            redis.set("zoo:lease:large", "alpha-1")
        else:
            redis.delete("zoo:lease:large")
        log.release_leases(died=True, beside=["alpha-1", "alpha-disputes-0"])
        return queue.status("good").state

    assert [die(beside_work=True) for _ in range(8)] == ["absent"] * 8
    assert die(beside_work=True) == "failed", "it is not sent for ever"
    log.record("good", {})
    redis.delete("zoo:done:good")
    assert [die(beside_work=False) for _ in range(3)] == ["absent", "absent", "failed"]


def test_a_worker__loads_nothing_of_the_chain():
    # It has no keys and no chain, and web3 costs a restarted worker seconds.
    code = "import sys, keepers.processes.run, node.tasks; print([name for name in ('web3', 'eth_account') if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert output.stdout.strip() == "[]", output.stderr


def test_work_in_which_a_worker_crashed__is_done_again_on_other_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An illegal instruction ends the process, so only the worker that takes the work over can choose other kernels."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    names = backend.kernels()
    monkeypatch.setattr(backends, "_checked", dict.fromkeys(names, True))
    redis, store, seen = Redis(), BlockStore(tmp_path / "store"), list[str]()

    @backends.falls_back
    def train(request: Mapping[str, Any], store: Any) -> dict[str, Any]:
        seen.append(backend.current())
        return {}

    def die(name: str, *, crashed: bool) -> None:
        redis.set(f"zoo:lease:{name}", "alpha-0")
        WorkLog(redis, SEALS, "alpha-0").release_leases(crashed=crashed)

    job = {"manifest": "m", "device": "cpu"}
    for name, crashed in (("a", False), ("b", True), ("c", False)):
        die(name, crashed=crashed)
        assert run(train, WorkLog(redis, SEALS, "alpha-1"), store, name, job)
    assert run(train, WorkLog(redis, SEALS, "alpha-1"), store, "d", {**job, "manifest": "another"})
    assert seen == [names[0], names[1], names[1], names[0]]
