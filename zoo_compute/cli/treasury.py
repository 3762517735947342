"""`zoo treasury`: the protocol's fees. Anyone can look and collect; only the timelock spends."""

from __future__ import annotations

import click

from zoo_compute.amounts import format_seconds
from zoo_compute.cli.context import Group, Settings, pass_settings
from zoo_compute.cli.node.options import token_option
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

again_option = click.option("--again", is_flag=True, help="Send it even if the same call was executed before.")
wait_option = click.option("--wait", is_flag=True, help="Wait for the timelock's delay, then execute.")


@click.group("treasury", cls=Group)
def treasury() -> None:
    """The protocol's fees: show, collect, spend."""


@treasury.command()
@token_option
@pass_settings
def show(settings: Settings, token: str | None) -> None:
    """Show the balance of each bucket, and what `collect` would add."""
    from zoo_compute.governance.treasury import treasury_balances

    chain, money = settings.chain(), settings.token(token)
    balances, governor, delay = (
        treasury_balances(chain, money),
        chain.treasury.governor(),
        chain.timelock.get_minimum_delay(),
    )
    data = {
        "buckets": {name: str(amount) for name, amount in balances.buckets.items()}, "arrived": str(balances.arrived),
        "owed": str(balances.owed), "audits_owed": str(balances.audits_owed), "governor": governor, "delay_s": delay, "token": money.to_dict(),
    }  # fmt: skip
    rows = [
        *((name, money.format(amount)) for name, amount in balances.buckets.items()),
        ("to collect", money.format(balances.arrived + balances.owed)),
        ("for audits", f"{money.format(balances.audits_owed)} more, of convictions"),
        ("spends", f"{governor}, {format_seconds(delay)} after scheduling"),
    ]
    settings.emit(data, table(rows))


@treasury.command(cls=Sending)
@token_option
@pass_settings
def collect(settings: Settings, token: str | None) -> None:
    """Collect the fees owed to the treasury and split them among its buckets. Any account can do it."""
    from zoo_compute.governance.treasury import collect as collect_of
    from zoo_compute.governance.treasury import treasury_balances

    money = settings.token(token)
    took = collect_of(settings.sender(), money)
    buckets = treasury_balances(settings.chain(), money).buckets
    settings.emit(
        {"collected": str(took), "buckets": {k: str(v) for k, v in buckets.items()}, "token": money.to_dict()},
        [
            f"collected {money.format(took)}" if took else "there was nothing to collect",
            *table([(name, money.format(amount)) for name, amount in buckets.items()]),
        ],
    )


@treasury.command(cls=Sending)
@click.option("--to", required=True, metavar="ADDRESS", help="Address to pay.")
@click.option("--amount", required=True, metavar="AMOUNT", help="Whole tokens.")
@click.option("--from", "bucket", required=True, type=click.Choice(["development", "audits", "grants"]))
@token_option
@wait_option
@again_option
@pass_settings
def spend(settings: Settings, to: str, amount: str, bucket: str, token: str | None, wait: bool, again: bool) -> None:
    """Pay from a bucket. Needs an account that governs the timelock: schedules the payment; run again after the delay to execute it."""
    from eth_utils.address import to_checksum_address

    from zoo_compute.chain.addresses import HINT, is_address
    from zoo_compute.governance.treasury import spend as spend_of

    if not is_address(to):
        raise UserError(f"--to takes an address, not {to!r}", hint=HINT)
    money = settings.token(token)
    units, payee = money.parse(amount, what="--amount"), str(to_checksum_address(to))
    step = spend_of(settings.sender(), money, bucket, payee, units, again=again, wait=wait, say=settings.say)
    data = {**step.to_dict(), "to": payee, "amount": str(units), "from": bucket, "token": money.to_dict()}
    message = f"{money.format(units)} from {bucket} to {payee}"
    settings.emit(
        data, f"paid: {message}" if step.state == "executed" else scheduled_message(settings, message, step.ready_at)
    )


def scheduled_message(settings: Settings, what: str, ready_at: int) -> str:
    """The message for a scheduled call whose delay is not over."""
    left = format_seconds(max(1, ready_at - settings.chain().now()))
    return f"scheduled: {what}; run this again in {left} to execute it"
