"""A market of live inference on this machine: a devnet, a service in a store, operators with seats, and their servers as processes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keepers.config import OperatorConfig, from_dict, save
from tests.support.devnet_driver import DevnetOperator
from tests.support.liars.lying_answers import __name__ as LYING
from tests.support.waiting import HANG_S
from zoo_compute.chain.receipt import Receipt
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.inference import channels
from zoo_compute.inference.books import operator_book
from zoo_compute.inference.seats import offer_of, take_seat
from zoo_compute.jobs.services import publish_service
from zoo_compute.operators.hot_key import key_at
from zoo_compute.paths import RECEIPT_KEY, VOUCHERS
from zoo_compute.serving.files import StoredService
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.subprocesses import LOOPBACK, free_port, tied_to_parent


@dataclass(frozen=True)
class SeatPlan:
    """price: for 1,000 tokens, lock: both in wei of ZEN. lies: the chance with which it answers falsely."""

    name: str
    price: int
    lock: int
    lies: float = 0.0


class ServedOperator:
    """An operator with one seat. url: of its server, once it runs."""

    def __init__(self, market: ServingMarket, plan: SeatPlan) -> None:
        self.market, self.plan, self.port = market, plan, free_port()
        self.account = DevnetOperator(market.devnet, plan.name, price=1)
        self.folder = market.folder / plan.name
        network = market.devnet.network_file
        raw = {
            "name": plan.name, "network": str(network), "operator": self.account.id, "store": market.store_location, "device": "cpu",
            "threads": market.threads,
        }  # fmt: skip
        self.config: OperatorConfig = from_dict(raw, self.folder)
        save(self.config)
        zen = market.chain.zen
        self.account.send(zen.approve(market.chain.serving.address, plan.lock))
        offer = offer_of(market.service.cid, plan.price, zen.address, f"http://{LOOPBACK}:{self.port}")
        taken = take_seat(self.account.sender, self.account.id, key_at(self.folder, RECEIPT_KEY), plan.lock, offer)
        self.seat = int(taken.event("ServingSeatTaken").args["seat"])
        self.process: subprocess.Popen[str] | None = None

    @property
    def id(self) -> int:
        return self.account.id

    def start(self) -> None:
        """The server's process; `ready` waits for it."""
        words = ["--seat", str(self.seat), "--port", str(self.port), "--home", str(self.folder), "--json"]
        honest = [sys.executable, "-m", "zoo_compute.cli.main", "serving", "start"]
        lying = [sys.executable, "-m", LYING, "--chance", str(self.plan.lies)]
        with (self.folder / "server.log").open("w") as log:
            self.process = subprocess.Popen(
                [*(lying if self.plan.lies else honest), *words], stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "ZOO_NETWORK": str(self.market.devnet.network_file)}, preexec_fn=tied_to_parent(),
            )  # fmt: skip

    def ready(self) -> dict[str, Any]:
        """Where it answers. Raises AssertionError with its log."""
        assert self.process is not None
        assert self.process.stdout is not None
        where: dict[str, Any] = json.loads(self.process.stdout.readline() or "{}")
        if "url" not in where:
            raise AssertionError(f"{where} {(self.folder / 'server.log').read_text()}")
        return where

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(HANG_S)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(HANG_S)

    def close_channels(self) -> dict[int, Receipt]:
        """With the newest voucher of each, by its number; what the operator has for its answers is in the event VoucherPaid."""
        book = operator_book(self.folder / VOUCHERS, self.market.chain, self.id)
        try:
            closed = {}
            for number in book.channels():
                newest = book.newest(number)
                assert newest is not None
                closed[number] = channels.close(self.account.sender, newest)
            return closed
        finally:
            book.close()


class ServingMarket:
    """Runs while it is entered. service_file: what is served. threads: of each server."""

    def __init__(self, folder: Path, service_file: Path, plans: Sequence[SeatPlan], threads: int = 1) -> None:
        self.folder, self.threads = folder, threads
        self._file, self._plans, self._stack = service_file, plans, ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.devnet = stack.enter_context(Devnet(self.folder / "chain"))
            self.chain = self.devnet.chain
            self.store = BlockStore(self.folder / "chain" / "store")
            self.store_location = str(self.folder / "chain" / "store")
            gateway = Gateway(self.store)
            gateway.start()
            stack.callback(gateway.stop)
            dataclasses.replace(self.devnet.network, storage=(gateway.url,)).save(self.devnet.network_file)
            cid, _ = publish_service(self._file, self.store, lambda _: None)
            self.service = StoredService.fetch(self.store, cid)
            self.operators = {plan.name: ServedOperator(self, plan) for plan in self._plans}
            for operator in self.operators.values():
                stack.callback(operator.stop)
                operator.start()
            for operator in self.operators.values():
                operator.ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
