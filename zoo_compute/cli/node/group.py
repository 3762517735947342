"""`zoo node`: an operator's registration and state. The `keeper` extra adds the commands that run it (`start`, `worker`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.amounts import Token, format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Group, Settings
from zoo_compute.cli.node.options import folder_of, for_operator, number_of, operators_of, token_option
from zoo_compute.cli.output import StatusLine, table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.gpus import TIERS, format_hours
from zoo_compute.requirement_words import format_region
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import GPU_CLASSES
from zoo_compute.spec.watching import NOBODY

if TYPE_CHECKING:
    from zoo_compute.operators.balances import OperatorBalances


@click.group("node", cls=Group)
def node() -> None:
    """Provide compute: register, stake, earn, withdraw."""


@node.command(cls=Sending)
@click.argument("url")
@for_operator
def announce(settings: Settings, url: str, operator: int | None, home: Path | None) -> None:
    """Announce the URL at which this operator's store serves blocks."""
    operators = operators_of(settings)
    number = number_of(settings, operators, operator, home)
    receipt = operators.announce(number, url)
    settings.emit(
        {"operator": number, "endpoint": url, "transaction": receipt.transaction_hash},
        f"operator {number} serves at {url}",
    )


@node.command("answer-key", cls=Sending)
@click.argument("address")
@click.option("--remove", is_flag=True, help="Take the permission back.")
@for_operator
def answer_key(settings: Settings, address: str, remove: bool, operator: int | None, home: Path | None) -> None:
    """Let another account answer asks in disputes about this operator's claims. It may do nothing else.

    With it a second machine answers what strangers cannot, while your keeper is down: `zoo defend JOB`. Run this as the owner.
    """
    from zoo_compute.chain.roles import address_of

    account, operators = address_of(address, "zoo node answer-key"), operators_of(settings)
    number = number_of(settings, operators, operator, home)
    receipt = operators.allow_answers(number, account, not remove)
    settings.emit(
        {"operator": number, "account": account, "allowed": not remove, "transaction": receipt.transaction_hash},
        f"{account} may {'no longer ' * remove}answer for operator {number}",
    )


@node.command("hot-key", cls=Sending)
@click.option("--hot-coin", metavar="AMOUNT", default="0.02", show_default=True, help="Coin for gas of the new key.")
@for_operator
def hot_key(settings: Settings, hot_coin: str, operator: int | None, home: Path | None) -> None:
    """Replace this operator's hot key, which was lost or which somebody else may have. Run this as the owner, while the node is stopped.

    From then on the chain refuses the old key. Its file stays beside the new one, for the coin that is left on it. Bids that the old key
    sealed and did not open cannot be opened.
    """
    from zoo_compute.operators.readiness import is_keeper_running

    operators, folder = operators_of(settings), folder_of(home)
    number = number_of(settings, operators, operator, home)
    coin = parse_amount(hot_coin, what="--hot-coin")
    if is_keeper_running(folder):
        raise UserError(f"the node in {folder} runs with the old key", hint="stop it, run this again, and start it")
    hot = operators.replace_hot_key(folder, number, coin, settings.say)
    settings.emit({"operator": number, "hot": hot}, f"{hot} is the hot key of operator {number}; start the node again")


@node.command("hand-over", cls=Sending)
@click.argument("address", required=False)
@click.option("--accept", is_flag=True, help="Run as the new owner: take the operator that was offered to you.")
@click.option("--undo", is_flag=True, help="Take an offer back that was not accepted.")
@for_operator
def hand_over(
    settings: Settings, address: str | None, accept: bool, undo: bool, operator: int | None, home: Path | None
) -> None:
    """Give this operator a new owner (cold key), in two steps: the owner offers it to ADDRESS, and ADDRESS accepts it.

    Stake, free collateral and all payments from then on are the new owner's. The hot key and what runs stay as they are. Accept with
    the new owner's account: `zoo node hand-over --accept --operator NUMBER --account NAME`.
    """
    from zoo_compute.chain.roles import address_of

    if (address is not None) + accept + undo != 1:
        raise UserError("pass the new owner's address, or --accept, or --undo", hint="zoo node hand-over 0x...")
    operators = operators_of(settings)
    if accept:
        if operator is None:
            raise UserError("--accept needs --operator NUMBER", hint="ask the old owner; `zoo node show` prints it")
        number = operators.check(operator)
        receipt, message = operators.accept_owner(number), "is yours now"
        owner = str(settings.sender().address)
    else:
        owner = NOBODY if undo else address_of(str(address), "zoo node hand-over")
        number = number_of(settings, operators, operator, home)
        chain = settings.chain()
        pledged = 0 if undo else chain.credits.pledges(chain.registry.owner_of(number))
        if pledged:
            settings.say(
                f"{format_amount(pledged)} behind this operator's collateral in credits were pledged by you: the new owner would take out "
                "credits, and you would keep the pledge. Withdraw that collateral before it accepts, and let it pledge itself."
            )
        receipt = operators.offer_owner(number, owner)
        message = "is offered to nobody" if undo else f"is offered to {owner}, which must accept it"
    settings.emit(
        {"operator": number, "account": owner, "accepted": accept, "transaction": receipt.transaction_hash},
        f"operator {number} {message}",
    )


@node.command()
@token_option
@for_operator
def show(settings: Settings, token: str | None, operator: int | None, home: Path | None) -> None:
    """Show an operator's state on chain. Needs no passphrase."""
    money, operators = settings.token(token), operators_of(settings, signing=False)
    balances = operators.balances(number_of(settings, operators, operator, home), token)
    data = {**balances.to_dict(), "symbol": money.symbol, "decimals": money.decimals}
    settings.emit(data, table(_about(balances, money)))


@node.command(cls=Sending)
@click.option("--now", "at_once", is_flag=True, help="Request the exit now, even with locked collateral.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until nothing is locked.")
@click.option("--undo", is_flag=True, help="Take work again. A requested exit is not undone.")
@for_operator
def drain(settings: Settings, at_once: bool, wait: bool, undo: bool, operator: int | None, home: Path | None) -> None:
    """Stop taking work, wait until nothing is locked, then request the exit. After Ctrl-C the node keeps draining."""
    operators = operators_of(settings)
    number = number_of(settings, operators, operator, home)
    if undo:
        operators.stop_draining(folder_of(home))
        exit_at = operators.balances(number).view.exit_at
        said = f"operator {number} takes work again"
        if exit_at:
            said = f"operator {number} takes no work: its exit is requested; `zoo node unstake`, then `zoo node stake` brings it back"
        settings.emit({"operator": number, "draining": False, "exit_at": exit_at}, said)
        return
    marker = operators.start_draining(folder_of(home))
    if marker:
        settings.say(f"the keeper in {folder_of(home)} takes no new work from now on ({marker.name} is set)")
    status = StatusLine()
    while (view := operators.balances(number).view).locks and wait and not at_once:
        status.show(f"operator {number} is locked in {view.locks} lot{'s' * (view.locks > 1)}")
        time.sleep(2)
    status.end()
    requested = view.exit_at == 0 and (at_once or not view.locks)
    if requested:
        operators.request_exit(number)
        view = operators.balances(number).view
    message = (
        f"exit requested; `zoo node unstake` returns the stake in {format_seconds(max(0, view.exit_at - view.now))}"
    )
    settings.emit(
        {"operator": number, "draining": True, "locks": view.locks, "exit_at": view.exit_at},
        message if view.exit_at else f"draining; still locked in {view.locks} lots; run this again to request the exit",
    )


def _promise(tier: int, hours: list[int]) -> str:
    names = {number: name for name, number in TIERS.items()}
    return format_hours(hours) + (f", tier {names[tier]}" if tier else "") if hours else "none"


def _about(balances: OperatorBalances, money: Token) -> list[tuple[str, str]]:
    view = balances.view
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
            f"{money.format(balances.collateral)}, {money.format(balances.locked)} locked in {view.locks} lots",
        ),
        ("owed", money.format(balances.owed)),
        ("reputation", f"{view.reputation} (discount {view.discount_bps / 100:.2f} %)"),
        ("store", view.endpoint or "not announced"),
        ("promise", _promise(view.tier, list(slots_in(view.hours)))),
        ("region", format_region(view.region) or "none declared"),
        ("exit", exits if view.exit_at else "not requested"),
    ]
