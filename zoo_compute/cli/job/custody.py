"""`zoo job custody`: who holds what a job commits, who signed for it, and what that pays."""

from __future__ import annotations

from typing import Any

import click

from zoo_compute.amounts import Token
from zoo_compute.cli.context import JOB, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError


@click.command("custody", cls=Sending)
@click.argument("number", type=JOB, metavar="JOB")
@click.option(
    "--fund", "amount", metavar="AMOUNT", help="Add this much of the job's token to what custodians are paid from."
)
@click.option(
    "--refund", is_flag=True, help="Of a job that is over: return to its submitter what custodians did not earn."
)
@pass_settings
def custody(settings: Settings, number: int, amount: str | None, refund: bool) -> None:
    """Show who holds a job's updates and checkpoints, and signed for them.

    A job with `checkpoint.redundancy` of 3, 5, 7 or 9 has so many custodians. As long as fewer than a majority of them are hostile,
    what they signed for can be downloaded.
    """
    from zoo_compute.chain.tokens import token_at

    if amount is not None and refund:
        raise UserError("--fund and --refund exclude each other", hint="a job that is over takes no money")
    job = settings.client(with_account=amount is not None or refund).job(number)
    money, transaction = token_at(settings.chain(), job.view().token), None
    if amount is not None:
        transaction = job.fund_custody(money.parse(amount, what="the amount")).transaction_hash
    elif refund:
        transaction = job.refund_custody().transaction_hash
    data = job.custody()
    answer = {"job": number, "custody": data, "transaction": transaction, "token": money.to_dict()}
    if data is None:
        settings.emit(answer, f"job {number} has no custodians: its checkpoint.redundancy is less than 3")
        return
    settings.emit(answer, [*table(_rows(data, money)), *_places(data, money), *_turns(data)])


def _rows(data: dict[str, Any], money: Token) -> list[tuple[str, str]]:
    drawn = sum(1 for place in data["places"] if place["operator"])
    waiting = f"; {data['offers']} more offer" if data["offers"] else ""
    return [
        ("custodians", f"{drawn} of {data['custodians']}, of which {data['majority']} must sign{waiting}"),
        ("start", "held" if data["started"] else "not signed yet"),
        ("pay", f"{money.format(int(data['fee']))} a signature; {money.format(int(data['paid']))} paid so far"),
        ("escrow", f"{money.format(int(data['escrow']))} left"),
        ("reserve", f"{money.format(int(data['reserve']))} of each"),
    ]


def _places(data: dict[str, Any], money: Token) -> list[str]:
    rows = [
        (
            str(place["place"]),
            f"operator {place['operator']}" if place["operator"] else "vacant",
            str(place["from_turn"]),
            money.format(int(place["reserve"])),
            money.format(int(place["paid"])),
        )
        for place in data["places"]
    ]
    return ["", *table(rows, header=("place", "custodian", "since turn", "reserve", "paid"))] if rows else []


def _turns(data: dict[str, Any]) -> list[str]:
    rows = [
        (str(turn["turn"]), _numbers(turn["seats"]), _numbers(turn["inputs"]), _numbers(turn["checkpoint"]))
        for turn in data["turns"]
    ]
    header = ("turn", "seats held", "inputs signed by", "checkpoint signed by")
    return ["", *table(rows, header=header)] if rows else []


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


COMMANDS = (custody,)
