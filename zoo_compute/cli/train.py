"""`zoo train FILE`: prepare, store, post, follow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from zoo_compute.amounts import ZEN
from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.job.group import follow
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import ConfigError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client


@click.command(cls=Sending)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="Text file or folder to train on, instead of FILE's data.",
)
@click.option(
    "--max-budget",
    metavar="AMOUNT",
    help="Maximum escrow (in ZEN, or market.token), instead of FILE's budget_max.",
)
@click.option(
    "--weights", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Initial weights (safetensors)."
)
@click.option(
    "--parents",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that `zoo job merge` wrote beside the merged --weights.",
)
@click.option(
    "--store", "location", metavar="LOCATION", help="Store for the job's files. [env ZOO_STORE; ~/.zoo/store]"
)
@click.option("--serve", metavar="HOST:PORT", help="Serve the store at this address while the command runs.")
@click.option("--anyway", is_flag=True, help="Post even if no operator can train it yet, or nobody serves its files.")
@click.option("--again", is_flag=True, help="Post (and pay for) the same job again.")
@click.option("--watch/--no-watch", default=True, show_default=True, help="Follow the job until training ends.")
@pass_settings
def train(
    settings: Settings, file: Path, data: Path | None, max_budget: str | None, weights: Path | None, parents: Path | None,
    location: str | None, serve: str | None, anyway: bool, again: bool, watch: bool,
) -> None:  # fmt: skip
    """Submit the training job in FILE and follow it.

    Before sending anything, the command checks your budget against the worst case. Unspent escrow comes back.
    Ctrl-C leaves the job running. If interrupted, rerun the command: it resumes and never posts twice.
    """
    from zoo_compute.jobs.loading import plan_job
    from zoo_compute.training.merge import Merge

    plan = plan_job(file, max_budget, data)
    if plan.job.market.token != ZEN.symbol:
        settings.client(with_account=False).pay_in_token_of(plan.job)
    if plan.budget is None and plan.job.data.on_network is not None:
        settings.client(store=location).bring(plan.job)
    token = plan.job.token
    plan.check_budget()
    if plan.budget is None:
        raise ConfigError(
            "no budget",
            hint=f"give --max-budget {token.exact(plan.job.most)} (the worst case), or budget_max in {file}",
        )
    merge = Merge.from_bytes(parents.read_bytes()) if parents else None
    client = settings.client(store=location)
    with _serving(settings, client, serve) as served:
        try:
            job = client.train(plan.job, weights=weights, merge=merge, again=again, anyway=anyway)
        except KeyboardInterrupt:
            settings.say(
                "interrupted: no money moved, unless a line above says `approving` or `posting`; rerun the same command to resume"
            )
            raise
        token, escrow = client.pay_in_token_of(plan.job), plan.job.escrow
        del plan  # and with it the model's memory: following takes days
        settings.say(f"job {job.id} is posted; {token.format(escrow)} in escrow")
        data_out: dict[str, Any] = {"job": job.id, "escrow": str(escrow), "token": token.to_dict()}
        if not watch or settings.prints():
            settings.emit(data_out, str(job.id))
            return
        if not settings.as_json:
            click.echo(str(job.id))
        try:
            last = follow(settings, job)
        except KeyboardInterrupt:
            if served:
                _report_holders(settings, job.operators_with_files())
            raise
        if settings.as_json:
            settings.emit({**data_out, "progress": last.to_dict() if last else None})


def _report_holders(settings: Settings, operators: list[int]) -> None:
    """Say whether the job still needs this machine to serve its files, now that the command stops serving."""
    if operators:
        settings.say(f"operator{'s' * (len(operators) > 1)} {', '.join(map(str, operators))} now store its files")
    else:
        settings.say(
            "no operator stores its files yet: keep serving them with `zoo store serve`, or no node can train it"
        )


@contextlib.contextmanager
def _serving(settings: Settings, client: Client, address: str | None) -> Iterator[bool]:
    """Serve the submitter's store at `address`, or at a local, free address in the network file's `storage`. Yields whether it serves."""
    from zoo_compute.store import BlockStore, Gateway, StoreError

    if not isinstance(client.store, BlockStore):
        yield False
        return
    gateway = None
    if address is not None:
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port[:6]) > 65_535:
            raise ConfigError(f"--serve takes HOST:PORT, not {address!r}", hint="for example 127.0.0.1:8600")
        gateway = Gateway(client.store, host=host.strip("[]") or "127.0.0.1", port=int(port))
    else:
        for url in client.description.storage:
            parts = urlsplit(url)
            if parts.hostname in ("127.0.0.1", "localhost", "::1") and parts.port:
                with contextlib.suppress(StoreError):  # somebody serves there already
                    gateway = Gateway(client.store, host=parts.hostname, port=parts.port)
                    break
    if gateway is None:
        yield False
        return
    gateway.start()
    settings.say(f"serving the job's files at {gateway.url} while this command runs")
    try:
        yield True
    finally:
        gateway.stop()
