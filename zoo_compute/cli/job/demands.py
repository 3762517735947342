"""`zoo job demands`: on-chain demands for the data of a job's claims, and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.cli.context import JOB, Command, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.spec.params import AGGREGATOR_SEAT, STRANGERS_LANE, SUBMITTER_LANE

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.demands import Demand
    from zoo_compute.chain.views import JobView

ENDS = {
    "bytes": "answered",
    "unanswered": "not answered",
    "convicted": "not answered: the claim is convicted",
    "forfeited": "not answered: its reserve is lost",
}
HELPED = {
    "bytes": "answered, after another operator",
    "unanswered": "answered by another operator",
    "forfeited": "answered by another operator: a part of its reserve is lost",
}
LANES = {AGGREGATOR_SEAT: "the aggregator", SUBMITTER_LANE: "the submitter", STRANGERS_LANE: "anyone"}


@click.command(cls=Command)
@click.argument("number", type=JOB, metavar="JOB")
@pass_settings
def demands(settings: Settings, number: int) -> None:
    """List on-chain demands for data that a job's operators committed: who asked, and when it was answered."""
    from zoo_compute.chain.snapshot import read_job

    chain = settings.chain()
    view = read_job(chain, number)
    summaries, now = [_as_json(chain, view, demand) for demand in view.demands], view.wall(view.now)
    rows = [
        (
            f"turn {each['turn']}",
            _work(each),
            f"operator {each['asked']}",
            f"{LANES.get(each['lane'], 'seat ' + str(each['lane']))} ({each['demander'][:10]}…)",
            format_amount(int(each["deposit"]), "coin"),
            _end(each, now),
        )
        for each in summaries
    ]
    header = ("", "of", "asked", "asked by", "deposit", "")
    settings.emit(
        {"job": number, "now": now, "demands": summaries},
        table(rows, header=header) or [f"nobody demanded data of job {number} on chain"],
    )


def _as_json(chain: Chain, view: JobView, demand: Demand) -> dict[str, Any]:
    claim, asked_at = demand.claim, chain.head(demand.block).timestamp
    return {
        "turn": claim.turn,
        "round": claim.round,
        "seat": claim.seat,
        "operator": claim.operator,
        "asked": demand.operator,
        "lane": demand.lane,
        "demander": demand.demander,
        "slot": demand.slot,
        "tensor": demand.tensor,
        "group": demand.group,
        "deposit": str(demand.deposit),
        "holds": demand.holds,
        "asked_at": asked_at,
        "due": (max(asked_at, view.wall(demand.opened_at)) if demand.is_open else asked_at) + chain.params.answer_s,
        "end": demand.end or None,
        "helped": bool(demand.help_tx),
        "ended_at": chain.head(demand.end_block).timestamp if demand.end else None,
        "transaction": demand.tx,
    }


def _work(each: dict[str, Any]) -> str:
    work = "aggregation" if each["seat"] >= AGGREGATOR_SEAT else f"slot {each['slot']}"
    return f"{work} of operator {each['operator']}"


def _end(each: dict[str, Any], now: int) -> str:
    if each["end"]:
        ends = HELPED if each["helped"] else ENDS
        return f"{ends[each['end']]} after {format_seconds(each['ended_at'] - each['asked_at'])}"
    left_s = each["due"] - now
    opened = "open, answered by another operator" if each["helped"] else "open"
    return f"{opened}, {format_seconds(left_s)} left" if left_s >= 0 else f"{opened}, time is over: anyone can close it"


COMMANDS = (demands,)
