"""What `zoo train` and `zoo map` share: their options, and preparing, posting and serving a job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from zoo_compute.amounts import ZEN
from zoo_compute.cli.context import Settings
from zoo_compute.errors import ConfigError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client
    from zoo_compute.client.job import Job
    from zoo_compute.jobs.config import ComputeJob
    from zoo_compute.jobs.generation import Generation
    from zoo_compute.jobs.loading import Data
    from zoo_compute.training.merge import Merge

OPTIONS = (
    click.option(
        "--max-budget",
        metavar="AMOUNT",
        help="Maximum escrow (in ZEN, or market.token), instead of FILE's budget_max.",
    ),
    click.option(
        "--weights", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Initial weights (safetensors)."
    ),
    click.option(
        "--store", "location", metavar="LOCATION", help="Store for the job's files. [env ZOO_STORE; ~/.zoo/store]"
    ),
    click.option("--serve", metavar="HOST:PORT", help="Serve the store at this address while the command runs."),
    click.option(
        "--anyway", is_flag=True, help="Post even if no operator can compute it yet, or nobody serves its files."
    ),
    click.option("--again", is_flag=True, help="Post (and pay for) the same job again."),
)


def posting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Posted:
    """facts: for a script. generation: of a job that generates texts."""

    job: Job
    facts: dict[str, Any]
    generation: Generation | None = None


@contextlib.contextmanager
def posted(
    settings: Settings,
    file: Path | None,
    data: Data | None,
    *,
    max_budget: str | None,
    weights: Path | None,
    location: str | None,
    serve: str | None,
    anyway: bool,
    again: bool,
    merge: Merge | None = None,
    resumes: bool = False,
    check: Callable[[ComputeJob], None] = lambda job: None,
    **sections: Any,
) -> Iterator[Posted]:
    """Check FILE's budget, prepare and post the job, and serve its files meanwhile. resumes: go on with a job that was posted before.
    check: refuses the job before anything else is done.

    sections: keys that override FILE's; without FILE they are the job. Raises AlreadyPosted.
    """
    from zoo_compute.jobs.loading import plan_job
    from zoo_compute.jobs.submission import AlreadyPosted

    plan = plan_job(file, max_budget, data, **sections)
    check(plan.job)
    if plan.job.market.token != ZEN.symbol:
        settings.client(with_account=False).pay_in_token_of(plan.job)
    if plan.budget is None and plan.job.data.on_network is not None:
        settings.client(store=location).bring(plan.job)
    token = plan.job.token
    plan.check_budget()
    if plan.budget is None:
        raise ConfigError(
            "no budget",
            hint=f"give --max-budget {token.exact(plan.job.most)} (the worst case)"
            + (f", or budget_max in {file}" if file else ""),
        )
    client = settings.client(store=location)
    with _serving(settings, client, serve) as served:
        before = ""
        try:
            job = client.train(plan.job, weights=weights, merge=merge, again=again, anyway=anyway)
        except AlreadyPosted as known:
            if not resumes:
                raise
            job, before = client.job(known.job), "was posted before: going on with it"
        except KeyboardInterrupt:
            settings.say(
                "interrupted: no money moved, unless a line above says `approving` or `posting`; rerun the same command to resume"
            )
            raise
        token, escrow = client.pay_in_token_of(plan.job), plan.job.escrow
        generation = plan.job.generation
        del plan  # and with it the model's memory: following takes days
        settings.say(f"job {job.id} {before or f'is posted; {token.format(escrow)} in escrow'}")
        try:
            yield Posted(job, {"job": job.id, "escrow": str(escrow), "token": token.to_dict()}, generation)
        except KeyboardInterrupt:
            if served:
                _report_holders(settings, job.operators_with_files())
            raise


def _report_holders(settings: Settings, operators: list[int]) -> None:
    """Say whether the job still needs this machine to serve its files, now that the command stops serving."""
    if operators:
        settings.say(f"operator{'s' * (len(operators) > 1)} {', '.join(map(str, operators))} now store its files")
    else:
        settings.say(
            "no operator stores its files yet: keep serving them with `zoo store serve`, or no node can compute it"
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
