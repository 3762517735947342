"""`zoo node`: an operator's standing. Running it (`init`, `start`, `worker`) comes with the `keeper` extra."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.amounts import Token, format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Group, Settings, pass_settings
from zoo_compute.cli.operator_options import (
    folder_of,
    home_option,
    number_of,
    operator_option,
    operators_of,
    token_option,
)
from zoo_compute.cli.output import StatusLine, table
from zoo_compute.gpu import TIERS, claimed, hours_told
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import GPU_CLASSES

if TYPE_CHECKING:
    from zoo_compute.standing import Standing


@click.group("node", cls=Group)
def node() -> None:
    """Provide compute: register, stake, earn, withdraw."""


@node.command()
@click.option("--gpu-type", metavar="NAME", help="Such as rtx4090, a100, m2; decides the class.")
@click.option(
    "--gpu-class", metavar="CLASS", help="For a card that is not listed: consumer, professional, datacenter, apple."
)
@click.option("--memory", required=True, metavar="SIZE", help="Of the GPU, such as 24GB.")
@click.option("--stake", metavar="ZEN", help="The network's least stake by default.")
@click.option(
    "--endpoint", default="", metavar="URL", help="Where this operator's store serves blocks; may be announced later."
)
@click.option("--hot", metavar="ADDRESS", help="An existing hot key; by default one is made in --home.")
@click.option("--hot-coin", metavar="AMOUNT", help="Coin for gas to top the hot key up to. [1 on a devnet, else 0.02]")
@home_option
@pass_settings
def register(
    settings: Settings, gpu_type: str | None, gpu_class: str | None, memory: str, stake: str | None,
    endpoint: str, hot: str | None, hot_coin: str | None, home: Path | None,
) -> None:  # fmt: skip
    """Register this machine as an operator. --account is the cold key: it owns the stake and receives the payments."""
    if (gpu_type is None) == (gpu_class is None):
        raise click.UsageError("give --gpu-type NAME, or --gpu-class CLASS for a card that is not listed")
    found, vram_gb = claimed(gpu_type, gpu_class, memory)
    amount = settings.network().params.min_stake if stake is None else parse_amount(stake, what="--stake")
    coin = parse_amount(hot_coin or ("1" if settings.network().preset == "devnet" else "0.02"), what="--hot-coin")
    settings.say(
        f"class {found.name} (reward multiplier {found.multiplier_percent / 100:.1f}x once admitted), {vram_gb} GB"
    )
    endpoint = endpoint or _default_endpoint(settings, hot)
    done = operators_of(settings).register(
        folder_of(home), settings.network_path(), found, vram_gb, amount, endpoint,
        hot=hot, hot_coin=coin, say=settings.say,
    )  # fmt: skip
    settings.emit(
        {
            "operator": done.operator, "owner": done.owner, "hot": done.hot, "gpu_class": found.id, "class": found.name,
            "multiplier_percent": found.multiplier_percent, "vram_gb": vram_gb, "stake": str(done.stake),
            "home": str(folder_of(home)), "new": done.new,
        },
        [
            f"operator {done.operator}: class {found.name}, multiplier {found.multiplier_percent / 100:.1f}x once admitted, {vram_gb} GB, stake {format_amount(done.stake)}"
            + ("" if done.new else " (was registered before)"),
            f"owner {done.owner}, hot key {done.hot}, folder {folder_of(home)}",
            "next: `zoo node deposit AMOUNT` (collateral behind the slots you bid for), then `zoo node start`",
        ],
    )  # fmt: skip


def _default_endpoint(settings: Settings, hot: str | None) -> str:
    """A free loopback address on a devnet, where all is one machine; elsewhere only the operator knows its own."""
    import socket

    if settings.network().preset != "devnet":
        settings.say("no --endpoint: others cannot fetch this node's results until `zoo node announce URL`")
    elif hot is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{probe.getsockname()[1]}"
    return ""


@node.command()
@click.argument("url")
@operator_option
@home_option
@pass_settings
def announce(settings: Settings, url: str, operator: int | None, home: Path | None) -> None:
    """Tell the network where this operator's store serves blocks."""
    operators = operators_of(settings)
    number = number_of(settings, operators, operator, home)
    receipt = operators.announce(number, url)
    settings.emit(
        {"operator": number, "endpoint": url, "transaction": receipt.transaction_hash},
        f"operator {number} serves at {url}",
    )


@node.command()
@token_option
@operator_option
@home_option
@pass_settings
def show(settings: Settings, token: str | None, operator: int | None, home: Path | None) -> None:
    """An operator as the chain sees it; needs no passphrase."""
    money, operators = settings.token(token), operators_of(settings, signing=False)
    standing = operators.standing(number_of(settings, operators, operator, home), token)
    data = {**standing.to_dict(), "symbol": money.symbol, "decimals": money.decimals}
    settings.emit(data, table(_about(standing, money)))


@node.command()
@click.option("--now", "at_once", is_flag=True, help="Request the exit at once, whatever is locked.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until nothing is locked.")
@click.option("--undo", is_flag=True, help="Take work again. (A requested exit stays.)")
@operator_option
@home_option
@pass_settings
def drain(settings: Settings, at_once: bool, wait: bool, undo: bool, operator: int | None, home: Path | None) -> None:
    """Stop taking work; when nothing is locked any more, request the exit. Ctrl-C keeps the node draining."""
    operators = operators_of(settings)
    number = number_of(settings, operators, operator, home)
    if undo:
        operators.stop_draining(folder_of(home))
        settings.emit({"operator": number, "draining": False}, f"operator {number} takes work again")
        return
    marker = operators.start_draining(folder_of(home))
    if marker:
        settings.say(f"the keeper in {folder_of(home)} takes no new work from now on ({marker.name} is set)")
    status = StatusLine()
    while (view := operators.standing(number).view).locks and wait and not at_once:
        status.show(f"operator {number} is locked in {view.locks} lot{'s' * (view.locks > 1)}")
        time.sleep(2)
    status.end()
    requested = view.exit_at == 0 and (at_once or not view.locks)
    if requested:
        operators.request_exit(number)
        view = operators.standing(number).view
    told = (
        f"exit requested; `zoo node unstake` takes the stake back in {format_seconds(max(0, view.exit_at - view.now))}"
    )
    settings.emit(
        {"operator": number, "draining": True, "locks": view.locks, "exit_at": view.exit_at},
        told if view.exit_at else f"draining; still locked in {view.locks} lots, run this again to request the exit",
    )


def _promise(tier: int, hours: list[int]) -> str:
    names = {number: name for name, number in TIERS.items()}
    return hours_told(hours) + (f", tier {names[tier]}" if tier else "") if hours else "none"


def _about(standing: Standing, money: Token) -> list[tuple[str, str]]:
    view = standing.view
    gpu_class = GPU_CLASSES[view.gpu_class]
    exits = f"requested; stake free {'now' if view.now >= view.exit_at else 'in ' + format_seconds(view.exit_at - view.now)}"
    return [
        ("operator", str(view.operator)),
        ("class", f"{gpu_class.name}, {view.vram_gb} GB, multiplier {view.multiplier_percent / 100:.1f}x"),
        ("admitted", "yes" if view.admitted else f"no; once it is: {gpu_class.multiplier_percent / 100:.1f}x"),
        ("owner", view.owner),
        ("hot key", f"{view.hot}, {format_amount(view.hot_coin, '')} coin for gas"),
        ("stake", format_amount(view.stake)),
        ("may bid", "yes" if view.eligible else "no"),
        (
            "collateral",
            f"{money.format(standing.collateral)}, {money.format(standing.locked)} locked in {view.locks} lots",
        ),
        ("owed", money.format(standing.owed)),
        ("reputation", f"{view.reputation} (discount {view.discount_bps / 100:.2f} %)"),
        ("store", view.endpoint or "not announced"),
        ("promise", _promise(view.tier, list(slots_in(view.hours)))),
        ("exit", exits if view.exit_at else "not requested"),
    ]
