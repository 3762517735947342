"""Of jobs that were over before a keeper's first start, it reads only that; of those that concern it, every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.devnet_driver import DevnetDriver
from zoo_compute.chain import event_store
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.event_store import EventStore
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import Unreachable

pytestmark = pytest.mark.integration

DEEP = 3


class Past(NamedTuple):
    operator: int
    mine: int  # cancelled after a bid of the operator
    foreign: int  # cancelled
    open: int


@pytest.fixture
def past(devnet: Devnet, monkeypatch: pytest.MonkeyPatch) -> Past:
    monkeypatch.setattr(event_store, "DEEP", DEEP)
    monkeypatch.setattr(event_store, "SKIMMED_FROM", 1)
    monkeypatch.setattr(event_store, "JOBS_AT_ONCE", 1)
    monkeypatch.setattr(event_store, "FIRST_RANGE", 16)
    driver = DevnetDriver(devnet)
    operator = driver.operator("mine", 10)
    mine, foreign, open_ = driver.post(), driver.post(), driver.post()
    operator.send(driver.chain.auction.bid(mine, 0, operator.id, b"\1" * 32, 1))
    for job in (mine, foreign):
        driver.submitter.send(driver.chain.tasks.cancel(job))
    devnet.rpc("anvil_mine", [hex(2 * DEEP)])
    return Past(operator.id, mine, foreign, open_)


@pytest.fixture
def chain(devnet: Devnet, past: Past, tmp_path: Path) -> Iterator[Chain]:
    chain = connect(devnet.network)
    use_store(chain, tmp_path / "skimmed.sqlite3", past.operator)
    yield chain
    store_of(chain).close()


def store_of(chain: Chain) -> EventStore:
    assert chain.event_store is not None
    return chain.event_store


def rows(store: EventStore) -> list[tuple[Any, ...]]:
    return store._db.execute("SELECT * FROM logs ORDER BY block, at").fetchall()


def whole(devnet: Devnet, past: Past, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Logs and jobs of a store that read every event."""
    with monkeypatch.context() as patched:
        patched.setattr(event_store, "SKIMMED_FROM", 10**9)
        chain = connect(devnet.network)
        store = use_store(chain, folder / "whole.sqlite3", past.operator)
        store.jobs_to_read(chain.head())
        found = rows(store), store._db.execute("SELECT * FROM jobs ORDER BY job").fetchall()
        store.close()
    return found


def test_a_first_start__reads_of_foreign_jobs_that_are_over_only_that(
    devnet: Devnet, chain: Chain, past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(chain)
    assert store.jobs_to_read(chain.head()) == [past.mine, past.open]
    logs, jobs = whole(devnet, past, tmp_path, monkeypatch)
    assert store._db.execute("SELECT * FROM jobs ORDER BY job").fetchall() == jobs
    topics = event_store.topics_of(("JobPosted", "JobCancelled"))
    expected = [row for row in logs if row[2] != past.foreign or row[4] in topics]
    assert rows(store) == expected, "of the others, and of what is no job's, every event"
    assert len(expected) < len(logs)


def test_a_first_start_that_is_interrupted_anywhere__is_begun_again(
    devnet: Devnet, chain: Chain, past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked, real = store_of(chain), 0, EventStore._logs

    def interrupted(self: EventStore, *args: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked > at:
            raise Unreachable("the connection is lost")
        return real(self, *args)

    monkeypatch.setattr(EventStore, "_logs", interrupted)
    for at in range(100):  # noqa: B007 read by `interrupted`
        asked = 0
        try:
            store.jobs_to_read(chain.head())
            break
        except Unreachable:
            assert not store._newest or store._newest[-1].number < chain.head().number
    assert at > 3, "several requests were lost"
    monkeypatch.setattr(EventStore, "_logs", real)
    found, fresh = rows(store), use_store(connect(devnet.network), tmp_path / "fresh.sqlite3", past.operator)
    fresh.jobs_to_read(chain.head())
    assert found == rows(fresh)
    fresh.close()


def test_what_an_rpc_gave_that_is_set_aside__is_skimmed_again_up_to_the_first_start(
    devnet: Devnet, chain: Chain, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that read 100,000 jobs again, event by event, served nobody for ten minutes."""
    store = store_of(chain)
    before = store.jobs_to_read(chain.head())
    DevnetDriver(devnet).submitter.send(chain.tasks.cancel(past.open))
    devnet.rpc("anvil_mine", [hex(2 * DEEP)])
    assert store.jobs_to_read(chain.head()) == before, (
        "this one was over after the first start: somebody looks at its end"
    )
    known = rows(store)
    seen, real = list[tuple[int, int]](), EventStore._skim

    def noted(self: EventStore, first: int, last: int) -> None:
        seen.append((first, last))
        real(self, first, last)

    monkeypatch.setattr(EventStore, "_skim", noted)
    store.forget(chain.network.first_block)
    assert store.jobs_to_read(chain.head()) == before
    assert rows(store) == known
    assert len(seen) == 1
