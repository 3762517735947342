"""Send coin and ZEN from an ape account.

    ape run fund 0xRECEIVER --coin 10 --zen 1000 --network-file network.json --network ethereum:local:foundry

On a local network the first test account pays unless --account is given: on a devnet it deployed and owns the supply.
In `ape console`: `from scripts.fund import send; send("0x...", zen=1000)`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import ape
import click
from ape.api import AccountAPI, ProviderAPI, ReceiptAPI
from ape.cli import ConnectedProviderCommand

from zoo_compute.chain.network import load
from zoo_compute.spec.params import ZEN

NETWORK_FILE = Path("network.json")


def send(
    receiver: str,
    *,
    coin: Decimal | float = 0,
    zen: Decimal | float = 0,
    sender: AccountAPI | None = None,
    network_file: Path = NETWORK_FILE,
) -> None:
    """Transfer `coin` and `zen` (whole units) to `receiver`, from the first test account unless `sender` is given."""
    sender = sender or ape.accounts.test_accounts[0]
    if coin:
        _mined(sender.transfer(receiver, int(Decimal(coin) * 10**18)))
    if zen:
        token = ape.project.ZenToken.at(load(network_file).contracts["zen"], fetch_from_explorer=False)
        _mined(token.transfer(receiver, int(Decimal(zen) * ZEN), sender=sender))


def _mined(sent: ReceiptAPI) -> None:
    """ape does not wait for a node that mines by the clock."""
    ape.networks.provider.get_receipt(sent.txn_hash).raise_for_status()


@click.command(cls=ConnectedProviderCommand)
@click.argument("receiver")
@click.option("--coin", type=Decimal, default=Decimal(0), help="Native coin, in whole units.")
@click.option("--zen", type=Decimal, default=Decimal(0), help="ZEN, in whole units.")
@click.option("--account", "alias", default=None, help="The ape account that pays.")
@click.option("--network-file", type=click.Path(path_type=Path), default=NETWORK_FILE, show_default=True)
def cli(
    provider: ProviderAPI, receiver: str, coin: Decimal, zen: Decimal, alias: str | None, network_file: Path
) -> None:
    """Send coin and ZEN to RECEIVER."""
    if alias is None and not provider.network.is_local:
        raise click.UsageError("--account is needed on this network (`ape accounts list` names yours)")
    sender = ape.accounts.load(alias) if alias else None
    send(receiver, coin=coin, zen=zen, sender=sender, network_file=network_file)
    click.echo(f"sent {coin} coin and {zen} ZEN to {receiver}")
