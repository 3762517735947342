"""`zoo job`: the jobs on chain."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import Token, format_amount, format_seconds
from zoo_compute.cli.context import JOB, Group, Settings, pass_settings
from zoo_compute.cli.output import StatusLine, table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import ConfigError
from zoo_compute.spec.retention import KEEP_DAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zoo_compute.chain.ledger import JobAccount
    from zoo_compute.chain.views import Claim, JobView
    from zoo_compute.client.copies import Redundancy
    from zoo_compute.client.job import Job
    from zoo_compute.client.progress import Progress

_number = click.argument("number", type=JOB, metavar="JOB")
_store = click.option(
    "--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]"
)


@click.group("job", cls=Group)
def job() -> None:
    """Jobs: list, show, watch, cancel, result, evaluate, audit, custody, merge, parents, demands, cite, score, schema."""


@job.command("list")
@click.option("--mine", is_flag=True, help="Only jobs of --account.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many jobs to list.")
@pass_settings
def list_(settings: Settings, mine: bool, limit: int) -> None:
    """List the newest jobs with their state."""
    from zoo_compute.chain import keystore
    from zoo_compute.chain.tokens import token_at
    from zoo_compute.chain.views import JobState

    client = settings.client(with_account=False)
    numbers = client.jobs(keystore.address_of(settings.keystore()) if mine else None)[-limit:]
    block = client.chain.head().number
    rows: list[dict[str, Any]] = []
    for number in numbers:
        record = client.chain.tasks.jobs(number, block=block)
        run = client.chain.settlement.runs(number, block=block)
        rows.append(
            {
                "job": number, "state": JobState(record.state).name.lower(), "round": run.round, "rounds": run.rounds,
                "submitter": record.submitter, "escrow": str(record.escrow),
                "token": token_at(client.chain, record.token).to_dict(),
            }
        )  # fmt: skip
    lines = [
        (
            r["job"],
            r["state"],
            f"{r['round']}/{r['rounds']}" if r["rounds"] else "",
            Token(**r["token"]).format(int(r["escrow"])),
            r["submitter"],
        )
        for r in rows
    ]
    settings.emit(
        {"jobs": rows},
        table(lines, header=("job", "state", "round", "in escrow", "submitter")) or ["no jobs have been posted"],
    )


@job.command()
@_number
@_store
@pass_settings
def show(settings: Settings, number: int, location: str | None) -> None:
    """Show one job: what was accepted, what was refused or slashed, why, and how much."""
    from zoo_compute.requirement_words import described, to_dict

    job = settings.client(store=location, with_account=False).job(number)
    view = job.view()
    progress, account, kept = job.progress(), job.account(), job.redundancy()
    data = {
        **progress.to_dict(),
        "submitter": view.submitter,
        "token": view.token,  # the address alone; other commands print an object here
        "symbol": progress.token.symbol,
        "decimals": progress.token.decimals,
        "checkpoints": {str(r): "0x" + root.hex() for r, root in sorted(view.checkpoint_roots.items())},
        "seats": {
            str(number): {
                "operator": seat.operator,
                "first": seat.first,
                "count": seat.count,
                "price": str(seat.price),
            }
            for number, seat in sorted(view.seats.items())
        },
        "locked": {str(operator): str(stake.locked) for operator, stake in sorted(view.stakes.items())},
        "rolled_back": [vars(rollback) for rollback in view.rollbacks],
        "redundancy": {"wanted": kept.wanted, "confirmed": kept.confirmed} if kept else None,
        "account": account.to_dict(),
        "requirements": to_dict(view.terms.requirements),
        "audits": job.audits(),
        "custody": job.custody(),
    }
    lines = [
        progress.line(),
        *progress.advice,
        f"submitter {view.submitter}",
        *(f"operators need: {', '.join(asked)}" for asked in [described(view.terms.requirements)] if asked),
        *_losses(progress),
        *_line_of(view),
        _kept(kept),
    ]
    lines += _seats(view, progress.token)
    settings.emit(data, [*lines, *_money(account, view.wall(view.now), progress.token)])


def _kept(redundancy: Redundancy | None) -> str:
    if redundancy is None:
        return "newest checkpoint: nobody serves the job's manifest or the checkpoint's pointer"
    short = "" if redundancy.confirmed >= redundancy.wanted else f", {redundancy.wanted} wanted"
    return f"newest checkpoint: stored by {redundancy.confirmed} operator{'s' * (redundancy.confirmed != 1)}{short}"


def _line_of(view: JobView) -> list[str]:
    """Which checkpoints are final, which are optimistic, and which rounds were rolled back."""
    from zoo_compute.chain.views import ClaimState

    lines = []
    if view.completed_rounds:
        final, done = view.final_rounds, view.completed_rounds
        optimistic = (
            "" if final == done else f", {final + 1} to {done} optimistic: their claims can still be challenged"
        )
        final_part = f"checkpoints 1 to {final} final" if final else "no checkpoint is final yet"
        lines.append(final_part + optimistic)
    lines += [f"in dispute: {_claim(view.job, c)}" for c in view.claims if c.disputed]
    lines += [f"convicted: {_claim(view.job, c)}" for c in view.claims if c.state == ClaimState.CONVICTED]
    if any(line.startswith(("in dispute", "convicted")) for line in lines):
        lines.append(
            f"`zoo dispute list --job {view.job}` lists the disputes; `zoo dispute show|replay NAME` explains one"
        )
    return lines + [f"rolled back to round {r.round} in turn {r.turn} (block {r.block})" for r in view.rollbacks]


def _claim(job: int, claim: Claim) -> str:
    from zoo_compute.chain.views import AGGREGATOR_SEAT
    from zoo_compute.client.disputes import name_of_claim

    work = "aggregation" if claim.seat >= AGGREGATOR_SEAT else f"seat {claim.seat}"
    return f"{name_of_claim(job, claim)}, {work} of operator {claim.operator} in round {claim.round}"


def _seats(view: JobView, token: Token) -> list[str]:
    """Operator, slots and price of each seat."""
    from zoo_compute.chain.views import AGGREGATOR_SEAT

    rows = [
        (
            "aggregator" if number >= AGGREGATOR_SEAT else f"seat {number}",
            "" if number >= AGGREGATOR_SEAT else _run_of(seat.slots),
            f"operator {seat.operator}" if seat.operator else "vacant",
            token.format(seat.price if seat.operator else view.price_now(number)),
        )
        for number, seat in sorted(view.seats.items())
    ]
    return ["", "seats:", *table(rows, header=("", "slots", "operator", "price"), indent="  ")] if rows else []


def _run_of(slots: Sequence[int]) -> str:
    return f"{slots[0]}-{slots[-1]}" if len(slots) > 1 else ",".join(map(str, slots))


def _losses(progress: Progress) -> list[str]:
    known = [f"{r}: {loss:.4f}" for r, loss in enumerate(progress.losses) if loss is not None]
    return [f"loss by round, reported by nodes, unverified: {', '.join(known)}"] if known else []


def _money(account: JobAccount, now: int, token: Token) -> list[str]:
    rows = [
        ("escrowed", token.format(account.escrowed)),
        *([("restored", f"{token.format(account.restored)} out of slashed locks")] if account.restored else []),
        ("paid to nodes", token.format(account.paid)),
        ("fee to treasury", token.format(account.fee)),
        ("refunded", token.format(account.refunded)),
        ("in escrow", f"{token.format(account.held)}, of which {token.format(account.committed)} for accepted work"),
        ("slashed", token.format(account.slashed)),
    ]
    claims = [
        (
            c.turn, c.round, c.operator, "aggregation" if c.kind == "aggregation" else f"slot{'s' * (len(c.slots) > 1)} {_run_of(c.slots)}", c.state
            + (f", {format_seconds(c.deadline - now)} left" if c.state == "challenge window" and c.deadline else ""), token.format(c.amount),
        )
        for c in account.claims
    ]  # fmt: skip
    penalties = [
        (
            p.operator,
            p.why,
            "" if p.seat is None else f"seat {p.seat}",
            token.format(p.amount),
            token.format(p.returned),
        )
        for p in account.penalties
    ]
    lines = ["", *table(rows)]
    if claims:
        lines += [
            "",
            "accepted:",
            *table(claims, header=("turn", "round", "operator", "work", "state", "amount"), indent="  "),
        ]
    if penalties:
        lines += [
            "",
            "slashed:",
            *table(penalties, header=("operator", "why", "what", "amount", "returned"), indent="  "),
        ]
    return lines


@job.command()
@_number
@_store
@click.option(
    "--settled", is_flag=True, help="Follow until every claim is final and paid, not only until training ends."
)
@pass_settings
def watch(settings: Settings, number: int, location: str | None, settled: bool) -> None:
    """Follow a job. Ctrl-C leaves it running. With --json, prints one object per change (JSON lines)."""
    job = settings.client(store=location, with_account=False).job(number)
    if not settings.as_json:
        follow(settings, job, until_settled=settled)
        return
    for progress in job.watch(until_settled=settled):
        settings.emit({**progress.to_dict(), "audits": job.audits()})


def follow(settings: Settings, job: Job, *, until_settled: bool = False) -> Progress | None:
    """Show progress on stderr until the job is over. On Ctrl-C, print how to resume."""
    status, last = StatusLine(), None
    advised: set[str] = set()
    try:
        looks = job.poll if status.live else job.watch
        for last in looks(poll_s=1.0, until_settled=until_settled):
            status.show(status.plot(last.line(), last.losses), last.done, 1.0)
            for text in last.advice if last.failed_attempts else ():
                if text not in advised:
                    status.note(text)
                    advised.add(text)
        status.end()
        if last is not None and last.state == "ended":
            fetching = (
                f"its outputs with `zoo job outputs {job.id} --out outputs.npz`"
                if job.is_map()
                else f"the model with `zoo job result {job.id} --out model.safetensors`"
            )
            settings.say(f"job {job.id} is over; fetch {fetching}")
            settings.say(f"operators keep it for {KEEP_DAYS} days after the job is closed")
            settings.say("once every claim is paid, `zoo account withdraw` returns the rest of the escrow")
    except KeyboardInterrupt:
        status.end()
        settings.say(f"job {job.id} keeps running; follow it again with `zoo job watch {job.id}`")
        raise
    return last


@job.command(cls=Sending)
@_number
@pass_settings
def cancel(settings: Settings, number: int) -> None:
    """Cancel a job that is not awarded yet and get its escrow back.

    The posting deposit comes back too, unless bids are revealed that may still win: then they are paid from it.
    """
    from zoo_compute.chain.tokens import token_at
    from zoo_compute.spec.params import COIN

    client = settings.client()
    job = client.job(number)
    view = job.view()
    escrow, token = view.escrow, token_at(client.chain, view.token)
    deposit = client.chain.tasks.deposits(number)
    receipt = job.cancel()
    returned = sum(e.args["amount"] for e in receipt.events if e.name == "Owed" and e.args["token"] == COIN)
    coin = f"{format_amount(returned, '')} of the posting deposit of {format_amount(deposit, '')} coin too"
    if returned < deposit:
        coin += "; the rest pays the bidders that had revealed"
    settings.emit(
        {
            "job": number,
            "cancelled": True,
            "refunded": str(escrow),
            "deposit": str(deposit),
            "deposit_returned": str(returned),
            "transaction": receipt.transaction_hash,
            "token": token.to_dict(),
        },
        f"job {number} is cancelled; {token.format(escrow)} came back, and {coin}",
    )


@job.command()
@_number
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File or folder to write; ./job-JOB.safetensors or ./job-JOB by default.",
)
@click.option("--whole", is_flag=True, help="Include the outer optimiser's state, to continue training.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["safetensors", "hf"]),
    default="safetensors",
    show_default=True,
    help="One file, or a folder for `from_pretrained` of transformers, with a model card.",
)
@click.option(
    "--model",
    metavar="FOLDER",
    help="With --format hf: where configuration and tokenizer are, if the job was not posted from this machine.",
)
@click.option("--merge", is_flag=True, help="With --format hf, of a job with lora: add the adapter to the weights.")
@_store
@pass_settings
def result(
    settings: Settings,
    number: int,
    out: Path | None,
    whole: bool,
    form: str,
    model: str | None,
    merge: bool,
    location: str | None,
) -> None:
    """Fetch the newest checkpoint, verify it against the chain, and write it as safetensors or for transformers."""
    if form == "hf" and whole:
        raise ConfigError("--whole is of one file, not of --format hf", hint="leave one of them out")
    if form != "hf" and (model or merge or (out and out.is_dir())):
        what = "--model" if model else "--merge" if merge else f"--out {out}, a folder,"
        raise ConfigError(f"{what} needs --format hf", hint="or name a file")
    started = time.monotonic()
    job = settings.client(store=location, with_account=False).job(number)
    settings.say(f"fetching the newest checkpoint of job {number}")
    if form == "hf":
        got = job.save_pretrained(out or Path(f"job-{number}"), model=model, merge=merge)
    else:
        got = job.result(out or Path(f"job-{number}.safetensors"), whole=whole)
    settings.emit(
        {**vars(got), "path": str(got.path)},
        [
            f"{got.path}: {got.parameters:,} parameters after {got.round} of {got.rounds} rounds, in {format_seconds(time.monotonic() - started)}",
            f"verified against the chain: root {got.root}",
            "final: the challenge window of every claim it depends on is over"
            if got.final
            else "not final yet: it can still be challenged",
        ],
    )
