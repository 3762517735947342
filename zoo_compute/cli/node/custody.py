"""`zoo node custody`: what backs an operator's offers to hold jobs' data, and what that brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import Token, format_amount, format_seconds
from zoo_compute.cli.context import Group, Settings
from zoo_compute.cli.node.options import for_operator, number_of, operators_of, token_option
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.spec.params import STAKE_UNIT

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

NAMES = ("CustodyOffered", "OfferEnded", "CustodianLapsed", "ReserveForfeited", "ReserveReleased")


@click.group("custody", cls=Group)
def custody() -> None:
    """Holding jobs' data for pay: deposit, status, withdraw."""


@custody.command(cls=Sending)
@click.argument("amount", metavar="AMOUNT")
@token_option
@for_operator
def deposit(settings: Settings, amount: str, token: str | None, operator: int | None, home: Path | None) -> None:
    """Deposit what your offers reserve, in --token.

    With the role `custodian` your keeper offers to hold what jobs commit, once your stake is old enough. Each job reserves a part of
    this deposit until it is over. A custodian that signs nothing in a turn that then lacks a majority loses 1 % of that part.
    """
    money, operators = settings.token(token), operators_of(settings)
    number = number_of(settings, operators, operator, home)
    units = money.parse(amount, what="the deposit")
    receipt = operators.deposit_for_custody(number, money.address, units)
    data = _status(settings.chain(), number, money)
    settings.emit(
        {"operator": number, **data, "transaction": receipt.transaction_hash, "token": money.to_dict()},
        f"operator {number} has {money.format(int(data['funds']))} for offers of custody",
    )


@custody.command()
@token_option
@for_operator
def status(settings: Settings, token: str | None, operator: int | None, home: Path | None) -> None:
    """Show an operator's deposit for custody, by which stake it is drawn, and the jobs that it holds."""
    money, operators = settings.token(token), operators_of(settings, signing=False)
    number, chain = number_of(settings, operators, operator, home), settings.chain()
    data = _status(chain, number, money)
    wait_s = int(data["counts_in_s"])
    if int(data["stake"]):
        counts = "; it counts now" if wait_s == 0 else f"; it counts in {format_seconds(wait_s)}"
    else:
        counts = "; a keeper with the role `custodian` notes it"
    rows = [
        ("deposit", f"{money.format(int(data['funds']))} free, {money.format(int(data['reserved']))} reserved"),
        ("stake", f"{format_amount(int(data['stake']))} is noted{counts}"),
        ("paid", money.format(int(data["paid"]))),
        ("lost", money.format(int(data["lost"]))),
    ]
    jobs = [
        (
            str(job["job"]),
            job["status"],
            money.format(int(job["reserve"])),
            str(job["signatures"]),
            money.format(int(job["paid"])),
        )
        for job in data["jobs"]
    ]
    header = ("job", "", "reserve", "signatures", "paid")
    settings.emit(
        {"operator": number, **data, "token": money.to_dict()},
        [*table(rows), *(["", *table(jobs, header=header)] if jobs else [])],
    )


@custody.command(cls=Sending)
@click.argument("amount", metavar="[AMOUNT]", required=False)
@token_option
@for_operator
def withdraw(
    settings: Settings, amount: str | None, token: str | None, operator: int | None, home: Path | None
) -> None:
    """Take back what no job reserves, and what was earned; all of it by default."""
    money, operators = settings.token(token), operators_of(settings)
    number, chain = number_of(settings, operators, operator, home), settings.chain()
    free = chain.custody.funds(money.address, number)
    units = free if amount is None else money.parse(amount, what="the amount")
    if not units:
        raise UserError("nothing is free", hint="`zoo node custody status` shows what jobs reserve")
    receipt = operators.sender.send(chain.custody.withdraw(number, money.address, units))
    data = _status(chain, number, money)
    settings.emit(
        {
            "operator": number,
            **data,
            "withdrawn": str(units),
            "transaction": receipt.transaction_hash,
            "token": money.to_dict(),
        },
        f"operator {number} took {money.format(units)} back",
    )


def _status(chain: Chain, operator: int, money: Token) -> dict[str, Any]:
    """Money of jobs in this token."""
    from zoo_compute.chain.custody import read_custody
    from zoo_compute.chain.events import scan
    from zoo_compute.chain.snapshot import read_job
    from zoo_compute.spec.custodians import Role

    head = chain.head()
    events = list(scan(chain, chain.network.first_block, head.number, names=NAMES, operator=operator))
    jobs: list[dict[str, Any]] = []
    for number in sorted({int(event.args["job"]) for event in events}):
        view = read_job(chain, number, head)
        held = read_custody(chain, view)
        if view.token != money.address or held is None:
            continue
        role = held.roles.get(operator, Role())
        jobs.append(
            {
                "job": number,
                "status": role.status.name.lower(),
                "reserve": str(role.reserve),
                "signatures": held.signatures_of(operator),
                "paid": str(held.paid.get(operator, 0)),
            }
        )
    mine = {job["job"] for job in jobs}
    lost = sum(event.args.get("burned", 0) for event in events if event.args["job"] in mine)
    note = chain.custody.notes(operator, block=head.number)
    return {
        "funds": str(chain.custody.funds(money.address, operator, block=head.number)),
        "reserved": str(sum(int(job["reserve"]) for job in jobs)),
        "stake": str(note.stake * STAKE_UNIT),
        "counts_in_s": max(0, note.since + chain.params.exit_delay_s - chain.time(head)) if note.since else 0,
        "paid": str(sum(int(job["paid"]) for job in jobs)),
        "lost": str(lost),
        "jobs": jobs,
    }


COMMANDS = (custody,)
