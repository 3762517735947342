"""`zoo account`: key files. No command takes or prints a raw key."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_compute import paths
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.cli.context import Group, Settings, pass_settings, read_passphrase
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import ConfigError, ZooError


@click.group("account", cls=Group)
def account() -> None:
    """Key files: create, import, list, show."""


@account.command()
@click.argument("name", default="default")
@pass_settings
def create(settings: Settings, name: str) -> None:
    """Make a new key, encrypted with a passphrase."""
    from zoo_compute.chain import keystore

    path = paths.new_keystore(name)
    address = keystore.create(path, read_passphrase(f"the new account {name}", confirm=True))
    settings.emit(
        {"name": name, "address": address, "keystore": str(path)},
        [
            f"{name}: {address}",
            f"key file: {path}",
            "Keep a copy of the file and the passphrase; nobody can restore either.",
        ],
    )


@account.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="Name of the account; by default the file's name.")
@pass_settings
def import_(settings: Settings, file: Path, name: str | None) -> None:
    """Import an encrypted key file of another wallet (geth, ape, foundry). Its passphrase does not change."""
    from zoo_compute.atomic import write_atomically
    from zoo_compute.chain import keystore

    address = keystore.address_of(file)
    path = paths.new_keystore(name or file.stem)
    if path.exists():
        raise ConfigError(f"there is an account {path.stem!r} already", hint="choose another name with --name")
    keystore.unlock(file, read_passphrase(file.name))  # fail now rather than at the first payment
    write_atomically(path, file.read_bytes(), mode=0o600)
    settings.emit({"name": path.stem, "address": address, "keystore": str(path)}, f"{path.stem}: {address}")


@account.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List the accounts on this machine."""
    from zoo_compute.chain import keystore

    rows = [
        {"name": name, "address": keystore.address_of(path), "keystore": str(path)}
        for name, path in paths.accounts().items()
    ]
    lines = table([(row["name"], row["address"]) for row in rows]) or [
        "no accounts; make one with `zoo account create`"
    ]
    settings.emit({"accounts": rows}, lines)


@account.command()
@click.option("--token", metavar="ADDRESS", help="Also show the balance of this payment token.")
@pass_settings
def show(settings: Settings, token: str | None) -> None:
    """Show address and balances. Needs no passphrase."""
    from zoo_compute.chain import keystore

    path = settings.keystore()
    address = keystore.address_of(path)
    data: dict[str, object] = {"name": path.stem, "address": address, "keystore": str(path)}
    lines = [f"{path.stem}: {address}", f"key file: {path}"]
    try:
        from zoo_compute.chain.ledger import balances

        money = settings.token(token)
        owned = balances(settings.chain(), address, money)
    except ZooError as error:
        if token is not None:
            raise
        settings.say(f"balances unknown: {error}")
    else:
        data |= {"coin": str(owned.coin), "zen": str(owned.zen), "owed": str(owned.owed)}
        data |= {"balance": str(owned.balance), "token": money.to_dict(), "coin_owed": str(owned.coin_owed)}
        lines += [f"coin for gas: {format_amount(owned.coin, '')}", f"ZEN: {format_amount(owned.zen)}"]
        option = ""
        if token is not None:
            lines.append(f"{money.symbol}: {money.format(owned.balance)}")
            option = f" --token {money.address}"
        if owned.coin_owed:
            lines.append(f"coin owed to this account: {format_amount(owned.coin_owed, '')} (`zoo account withdraw`)")
        if owned.owed:
            lines.append(
                f"owed to this account: {money.format(owned.owed)} (take it with `zoo account withdraw{option}`)"
            )
    settings.emit(data, lines)


@account.command()
@click.argument("receiver", metavar="[NAME|ADDRESS]", required=False)
@click.option("--zen", default="1000", show_default=True, metavar="N", help="ZEN to add.")
@click.option("--coin", default="1", show_default=True, metavar="N", help="Coin for gas to add.")
@pass_settings
def fund(settings: Settings, receiver: str | None, zen: str, coin: str) -> None:
    """Give an account test coin and test ZEN. Works on a devnet only."""
    from eth_utils.address import is_address, to_checksum_address

    from zoo_compute.chain import keystore
    from zoo_compute.devnet.devnet import fund_address
    from zoo_compute.devnet_files import devnet_of

    path = settings.network_path()
    files = devnet_of(path)
    if files is None:
        raise ConfigError(f"{path} is not a devnet's network file: only a devnet gives away coin and ZEN", hint="buy some, or ask somebody to send you some")  # fmt: skip
    if receiver is not None and is_address(receiver):
        address = str(to_checksum_address(receiver))
    else:
        address = keystore.address_of(paths.find_keystore(receiver or settings.account_name, path))
    amounts = {name: 0 if text == "0" else parse_amount(text, what=f"--{name}") for name, text in (("coin", coin), ("zen", zen))}  # fmt: skip
    fund_address(settings.chain(), files, address, **amounts)
    balances = settings.chain().coin(address), settings.chain().zen.balanceOf(address)
    settings.emit(
        {"address": address, "coin": str(balances[0]), "zen": str(balances[1])},
        f"{address} has {format_amount(balances[1])} and {format_amount(balances[0], '')} coin for gas",
    )


@account.command(cls=Sending)
@click.option("--token", metavar="ADDRESS", help="Payment token; ZEN by default.")
@pass_settings
def withdraw(settings: Settings, token: str | None) -> None:
    """Withdraw what the network owes your account: the rest of a job's escrow, posting deposits, or an operator's payments."""
    money, client = settings.token(token), settings.client()
    took, coin = client.withdraw(money.address), client.withdraw_coin()
    parts = [money.format(took)] * bool(took) + [f"{format_amount(coin, '')} coin of posting deposits"] * bool(coin)
    settings.emit(
        {"address": client.signer.address, "withdrawn": str(took), "coin": str(coin), "token": money.to_dict()},
        f"{' and '.join(parts)} went to {client.signer.address}" if parts else "nothing is owed to this account",
    )
