"""`zoo devnet`: a network of one's own, in the foreground."""

from __future__ import annotations

import dataclasses
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from zoo_compute import home
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.cli.context import Command, Settings, pass_settings

if TYPE_CHECKING:
    from zoo_compute.devnet import Devnet
    from zoo_compute.store import Gateway


@click.command(cls=Command)
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Its files; ~/.zoo/devnet by default."
)
@click.option(
    "--preset", type=click.Choice(["devnet", "production"]), default="devnet", show_default=True, help="Whose windows."
)
@click.option("--port", default=0, show_default=True, help="Of the chain's RPC; 0 takes the last one, or any free one.")
@click.option("--block-time", default=1.0, show_default=True, help="Seconds between empty blocks.")
@click.option(
    "--user", "users", multiple=True, default=("me",), show_default=True, help="Account to make and fund; repeatable."
)
@click.option("--zen", default="100000", show_default=True, help="ZEN each account gets.")
@pass_settings
def devnet(
    settings: Settings, folder: Path | None, preset: str, port: int, block_time: float, users: tuple[str, ...], zen: str
) -> None:
    """Start a local chain with the contracts deployed, funded accounts and a store; Ctrl-C ends it.

    Started again in the same folder, it goes on where it was.
    """
    from zoo_compute.devnet import Devnet

    amount = parse_amount(zen, what="--zen")
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    settings.say("starting the chain and deploying the contracts")
    with Devnet(folder or home.home() / "devnet", preset=preset, block_time=block_time, port=port) as chain:
        accounts = {name: str(chain.account(name, zen=amount).address) for name in users}
        gateway = _gateway(chain)
        try:
            _tell(settings, chain, gateway, accounts, amount)
            stopped.wait()
            settings.say("stopping")
        finally:
            gateway.stop()
    settings.say("the devnet is stopped; its state is kept")


def _gateway(chain: Devnet) -> Gateway:
    """Serve the folder's store, at the last address if it is free, and name it in the network file."""
    from zoo_compute.store import BlockStore, Gateway, StoreError

    store = BlockStore(chain.folder / "store")
    last = urlsplit(chain.network.storage[0]).port if chain.network.storage else 0
    try:
        gateway = Gateway(store, port=last or 0)
    except StoreError:
        gateway = Gateway(store)
    gateway.start()
    dataclasses.replace(chain.network, storage=(gateway.url,)).save(chain.network_file)
    return gateway


def _tell(settings: Settings, chain: Devnet, gateway: Gateway, accounts: dict[str, str], zen: int) -> None:
    network = chain.network
    first = next(iter(accounts))
    environment = {
        "ZOO_NETWORK": str(chain.network_file),
        "ZOO_ACCOUNT": str(chain.key_file(first)),
        "ZOO_PASSPHRASE_FILE": str(chain.passphrase_file),
        "ZOO_STORE": str(chain.folder / "store"),
    }
    data = {
        "network": str(chain.network_file), "rpc": chain.url, "chain_id": network.chain_id, "preset": network.preset,
        "storage": gateway.url, "store": environment["ZOO_STORE"], "passphrase_file": environment["ZOO_PASSPHRASE_FILE"],
        "accounts": {name: {"address": address, "keystore": str(chain.key_file(name))} for name, address in accounts.items()},
        "environment": environment,
    }  # fmt: skip
    lines = [
        f"devnet: chain {network.chain_id} at {chain.url}, preset {network.preset}, storage {gateway.url}",
        f"network file: {chain.network_file}",
        *(f"account {name}: {address}, {format_amount(zen)} at least" for name, address in accounts.items()),
        "",
        "in another terminal:",
        *(f"  export {name}={value}" for name, value in environment.items()),
        "  zoo doctor",
        "",
        "Ctrl-C ends it",
    ]
    settings.emit(data, lines)
