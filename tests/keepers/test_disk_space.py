"""A disk that is nearly full: what nothing needs goes, no new work is taken, and what is written is whole or not there."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.decisions.duties import duties
from keepers.decisions.obstacles import reasons_not_to_bid
from keepers.decisions.orders import Prepare, Progress
from keepers.services import disk_space
from keepers.services.disk_space import GB, DiskSpace
from tests.keepers.test_duties import ME_PROVIDER, TIMED, opening
from tests.keepers.test_retention import JOB, ME, Lane, lane, pointers
from tests.keepers.test_retention_decisions import closed
from tests.keepers.test_year import store_of_events
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.sender import Sender
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.store import BlockStore

_ = lane  # a fixture
STRANGERS = 71  # a job in which this operator has no part
Usage = namedtuple("Usage", "total used free")


def free(monkeypatch: pytest.MonkeyPatch, gb: float) -> None:
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda path: Usage(100 * GB, 0, gb * GB))


def space(folder: Path, **settings: Any) -> DiskSpace:
    config = from_dict({"name": "k", "network": "n", "operator": ME, **settings}, folder)
    return DiskSpace(config, BlockStore(folder / "store"))


def test_below_the_floor__no_new_work_is_taken_and_the_status_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = space(tmp_path, free_space_gb=5)
    for gb, is_near, is_short in ((11, False, False), (9, True, False), (4.9, True, True), (6, True, False)):
        free(monkeypatch, gb)
        disk.look()
        assert (disk.is_near, bool(disk.short)) == (is_near, is_short), gb
        assert bool(disk.trouble) == is_short
    free(monkeypatch, 4.9)
    disk.look()
    assert disk.trouble[0].startswith("no new work is taken: 4.9 GB are free at ")


def test_beyond_the_quota_of_the_store__no_new_work_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    free(monkeypatch, 90)
    disk = space(tmp_path, store_max_gb=1e-6)
    store = BlockStore(tmp_path / "store")
    store.add(os.urandom(950))
    disk.measure_store()
    disk.look()
    assert (disk.is_near, disk.short) == (True, "")
    store.add(os.urandom(100))
    disk.measure_store()
    disk.look()
    assert "store_max_gb" in disk.short


def test_no_room__is_why_a_node_does_not_bid():
    full = replace(ME_PROVIDER, is_drained=True, no_room="4.9 GB are free")
    assert reasons_not_to_bid(opening(1_000), full, TIMED) == "the node takes no new jobs: 4.9 GB are free"
    assert duties(opening(1_000), full, Progress()) == [], "nothing is fetched either"
    assert duties(opening(1_000), ME_PROVIDER, Progress()) == [Prepare()]


def test_near_the_floor__only_what_others_jobs_left_goes(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    mine = lane.store.add(b"mine", tag=job_tag(JOB))
    own = lane.store.add(b"pinned by hand")
    stranger = lane.store.add(b"stranger", tag=job_tag(STRANGERS))
    checked = lane.store.add(b"checked", tag=round_tag(STRANGERS, 2))
    loose, fresh = lane.store.add(b"loose", pin=False), lane.store.add(b"fresh", pin=False)
    for block in (lane.store.root / "blocks").glob(f"*/{loose}"):
        os.utime(block, (0, 0))
    free(monkeypatch, 90)
    lane.lane.poll_once()
    assert all(lane.store.has(cid) for cid in (mine, own, stranger, checked, loose, fresh))
    free(monkeypatch, 9)
    lane.lane.poll_once()
    assert [lane.store.has(cid) for cid in (mine, own, stranger, checked, loose, fresh)] == [
        True,
        True,
        *[False] * 3,
        True,
    ]
    free(monkeypatch, 1)
    lane.lane.poll_once()
    assert lane.store.has(mine), "what a claim may need stays, however full it is"


def test_without_room__nothing_is_fetched_to_replace_other_stores(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    free(monkeypatch, 1)
    lane.leaving = {2, 9}
    view = lane.of(closed(8))
    assert lane.poll_once(view, 3) == set()
    free(monkeypatch, 90)
    assert lane.poll_once(view, 2) >= pointers(view, 3, 6, 8)


# -- a disk without a byte


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_status_and_records__stay_as_they_were_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "status.json"
    write_atomically(path, b"old", mode=0o600)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new", mode=0o600)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["status.json"], "nothing of the attempt is left"


def test_a_transaction_that_is_mined__counts_although_no_line_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    sender: Any = Sender.__new__(Sender)
    sender.ledger, sender.address = tmp_path / "no-folder" / "transactions.jsonl", "0x1"
    (tmp_path / "no-folder").write_text("a file in its place")
    sender._record("Settlement.commit", 1, 10**9, "0x2", 3)
    assert "is not recorded" in caplog.text


def test_the_events_on_disk__are_not_taken_for_damaged_when_it_is_full(tmp_path: Path):
    store = store_of_events(tmp_path)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"), store._database() as db, db:
        db.executemany("INSERT INTO facts VALUES (?, ?)", ((f"{n}", "x" * 500) for n in range(100)))
    assert not (tmp_path / "events.sqlite3.damaged").exists()
    store._db.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    with store._database() as db:
        assert db.execute("SELECT COUNT(*) FROM facts WHERE name = '1'").fetchone() == (0,), "all of it or nothing"
    store.close()
