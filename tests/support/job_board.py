"""A client whose chain takes every job and keeps what was posted: terms, and with them the manifest of the store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.amounts import ZEN as MONEY
from zoo_compute.amounts import Token
from zoo_compute.chain.network import CONTRACTS, Network
from zoo_compute.client import client
from zoo_compute.client.client import Client
from zoo_compute.client.job import Job
from zoo_compute.jobs import shortfall, submission
from zoo_compute.jobs.config import Manifest
from zoo_compute.jobs.custody import CustodyTerms
from zoo_compute.jobs.shortfall import Offer
from zoo_compute.spec.params import ZEN, Terms
from zoo_compute.store import BlockStore, raw_cid

PLENTY = 10**9 * ZEN
ADDRESSES = {name: f"0x{number:040x}" for number, name in enumerate(CONTRACTS, 1)}
ME = SimpleNamespace(address="0x" + "11" * 20)


def offer(vram_gb: int = 24, **changes: Any) -> Offer:
    return Offer(**{"operator": 1, "vram_gb": vram_gb, "gpu_class": 1, "eligible": True, "free_collateral": PLENTY} | changes)  # type: ignore[arg-type]  # fmt: skip


def token_at(_chain: Any, symbol: str, **_: Any) -> Token:
    """ZEN, or a token of 6 decimals."""
    return Token(MONEY.symbol, MONEY.decimals, ADDRESSES["zen"]) if symbol == MONEY.symbol else Token("USD", 6, symbol)


class Board:
    """Where jobs are posted: the terms of each, in order, and what custodians were asked for. zen: what the account has; offers: the operators."""

    def __init__(self, store: BlockStore) -> None:
        self.store = store
        self.posted: list[Terms] = []
        self.custody: list[CustodyTerms] = []
        self.zen = PLENTY
        self.offers = [offer()] * 32

    @property
    def manifest(self) -> Manifest:
        """Of the newest job, read back from the store by what the chain has of it."""
        return Manifest.from_bytes(self.store.read(raw_cid(self.posted[-1].manifest), max_bytes=2**20, timeout_s=1))

    def post(self, _sender: Any, prepared: submission.PreparedJob, **_options: Any) -> int:
        self.posted.append(prepared.terms)
        return len(self.posted)


def a_board(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """From here on every Client meets this board's chain."""
    board = Board(BlockStore(folder / "store"))
    network = SimpleNamespace(contracts=ADDRESSES, first_block=0)
    chain = SimpleNamespace(
        network=network,
        datasets=None,
        tasks=SimpleNamespace(is_allowed=lambda _token: True),
        token=lambda _token: SimpleNamespace(balanceOf=lambda _account: board.zen),
        coin=lambda _account: 10**18,
        w3=SimpleNamespace(eth=SimpleNamespace(get_block=lambda _number: {})),
    )
    monkeypatch.setattr(Client, "chain", chain)
    monkeypatch.setattr(Client, "sender", None)
    monkeypatch.setattr(submission, "post", board.post)
    monkeypatch.setattr(shortfall, "offers", lambda *_, **__: tuple(board.offers))
    monkeypatch.setattr(client, "token_at", token_at)
    monkeypatch.setattr(Client, "check_served", lambda *_: None)
    monkeypatch.setattr(Job, "request_custody", lambda _job, terms: board.custody.append(terms))
    return board


def a_network() -> Network:
    return Network("here", "devnet", 31337, ("http://127.0.0.1:1",), ADDRESSES, dict.fromkeys(CONTRACTS, "0x" + "00" * 32))  # fmt: skip


def a_client(board: Board, **options: Any) -> Client:
    return Client(network=a_network(), account=ME, store=board.store, **options)
