"""One cursor on disk for the events of all jobs: nothing is read twice, and what a reorganisation undid is not there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web3.types import RPCEndpoint

from tests.support.devnet_driver import DevnetDriver
from zoo_compute.chain import event_store
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.event_log import History, history_of, use_store
from zoo_compute.chain.event_store import EventStore
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.chain.snapshot import read_job
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import ConfigError, Unreachable

pytestmark = pytest.mark.integration

EVERY = ("JobPosted", "LotOpened", "BidSealed", "BidRevealed", "JobCancelled", "JobAdvanced", "OperatorRegistered")


class Requests:
    """Those of every provider, by method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.refuse_above: int | None = None
        self.is_behind = False
        self.answers_part = False
        real = FailoverProvider.make_request

        def counted(provider: FailoverProvider, method: RPCEndpoint, params: Any) -> Any:
            self.asked.append((method, params))
            if method == "eth_getLogs" and self.refuse_above is not None and "fromBlock" in params[0]:
                blocks = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
                if blocks > self.refuse_above:
                    return {"error": {"code": -32005, "message": "query returned more than 10000 results"}}
            return real(provider, method, params)

        monkeypatch.setattr(FailoverProvider, "make_request", counted)
        batched = FailoverProvider.make_batch_request

        def each_counted(provider: FailoverProvider, asks: list[tuple[RPCEndpoint, Any]]) -> Any:
            if asks[0][0] != "eth_getLogs":
                return batched(provider, asks)
            answers = [provider.make_request(method, params) for method, params in asks]
            if self.is_behind and "toBlock" in asks[0][1][0]:
                return [{"result": []}, {"result": None}]
            return answers[:1] if self.answers_part else answers

        monkeypatch.setattr(FailoverProvider, "make_batch_request", each_counted)

    def of(self, method: str) -> list[Any]:
        return [params[0] for name, params in self.asked if name == method]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


@pytest.fixture
def chain(devnet: Devnet, tmp_path: Path) -> Iterator[Chain]:
    """A connection with a store."""
    chain = connect(devnet.network)
    store = use_store(chain, tmp_path / "events.sqlite3")
    yield chain
    store.close()


def store_of(chain: Chain) -> EventStore:
    assert chain.event_store is not None
    return chain.event_store


def again(chain: Chain, path: Path) -> Chain:
    """After a restart of the process."""
    store_of(chain).close()
    restarted = connect(chain.network)
    use_store(restarted, path / "events.sqlite3")
    return restarted


def played(devnet: Devnet, jobs: int = 2) -> DevnetDriver:
    driver = DevnetDriver(devnet)
    for _ in range(jobs):
        driver.post()
    return driver


def test_a_job_read_from_the_store__is_the_job_that_the_chain_has(devnet: Devnet, chain: Chain) -> None:
    driver = played(devnet)
    plain = connect(devnet.network)
    operator = driver.operator("alpha", 10)
    for job in (1, 2):
        head = plain.head()
        assert read_job(chain, job, head) == read_job(plain, job, head)
    for wanted in ({"names": EVERY}, {"operator": operator.id, "names": ("OperatorRegistered", "EndpointAnnounced")}):
        head = plain.head()
        expected = History(plain, **wanted).events_until(head)
        assert expected
        assert history_of(chain, **wanted).events_until(head) == expected


def test_all_jobs_of_a_block__take_one_request(devnet: Devnet, chain: Chain, requests: Requests) -> None:
    """p_tick: four requests a job and look, and thousands for the first look at one."""
    played(devnet, jobs=3)
    jobs = range(1, 4)
    for job in jobs:
        read_job(chain, job)
    requests.asked.clear()
    devnet.rpc("evm_mine", [])
    head = chain.head()
    for job in jobs:
        read_job(chain, job, head)
    assert [list(query) for query in requests.of("eth_getLogs")] == [["blockHash", "address", "topics"]]


def test_a_restart__reads_no_block_again(devnet: Devnet, chain: Chain, requests: Requests, tmp_path: Path) -> None:
    played(devnet)
    first = chain.head()
    events = history_of(chain, names=EVERY).events_until(first)
    devnet.rpc("anvil_mine", ["0x2"])
    restarted = again(chain, tmp_path)
    requests.asked.clear()
    head = restarted.head()
    assert history_of(restarted, names=EVERY).events_until(head) == events
    assert [int(query["fromBlock"], 16) for query in requests.of("eth_getLogs")] == [first.number + 1]
    assert requests.of("eth_getBlockByNumber").count(hex(head.number)) == 1, "the range's last block, with its events"


def test_ranges__grow_while_the_rpc_answers_and_shrink_where_it_refuses(
    devnet: Devnet, chain: Chain, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "DEEP", 2)
    driver = played(devnet)
    expected = history_of(connect(devnet.network), names=EVERY).events_until(driver.chain.head())
    devnet.rpc("anvil_mine", [hex(300)])
    requests.asked.clear()
    store_of(chain)._range = 4
    requests.refuse_above = 20
    assert history_of(chain, names=EVERY).events_until(chain.head()) == expected
    asked = [int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1 for query in requests.of("eth_getLogs")]
    assert asked[:4] == [4, 8, 16, 32]
    assert max(asked[4:]) <= 32
    assert sum(size > 20 for size in asked) < len(asked) / 2


def test_the_newest_blocks__are_read_in_parts_where_the_rpc_refuses_them_all(
    devnet: Devnet, chain: Chain, requests: Requests
) -> None:
    driver = played(devnet)
    expected = history_of(connect(devnet.network), names=EVERY).events_until(driver.chain.head())
    requests.asked.clear()
    requests.refuse_above = 3
    assert history_of(chain, names=EVERY).events_until(chain.head()) == expected
    assert len(requests.of("eth_getLogs")) > 3


def test_an_rpc_that_is_behind__is_not_believed_that_there_are_no_events(
    devnet: Devnet, chain: Chain, requests: Requests
) -> None:
    """One machine behind the RPC's name lags; another one answers the next look."""
    driver = played(devnet)
    expected = history_of(connect(devnet.network), names=EVERY).events_until(driver.chain.head())
    assert expected
    history = history_of(chain, names=EVERY)
    requests.is_behind = True
    with pytest.raises(Unreachable, match="does not have block"):
        history.events_until(chain.head())
    requests.is_behind = False
    assert history.events_until(chain.head()) == expected


def test_an_rpc_that_answers_a_part_of_a_batch__is_asked_again_at_the_next_look(
    devnet: Devnet, chain: Chain, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "DEEP", 2)
    driver = played(devnet)
    expected = history_of(connect(devnet.network), names=EVERY).events_until(driver.chain.head())
    history = history_of(chain, names=EVERY)
    requests.answers_part = True
    with pytest.raises(Unreachable, match="answered a part"):
        history.events_until(chain.head())
    requests.answers_part = False
    assert history.events_until(chain.head()) == expected


def test_a_range_that_takes_too_long__is_half_as_long_at_the_next_look(
    devnet: Devnet, chain: Chain, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    devnet.rpc("anvil_mine", [hex(300)])
    counted = FailoverProvider.make_request

    def slow(provider: FailoverProvider, method: RPCEndpoint, params: Any) -> Any:
        answer = counted(provider, method, params)
        if method == "eth_getLogs" and int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) >= 100:
            raise Unreachable("no answer in 20 s")
        return answer

    monkeypatch.setattr(FailoverProvider, "make_request", slow)
    history, looks = history_of(chain, names=EVERY), 0
    while True:
        looks += 1
        try:
            history.events_until(chain.head())
            break
        except Unreachable:
            assert looks < 5
    assert looks > 1


def test_a_reorganisation__undoes_events_jobs_and_ends(devnet: Devnet, chain: Chain, tmp_path: Path) -> None:
    driver = played(devnet, jobs=1)
    posted, names = history_of(chain, names=("JobPosted",)), ("JobPosted", "JobCancelled")
    read: Any = None
    while chain.head() != read:  # the devnet may make a block in between
        read, before = chain.head(), devnet.rpc("evm_snapshot", [])
    assert [event.job for event in posted.events_until(read)] == [1]
    driver.post()
    driver.submitter.send(driver.chain.tasks.cancel(1))
    head, store = chain.head(), store_of(chain)
    assert store.jobs_to_read(head) == [1, 2]
    store.finish(1, head.number)
    assert store.jobs_to_read(head) == [2]
    assert [event.job for event in posted.events_until(head)] == [1, 2]
    assert devnet.rpc("evm_revert", [before])
    assert [event.job for event in posted.events_until(chain.head())] == [1], "as of an RPC that is behind another"
    assert store.reorganisations == 0
    devnet.rpc("anvil_mine", ["0x9", "0x5"])  # other blocks in the place of those, which are gone
    assert chain.head(head.number).hash != head.hash
    assert store.jobs_to_read(chain.head()) == [1], "its end is undone, and so is that it was finished"
    assert [event.job for event in posted.events_until(chain.head())] == [1]
    assert posted.read_from <= head.number
    restarted = again(chain, tmp_path)
    assert [event.name for event in history_of(restarted, names=names).events_until(restarted.head())] == ["JobPosted"]


def test_an_rpc_that_is_behind__undoes_nothing(devnet: Devnet, chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    played(devnet, jobs=1)
    history, behind = history_of(chain, names=("JobPosted",)), chain.head()
    assert [event.job for event in history.events_until(behind)] == [1]
    DevnetDriver(devnet).post()
    assert [event.job for event in history.events_until(chain.head())] == [1, 2]
    real = chain.head

    def lagging(number: int) -> Any:
        if number > behind.number:
            raise Unreachable("not yet")
        return real(number)

    monkeypatch.setattr(chain, "head", lagging)
    assert [event.job for event in history.events_until(behind)] == [1]
    assert store_of(chain).reorganisations == 0


def test_a_devnet_that_was_started_anew__is_read_from_its_beginning(devnet: Devnet, chain: Chain) -> None:
    empty = devnet.rpc("evm_snapshot", [])
    played(devnet, jobs=2)
    assert store_of(chain).jobs_to_read(chain.head()) == [1, 2]
    assert devnet.rpc("evm_revert", [empty])
    DevnetDriver(devnet).post()
    with store_of(chain)._db as db:
        db.execute("DELETE FROM heads WHERE number < (SELECT MAX(number) FROM heads)")
    assert store_of(chain).jobs_to_read(chain.head()) == [1]


def test_a_block_that_is_replaced_while_it_is_read__leaves_the_store_as_it_was(
    devnet: Devnet, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(devnet, jobs=1)
    history = history_of(chain, names=("JobPosted",))
    head = chain.head()
    monkeypatch.setattr(event_store, "_head_of", lambda block: _other(head))
    with pytest.raises(Unreachable, match="was replaced while it was read"):
        history.events_until(head)
    monkeypatch.undo()
    assert [event.job for event in history.events_until(chain.head())] == [1]


def _other(head: Any) -> Any:
    return type(head)(head.number, head.timestamp, b"another block", head.parent)


def test_a_store_of_another_network_or_operator__is_read_again(devnet: Devnet, tmp_path: Path) -> None:
    played(devnet, jobs=1)
    chain, path = connect(devnet.network), tmp_path / "events.sqlite3"
    for operator in (0, 7):
        store = use_store(chain, path, operator)
        assert store.jobs_to_read(chain.head()) == [1]
        store.close()
    assert path.stat().st_mode & 0o077 == 0


def damage(path: Path, from_: int) -> None:
    """Overwritten from this byte on, as by a disk that fails."""
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    with path.open("r+b") as file:
        file.seek(from_)
        file.write(b"no database" * 100_000)


def root_page(store: EventStore, table: str) -> int:
    row = store._db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(row[0]) if row else 1


def test_a_damaged_store__is_moved_aside_and_read_again(devnet: Devnet, chain: Chain, tmp_path: Path) -> None:
    """A keeper did not start until somebody deleted the file."""
    driver, path = played(devnet), tmp_path / "events.sqlite3"
    head = driver.chain.head()
    events = history_of(chain, names=EVERY).events_until(head)
    for table in ("sqlite_master", "heads"):
        page = root_page(store_of(chain), table)
        store_of(chain).close()
        damage(path, 4_096 * (page - 1))
        chain = again(chain, tmp_path)
        assert history_of(chain, names=EVERY).events_until(head) == events
    store_of(chain).close()
    assert b"no database" in (tmp_path / "events.sqlite3.damaged").read_bytes()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("is_full", [False, True])
def test_a_store_that_is_damaged_while_it_is_used__is_read_again_at_the_next_look_that_finds_room(
    devnet: Devnet, chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """On a full disk it stayed closed until a restart."""
    driver = played(devnet)
    head = driver.chain.head()
    events = history_of(chain, names=EVERY).events_until(head)
    restarted = again(chain, tmp_path)
    known = history_of(restarted, names=EVERY)

    def full(path: Path) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    damage(tmp_path / "events.sqlite3", 4_096)
    if is_full:
        monkeypatch.setattr(event_store, "_connected", full)
    with pytest.raises(Unreachable, match=r"events.sqlite3 was damaged"):
        known.events_until(head)
    if is_full:
        with pytest.raises(ConfigError, match="disk is full"):
            known.events_until(head)
        monkeypatch.undo()
    assert known.events_until(head) == events
    assert store_of(restarted).jobs_to_read(head) == [1, 2]
    store_of(restarted).close()


def test_a_store_on_a_disk_that_cannot_be_written__is_not_taken_for_a_damaged_one(
    devnet: Devnet, tmp_path: Path
) -> None:
    path = tmp_path / "events.sqlite3"
    path.mkdir()
    with pytest.raises(ConfigError, match="unable to open database file") as caught:
        use_store(connect(devnet.network), path)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
