"""`zoo node audit`: offer to audit, see what that brings, and leave; and for `zoo node estimate` what it pays before you do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import ZEN, format_amount, parse_amount
from zoo_compute.cli.context import Group, Settings
from zoo_compute.cli.node.options import for_operator, number_of, operators_of, token_option
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.spec.params import BPS, MAX_PLACES, RESERVED_FEES

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

JOBS_READ = 50  # the newest ones, for an estimate


@click.group("audit", cls=Group)
def audit() -> None:
    """Auditing for pay: offer, status, withdraw."""


@audit.command(cls=Sending)
@click.option("--places", type=click.IntRange(1, MAX_PLACES), default=1, show_default=True, help="How many to take.")
@click.option("--deposit", metavar="AMOUNT", help="Of --token, for what verdicts reserve; beside the bonds.")
@token_option
@for_operator
def offer(
    settings: Settings, places: int, deposit: str | None, token: str | None, operator: int | None, home: Path | None
) -> None:
    """Take places among the auditors. Each costs a bond in ZEN, which you get back when you leave it.

    Drawn results fall to you by your share of all places; your keeper needs the role `verifier` to re-execute them. Each verdict
    reserves 50 fees of your deposit in the job's token until it is settled.
    """
    money, operators = settings.token(token), operators_of(settings)
    number, chain = number_of(settings, operators, operator, home), settings.chain()
    zen, bond = chain.network.contracts["zen"], places * chain.params.audit_bond
    extra = money.parse(deposit, what="the deposit") if deposit else 0
    free = chain.audits.funds(number, zen)
    missing = max(0, bond - (free.balance - free.reserved))
    amounts: dict[str, int] = {}
    for address, amount in ((zen, missing), (money.address, extra)):
        if amount:
            amounts[address] = amounts.get(address, 0) + amount
    for address, amount in amounts.items():
        operators.deposit_for_audits(number, address, amount)
    receipt = operators.sender.send(chain.audits.offer(number, places))
    data = _status(chain, number, money.address)
    settings.emit(
        {"operator": number, **data, "transaction": receipt.transaction_hash, "token": money.to_dict()},
        f"operator {number} holds {data['places']} of {data['all_places']} places among the auditors",
    )


@audit.command()
@token_option
@for_operator
def status(settings: Settings, token: str | None, operator: int | None, home: Path | None) -> None:
    """Show an operator's places, its deposit for verdicts, and what it was paid."""
    money, operators = settings.token(token), operators_of(settings, signing=False)
    number, chain = number_of(settings, operators, operator, home), settings.chain()
    data = _status(chain, number, money.address)
    rows = [
        ("places", f"{data['places']} of {data['all_places']}"),
        ("deposit", f"{money.format(int(data['deposit']))}, {money.format(int(data['reserved']))} of it reserved"),
        ("paid", money.format(int(data["paid"]))),
        ("slashed", money.format(int(data["slashed"]))),
        ("verdicts", f"{data['clean']} clean, {data['false']} false; {data['open']} are not settled"),
    ]
    settings.emit({"operator": number, **data, "token": money.to_dict()}, table(rows))


@audit.command(cls=Sending)
@click.option("--places", type=click.IntRange(0, MAX_PLACES), help="Leave so many places; all of them by default.")
@click.option("--amount", metavar="AMOUNT", help="Take so much of the deposit; all that is free by default.")
@token_option
@for_operator
def withdraw(
    settings: Settings,
    places: int | None,
    amount: str | None,
    token: str | None,
    operator: int | None,
    home: Path | None,
) -> None:
    """Leave places and take the deposit back, but for what verdicts reserve until they are settled."""
    money, operators = settings.token(token), operators_of(settings)
    number, chain = number_of(settings, operators, operator, home), settings.chain()
    held = _places_of(chain, number)
    leaving = held[::-1][: len(held) if places is None else places][:MAX_PLACES]
    if leaving:
        operators.sender.send(chain.audits.leave(number, leaving))
    funds = chain.audits.funds(number, money.address)
    free = funds.balance - funds.reserved
    units = free if amount is None else money.parse(amount, what="the amount")
    if not units and not leaving:
        raise UserError("nothing is free", hint="`zoo node audit status` shows what places and verdicts reserve")
    if units:
        operators.sender.send(chain.audits.pay_out(number, money.address, units))
    data = _status(chain, number, money.address)
    settings.emit(
        {"operator": number, **data, "left": len(leaving), "withdrawn": str(units), "token": money.to_dict()},
        f"operator {number} left {len(leaving)} places and took {money.format(units)} back",
    )


def estimate_of_auditor(settings: Settings, places: int, cost: str | None) -> None:
    """Print a verifier's share of the audits of the jobs that run now."""
    from zoo_compute.chain.snapshot import read_job
    from zoo_compute.chain.views import JobState
    from zoo_compute.spec.params import reference_price

    chain = settings.chain()
    zen, count = chain.network.contracts["zen"], chain.tasks.job_count()
    all_places = chain.audits.place_count() + places
    jobs: list[dict[str, Any]] = []
    for number in range(count, max(0, count - JOBS_READ), -1):
        view = read_job(chain, number)
        budget = chain.audits.budgets(number)
        if (
            view.token != zen
            or view.state not in (JobState.OPEN, JobState.AWARDED, JobState.RUNNING)
            or not budget.balance
        ):
            continue
        units = view.terms.slots * view.terms.audit_bps / BPS * places / all_places
        own = parse_amount(cost, what="the cost") if cost else reference_price(view.terms.flops)
        jobs.append(
            {
                "job": number,
                "fee": str(view.terms.reserve),
                "units_per_round": round(units, 3),
                "paid_per_round": str(int(units * view.terms.reserve)),
                "cost_per_round": str(int(units * own)),
                "reserve_per_verdict": str(RESERVED_FEES * view.terms.reserve),
                "budget": str(budget.balance),
            }
        )
    bond = places * chain.params.audit_bond
    rows = [
        (
            str(j["job"]),
            str(j["units_per_round"]),
            *(format_amount(int(j[k])) for k in ("paid_per_round", "cost_per_round", "reserve_per_verdict")),
        )
        for j in jobs
    ]
    header = ("job", "units a round", "paid a round", "your cost", "reserved a verdict")
    settings.emit(
        {
            "role": "verifier",
            "places": places,
            "all_places": all_places,
            "bond": str(bond),
            "jobs": jobs,
            "token": ZEN.to_dict(),
        },
        [
            f"{places} of {all_places} places, behind a bond of {format_amount(bond)}",
            *(table(rows, header=header) if rows else ["no job that runs now pays for audits in ZEN"]),
        ],
    )


def _status(chain: Chain, operator: int, token: str) -> dict[str, Any]:
    from zoo_compute.chain.events import scan
    from zoo_compute.spec.auditing import Verdicts

    head = chain.head()
    names = ("VerdictsGiven", "VerdictsSettled", "VerdictsLapsed")
    events = list(scan(chain, chain.network.first_block, head.number, names=names, operator=operator))
    statements = [event.args["verdicts"] for event in events if event.name == "VerdictsGiven"]
    ended = sum(event.args.get("settled", 0) + event.args.get("lapsed", 0) for event in events)
    clean = sum(len(Verdicts(tuple(each["clean"])).units) for each in statements)
    wrong = sum(len(Verdicts(tuple(each["wrong"])).units) for each in statements)
    tokens = {number: chain.tasks.jobs(number).token for number in {event.args["job"] for event in events}}
    mine = [event.args for event in events if tokens[event.args["job"]] == token]
    funds = chain.audits.funds(operator, token)
    return {
        "places": chain.audits.held(operator),
        "all_places": chain.audits.place_count(),
        "bond": str(chain.audits.held(operator) * chain.params.audit_bond),
        "deposit": str(funds.balance),
        "reserved": str(funds.reserved),
        "paid": str(sum(args.get("paid", 0) for args in mine)),
        "slashed": str(sum(args.get("slashed", 0) for args in mine)),
        "clean": clean,
        "false": wrong,
        "open": clean + wrong - ended,
    }


def _places_of(chain: Chain, operator: int) -> list[int]:
    count, places = chain.audits.place_count(), []
    for start in range(0, count, 256):
        holders = chain.audits.holders(start, min(256, count - start), 2**40)
        places += [start + index for index, holder in enumerate(holders) if holder == operator]
    return places


COMMANDS = (audit,)
