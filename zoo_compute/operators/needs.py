"""What an operator lacks before it can earn, and the command that fixes it. One pure decision for `start`, `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from zoo_compute.amounts import format_amount
from zoo_compute.chain.views import OperatorView
from zoo_compute.store.addresses import is_loopback

COLLATERAL = 2_500  # proposed deposit in ZEN: 12 slots of a job that pays up to 2 ZEN a slot-round, at the default rate of audits
WORK = ("provider", "aggregator")  # roles that bid


@dataclass(frozen=True)
class NodeSetup:
    """The operator's folder. A price is empty if operator.json sets none."""

    operator: int = 0
    roles: tuple[str, ...] = ("provider",)
    price: str = ""
    aggregator_price: str = ""
    gateway_host: str = "127.0.0.1"
    endpoint: str = ""
    hot: str = ""  # address of the hot key; empty if its file is missing
    has_signer: bool = False  # a program of its own has the hot key
    signer_trouble: tuple[str, str] = ("", "")  # what is wrong with it, and what to do
    network: str = ""  # the network file in operator.json
    draining: bool = False
    running: bool = True
    home: str = ""  # ` --home FOLDER` for commands, unless it is the default folder

    @property
    def takes_work(self) -> bool:
        return any(role in WORK for role in self.roles)


@dataclass(frozen=True)
class ChainFacts:
    """State on chain. view: None if the operator does not exist. hot_coin, least_coin: wei."""

    preset: str
    min_stake: int  # of the network file's preset
    chain_min_stake: int  # of the contract
    hot_coin: int
    least_coin: int
    view: OperatorView | None = None
    other: str = ""  # another network that commands run here would use
    needs_admission: bool = False  # every job of the network asks for it


@dataclass(frozen=True)
class Reachability:
    """Whether others can fetch from the announced endpoint. peers: how many reported it; 0 if only this machine tried."""

    served: bool
    peers: int
    endpoint: str

    def __str__(self) -> str:
        verb = "fetched" if self.served else "could not fetch"
        if self.peers:
            return f"{self.peers} peer{'s' * (self.peers > 1)} {verb} a block from {self.endpoint}"
        return f"this machine {verb} a block from {self.endpoint}; no peer tried, so others may see it differently"


@dataclass(frozen=True)
class NodeProblem:
    """One missing thing. do: how to fix it. is_blocking: the node cannot do anything useful without it."""

    what: str
    do: str
    is_blocking: bool = False

    def __str__(self) -> str:
        return f"needs you: {self.what}: {self.do}"

    def to_dict(self) -> dict[str, Any]:
        return {"what": self.what, "do": self.do}


def find_problems(setup: NodeSetup, facts: ChainFacts | None, reach: Reachability | None = None) -> list[NodeProblem]:
    """All missing things. facts: None if the chain does not answer. reach: None if not tried."""
    return [*_of_folder(setup), *_of_chain(setup, facts), *_of_endpoint(setup, facts, reach)]


def _of_folder(setup: NodeSetup) -> Iterator[NodeProblem]:
    if setup.signer_trouble[0]:
        yield NodeProblem(*setup.signer_trouble)
    if not setup.hot and not setup.has_signer:
        yield NodeProblem("the hot key's file is missing", f"zoo node register{setup.home}", is_blocking=True)
    if not setup.running:
        yield NodeProblem("the node does not run", f"zoo node start{setup.home}")
    if setup.draining:
        yield NodeProblem("the node is draining and takes no new work", f"zoo node drain --undo{setup.home}")
    for role, price, option in (
        ("provider", setup.price, "price"),
        ("aggregator", setup.aggregator_price, "aggregator-price"),
    ):
        if role in setup.roles and not price:
            yield NodeProblem(
                f"no price for the role {role}, so the node asks 1 token",
                f"zoo node configure --{option} 1{setup.home}",
            )


def _of_chain(setup: NodeSetup, facts: ChainFacts | None) -> Iterator[NodeProblem]:
    if facts is None:
        yield NodeProblem("no RPC of the network answers", f"check the connection, and `rpcs` in {setup.network}")
        return
    if facts.chain_min_stake != facts.min_stake:
        yield NodeProblem(
            f"the network file says preset {facts.preset}, but the contracts were deployed with other numbers",
            f"get the network's official file: zoo node configure --network-file FILE{setup.home}",
            is_blocking=True,
        )
    if facts.other:
        yield NodeProblem(
            f"operator.json names another network than your commands use here, {facts.other}",
            f"export ZOO_NETWORK={setup.network}",
        )
    if not setup.takes_work:
        yield from _of_coin(setup, facts)
        return
    view = facts.view
    if view is None:
        yield NodeProblem(
            f"this network has no operator {setup.operator}", f"zoo node register{setup.home}", is_blocking=True
        )
    elif setup.hot and view.hot != setup.hot:
        yield NodeProblem(
            f"operator {setup.operator} signs with {view.hot}, but the hot key in this folder is {setup.hot}",
            "start the folder that has its key, or run zoo node register --home FOLDER",
            is_blocking=True,
        )
    else:
        yield from _of_money(setup, facts, view)


def _of_money(setup: NodeSetup, facts: ChainFacts, view: OperatorView) -> Iterator[NodeProblem]:
    if view.exit_at:
        yield NodeProblem(
            "the exit is requested, so the node cannot bid", f"zoo node register --home FOLDER, or wait: zoo node unstake{setup.home}"
        )  # fmt: skip
    elif view.stake < facts.min_stake:
        missing = format_amount(facts.min_stake - view.stake, "")
        yield NodeProblem(
            f"the stake of {format_amount(view.stake)} is below the minimum, {format_amount(facts.min_stake)}",
            f"zoo node stake {missing.replace(',', '')}{setup.home}",
        )
    if facts.needs_admission and not view.admitted:
        yield NodeProblem(
            "the machine has not passed a trial, and every job of this network asks for one",
            f"zoo node admit{setup.home}",
        )
    if not any(balance for balance, _ in view.collateral.values()):
        yield NodeProblem("no collateral", f"zoo node deposit {COLLATERAL}{setup.home}")
    yield from _of_coin(setup, facts)


def _of_coin(setup: NodeSetup, facts: ChainFacts) -> Iterator[NodeProblem]:
    if not setup.hot or facts.hot_coin >= max(1, facts.least_coin):
        return
    coin_text = format_amount(facts.hot_coin, "", places=9) if facts.hot_coin else "no"
    coin = "1" if facts.preset == "devnet" else "0.02"
    mend = f"zoo node register --hot-coin {coin} --deposit 0{setup.home}" if setup.takes_work else f"send it {coin}"
    yield NodeProblem(f"{coin_text} coin for gas on the hot key {setup.hot}", mend)


def _of_endpoint(setup: NodeSetup, facts: ChainFacts | None, reach: Reachability | None) -> Iterator[NodeProblem]:
    if not setup.takes_work:
        return
    if not setup.endpoint:
        if facts is not None and facts.view is not None and not facts.view.endpoint:
            yield NodeProblem(
                "no endpoint is announced, so nobody can fetch your results",
                f"zoo node configure --endpoint http://YOUR-ADDRESS:8600 --gateway-port 8600 --gateway-host 0.0.0.0{setup.home}",
            )
        return
    if reach is None or reach.served:
        return
    local = is_loopback(setup.gateway_host) and not is_loopback(urlsplit(setup.endpoint).hostname or "")
    listen = f"zoo node configure --gateway-host 0.0.0.0{setup.home}, then start again; and " if local else ""
    yield NodeProblem(str(reach), f"{listen}open the endpoint's port to this machine, or announce another endpoint")
