"""`zoo verify JOB [--challenge]`: re-execute a job's work, name the operators that lied, and have the contract convict them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from keepers.cli.job_verification import AGGREGATION, SLOT_ROUND, JobVerification, VerifiedWork, works_of
from keepers.cli.own_disputes import TURNS, Purse
from zoo_compute.amounts import format_seconds
from zoo_compute.chain.audits import read_audits
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView
from zoo_compute.cli.context import JOB, Settings, pass_settings
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, has_unit

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

LIES_EXIT_CODE, NOT_SERVED, UNPAID = 3, 1, 4  # exit codes
LOOK_S = 2.0  # without a block: a store may serve now what it did not serve before
WHAT_TO_SEND = "Send it what is missing and rerun the command: it continues. A conviction returns all that was prepaid."


@click.command("verify", cls=Sending, signs=TURNS)
@click.argument("number", type=JOB, metavar="JOB")
@click.option("--all", "every", is_flag=True, help="Include claims that are paid or convicted, not only open ones.")
@click.option("--turn", type=click.IntRange(min=0), help="Check this turn only; with --follow, this and later turns.")
@click.option("--slot", type=click.IntRange(min=0), help="Check this slot only, and no aggregation.")
@click.option("--follow", is_flag=True, help="Keep checking new claims until every claim of the job is final.")
@click.option(
    "--challenge",
    "challenges",
    is_flag=True,
    help="Ask about each false claim until the contract convicts it.",
)
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best one by default.")
@click.option("--store", metavar="DIR|kubo:URL", help="Content store. [env ZOO_STORE]")
@pass_settings
def verify(
    settings: Settings,
    number: int,
    every: bool,
    turn: int | None,
    slot: int | None,
    follow: bool,
    challenges: bool,
    device: str | None,
    store: str | None,
) -> int:
    """Re-execute what a job's operators committed, and name those that lied.

    Checks slot-rounds and aggregations, and names auditors that called a false result clean. With --challenge it asks about every
    false claim whose window is open, down to the false number, which the contract computes itself. Each ask prepays its answer;
    you get all of it back when the claim is convicted, and a share of the liar's lock if yours is the oldest seal of the false
    step. If interrupted, rerun the command: the exploration is on chain, and it goes on from there. If an operator serves its
    result to nobody, the answer to a demand on chain is checked instead.

    Exit code: 0 when everything agrees; 3 when a claim is false; 4 when a claim is false and your account cannot pay for its
    dispute; 1 when nothing is false and some data was not served.
    """
    client = settings.client(store=store, with_account=challenges)
    if challenges:
        _warn_poor(settings, number)
    witness = JobVerification(settings, number, client.store, device, challenges=challenges)
    while True:
        client.use_peers()
        view = read_job(settings.chain(), number)
        _check_asked(view, turn if not follow else None, slot)
        last = turn if not follow else None
        is_open = witness.take_part()
        has_time = not is_open or witness.has_time(view.now)
        was_busy = has_time and witness.check_next(view, works_of(view, every, (turn, last), slot))
        if not was_busy and (witness.unpaid or (not is_open and (view.settled or not follow))):
            break
        if not was_busy:
            settings.chain().wait_for_block(view.block, LOOK_S)
    return _report(settings, view, witness, every=every)


def _warn_poor(settings: Settings, job: int) -> None:
    """Before hours of work: an account that cannot pay for one dispute."""
    chain = settings.chain()
    purse = Purse.read(chain, settings.account().address, read_job(chain, job))
    if not purse.is_enough:
        settings.say(f"if a claim is false, your account may be unable to dispute it: {purse.text}")


def _report(settings: Settings, view: JobView, witness: JobVerification, *, every: bool) -> int:
    """Print what was checked and what became of it. Returns the exit code."""
    number, checked, disputes = view.job, witness.checked, witness.disputes()
    liars = list(_lying_auditors(settings.chain(), view, checked))
    lines = [_agreement(checked)]
    if not checked and not every and view.commits:
        lines = [f"no claim of job {number} is open to challenge; `zoo verify {number} --all` checks paid claims too"]
    lines += [
        f"auditor {each['auditor']} called a false result clean: turn {each['turn']}, {_work(each['slot'])}"
        for each in liars
    ]
    lines += [f"dispute {each['dispute']} of operator {each['operator']}: {each['status']}" for each in disputes]
    lines += [f"`zoo dispute replay {each['dispute']}` shows every step" for each in disputes if each["outcome"]]
    for wait_s in witness.rewards_due():
        lines.append(f"a share of the lock is yours after {format_seconds(wait_s)}: run the same command again then")
    report: dict[str, Any] = {
        "job": number,
        "checked": [c.to_dict() for c in checked],
        "auditors": liars,
        "disputes": disputes,
    }
    if witness.withheld is not None:
        report["withheld"] = str(witness.withheld)
        lines.append(f"not everything could be checked: {witness.withheld}")
    if witness.unpaid:
        purse = Purse.read(settings.chain(), settings.account().address, view)
        error, hint = " ".join({str(each): "" for each in witness.unpaid.values()}), f"{purse.text}. {WHAT_TO_SEND}"
        report |= {"error": error, "hint": hint}
        settings.say(f"zoo: a false claim is not disputed: {error}\n     {hint}")
    settings.emit(report, lines)
    if witness.unpaid:
        return UNPAID
    if liars or not all(c.agrees for c in checked):
        return LIES_EXIT_CODE
    return NOT_SERVED if witness.withheld is not None else 0


def _work(slot: int | None) -> str:
    return "aggregation" if slot is None else f"slot {slot}"


def _agreement(checked: list[VerifiedWork]) -> str:
    counts = []
    for work in (SLOT_ROUND, AGGREGATION):
        agree = [each.agrees for each in checked if each.work == work]
        if agree or work == SLOT_ROUND:
            counts.append(f"{sum(agree)} of {len(agree)} {work}s")
    return f"{' and '.join(counts)} agree"


def _check_asked(view: JobView, turn: int | None, slot: int | None) -> None:
    """Raises UserError for a turn or slot that the job does not have: nothing to check would look like agreement."""
    turns = {commit.turn for commit in view.commits}
    if turn is not None and turn not in turns:
        known = f"of turns {min(turns)} to {max(turns)}" if turns else "yet"
        raise UserError(
            f"job {view.job} has no results of turn {turn}", hint=f"it has results {known}; `zoo job show` lists them"
        )
    if slot is not None and slot >= view.terms.slots:
        raise UserError(f"job {view.job} has slots 0 to {view.terms.slots - 1}, none {slot}")


def _lying_auditors(chain: Chain, view: JobView, checked: list[VerifiedWork]) -> Iterator[dict[str, Any]]:
    """Auditors that called clean what is false."""
    false = [work for work in checked if not work.agrees]
    for statement in read_audits(chain, view).statements if false else ():
        for work in false:
            slot = work.slot
            unit = 0 if slot is None else slot + FIRST_SLOT_UNIT
            if statement.turn == work.claim.turn and has_unit(statement.verdicts.clean, unit):
                yield {"auditor": statement.operator, "turn": statement.turn, "slot": slot}
