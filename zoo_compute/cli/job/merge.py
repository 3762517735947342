"""`zoo job branch`, `zoo job merge` and `zoo job parents`: train on during a network partition, merge its branches, and check a merge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.cli.context import JOB, Command, Settings, pass_settings
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client

DIFFERS = 3  # exit code, as `zoo verify` has it
_BRANCH = re.compile(r"(?P<job>[1-9]\d*)(:(?P<since>\d+))?(@(?P<network>.+))?")
_store = click.option(
    "--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]"
)


@click.command(cls=Sending, signs="it posts jobs while nobody is there to sign")
@click.argument("number", type=JOB, metavar="JOB")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--on", "elsewhere", required=True, metavar="NETWORKFILE", help="Network to go on at.")
@click.option(
    "--after",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds for which the job's chain shows no new block, and the other one does.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of the branch, instead of FILE's.")
@click.option("--slots", type=click.IntRange(min=1), help="Slots of the branch, instead of FILE's.")
@click.option(
    "--then", type=click.IntRange(min=1), help="Rounds of the job that continues from the merge, instead of FILE's."
)
@click.option("--max-budget", metavar="AMOUNT", help="Maximum escrow of each of the two, instead of FILE's budget_max.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where record and weights are kept. [./partition-JOB]",
)
@click.option("--anyway", is_flag=True, help="Post even if no operator can train it yet, or nobody serves its files.")
@_store
@pass_settings
def branch(
    settings: Settings, number: int, file: Path, elsewhere: str, after: float, rounds: int | None, slots: int | None,
    then: int | None, max_budget: str | None, folder: Path | None, anyway: bool, location: str | None,
) -> None:  # fmt: skip
    """Wait for a network partition: train job JOB on elsewhere while its chain is out of reach, then merge.

    Start it where you can reach the other network. It follows the job that you posted from FILE and keeps the newest checkpoint. When the
    job's chain is silent, it posts a branch on the other network. When both are over and final, it merges them, weighted by examples, and
    posts the job that continues from there, or from the side with less held-out loss. Ctrl-C stops it; the same command resumes.
    """
    from zoo_compute.client.partition import Partition, Rule

    home = settings.client(store=location)
    far = _client(settings, elsewhere, location, settings.account())
    rule = Rule(file, after, rounds, slots, then, max_budget, anyway)
    try:
        done = Partition(home, far, number, rule, folder or Path(f"partition-{number}")).run()
    except KeyboardInterrupt:
        settings.say("interrupted; the same command resumes")
        raise
    lines = [f"job {done.branch} of {far.description.name} was the branch", str(done.continued)]
    settings.emit(
        {"job": number, "checkpoint": done.round, "branch": done.branch or None, "continued": done.continued or None},
        lines if done.branch else f"job {number} is over; its chain was in reach all the time",
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


def _client(settings: Settings, network: str | None, location: str | None, account: Any = None) -> Client:
    """A client of this network file, or of the command's own network."""
    if network is None:
        return settings.client(store=location, with_account=False)
    from zoo_compute.client.client import Client as OfNetwork

    return OfNetwork(network=network, account=account, store=location, say=settings.say)


COMMANDS = (branch, merge_branches, parents)
