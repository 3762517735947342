"""`zoo node`: an operator's stake, collateral and earnings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import ZEN, Token, format_amount, format_count, format_seconds, parse_amount
from zoo_compute.cli.context import Command, Settings
from zoo_compute.cli.node.options import (
    folder_of,
    for_operator,
    number_of,
    operators_of,
    token_option,
)
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.operators.profit import (
    COIN_PRICE,
    WATT_SECONDS_PER_KWH,
    Profit,
    locked_percent,
    next_payment,
    profit_of,
)

if TYPE_CHECKING:
    from zoo_compute.operators.balances import EarnedClaim, Earnings
    from zoo_compute.spending import Spent


@click.command(cls=Sending)
@click.argument("amount", metavar="ZEN")
@for_operator
def stake(settings: Settings, amount: str, operator: int | None, home: Path | None) -> None:
    """Add stake."""
    operators = operators_of(settings)
    number, units = number_of(settings, operators, operator, home), parse_amount(amount, what="the stake")
    receipt = operators.add_stake(number, units)
    balances = operators.balances(number)
    settings.emit(
        {"operator": number, "stake": str(balances.view.stake), "transaction": receipt.transaction_hash},
        f"operator {number} has {format_amount(balances.view.stake)} at stake",
    )


@click.command(cls=Sending)
@for_operator
def unstake(settings: Settings, operator: int | None, home: Path | None) -> None:
    """Leave the network: the first call requests the exit; run it again after the delay to get the stake back."""
    operators = operators_of(settings)
    number = number_of(settings, operators, operator, home)
    view = operators.balances(number).view
    if view.stake == 0:
        raise UserError(f"operator {number} has nothing at stake")
    if view.exit_at == 0:
        operators.request_exit(number)
        view = operators.balances(number).view
        settings.emit(
            {"operator": number, "exit_at": view.exit_at, "withdrawn": None},
            f"exit requested; run this again in {format_seconds(max(0, view.exit_at - view.now))} to take {format_amount(view.stake)} back",
        )
        return
    if view.now < view.exit_at:
        raise UserError(
            f"the exit delay runs for another {format_seconds(view.exit_at - view.now)}",
            hint="run this again when it is over",
        )
    operators.withdraw_stake(number)
    settings.emit(
        {"operator": number, "exit_at": 0, "withdrawn": str(view.stake)},
        f"{format_amount(view.stake)} came back to {view.owner}",
    )


@click.command(cls=Sending)
@click.argument("amount", metavar="AMOUNT")
@token_option
@for_operator
def deposit(settings: Settings, amount: str, token: str | None, operator: int | None, home: Path | None) -> None:
    """Add collateral. Bids lock part of it for every slot they offer."""
    money, operators = settings.token(token), operators_of(settings)
    number, units = number_of(settings, operators, operator, home), money.parse(amount, what="the deposit")
    operators.deposit(number, money.address, units)
    balances = operators.balances(number, token)
    settings.emit(
        {
            "operator": number,
            "collateral": str(balances.collateral),
            "locked": str(balances.locked),
            "token": money.to_dict(),
        },
        f"operator {number} has {money.format(balances.collateral)} of collateral, {money.format(balances.locked)} of it locked",
    )


@click.command(cls=Command)
@token_option
@for_operator
def earnings(settings: Settings, token: str | None, operator: int | None, home: Path | None) -> None:
    """Show earnings: paid, ready to withdraw, in challenge windows; profit after gas and power; what was slashed, with reasons."""
    money, operators = settings.token(token), operators_of(settings, signing=False)
    number = number_of(settings, operators, operator, home)
    balances, earned = operators.balances(number, token), operators.earnings(number, token)
    costs = _costs(folder_of(home), number, earned) if money.symbol == ZEN.symbol else None
    payment, now = next_payment(earned), operators.chain.now()
    claims = [(c.job, c.round + 1, c.what, c.state, money.format(c.amount), _payable(c, now)) for c in earned.claims]
    settings.emit(
        {
            "operator": number,
            **earned.to_dict(),
            "owed": str(balances.owed),
            "collateral": str(balances.collateral),
            "locked": str(balances.locked),
            "locked_percent": locked_percent(balances),
            "next_payment": payment and {"at": payment[0], "amount": str(payment[1])},
            "costs": costs and costs.to_dict(),
            "token": money.to_dict(),
        },
        [
            *table(
                [
                    ("paid so far", f"{money.format(earned.paid)}, after the fee"),
                    (
                        "ready to withdraw",
                        f"{money.format(balances.owed)} to the owner, refunds of its own jobs included (`zoo node withdraw`)",
                    ),
                    ("in challenge windows", money.format(earned.pending)),
                    ("next payment", _payment_line(payment, now, money)),
                    ("network rewards", f"{format_amount(earned.rewards)} claimed"),
                    ("of these for bandwidth", _bandwidth_line(earned)),
                    ("slashed", money.format(earned.slashed)),
                    *(costs.rows() if costs else []),
                    (
                        "collateral",
                        f"{money.format(balances.collateral)}, {money.format(balances.locked)} of it locked "
                        f"({locked_percent(balances):g} %)",
                    ),
                ]
            ),
            *(
                ["", *table(claims, header=("job", "round", "work", "state", "before the fee", "payable"))]
                if claims
                else []
            ),
            *(
                [
                    "",
                    *table(
                        [(p.why, money.format(p.amount), money.format(p.returned)) for p in earned.penalties],
                        header=("slashed because it", "amount", "returned"),
                    ),
                ]
                if earned.penalties
                else []
            ),
        ],
    )


@dataclass(frozen=True)
class _Costs:
    """What a folder's node spent, and what is left of its earnings, at the prices of its operator.json."""

    spent: Spent
    profit: Profit
    coin_price: int

    def to_dict(self) -> dict[str, Any]:
        spent = self.spent
        return {
            "since": round(spent.since),
            "transactions": spent.transactions,
            "gas_wei": str(spent.wei),
            "busy_s": round(spent.busy_s, 1),
            "kwh": round(spent.watt_s / WATT_SECONDS_PER_KWH, 6),
            "unmeasured_s": round(spent.unknown_s, 1),
            "profit": self.profit.to_dict(),
        }

    def rows(self) -> list[tuple[str, str]]:
        spent, profit = self.spent, self.profit
        power = f"{format_amount(profit.power)}: {spent.watt_s / WATT_SECONDS_PER_KWH:.3f} kWh in {format_seconds(round(spent.busy_s))} of work"
        if spent.unknown_s:
            power += f"; {format_seconds(round(spent.unknown_s))} not measured (zoo node configure --power-watts)"
        coin = f"{format_amount(spent.wei, '')} coin for {spent.transactions} transactions"
        gas = f"{format_amount(profit.gas)}: {coin}, at {format_amount(self.coin_price)} a coin (coin_price in operator.json)"
        return [("gas", gas), ("power", power), ("profit", format_amount(profit.total))]


def _costs(folder: Path, number: int, earned: Earnings) -> _Costs | None:
    """None where this operator's node does not run in this folder."""
    from zoo_compute import spending
    from zoo_compute.operators.readiness import read_operator_config

    try:
        values = read_operator_config(folder)
    except ConfigError:
        return None
    if values.get("operator") != number:
        return None
    spent = spending.read(folder)
    power_price = str(values.get("power_price", "0"))
    coin_price = parse_amount(str(values.get("coin_price", COIN_PRICE)), what="coin_price")
    profit = profit_of(earned, spent, coin_price, ZEN.parse(power_price, what="power_price"))
    return _Costs(spent, profit, coin_price)


def _payment_line(payment: tuple[int, int] | None, now: int, money: Token) -> str:
    if payment is None:
        return "none is due"
    return f"{money.format(payment[1])}, payable {_when(payment[0], now)}"


def _payable(claim: EarnedClaim, now: int) -> str:
    return "" if claim.payable_at is None else _when(claim.payable_at, now)


def _when(second: int, now: int) -> str:
    return "now" if second <= now else f"in {format_seconds(second - now)}"


@click.command(cls=Sending)
@click.option("--collateral", metavar="AMOUNT|all", help="Also withdraw free collateral.")
@token_option
@for_operator
def withdraw(
    settings: Settings, collateral: str | None, token: str | None, operator: int | None, home: Path | None
) -> None:
    """Withdraw to the owner: payments, network rewards and, with --collateral, free collateral."""
    money, operators = settings.token(token), operators_of(settings)
    number = number_of(settings, operators, operator, home)
    balances = operators.balances(number, token)
    units = 0
    if collateral is not None:
        units = balances.free if collateral == "all" else money.parse(collateral, what="--collateral")
    took = operators.withdraw(number, money.address, units, say=settings.say)
    settings.emit(
        {"operator": number, **{key: str(value) for key, value in took.items()}, "token": money.to_dict()},
        [f"{_amount_line(key, value, money)} went to {balances.view.owner}" for key, value in took.items() if value]
        or ["nothing is owed, and you asked for no collateral"],
    )


def _bandwidth_line(earned: Earnings) -> str:
    redeemed = sum(each.redeemed for each in earned.bandwidth)
    return f"{format_amount(sum(each.earned for each in earned.bandwidth))}, {format_count(redeemed, 'B')} redeemed"


def _amount_line(what: str, amount: int, money: Token) -> str:
    if what == "coin":
        return f"{format_amount(amount, '')} coin, of cancelled jobs' posting deposits,"
    return f"{(ZEN if what == 'rewards' else money).format(amount)} of {what}"


COMMANDS = (stake, unstake, deposit, earnings, withdraw)
