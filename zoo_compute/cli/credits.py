"""`zoo credits`: burned ZEN that pays for jobs, and what accepted work shares of the mint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_compute.amounts import CREDIT, ZEN, format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Command, Group, Settings, pass_settings
from zoo_compute.cli.node.options import for_operator, number_of, operators_of
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

MARGIN_PERCENT = 1  # that the rate may move until a purchase is mined

account_option = click.option("--for", "account", metavar="ADDRESS", help="Of another account than yours.")


@click.group("credits", cls=Group)
def credits_group() -> None:
    """Burned ZEN that pays for jobs: rate, buy, pledge, claim.

    One credit is one burned ZEN. Jobs with `market: {token: credits}` are paid in them, and may be priced in dollars.
    """


@credits_group.command(cls=Command)
@account_option
@pass_settings
def show(settings: Settings, account: str | None) -> None:
    """Show the rate, your credits, and your shares of the mint."""
    from zoo_compute.chain.credits import read_credits

    chain = settings.chain()
    view = read_credits(chain, _address(account) or settings.address())
    age, reach = max(0, chain.now() - view.posted_at), view.present
    reached = 10_000 * reach.budget // reach.accepted / 100 if reach.accepted else 100.0
    data: dict[str, Any] = {
        "rate": str(view.rate), "fresh": view.is_fresh, "posted_at": view.posted_at, "poster": view.poster,
        "balance": str(view.balance), "pledged": str(view.pledges), "pool": str(view.pool), "burned": str(view.burned),
        "epoch": view.epoch, "mint_reaches_percent": reached,
        "shares": [{"epoch": each.epoch, "share": str(each.share), "amount": str(each.amount)} for each in view.shares if each.share],
    }  # fmt: skip
    state = "fresh" if view.is_fresh else "stale: nobody buys credits until the next one"
    rows = [
        ("rate", f"{_dollars(view.rate)} for a ZEN, {format_seconds(age)} old, {state}" if view.rate else "none yet"),
        ("credits", CREDIT.format(view.balance)),
        ("pledged", f"{format_amount(view.pledges)} behind collateral"),
        ("to claim", format_amount(sum(each.amount for each in view.claimable))),
        (
            "this epoch",
            f"{format_amount(view.present.amount)} so far; its mint reaches for {reached:g} % of accepted work",
        ),
        ("pool", format_amount(view.pool)),
    ]
    settings.emit(data, table(rows))


@credits_group.command(cls=Sending)
@click.argument("amount", metavar="AMOUNT")
@click.option(
    "--most", metavar="ZEN", help=f"The most ZEN to burn; {MARGIN_PERCENT} % above the posted rate by default."
)
@pass_settings
def buy(settings: Settings, amount: str, most: str | None) -> None:
    """Burn ZEN for credits worth AMOUNT: '$20', or a number of credits. Burned ZEN do not come back."""
    from zoo_compute.chain.credits import buy as buy_of
    from zoo_compute.chain.credits import price_of

    chain = settings.chain()
    dollars, expected = price_of(chain, amount, what="AMOUNT")
    limit = parse_amount(most, what="--most") if most else expected + expected * MARGIN_PERCENT // 100
    if limit < expected:
        raise UserError(
            f"{_dollars(dollars)} burn {format_amount(expected)} now, above --most {format_amount(limit)}",
            hint="allow more, or buy for less",
        )
    bought = buy_of(settings.sender(), dollars, limit)
    settings.emit(
        {"dollars": str(dollars), "credits": str(bought), "burned": str(bought)},
        f"burned {format_amount(bought)}, worth {_dollars(dollars)}, for as many credits",
    )


@credits_group.command(cls=Sending)
@click.argument("amount", metavar="ZEN")
@for_operator
def pledge(settings: Settings, amount: str, operator: int | None, home: Path | None) -> None:
    """Add collateral in credits to an operator: ZEN that its owner has back when it takes the collateral out."""
    from zoo_compute.chain.credits import pledge as pledge_of

    operators = operators_of(settings)
    number, units = number_of(settings, operators, operator, home), parse_amount(amount, what="the pledge")
    pledge_of(settings.sender(), number, units)
    address = settings.chain().network.contracts["credits"]
    balances = operators.balances(number, address)
    settings.emit(
        {
            "operator": number,
            "pledged": str(units),
            "collateral": str(balances.collateral),
            "locked": str(balances.locked),
        },
        f"operator {number} has {CREDIT.format(balances.collateral)} of collateral, {CREDIT.format(balances.locked)} of it locked",
    )


@credits_group.command(cls=Sending)
@account_option
@pass_settings
def claim(settings: Settings, account: str | None) -> None:
    """Claim your shares of every mint that is over. A node claims its owner's by itself."""
    from zoo_compute.chain.credits import claim as claim_of

    payee = _address(account) or settings.address()
    claimed = claim_of(settings.sender(), payee)
    lines = [f"epoch {epoch}: {ZEN.format(amount)}" for epoch, amount in claimed.items()]
    settings.emit(
        {"account": payee, "claimed": {str(epoch): str(amount) for epoch, amount in claimed.items()}},
        lines or "there is nothing to claim",
    )


@credits_group.command("post-rate", cls=Sending)
@click.argument("dollars", metavar="DOLLARS")
@pass_settings
def post_rate(settings: Settings, dollars: str) -> None:
    """Post how many DOLLARS a ZEN is worth. Needs the poster's account."""
    rate = parse_amount(dollars.strip().removeprefix("$"), what="DOLLARS")
    settings.sender().send(settings.chain().credits.post_rate(rate))
    settings.emit({"rate": str(rate)}, f"the rate is {_dollars(rate)} for a ZEN")


def _address(text: str | None) -> str | None:
    from zoo_compute.chain.roles import address_of

    return None if text is None else address_of(text, "--for")


def _dollars(units: int) -> str:
    return "$" + format_amount(units, "")
