"""Unequal workers of one operator, real processes on one queue: the slow one leaves the last slots to the fast one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepers.config import EMBEDDED, from_dict, save
from keepers.queue import broker
from keepers.queue.app import make_app
from keepers.queue.presence import Presence, speeds_of
from keepers.queue.work_queue import WorkQueue

pytestmark = pytest.mark.integration

FLOPS = 10**12
WORKER = """
import sys, time
from keepers.processes import run as process
seconds = float(sys.argv[1])
def train(request, store, progress):
    time.sleep(seconds)
    return {"by": seconds, "at": time.time()}
sys.exit(process.main(["worker", *sys.argv[2:]], {"work.train": train}))
"""


@pytest.fixture
def operator(tmp_path: Path):
    """The broker, and two workers: a slot takes one 0.4 s and the other 4 s."""
    config = from_dict({"name": "solo", "network": "network.json", "operator": 1}, tmp_path)
    save(config)
    processes = [subprocess.Popen(broker.server_command(tmp_path), stdout=subprocess.DEVNULL)]
    try:
        client = broker.wait_ready(EMBEDDED, tmp_path, processes[0])
        for name, seconds in (("fast", 0.4), ("slow", 4.0)):
            command = [sys.executable, "-c", WORKER, str(seconds), "--home", str(tmp_path), "--name", name]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60
        while len(speeds_of(client)) < 2:
            assert time.monotonic() < deadline, "the workers do not start"
            time.sleep(0.1)
        yield client, WorkQueue(make_app(config), client), processes[1]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def trained(queue: WorkQueue, names: list[str], limit_s: float = 60) -> tuple[list[float], float]:
    """Who trained which, by seconds a slot, and when the last was done."""
    began = time.time()
    while True:
        results = [queue.submit("work.train", name, {"flops": FLOPS}).result for name in names]
        if all(results):
            return [each["by"] for each in results], max(each["at"] for each in results) - began
        assert time.time() < began + limit_s, f"not trained: {results}"
        time.sleep(0.1)


def both_timed(client, queue: WorkQueue) -> None:
    """Slots enough that each trains some."""
    trained(queue, [f"first-{i}" for i in range(12)])
    deadline = time.monotonic() + 10
    while not all(speeds_of(client).values()):
        assert time.monotonic() < deadline, speeds_of(client)
        time.sleep(0.05)


def test_a_slow_worker__leaves_the_last_slots_to_a_fast_one__once_both_are_timed(operator):
    client, queue, _ = operator
    both_timed(client, queue)
    by, took_s = trained(queue, [f"second-{i}" for i in range(5)])
    assert set(by) == {0.4}  # five slots: 2 s for the fast one alone, and more than 4 s with the slow one
    assert took_s < 4


@pytest.mark.long
def test_a_slow_worker__trains_once_the_fast_one_is_dead_for_a_while(operator):
    client, queue, fast = operator
    both_timed(client, queue)
    slow = Presence(client, "solo-slow")
    assert slow.should_yield("a slot", FLOPS)
    assert not slow.should_yield("a slot", FLOPS)  # given again: nobody took it
    fast.kill()
    by, took_s = trained(queue, ["alone"])
    assert by == [4.0]
    assert took_s < 4 + 5  # it does not wait until the dead one's word has expired
