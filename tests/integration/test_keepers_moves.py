"""A dispute's move has a worker of its own: a slot-round that takes long does not lose the game."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, from_dict, save
from keepers.processes.daemon import Daemon, commands
from keepers.queue import broker
from keepers.queue.app import make_app
from keepers.queue.work_queue import MOVE_TASK, WorkQueue

pytestmark = pytest.mark.integration

START_S = 60.0


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    config = from_dict({"name": "solo", "network": "network.json", "operator": 1, "workers": 1}, tmp_path)
    save(config)
    return config


@pytest.fixture
def daemon(config: OperatorConfig) -> Iterator[Daemon]:
    """The broker and the workers that an operator with one worker has; what they compute is replaced."""
    slow = [sys.executable, "-m", "tests.integration.slow_worker"]
    workers = {name: made for name, made in commands(config).items() if name.startswith("worker-")}
    command_overrides = {name: [*slow, *made[made.index("worker") + 1 :]] for name, made in workers.items()}
    parts = [Daemon(config, only=part, command_overrides=command_overrides) for part in ("broker", "worker")]
    try:
        for part in parts:
            part.start()
        yield parts[1]
    finally:
        for part in reversed(parts):
            part.stop()


def until(what: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not reached():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)


def test_a_move__is_computed_while_the_only_worker_trains(config: OperatorConfig, daemon: Daemon):
    queue = WorkQueue(make_app(config), broker.connect(config.broker, config.folder))
    until("the slot-round", lambda: queue.submit("work.train", "shard", {}).state == "running")
    until("the move", lambda: queue.submit(MOVE_TASK, "move", {}).state == "done")
    assert queue.status("shard").state == "running", "the slot-round goes on meanwhile"
