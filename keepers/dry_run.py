"""One look of a keeper that has no key: what it would send now and what that would cost, and what it would ask workers for."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from eth_account import Account

from keepers.config import OperatorConfig
from keepers.keeper import Keeper
from keepers.processes.keeper_process import EVENTS, fee_limits
from keepers.queue import broker, seals
from keepers.queue.work_queue import MEMO, WorkQueue, WorkStatus
from keepers.services.pricing import Pricing
from zoo_compute.chain import fees
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.sender import Receipt, Sender, result_of
from zoo_compute.chain.simulate import Request, dry_run, estimate_gas
from zoo_compute.operators.needs import WORK
from zoo_compute.store import Store, cid_of


class NotSent(Receipt):
    """Of a transaction that a dry run left out: whoever sent it goes on, as if nothing had come of it."""

    def event(self, name: str) -> Any:
        return SimpleNamespace(name=name, args=defaultdict(int))


@dataclass(frozen=True)
class Planned:
    """A transaction that the keeper would send. cost: wei of coin for gas, at today's fees; value: wei sent along."""

    operation: str
    gas: int
    cost: int
    value: int


@dataclass(frozen=True)
class DryLook:
    """transactions, work: what the keeper would send and ask workers for. status: as it would be in status.json."""

    transactions: list[Planned]
    work: list[str]
    status: dict[str, Any]


class DrySender(Sender):
    """Simulates what it should send from an address whose key is not here."""

    def __init__(self, chain: Chain, address: str, folder: Path, limits: fees.FeeLimits) -> None:
        super().__init__(chain, SimpleNamespace(address=address), folder=folder, limits=limits)
        self.planned: list[Planned] = []

    def _deliver(self, request: Request, call: Call | None) -> Receipt:
        """Raises Refusal where the contract would, FeeTooHigh, NotFunded."""
        w3 = self.chain.w3
        returned = dry_run(w3, request)
        gas, block = estimate_gas(w3, request), w3.eth.get_block("latest")
        fee = fees.suggest(w3, block, self.limits.of(request.operation), self.limits.priority)
        cost = gas * (block.get("baseFeePerGas", 0) + fee.priority_fee)
        self.planned.append(Planned(request.operation, gas, cost, request.value))
        return NotSent("not sent", block["number"], gas, request.operation, [], result_of(call, returned))


class DryQueue(WorkQueue):
    """Reads what workers did, if the broker runs. Sends nothing."""

    def __init__(self, config: OperatorConfig) -> None:
        try:
            client = broker.connect(config.broker, config.folder)
        except broker.BrokerUnreachable:
            client = None
        super().__init__(None, client, seals.load(config.folder))
        self.planned: list[str] = []

    def submit(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        status = self.status(name)
        if status.state == "absent":
            self.planned.append(name)
        return status

    def status(self, name: str) -> WorkStatus:
        return WorkStatus("absent") if self._redis is None else super().status(name)

    def forget(self, name: str) -> None:
        self.planned.append(f"{name}, measured again")

    def first_value(self, key: str, value: int) -> int:
        known = None if self._redis is None else self._opened(MEMO, key)
        return value if known is None else int(known)

    def relative_paces(self, timed: str, workers: int) -> tuple[float, ...]:
        return (1.0,) * workers if self._redis is None else super().relative_paces(timed, workers)

    def wake(self) -> None: ...

    def announce_turn(self, job: int, round: int, start_root: bytes) -> None: ...

    def forget_job(self, job: int, claims: Collection[str]) -> None: ...


class DryStore:
    """Reads a store, and leaves it as it is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add(self, content: bytes, **_: Any) -> str:
        return cid_of(content)

    def pin(self, *_: Any, **__: Any) -> None: ...

    def unpin(self, *_: Any, **__: Any) -> None: ...


def look(config: OperatorConfig, chain: Chain, hot: str, store: Store) -> DryLook:
    """What a keeper that bids and serves would do now, looking once. hot: the hot key's address."""
    config = replace(config, roles=[role for role in config.roles if role in WORK])
    with tempfile.TemporaryDirectory() as folder, _events(chain, config, Path(folder)):
        work = DryQueue(config)
        sender = DrySender(chain, hot, Path(folder), fee_limits(config))
        keeper = Keeper(config, chain, Account.create(), sender, cast(Store, DryStore(store)), work)
        keeper._own_trials = None  # a trial takes the device for minutes
        keeper.pricing = Pricing(config, chain, Path(folder), work.wake)
        status = keeper.tick()
        if keeper.pricing.script is not None and keeper.pricing.script.answer_all():
            sender.planned.clear()
            work.planned.clear()
            status = keeper.tick()
    return DryLook(sender.planned, work.planned, status)


@contextmanager
def _events(chain: Chain, config: OperatorConfig, folder: Path) -> Iterator[None]:
    """The chain's events: in a copy of what the keeper has read already."""
    there, copy = config.folder / EVENTS, folder / EVENTS
    if there.exists():
        with (
            closing(sqlite3.connect(f"file:{there}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as to,
        ):
            source.backup(to)
    events = use_store(chain, copy, config.operator)
    try:
        yield
    finally:
        events.close()
