"""Workers beside each other: a slot-round or another job's dispute that takes long makes no answer late, and stopping a worker ends
the child process in which it measures a program. A daemon's death ends a worker, whatever that was computing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, from_dict, save
from keepers.processes.daemon import Daemon, commands
from keepers.queue import broker, seals
from keepers.queue.app import make_app
from keepers.queue.work_queue import DISPUTE_TASK, WorkQueue
from tests.support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.integration

DAEMON = """
import sys, time
from pathlib import Path
from keepers.config import load
from tests.integration.test_keepers_answers import daemons

parts = daemons(load(Path(sys.argv[1])))
for part in parts:
    part.start()
print(*(child.process.pid for part in parts for child in part.children.values()), flush=True)
time.sleep(3600)
"""


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    config = from_dict({"name": "solo", "network": "network.json", "operator": 1, "workers": 1}, tmp_path)
    save(config)
    return config


@pytest.fixture
def daemon(config: OperatorConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The broker and the workers that an operator with one worker has; what they compute is replaced."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    parts = daemons(config)
    try:
        for part in parts:
            part.start()
        yield parts[1]
    finally:
        for part in reversed(parts):
            part.stop()


def daemons(config: OperatorConfig) -> list[Daemon]:
    slow = [sys.executable, "-m", "tests.integration.slow_worker"]
    workers = {name: made for name, made in commands(config).items() if name.startswith("worker-")}
    command_overrides = {name: [*slow, *made[made.index("worker") + 1 :]] for name, made in workers.items()}
    return [Daemon(config, only=part, command_overrides=command_overrides) for part in ("broker", "worker")]


def until(what: str, reached: Callable[[], bool]) -> None:
    """What the workers sleep over lasts an hour."""
    wait_until(what, reached, poll_s=0.05)


def test_an_answer__is_computed_while_the_only_worker_trains(config: OperatorConfig, daemon: Daemon):
    queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder), seals.load(config.folder))
    until("the slot-round", lambda: queue.submit("work.train", "shard", {}).state == "running")
    until("the answer", lambda: queue.submit(DISPUTE_TASK, "answer", {}).state == "done")
    assert queue.status("shard").state == "running", "the slot-round goes on meanwhile"


def test_an_answer_of_one_job__is_computed_while_another_jobs_disputes_and_a_slot_round_go_on(
    config: OperatorConfig, daemon: Daemon
):
    """Job 1 is re-executed for an hour in each of three disputes: they never take the last worker, so the answer of job 2 is not late."""
    assert config.dispute_workers == 2
    queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder), seals.load(config.folder))
    slow = [f"slow-{number}" for number in range(3)]

    def states() -> list[str]:
        return [queue.submit(DISPUTE_TASK, name, {"job": 1, "takes_s": 3_600}).state for name in slow]

    until("the slot-round", lambda: queue.submit("work.train", "shard", {}).state == "running")
    until("a slow dispute", lambda: "running" in states())
    until("the answer", lambda: states() and queue.submit(DISPUTE_TASK, "quick", {"job": 2}).state == "done")
    assert sorted(states()) == ["queued", "queued", "running"]
    assert queue.depth() <= len(slow), "what waits is not sent again and again"


def test_a_worker_that_dies__leaves_its_jobs_lane_to_the_next(config: OperatorConfig, daemon: Daemon):
    queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder), seals.load(config.folder))
    until("a slow dispute", lambda: queue.submit(DISPUTE_TASK, "slow", {"job": 1, "takes_s": 3_600}).state == "running")
    assert queue.submit(DISPUTE_TASK, "next", {"job": 1}).state == "queued"
    for name in [name for name in daemon.children if name.startswith("worker-disputes")]:
        daemon.kill(name)
    until("the restart", lambda: daemon.poll() is None and all(child.running for child in daemon.children.values()))
    until("the next answer", lambda: daemon.poll() or queue.submit(DISPUTE_TASK, "next", {"job": 1}).state == "done")


@pytest.mark.parametrize("blow", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_stopped_while_it_measures__leaves_no_process_and_no_failure(
    config: OperatorConfig, daemon: Daemon, tmp_path: Path, blow: signal.Signals
):
    queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder), seals.load(config.folder))
    pid, process = tmp_path / "pid", daemon.children["worker-0"].process
    until("the measurement", lambda: queue.submit("work.prepare", "prepare-1", {"pid": str(pid)}).state == "running")
    until("its child", lambda: pid.exists() and bool(pid.read_text()))
    assert process is not None
    process.send_signal(blow)
    process.wait(HANG_S)
    until("the child's end", lambda: not Path(f"/proc/{pid.read_text()}").exists())
    scratch = tmp_path / "home" / "scratch"
    if blow == signal.SIGTERM:
        assert list(scratch.iterdir()) == []
        assert queue.status("prepare-1").state == "absent", "to be done again, and no fault of the job's"
    else:
        assert len(list(scratch.iterdir())) == 1, "swept away by the next measurement"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells a process that its parent died")
def test_a_daemon_that_is_killed__takes_its_workers_with_it_in_the_middle_of_a_slot_round_and_a_dispute(
    config: OperatorConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-c", DAEMON, str(config.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 5, "broker, worker, two workers of disputes, spare"
        queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder), seals.load(config.folder))
        until("the slot-round", lambda: queue.submit("work.train", "shard", {}).state == "running")
        slow = {"job": 1, "takes_s": 3_600}
        until("the dispute", lambda: queue.submit(DISPUTE_TASK, "slow", slow).state == "running")
    finally:
        process.kill()
        process.communicate()
    until("the end of all processes", lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
