"""A real Redis whose memory is full: it refuses, and what the keeper needs stays."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from keepers.config import EMBEDDED, from_dict
from keepers.queue import broker, broker_memory
from keepers.queue.app import make_app
from keepers.queue.broker_memory import FULL, ROOM, make_room, memory_of, relieve
from keepers.queue.work_queue import WorkQueue
from keepers.queue.worker_leases import WorkLog
from tests.support.queue_seals import SEALS
from zoo_compute.cli.doctor_checks import SystemChecks
from zoo_compute.errors import NeedsOperator

pytestmark = pytest.mark.integration

OUTCOME = {"report": "x" * 20_000}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[redis.Redis]:
    process = subprocess.Popen(broker.server_command(tmp_path, max_mb=4), stdout=subprocess.DEVNULL)
    try:
        yield broker.wait_ready(EMBEDDED, tmp_path, process)
    finally:
        process.kill()
        process.wait()


def fill(client: redis.Redis) -> WorkLog:
    """Outcomes until the server takes no more."""
    worklog = WorkLog(client, SEALS)
    until_full(lambda number: worklog.record(f"train-1-{number}-0", OUTCOME))
    return worklog


def until_full(write: Callable[[int], object]) -> None:
    """Raises AssertionError if the server takes ten thousand."""
    try:
        for number in range(10_000):
            write(number)
    except redis.OutOfMemoryError:
        return
    raise AssertionError("the server's memory has no end")


def test_the_embedded_brokers_memory__has_an_end_and_drops_nothing_by_itself(client: redis.Redis) -> None:
    memory = client.info("memory")
    assert (memory["maxmemory"], memory["maxmemory_policy"]) == (4 << 20, "noeviction")


def test_an_outcome_that_was_just_recorded__is_not_deleted_before_the_keeper_read_it(client: redis.Redis) -> None:
    """Else nothing that was trained would ever be committed while something else fills the broker."""
    worklog = fill(client)
    assert "give it more memory" in relieve(client)[0]
    assert worklog.finished("train-1-0-0")


def test_a_broker_whose_memory_is_full__gets_room_and_the_keeper_goes_on(
    client: redis.Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_memory, "LATELY_S", 2)
    caplog.set_level(logging.WARNING)
    config = from_dict({"name": "test", "network": "network.json", "operator": 1}, tmp_path)
    queue = WorkQueue(make_app(config), client, SEALS)
    assert queue.first_value("bid-7-0-1", 41) == 41
    worklog = fill(client)
    with pytest.raises(Exception, match="maxmemory"):
        queue.submit("work.train", "train-2-0-0", {"job": 2})
    newest = "train-1-0-0"
    time.sleep(2.1)  # Redis counts idle time in whole seconds
    assert queue.status(newest).state == "done"
    assert relieve(client) == []
    assert "nearly full" in caplog.text
    used, most = memory_of(client)
    assert used <= ROOM * most
    assert queue.status(newest).state == "done", "what was read last stays"
    assert queue.first_value("bid-7-0-1", 99) == 41, "the price of a bid is no outcome"
    assert queue.submit("work.train", "train-2-0-0", {"job": 2}).state == "queued"
    worklog.record("train-2-0-0", OUTCOME)
    assert queue.status("train-2-0-0").state == "done"
    assert make_room(client) == 0, "there is room"


def test_a_broker_that_others_fill__is_what_status_says(client: redis.Redis) -> None:
    until_full(lambda number: client.set(f"strange:{number}", "x" * 20_000))
    with pytest.raises(NeedsOperator, match="little of that is outcomes"):
        make_room(client)
    [said] = relieve(client)
    assert "broker_max_mb" in said
    assert memory_of(client)[0] >= FULL * memory_of(client)[1]


def test_a_broker_of_ones_own_that_drops_keys__is_what_the_check_says(client: redis.Redis, tmp_path: Path) -> None:
    url = broker.url_of(EMBEDDED, tmp_path)
    (tmp_path / "operator.json").write_text(f'{{"broker": "{url}"}}')
    checks = SystemChecks(None, None, None, tmp_path, node=True)
    assert "answers" in checks._broker()[1]
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(Exception, match="maxmemory-policy is allkeys-lru"):
        checks._broker()
