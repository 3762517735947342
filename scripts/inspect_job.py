"""Show a job from the chain: state, lots, seats, claims.

    ape run inspect_job 1 --network-file network.json --network ethereum:local:foundry

In `ape console`: `from scripts.inspect_job import view; view(1)` returns the JobView.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
from ape import networks
from ape.api import ProviderAPI
from ape.cli import ConnectedProviderCommand

from zoo_compute.chain.connection import Chain
from zoo_compute.chain.network import load
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView, LotPhase

NETWORK_FILE = Path("network.json")


def view(job: int, block: int | None = None, network_file: Path = NETWORK_FILE) -> JobView:
    """The job as of a block (the newest unless given), read through ape's connection."""
    return read_job(Chain(load(network_file), networks.provider.web3), job, block)


@click.command(cls=ConnectedProviderCommand)
@click.argument("job", type=int)
@click.option("--block", type=int, default=None, help="As of this block; the newest unless given.")
@click.option("--network-file", type=click.Path(path_type=Path), default=NETWORK_FILE, show_default=True)
def cli(provider: ProviderAPI, job: int, block: int | None, network_file: Path) -> None:
    """Show JOB."""
    for line in lines(view(job, block, network_file)):
        click.echo(line)


def lines(job: JobView) -> list[str]:
    """A job as lines of text."""
    out = [f"job {job.job} is {job.state.name} at block {job.block} ({_time(job.now)}), posted in {job.posted_block}"]
    out.append(f"  submitter {job.submitter}, escrow {job.escrow} of token {job.token}")
    for kind, lot in job.lots.items():
        phase = LotPhase(lot.phase).name.lower()
        out.append(
            f"  lot {kind}: {phase}, attempt {lot.attempt}, {lot.revealed} revealed, {lot.sold} of {lot.units} sold,"
            f" bids until {_time(lot.bid_end)}, reveals until {_time(lot.reveal_end)}"
        )
    for number, seat in sorted(job.seats.items()):
        out.append(
            f"  seat {number}: slots {seat.first} to {seat.first + seat.count - 1} of operator {seat.operator} at {seat.price}"
        )
    for operator, stake in sorted(job.stakes.items()):
        out.append(f"  operator {operator} has {stake.locked} locked")
    if job.run is not None:
        run = job.run
        out.append(
            f"  turn {run.turn}, round {run.round} of {run.rounds}: missing seats {run.missing:#x},"
            f" {run.committed} slots committed, aggregator {_aggregators(job)}, final rounds {job.final_rounds}"
        )
    for claim in job.claims:
        is_closed = job.is_closed(claim.turn)
        pending = "pending until " + _time(claim.deadline) if is_closed else "in turn"
        state = claim.state.name.lower() if claim.final else pending
        out.append(f"  claim of operator {claim.operator}: turn {claim.turn}, seat {claim.seat}, {state}")
    return out


def _aggregators(job: JobView) -> str:
    return " and ".join(str(seat.operator or "vacant") for _, seat in sorted(job.aggregator_seats.items()))


def _time(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S")
