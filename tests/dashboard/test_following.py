"""The index follows a chain: only new blocks are read, what a reorganisation replaced is undone, and another chain is begun anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import chain_events as made
from zoo_compute.chain.events import Event
from zoo_compute.chain.head_pace import Head
from zoo_compute.dashboard import following, read_network
from zoo_compute.dashboard.index import HEADS_KEPT, Index
from zoo_compute.errors import Unreachable


class Rpc:
    """A chain of blocks, of which some are replaced. replaced: from which block on there is another fork."""

    def __init__(self, newest: int) -> None:
        self.newest, self.forks, self.reads = newest, {0: 0}, list[tuple[int, int]]()
        self.jobs: dict[int, int] = {}  # block -> a job that was posted in it
        self.network = SimpleNamespace(first_block=1)

    def hash(self, number: int) -> bytes:
        return made.hash_of(number, max(fork for first, fork in self.forks.items() if first <= number))

    def head(self, number: int | str = "latest") -> Head:
        at = self.newest if number == "latest" else int(number)
        if at > self.newest:
            raise Unreachable(f"no block {at}")
        return Head(at, 1_800_000_000 + at, self.hash(at), self.hash(at - 1))

    def replace(self, first: int, newest: int) -> None:
        self.forks[first], self.newest = len(self.forks), newest
        self.jobs = {block: job for block, job in self.jobs.items() if block < first}

    def scan(self, chain: Any, start: int, end: int, names: Any) -> Iterator[Event]:
        self.reads.append((start, end))
        for block, job in sorted(self.jobs.items()):
            if start <= block <= end:
                events = made.Chain(block=block)
                for event in made.posted(events, job):
                    yield Event(
                        event.name, event.contract, block, event.log_index, event.tx, self.hash(block), event.args
                    )

    def headers(self, chain: Any, asks: Sequence[Any]) -> list[dict[str, str]]:
        numbers = [int(ask.params[0], 16) for ask in asks]
        return [{"hash": "0x" + self.hash(n).hex(), "timestamp": hex(1_800_000_000 + n)} for n in numbers]


@pytest.fixture
def rpc(monkeypatch: pytest.MonkeyPatch) -> Rpc:
    rpc = Rpc(newest=3_000)
    monkeypatch.setattr(following, "scan", rpc.scan)
    monkeypatch.setattr(following, "request_all", rpc.headers)
    return rpc


def jobs(index: Index) -> list[int]:
    return [each.job for each in read_network.jobs(index.db).jobs][::-1]


def test_blocks__are_read_once_and_old_ones_are_not_journalled(rpc: Rpc, tmp_path: Path):
    index = Index(tmp_path / "index", "t")
    rpc.jobs = {2: 1, 2_999: 2}
    following.catch_up(rpc, index)
    assert jobs(index) == [1, 2]
    assert rpc.reads == [(1, 2_000), (2_001, 3_000 - HEADS_KEPT), (3_001 - HEADS_KEPT, 3_000)]
    assert {block for (block,) in index.db.execute("SELECT block FROM undo")} == {2_999}
    rpc.reads.clear()
    following.catch_up(rpc, index)
    assert rpc.reads == []
    rpc.newest, rpc.jobs[3_002] = 3_002, 3
    following.catch_up(rpc, Index(tmp_path / "index", "t"))
    assert (rpc.reads, jobs(index)) == ([(3_001, 3_002)], [1, 2, 3])


def test_replaced_blocks__are_undone_and_read_again(rpc: Rpc, tmp_path: Path):
    index = Index(tmp_path / "index", "t")
    rpc.jobs = {2: 1}
    following.catch_up(rpc, index)
    rpc.newest, rpc.jobs[3_001] = 3_001, 2
    following.catch_up(rpc, index)
    assert jobs(index) == [1, 2]
    rpc.replace(3_001, newest=3_001)
    rpc.jobs[3_001] = 7
    rpc.reads.clear()
    following.catch_up(rpc, index)
    assert (rpc.reads, jobs(index)) == ([(3_001, 3_001)], [1, 7])
    rpc.replace(3_001, newest=3_000)  # the newest block is gone, and none is there in its place yet
    following.catch_up(rpc, index)
    assert jobs(index) == [1]


def test_a_chain_without_any_known_block__is_read_from_its_beginning(rpc: Rpc, tmp_path: Path):
    index = Index(tmp_path / "index", "t")
    rpc.jobs = {2: 1}
    following.catch_up(rpc, index)
    rpc.replace(1, newest=50)
    rpc.jobs = {3: 9}
    following.catch_up(rpc, index)
    assert jobs(index) == [9]


def test_a_block_that_is_replaced_while_it_is_read__is_not_taken(
    rpc: Rpc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    index = Index(tmp_path / "index", "t")
    following.catch_up(rpc, index)
    rpc.newest, rpc.jobs[3_001] = 3_001, 2

    def replacing(*args: Any, **kwargs: Any) -> list[Event]:
        events = list(rpc.scan(*args, **kwargs))
        rpc.replace(3_001, newest=3_001)
        return events

    monkeypatch.setattr(following, "scan", replacing)
    with pytest.raises(Unreachable, match="was replaced"):
        following.catch_up(rpc, index)
    assert jobs(index) == []
    assert index.newest is not None
    assert index.newest.number == 3_000
