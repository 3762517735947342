"""Unequal workers of one operator, real processes on one queue: the slow one leaves the last slots to the fast one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from keepers.config import EMBEDDED, from_dict, save
from keepers.queue import broker, seals
from keepers.queue.app import make_app
from keepers.queue.presence import Presence, speeds_of
from keepers.queue.work_queue import WorkQueue
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

FLOPS = 10**12
FAST_S, SLOW_S = 0.1, 4.0  # a slot: so far apart that a machine with other work too does not blur them
WORKER = """
import sys, time
from keepers.processes import run as process
seconds = float(sys.argv[1])
def train(request, store, progress):
    time.sleep(seconds)
    return {"by": seconds}
sys.exit(process.main(["worker", *sys.argv[2:]], {"work.train": train}))
"""


@pytest.fixture
def operator(tmp_path: Path):
    """The broker, and two workers: a slot takes one FAST_S and the other SLOW_S."""
    config = from_dict({"name": "solo", "network": "network.json", "operator": 1}, tmp_path)
    save(config)
    processes = [subprocess.Popen(broker.server_command(tmp_path), stdout=subprocess.DEVNULL)]
    try:
        client = broker.wait_ready(EMBEDDED, tmp_path, processes[0])
        for name, seconds in (("fast", FAST_S), ("slow", SLOW_S)):
            command = [sys.executable, "-c", WORKER, str(seconds), "--home", str(tmp_path), "--name", name]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        wait_until("the workers' start", lambda: len(speeds_of(client)) == 2)
        yield client, WorkQueue(make_app(config), client, seals.load(config.folder)), processes[1]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def trained(queue: WorkQueue, names: list[str]) -> list[float]:
    """Who trained which, by seconds a slot."""

    def results() -> list[dict | None]:
        return [queue.submit("work.train", name, {"flops": FLOPS}).result for name in names]

    wait_until("the training", lambda: all(results()))
    return [each["by"] for each in results() if each]


def both_timed(client, queue: WorkQueue) -> None:
    """Slots enough that each trains some."""
    trained(queue, [f"first-{i}" for i in range(12)])
    wait_until("the measurement of both", lambda: all(speeds_of(client).values()))


def test_a_slow_worker__leaves_the_last_slots_to_a_fast_one__once_both_are_timed(operator):
    client, queue, _ = operator
    both_timed(client, queue)
    by = trained(queue, [f"second-{i}" for i in range(5)])
    assert by == [FAST_S] * 5  # 0.5 s for the fast one alone, and more than 4 s with the slow one


@pytest.mark.long
def test_a_slow_worker__trains_once_the_fast_one_is_dead_for_a_while(operator):
    client, queue, fast = operator
    both_timed(client, queue)
    slow = Presence(client, "solo-slow")
    assert slow.should_yield("a slot", FLOPS)
    assert not slow.should_yield("a slot", FLOPS)  # given again: nobody took it
    fast.kill()
    assert trained(queue, ["alone"]) == [SLOW_S]
