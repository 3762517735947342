"""The operator's work queue on a real (embedded) Redis: asked twice is done once, and lost work is found."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from keepers.config import EMBEDDED, from_dict
from keepers.processes.worker import run
from keepers.queue import broker, work_queue, worker_leases
from keepers.queue.app import KEEPER_QUEUE, WORK_QUEUE, make_app
from keepers.queue.broker import BrokerUnreachable
from keepers.queue.work_queue import WorkQueue
from keepers.queue.worker_leases import WorkLog
from node.errors import Withheld
from tests.support.queue_seals import SEALS
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.store import BlockStore
from zoo_compute.store.errors import ContentMissing

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path):
    process = subprocess.Popen(broker.server_command(tmp_path), stdout=subprocess.DEVNULL)
    try:
        yield process, broker.wait_ready(EMBEDDED, tmp_path, process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def queue(server, tmp_path: Path) -> WorkQueue:
    config = from_dict({"name": "test", "network": "network.json", "operator": 1}, tmp_path)
    return WorkQueue(make_app(config), server[1], SEALS)


def do(client, tmp_path: Path, body, name: str = "shard") -> None:
    """What a worker does with one message of this name."""
    client.delete(WORK_QUEUE)
    run(body, WorkLog(client, SEALS), BlockStore(tmp_path / "store"), name, {})


def test_asking_twice__sends_once(server, queue):
    assert queue.submit("work.train", "shard", {}).state == "queued"
    assert queue.submit("work.train", "shard", {}).state == "queued"
    assert queue.depth() == 1


def test_finished_work__is_remembered_and_not_done_again(server, queue, tmp_path):
    done = []
    queue.submit("work.train", "shard", {})
    for _ in range(2):
        do(server[1], tmp_path, lambda request, store: done.append(1) or {"ok": len(done)})
    assert done == [1]
    assert queue.submit("work.train", "shard", {}).result == {"ok": 1}
    assert queue.depth() == 0


def test_work_lost_with_its_worker__is_sent_again(server, queue, monkeypatch):
    monkeypatch.setattr(work_queue, "RESEND_AFTER_S", 0.0)
    queue.submit("work.train", "shard", {})
    server[1].delete(WORK_QUEUE)  # a worker took the message and died
    assert queue.submit("work.train", "shard", {}).state == "queued"
    assert queue.depth() == 1


def taken(client) -> str:
    """Of the message that a worker takes next."""
    _, message = client.brpop(WORK_QUEUE, timeout=int(HANG_S))
    return worker_leases._name_in(message)


def test_work_that_was_begun_and_lost__is_taken_before_what_waits(server, queue):
    log = WorkLog(server[1], SEALS, "test-0")
    for name in ("first", "second", "third"):
        queue.submit("work.train", name, {})
    assert taken(server[1]) == "first"
    with log.lease("first"):
        log.release_leases()  # as the daemon does that sees the worker dead
        queue.submit("work.train", "first", {})
    queue.submit("work.train", "fourth", {})
    assert [taken(server[1]) for _ in range(4)] == ["first", "second", "third", "fourth"]


def test_work_that_took_two_workers_with_it__waits_its_turn(server, queue):
    names = ["shard", "second", "third"]
    for name in names:
        queue.submit("work.train", name, {})
    assert taken(server[1]) == "shard"
    log = WorkLog(server[1], SEALS, "test-0")
    with ExitStack() as dead:  # no worker leaves its lease
        dead.enter_context(log.lease("shard"))
        log.release_leases()
        queue.submit("work.train", "shard", {})
        assert taken(server[1]) == "shard"
        dead.enter_context(log.lease("shard"))
        log.release_leases()
        queue.submit("work.train", "shard", {})
        assert [taken(server[1]) for _ in names] == ["second", "third", "shard"]


def test_work_that_lacks_what_others_do_not_serve__is_tried_again_behind_what_waits(server, queue, tmp_path):
    def withheld(request, store):
        raise Withheld("the checkpoint", {0: None}, checkpoint=True)

    for name in ("shard", "second"):
        queue.submit("work.train", name, {})
    assert taken(server[1]) == "shard"
    run(withheld, WorkLog(server[1], SEALS), BlockStore(tmp_path / "store"), "shard", {})
    queue.submit("work.train", "shard", {})
    assert [taken(server[1]) for _ in range(2)] == ["second", "shard"]


def test_the_keeper_is_called__when_nothing_of_the_round_is_taken_next_and_it_would_not_look_anyway(server, queue):
    log = WorkLog(server[1], SEALS)
    assert log.is_awaited("train-1-2-0-ab")
    for name in ("train-1-2-1-ab", "train-1-3-0-ab", "train-2-2-0-ab"):
        queue.submit("work.train", name, {})
    for last, awaited in (("train-1-2-0-ab", False), ("train-1-3-1-ab", True), ("train-2-2-1-ab", True)):
        assert log.is_awaited(last) == awaited
    assert taken(server[1]) == "train-1-2-1-ab"
    assert log.is_awaited("train-1-2-1-ab")
    server[1].lpush(KEEPER_QUEUE, "a look")
    assert not log.is_awaited("train-1-2-1-ab")


def test_work_under_way__is_not_sent_again(server, queue, monkeypatch):
    monkeypatch.setattr(work_queue, "RESEND_AFTER_S", 0.0)
    queue.submit("work.train", "shard", {})
    server[1].delete(WORK_QUEUE)
    with WorkLog(server[1], SEALS).lease("shard") as mine:
        assert mine
        assert queue.submit("work.train", "shard", {}).state == "running"
        with WorkLog(server[1], SEALS).lease("shard") as second:
            assert not second
    assert queue.depth() == 0


def test_a_lease__outlives_its_first_seconds_while_work_goes_on(server, monkeypatch):
    monkeypatch.setattr(worker_leases, "LEASE_S", 1)
    monkeypatch.setattr(worker_leases, "LEASE_RENEWAL_S", 0.2)
    with WorkLog(server[1], SEALS).lease("shard"):
        time.sleep(1.5)
        assert server[1].exists("zoo:lease:shard")
    assert not server[1].exists("zoo:lease:shard")


def test_work_that_fails__is_tried_three_times_then_says_why(server, queue, tmp_path, monkeypatch):
    monkeypatch.setattr(work_queue, "RESEND_AFTER_S", 0.0)

    def fail(request, store):
        raise ValueError("the data root differs")

    for attempt in range(work_queue.ATTEMPTS):
        assert queue.submit("work.train", "shard", {}).state == "queued", attempt
        do(server[1], tmp_path, fail)
    status = queue.submit("work.train", "shard", {})
    assert status.state == "failed"
    assert "the data root differs" in (status.error or "")


@pytest.mark.parametrize(
    "trouble",
    [ContentMissing("nobody has it yet"), FileNotFoundError(2, "no such file"), OSError(28, "no space left on device")],
    ids=["not there yet", "store gone", "disk full"],
)
def test_content_that_is_not_there_yet_and_trouble_of_the_machine__are_no_failure(
    server, queue, tmp_path, monkeypatch, trouble
):
    monkeypatch.setattr(work_queue, "RESEND_AFTER_S", 0.0)

    def missing(request, store):
        raise trouble

    for _ in range(work_queue.ATTEMPTS + 2):
        queue.submit("work.train", "shard", {})
        do(server[1], tmp_path, missing)
    assert queue.submit("work.train", "shard", {}).state == "queued"


def test_what_others_withhold__is_told_until_the_work_is_done(server, queue, tmp_path, monkeypatch):
    monkeypatch.setattr(work_queue, "RESEND_AFTER_S", 0.0)

    def withheld(request, store):
        raise Withheld("nobody serves it", {4: None, 5: (1, 2)})

    for _ in range(work_queue.ATTEMPTS + 1):
        assert queue.submit("work.fetch", "shard", {}).state == "queued"
        do(server[1], tmp_path, withheld)
    absent = queue.status("shard").missing
    assert absent == {"checkpoint": False, "share": 0, "places": [[4, None], [5, [1, 2]]], "asked_at": 0}
    do(server[1], tmp_path, lambda request, store: {"ok": 1})
    assert queue.status("shard").missing is None
    assert queue.status("shard").state == "done"


def test_a_killed_broker__brings_back_finished_work(server, queue, tmp_path):
    process, client = server
    queue.submit("work.train", "shard", {})
    do(client, tmp_path, lambda request, store: {"ok": 1})
    time.sleep(1.2)  # the append-only file is synced every second
    process.kill()
    process.wait()
    with pytest.raises(BrokerUnreachable, match="no Redis answers"):
        broker.connect(EMBEDDED, tmp_path)
    again = subprocess.Popen(broker.server_command(tmp_path), stdout=subprocess.DEVNULL)
    try:
        broker.wait_ready(EMBEDDED, tmp_path, again)
        assert queue.status("shard").result == {"ok": 1}
    finally:
        again.kill()
        again.wait()


def test_an_unreachable_server__is_named_without_its_password(tmp_path):
    with pytest.raises(BrokerUnreachable) as caught:
        broker.connect("redis://user:secret@127.0.0.1:1/0", tmp_path, timeout_s=0.5)
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_message_that_is_done__leaves_no_record_of_celerys(server, tmp_path):
    """Celery kept 400 bytes of each for a week, which nobody read."""
    config = from_dict({"name": "test", "network": "network.json", "operator": 1}, tmp_path)
    app = make_app(config)

    @app.task(name="work.train", ignore_result=True)
    def train(*_: object) -> None: ...

    train.backend.store_result("an-id", None, "STARTED")
    assert list(server[1].scan_iter(match="celery-task-meta-*")) == []


def test_the_brokers_file__is_written_anew_before_it_is_large(server, tmp_path):
    client, value = server[1], b"v" * 100_000
    file, sizes = tmp_path / "redis" / "appendonly.aof", [0]

    def shrank() -> bool:
        """It is written anew while values come: what a slow machine writes meanwhile counts for the next time."""
        for _ in range(20):  # 2 MB written, of which 100 kB are kept
            client.set("key", value)
        sizes.append(file.stat().st_size)
        return sizes[-1] < max(sizes) / 2

    wait_until("a smaller file", shrank, poll_s=0.2)
    assert max(sizes) < 64_000_000, "Redis' own bound"
    assert client.get("key") == value


def test_a_job_that_is_over__leaves_no_record(server, queue, tmp_path):
    client, claim = server[1], "0123456789abcdef"
    other = ["train-61-0-0-aa", "train-3-6-0-aa", "dispute-ffffffffffffffff-author-6"]
    mine = ["prepare-6-aa", "train-6-0-0-aa", "verify-6-1-0-aa-shown", f"dispute-{claim}-author-bb"]
    for name in (*mine, *other):
        queue.submit("work.train", name, {})
        do(client, tmp_path, lambda request, store: {}, name)
    queue.submit("work.train", "train-6-1-0-aa", {})
    WorkLog(client, SEALS).record_failure("train-6-1-1-aa", "no data")
    assert [queue.first_value(f"bid:{job}:0:1", job) for job in (6, 61)] == [6, 61]
    queue.announce_turn(6, 1, b"s" * 32)
    queue.forget_job(6, {claim})
    left = {key.decode().split(":", 2)[2] for key in client.scan_iter(match="zoo:*:*")}
    assert left == {*other, "bid:61:0:1"}
    assert [queue.status(name).state for name in mine] == ["absent"] * len(mine)
    assert [queue.status(name).state for name in other] == ["done"] * len(other)


def test_work_of_a_job_that_is_over__keeps_its_lease(server, queue):
    with WorkLog(server[1], SEALS, "test-0").lease("train-6-0-0-aa"):
        queue.forget_job(6, set())
        assert queue.status("train-6-0-0-aa").state == "running"
