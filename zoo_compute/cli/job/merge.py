"""`zoo job merge` and `zoo job parents`: merge the branches of a network partition, and check a merge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.cli.context import JOB, Command, Settings, pass_settings
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client

DIFFERS = 3  # exit code, as `zoo verify` has it
_BRANCH = re.compile(r"(?P<job>[1-9]\d*)(:(?P<since>\d+))?(@(?P<network>.+))?")
_store = click.option(
    "--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]"
)


@click.command("merge", cls=Command)
@click.argument("branches", nargs=-1, required=True, metavar="JOB[:ROUND][@NETWORKFILE]...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("merged.safetensors"),
    show_default=True,
    help="File for the merged weights; their parents are written beside it, as .json.",
)
@_store
@pass_settings
def merge_branches(settings: Settings, branches: tuple[str, ...], out: Path, location: str | None) -> None:
    """Merge the branches of a network partition, weighted by the examples each trained on.

    A branch is a job's newest final checkpoint. All branches must start from equal tensors: the job's initial state, or
    its checkpoint ROUND if the others split off there. For a branch on another chain, add its network file.
    Start a new job from the result: `zoo train FILE --weights merged.safetensors --parents merged.json`.
    """
    from zoo_compute.client.branches import merge_branches as merged
    from zoo_compute.client.job import Job

    def read(text: str) -> tuple[Job, int]:
        match = _BRANCH.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is not JOB[:ROUND][@NETWORKFILE], such as 12, 12:3 or 1:0@far.json")
        client = _client(settings, match["network"], location)
        return client.job(int(match["job"])), int(match["since"] or 0)

    beside = _beside(out)
    loaded = []
    for job, since in [read(each) for each in branches]:
        view = job.view()
        settings.say(f"fetching checkpoints {since} and {view.final_rounds} of job {job.id}")
        if view.completed_rounds > view.final_rounds:
            settings.say(
                f"note: checkpoints up to {view.completed_rounds} are not final yet and are left out of the merge"
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
            f"{out}: the merged weights; start a job from them with `zoo train FILE --weights {out} --parents {beside}`",
        ],
    )


@click.command(cls=Command)
@click.argument("number", type=JOB, metavar="JOB")
@click.option(
    "--branch-network",
    "networks",
    multiple=True,
    metavar="FILE",
    help="Network file of a branch on another chain. Repeat for more.",
)
@_store
@pass_settings
def parents(settings: Settings, number: int, networks: tuple[str, ...], location: str | None) -> int:
    """Recompute the initial weights of a merged job from the branches in its manifest, and compare.

    Fetches the branches' checkpoints, checks them against the roots on their chains, and counts the claims that weigh
    them. Exit code: 0 if all agrees, 3 if something differs.
    """
    job = _client(settings, None, location).job(number)
    settings.say(f"fetching the branches of job {number}")
    report = job.check_parents(*(_client(settings, each, location) for each in networks))
    settings.emit(
        {"job": number, "agrees": report.matches, "start": report.start, "differences": list(report.differences)},
        list(report.differences) or [f"job {number} starts from the merge of its branches, {report.start}"],
    )
    return 0 if report.matches else DIFFERS


def _beside(out: Path) -> Path:
    """Path for the parents of the weights at `out`. Refuses to replace a file that is not a parents file."""
    from zoo_compute.training.merge import Merge

    beside = out.with_suffix(".json")
    if beside == out:
        raise click.BadParameter(
            f"{out} is the name of the parents file; give the weights another ending, such as .safetensors"
        )
    if beside.exists():
        try:
            Merge.from_bytes(beside.read_bytes())
        except UserError as error:
            raise UserError(
                f"{beside} exists and is not a parents file, so it is not replaced", hint="choose another --out"
            ) from error
    return beside


def _client(settings: Settings, network: str | None, location: str | None) -> Client:
    """A client of this network file, or of the command's own network."""
    if network is None:
        return settings.client(store=location, with_account=False)
    from zoo_compute.client.client import Client as OfNetwork

    return OfNetwork(network=network, store=location, say=settings.say)


COMMANDS = (merge_branches, parents)
