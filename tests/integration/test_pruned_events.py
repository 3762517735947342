"""What the event store drops of jobs that are over, and reads again where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.devnet_driver import DevnetDriver
from zoo_compute.chain import event_store, log_filters
from zoo_compute.chain.connection import connect
from zoo_compute.chain.event_log import history_of, use_store
from zoo_compute.devnet.devnet import Devnet

pytestmark = pytest.mark.integration


def test_jobs_that_are_over__leave_only_their_number_unless_they_are_the_operators(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p17: every event of every job stayed for good."""
    monkeypatch.setattr(event_store, "HEADS_KEPT", 4)
    monkeypatch.setattr(event_store, "PRUNE_EVERY", 64)
    driver = DevnetDriver(devnet)
    mine = driver.operator("mine", 10)
    job, other, open_ = driver.post(), driver.post(), driver.post()
    mine.send(driver.chain.auction.bid(job, 0, mine.id, b"\1" * 32, 1))
    for each in (job, other):
        driver.submitter.send(driver.chain.tasks.cancel(each))
    chain = connect(devnet.network)
    store = use_store(chain, tmp_path / "mine.sqlite3", operator=mine.id)
    assert store.jobs_to_read(chain.head()) == [job, open_], "the other one was over before this operator began"
    store.finish(job, chain.head().number)
    devnet.rpc("anvil_mine", [hex(2 * event_store.PRUNE_EVERY)])
    assert store.jobs_to_read(chain.head()) == [open_]
    kept = {row[0] for row in store._db.execute("SELECT DISTINCT job FROM logs WHERE job IS NOT NULL")}
    assert kept == {job, open_}
    assert store.finished_jobs() == [job]
    assert (store.is_finished(job), store.is_forgotten(job), store.is_forgotten(other)) == (True, False, True)

    store.release(open_)
    assert not store.is_forgotten(open_), "it is not finished"
    store.release(job)
    assert store.is_forgotten(job)
    assert store.finished_jobs() == []
    devnet.rpc("anvil_mine", [hex(2 * event_store.PRUNE_EVERY)])
    assert store.jobs_to_read(chain.head()) == [open_]
    assert {row[0] for row in store._db.execute("SELECT DISTINCT job FROM logs WHERE job IS NOT NULL")} == {open_}
    store.close()


def test_a_store_that_reads_block_by_block__drops_as_one_that_reads_many_at_once(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never did: a look at each block, as all are in production, never passed the end of a stretch of blocks."""
    monkeypatch.setattr(event_store, "HEADS_KEPT", 4)
    monkeypatch.setattr(event_store, "PRUNE_EVERY", 8)
    monkeypatch.setattr(event_store, "AGE_KEPT", 64)
    job = DevnetDriver(devnet).post()
    chain = connect(devnet.network)
    store = use_store(chain, tmp_path / "events.sqlite3")
    assert store.jobs_to_read(chain.head()) == [job]
    store.finish(job, chain.head().number)
    for number in range(chain.head().number + 1, chain.head().number + 25):
        devnet.rpc("evm_mine", [])
        assert store.jobs_to_read(chain.head(number)) == []
    assert store._db.execute("SELECT COUNT(*) FROM logs WHERE job = ?", (job,)).fetchone() == (0,)
    assert len(store._db.execute("SELECT number FROM heads").fetchall()) < 20
    store.close()


def test_events_of_no_job__are_kept_where_somebody_reads_them__until_nobody_does(
    devnet: Devnet, tmp_path: Path
) -> None:
    driver = DevnetDriver(devnet)
    driver.operator("alpha", 10)
    chain = connect(devnet.network)
    store = use_store(chain, tmp_path / "events.sqlite3")
    registered = history_of(chain, names=("OperatorRegistered",))
    events = registered.events_until(chain.head())
    assert events
    kept = store._db.execute(f"SELECT {event_store.COLUMNS} FROM logs WHERE job IS NULL").fetchall()
    assert {event.name for event in store.events(kept)} <= log_filters.JOBLESS
    assert "CollateralDeposited" not in log_filters.JOBLESS, "which this operator has made"
    with pytest.raises(ValueError, match="does not keep HeartbeatCounted"):
        history_of(chain, names=("HeartbeatCounted", "NodeAsked"))

    registered.forget(events)
    assert not registered.events_until(chain.head())
    assert not history_of(chain, names=("OperatorRegistered",)).events_until(chain.head())
    store.close()


def test_a_job_that_did_not_end_after_all__is_read_from_its_beginning_though_its_events_were_pruned(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An RPC that showed the job's end, and is set aside later than a job's events are kept."""
    monkeypatch.setattr(event_store, "HEADS_KEPT", 4)
    monkeypatch.setattr(event_store, "PRUNE_EVERY", 64)
    monkeypatch.setattr(event_store, "AGE_KEPT", 1)
    driver = DevnetDriver(devnet)
    job = driver.post()
    chain = connect(devnet.network)
    store = use_store(chain, tmp_path / "events.sqlite3")
    assert store.jobs_to_read(chain.head()) == [job]
    devnet.rpc("evm_mine", [])
    assert store.jobs_to_read(chain.head()) == [job]
    whole = store._db.execute("SELECT COUNT(*) FROM logs WHERE job = ?", (job,)).fetchone()
    ended = chain.head().number
    store.finish(job, ended)
    devnet.rpc("anvil_mine", [hex(2 * event_store.PRUNE_EVERY)])
    assert store.jobs_to_read(chain.head()) == []
    assert store._db.execute("SELECT COUNT(*) FROM logs WHERE job = ?", (job,)).fetchone() == (0,)

    store.forget(ended)
    assert store.jobs_to_read(chain.head()) == [job]
    assert store._db.execute("SELECT COUNT(*) FROM logs WHERE job = ?", (job,)).fetchone() == whole
    store.close()
