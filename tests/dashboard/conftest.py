"""An index that events are appended to, and a page on top of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.support.chain_events import BLOCK_S, TOKEN, Chain, hash_of
from zoo_compute.chain.events import Event
from zoo_compute.dashboard.index import Block, Index
from zoo_compute.dashboard.reading import Network, Reader
from zoo_compute.dashboard.server import application


class Filled:
    """An index, and the chain of events that fills it."""

    def __init__(self, path: Path) -> None:
        self.chain, self.index = Chain(), Index(path, "test")
        self.index.keep("INSERT INTO tokens VALUES (?,?,?)", (TOKEN, "ZEN", 18))

    def append(self, events: Iterable[Event], *, may_be_undone: bool = True) -> Block:
        """Everything up to the chain's newest block."""
        made = list(events)
        until = Block(self.chain.block, hash_of(self.chain.block), self.chain.at)
        self.index.append(made, self.chain.times, until, may_be_undone=may_be_undone)
        self.chain.mine(BLOCK_S)
        return until

    @property
    def tables(self) -> dict[str, list[object]]:
        """All that pages are read from."""
        from zoo_compute.dashboard.index import TABLES

        return {
            name: self.index.db.execute(f"SELECT rowid, * FROM {name} ORDER BY rowid").fetchall() for name in TABLES
        }


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path / "index.sqlite")


@pytest.fixture
def page(filled: Filled) -> TestClient:
    return TestClient(application(Reader(filled.index, Network("testnet", 7, "devnet"))), base_url="http://127.0.0.1")
