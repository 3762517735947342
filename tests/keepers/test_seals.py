"""Whoever writes the broker can stop work. It cannot have another result taken for a worker's, nor another request for the keeper's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.processes.worker import bind
from keepers.queue import seals, work_queue
from keepers.queue.app import RESULT_TTL_S
from keepers.queue.seals import Seals
from keepers.queue.work_queue import ATTEMPTS, WorkQueue
from keepers.queue.worker_leases import DEATHS, DONE, FAILED, QUARANTINE_S, WorkLog
from tests.keepers.redis_double import Redis
from tests.support.queue_seals import SEALS
from zoo_compute.errors import ConfigError
from zoo_compute.store import BlockStore

STRANGER = Seals(b"s" * 32)
NAME = "train-1-2-0-ab"


@pytest.fixture
def redis() -> Any:
    return Redis()


@pytest.fixture
def sent() -> list[list[Any]]:
    return []


@pytest.fixture
def queue(redis: Any, sent: list[list[Any]]) -> WorkQueue:
    app: Any = SimpleNamespace(send_task=lambda task, args, queue: sent.append(args))
    return WorkQueue(app, redis, SEALS)


def test_a_result_of_a_worker__is_taken(queue: WorkQueue, redis: Any) -> None:
    WorkLog(redis, SEALS).record(NAME, {"root": "aa", "losses": [0.1, 2e-300]})
    assert queue.status(NAME).result == {"root": "aa", "losses": [0.1, 2e-300]}


@pytest.mark.parametrize(
    "forged",
    [
        json.dumps({"root": "bb"}),
        "0" * 64 + json.dumps({"root": "bb"}),
        STRANGER.close("done", NAME, {"root": "bb"}),
        SEALS.close("done", "train-1-1-0-ab", {"root": "bb"}),  # of another round
        SEALS.close("missing", NAME, {"root": "bb"}),
        SEALS.close("done", NAME, {"root": "aa"}).replace("aa", "bb"),
        "\xff" * 80,
        "",
    ],
)
def test_a_forged_result__is_deleted_and_the_work_is_sent_again(
    forged: str, queue: WorkQueue, redis: Any, sent: list[list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    redis.set(f"zoo:done:{NAME}", forged.encode("latin-1"))
    status = queue.submit("work.train", NAME, {"job": 1})
    assert (status.state, status.result, len(sent)) == ("queued", None, 1)
    assert not WorkLog(redis, SEALS).finished(NAME)
    assert "not sealed by this operator" in caplog.text or "it is deleted" in caplog.text


def test_forged_failures_and_missing_data__make_the_keeper_decline_and_demand_nothing(
    queue: WorkQueue, redis: Any
) -> None:
    for _ in range(ATTEMPTS):
        redis.rpush(f"zoo:{FAILED}:{NAME}", "no memory")
    redis.set(f"zoo:missing:{NAME}", json.dumps({"chunks": {"0": None}}))
    assert (queue.status(NAME).state, queue.status(NAME).missing) == ("absent", None)
    for _ in range(ATTEMPTS):
        WorkLog(redis, SEALS).record_failure(NAME, "no memory")
    assert (queue.status(NAME).state, queue.status(NAME).error) == ("failed", "no memory")


def test_deaths_that_no_daemon_saw__make_the_keeper_decline_nothing(queue: WorkQueue, redis: Any) -> None:
    for number in range(3):
        death = {"id": str(number), "at": time.time(), "alone": True}
        redis.rpush(f"zoo:{DEATHS}:{NAME}", STRANGER.close(DEATHS, NAME, death))
    assert queue.status(NAME).state == "absent"


def test_what_the_release_before_counted__stops_nobody_and_counts_no_more(queue: WorkQueue, redis: Any) -> None:
    """It had a bare number of deaths, and sealed words for failures: the keeper and the daemon stopped at either."""
    redis.set(f"zoo:deaths:{NAME}", 3)
    for _ in range(ATTEMPTS):
        redis.rpush(f"zoo:failed:{NAME}", SEALS.close("failed", NAME, "no memory"))
    assert queue.status(NAME).state == "absent"
    redis.set(f"zoo:lease:{NAME}", "alpha-0")
    WorkLog(redis, SEALS, "alpha-0").release_leases(died=True)
    assert len(queue._counted(DEATHS, NAME, QUARANTINE_S)) == 1


@pytest.mark.parametrize("kind", [FAILED, DEATHS])
def test_a_sealed_failure__counts_once_however_often_it_is_in_the_broker(
    queue: WorkQueue, redis: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, key = WorkLog(redis, SEALS, "alpha-0"), f"zoo:{kind}:{NAME}"

    def fail() -> None:
        if kind == FAILED:
            log.record_failure(NAME, "no memory")
        else:
            redis.set(f"zoo:lease:{NAME}", "alpha-0")
            log.release_leases(died=True)

    fail()
    copy = redis.values[key][0].decode()
    for _ in range(8):
        redis.rpush(key, copy)
    fail()
    assert queue.status(NAME).state == "absent"
    fail()
    assert queue.status(NAME).state == "failed"
    later = time.time() + max(RESULT_TTL_S, QUARANTINE_S)
    monkeypatch.setattr(work_queue.time, "time", lambda: later)
    assert queue.status(NAME).state == "absent", "kept in the broker for longer than it counts"


def test_the_price_of_a_bid__is_the_one_that_the_keeper_sealed(queue: WorkQueue, redis: Any) -> None:
    assert queue.first_value("bid:1:0:1", 10) == 10
    assert queue.first_value("bid:1:0:1", 11) == 10, "the configuration changed"
    redis.set("zoo:memo:bid:1:0:1", 5)
    assert queue.first_value("bid:1:0:1", 10) == 10
    redis.set("zoo:memo:bid:1:0:1", SEALS.close("memo", "bid:2:0:1", 5))
    assert queue.first_value("bid:1:0:1", 10) == 10


@pytest.fixture
def tasks(redis: Any, tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    made: dict[str, Any] = {}
    done: list[dict[str, Any]] = []
    app: Any = SimpleNamespace(task=lambda name, ignore_result: lambda body: made.update({name: body}))
    app.send_task = lambda *_, **__: None
    body = {"work.fetch": lambda request, store: done.append(request) or {}}
    bind(app, WorkLog(redis, SEALS), BlockStore(tmp_path), body)
    return made, done


def test_a_request_of_the_keeper__is_done_also_after_its_way_through_json(
    queue: WorkQueue, sent: list[list[Any]], tasks: Any
) -> None:
    made, done = tasks
    queue.submit("work.fetch", NAME, {"slots": (1, 2), "sizes": {10: 1, 9: 2}, "rate": 0.1})
    made["work.fetch"](*json.loads(json.dumps(sent[0])))
    assert done == [{"slots": [1, 2], "sizes": {"10": 1, "9": 2}, "rate": 0.1}]


@pytest.mark.parametrize("change", ["request", "name", "task", "key", "none"])
def test_a_forged_request__is_not_done(change: str, redis: Any, tasks: Any, caplog: pytest.LogCaptureFixture) -> None:
    made, done = tasks
    request, name, task, by = {"slot": 1}, NAME, "work.fetch", STRANGER if change == "key" else SEALS
    seal = by.of("work.train" if change == "task" else task, "other" if change == "name" else name, request)
    made[task](name, {"slot": 2} if change == "request" else request, *([] if change == "none" else [seal]))
    assert done == []
    assert queue_is_empty(redis)
    assert "the keeper did not send this" in caplog.text


def queue_is_empty(redis: Any) -> bool:
    return not [key for key in redis.values if key.startswith((f"zoo:{DONE}", f"zoo:{FAILED}"))]


def test_the_first_process__makes_the_key_and_all_have_it(tmp_path: Path) -> None:
    first, second = seals.load(tmp_path), seals.load(tmp_path)
    assert second.is_of(first.of("done", NAME, 1), "done", NAME, 1)
    assert (tmp_path / seals.FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [seals.FILE]


def test_a_key_that_came_while_another_was_made__wins(tmp_path: Path) -> None:
    there = seals.load(tmp_path)
    late = seals._made(tmp_path / seals.FILE)
    assert late.is_of(there.of("done", NAME, 1), "done", NAME, 1)


def test_a_key_that_others_can_read_or_that_is_damaged__is_refused(tmp_path: Path) -> None:
    seals.load(tmp_path)
    path = tmp_path / seals.FILE
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read it") as caught:
        seals.load(tmp_path)
    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o600)
    path.write_text("abc\n")
    with pytest.raises(ConfigError, match="is no key"):
        seals.load(tmp_path)
