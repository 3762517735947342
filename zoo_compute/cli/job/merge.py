"""`zoo job merge` and `zoo job parents`: reconcile the branches of a partition, and compute again what was reconciled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.cli.context import NUMBER, Command, Settings, pass_settings
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client

DIFFERS = 3  # exit code, as `zoo verify` has it
_BRANCH = re.compile(r"(?P<job>[1-9]\d*)(:(?P<since>\d+))?(@(?P<network>.+))?")
_store = click.option(
    "--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]"
)


@click.command(cls=Command)
@click.argument("branches", nargs=-1, required=True, metavar="JOB[:ROUND][@NETWORKFILE]...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("merged.safetensors"),
    show_default=True,
    help="File for the merged weights; what they were merged from is written beside it, as .json.",
)
@_store
@pass_settings
def merge_branches(settings: Settings, branches: tuple[str, ...], out: Path, location: str | None) -> None:
    """Merge the branches of a partition, each weighing as much as the examples it trained on.

    A branch is a job's newest final checkpoint. All must have begun with equal tensors: at their initial state, or at the
    checkpoint of ROUND, where a job went on that others left. A branch on another chain names its network file.
    The merged weights begin a new job: `zoo train FILE --weights merged.safetensors --parents merged.json`.
    """
    from zoo_compute.client.branches import merge_branches as merged
    from zoo_compute.client.job import Job

    def read(text: str) -> tuple[Job, int]:
        match = _BRANCH.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is no JOB[:ROUND][@NETWORKFILE], such as 12, 12:3 or 1:0@far.json")
        client = _client(settings, match["network"], location)
        return client.job(int(match["job"])), int(match["since"] or 0)

    beside = _beside(out)
    loaded = []
    for job, since in [read(each) for each in branches]:
        view = job.view()
        settings.say(f"fetching checkpoints {since} and {view.final_rounds} of job {job.id}")
        if view.completed_rounds > view.final_rounds:
            settings.say(
                f"note: its newer ones, up to {view.completed_rounds}, are not final yet and stay out of the merge"
            )
        loaded.append(job.branch(since))
    out.parent.mkdir(parents=True, exist_ok=True)
    made, _ = merged(loaded, out)
    beside.write_bytes(made.to_bytes())
    total = sum(branch.examples for branch in made.parents.branches)
    rows = [{**vars(branch), "share": branch.examples / total} for branch in made.parents.branches]
    settings.emit(
        {"path": str(out), "parents": str(beside), "root": made.root, "base": made.parents.base, "branches": rows},
        [
            *(
                f"job {b.job} of chain {b.chain}, rounds {b.since} to {b.round}: {b.examples:,} examples, {b.examples / total:.1%}"
                for b in made.parents.branches
            ),
            f"{out}: the merged weights; begin a job there with `zoo train FILE --weights {out} --parents {beside}`",
        ],
    )


@click.command(cls=Command)
@click.argument("number", type=NUMBER, metavar="JOB")
@click.option(
    "--branch-network",
    "networks",
    multiple=True,
    metavar="FILE",
    help="Network file of a branch on another chain; may be given again.",
)
@_store
@pass_settings
def parents(settings: Settings, number: int, networks: tuple[str, ...], location: str | None) -> int:
    """Compute again where a merged job begins, from the branches its manifest names.

    Fetches their checkpoints, holds them against the roots on their chains, counts the claims that weigh them, and
    compares. Exit code: 0 when all agrees, 3 when something differs.
    """
    job = _client(settings, None, location).job(number)
    settings.say(f"fetching the branches of job {number}")
    report = job.check_parents(*(_client(settings, each, location) for each in networks))
    settings.emit(
        {"job": number, "agrees": report.matches, "start": report.start, "differences": list(report.differences)},
        list(report.differences) or [f"job {number} begins where its branches merge, at {report.start}"],
    )
    return 0 if report.matches else DIFFERS


def _beside(out: Path) -> Path:
    """Where the parents of the weights at `out` go; not over a file that tells no parents."""
    from zoo_compute.training.merge import Merge

    beside = out.with_suffix(".json")
    if beside == out:
        raise click.BadParameter(
            f"{out} is where the parents go; give the weights another ending, such as .safetensors"
        )
    if beside.exists():
        try:
            Merge.from_bytes(beside.read_bytes())
        except UserError as error:
            raise UserError(
                f"{beside} is there and tells no parents: it is not replaced", hint="choose another --out"
            ) from error
    return beside


def _client(settings: Settings, network: str | None, location: str | None) -> Client:
    """The client of the network file given, else the command's own."""
    if network is None:
        return settings.client(store=location, with_account=False)
    from zoo_compute.client.client import Client as OfNetwork

    return OfNetwork(network=network, store=location, say=settings.say)


COMMANDS = (merge_branches, parents)
