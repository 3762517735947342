"""`zoo job audit`: pay auditors to re-execute a part of a job's work, and see what they said."""

from __future__ import annotations

import click

from zoo_compute.cli.context import JOB, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError


@click.command("audit", cls=Sending)
@click.argument("number", type=JOB, metavar="JOB")
@click.option(
    "--fund", "amount", metavar="AMOUNT", help="Add this much of the job's token to what auditors are paid from."
)
@click.option(
    "--refund", is_flag=True, help="Of a job that is over: return to its submitter what no verdict has reserved."
)
@pass_settings
def audit(settings: Settings, number: int, amount: str | None, refund: bool) -> None:
    """Show a job's audits; with --fund, pay for them. Chance draws which results are re-executed, at the job's audit rate.

    Auditors are paid from this budget alone. Without one nothing is drawn, and the job rests on whoever checks it unpaid.
    """
    from zoo_compute.chain.audits import expected_cost
    from zoo_compute.chain.tokens import token_at

    if amount is not None and refund:
        raise UserError("--fund and --refund exclude each other", hint="a job that is over takes no money")
    job = settings.client(with_account=amount is not None or refund).job(number)
    money = token_at(settings.chain(), job.view().token)
    transaction = None
    if amount is not None:
        transaction = job.fund_audits(money.parse(amount, what="the budget")).transaction_hash
    elif refund:
        transaction = job.refund_audits().transaction_hash
    data, view = job.audits(), job.view()
    paid_to = [(f"operator {operator}", money.format(int(units))) for operator, units in data["paid_to"].items()]
    rows = [
        ("drawn", f"{data['drawn']} results, at a rate of {view.terms.audit_bps / 100:g} %"),
        ("verdicts", f"{data['clean']} clean, {data['false']} false; {data['open']} are not settled"),
        ("paid", money.format(int(data["paid"]))),
        (
            "budget",
            f"{money.format(int(data['balance']))}, and {money.format(int(data['reserved']))} reserved for verdicts",
        ),
        ("expected", f"{money.format(expected_cost(view.terms))} for the whole job"),
        *([("slashed", money.format(int(data["slashed"])))] if int(data["slashed"]) else []),
    ]
    settings.emit(
        {
            "job": number,
            **data,
            "expected": str(expected_cost(view.terms)),
            "transaction": transaction,
            "token": money.to_dict(),
        },
        [*table(rows), *(["", *table(paid_to, header=("paid to", "amount"))] if paid_to else [])],
    )


COMMANDS = (audit,)
