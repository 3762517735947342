"""`zoo map FILE`: map a module over items, and write what comes out; `zoo job outputs`: fetch that of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.cli.posting import posted, posting_options
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zoo_compute.client.job import Job
    from zoo_compute.client.outputs import KeptRounds
    from zoo_compute.jobs.config import ComputeJob
    from zoo_compute.jobs.generation import Generation

OUT = click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write: .npz or .safetensors, with a row for each item, in their order. Of generated texts .jsonl.",
)


@click.command("map", cls=Sending)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of one array, whose rows are the items, or of text with an item a line, instead of FILE's data.",
)
@OUT
@posting_options
@pass_settings
def map_items(settings: Settings, /, file: Path, data: Path | None, out: Path, **options: Any) -> None:
    """Map the module in FILE over items, and write what it returns for each.

    FILE is a job's file with a section `map` instead of `training`. With `map.new_tokens` it generates texts from prompts. Each round
    is fetched as soon as it is final, and checked against the chain. Ctrl-C leaves the job running. If interrupted, rerun the command: it goes on, and neither posts nor fetches twice.
    """
    from zoo_compute.client.outputs import TEXTS, check_path

    check_path(out, generates=out.suffix == TEXTS)

    def check(job: ComputeJob) -> None:
        check_path(out, generates=job.generation is not None)

    with posted(settings, file, data, resumes=True, check=check, **options) as made:
        if settings.prints():
            settings.emit(made.facts, str(made.job.id))
            return
        collect(settings, made.job, out, made.facts, made.generation)


@click.command("outputs")
@click.argument("number", metavar="JOB", type=click.IntRange(min=1))
@OUT
@click.option(
    "--store", "location", metavar="LOCATION", help="Store for the job's files. [env ZOO_STORE; ~/.zoo/store]"
)
@pass_settings
def outputs(settings: Settings, number: int, out: Path, location: str | None) -> None:
    """Follow a map job, of anybody, and write its outputs, checked against the chain. If interrupted, rerun the command: it goes on."""
    from zoo_compute.client.outputs import check_path

    check_path(out)
    job = settings.client(store=location, with_account=False).job(number)
    collect(settings, job, out, {"job": number})


def fetch_rounds(
    settings: Settings, job: Job, kept: KeptRounds, added: Callable[[int], None] = lambda round_: None
) -> int:
    """Fetch all rounds as they become final; return how many. added: called with each. Raises UserError if the job ends without them."""
    status = StatusLine()
    rounds, there = job.view().terms.rounds, kept.count()

    def show(progress: Any) -> None:
        status.show(f"{progress.line()} · {there}/{rounds} rounds fetched", there, rounds)

    try:
        for made in job.outputs(after=there, poll_s=1.0, show=show):
            kept.add(made)
            added(made.round)
            there += 1
    except KeyboardInterrupt:
        status.end()
        settings.say(
            f"job {job.id} keeps running; {there} of {rounds} rounds are in {kept.folder}: rerun the command to go on"
        )
        raise
    status.end()
    if there < rounds:
        raise UserError(
            f"job {job.id} is over, and {there} of its {rounds} rounds are final",
            hint=f"those are in {kept.folder}, if there are any",
        )
    return rounds


def collect(
    settings: Settings, job: Job, out: Path, facts: dict[str, Any], generation: Generation | None = None
) -> None:
    """Fetch rounds as they become final; write the file once all are there. Raises UserError if the job ends without them."""
    from zoo_compute.client.outputs import OutputsFile

    file = OutputsFile(out, job.id, generation)
    rounds = fetch_rounds(settings, job, file)
    written = file.finish(rounds)
    if generation is not None:
        texts = len(generation.prompts)
        settings.emit(
            {**facts, "out": str(file.path), "texts": texts},
            f"{file.path}: {texts:,} texts, verified against the chain",
        )
        return
    shapes = {name: list(shape) for name, shape in written.items()}
    items = next(iter(shapes.values()))[0]
    settings.emit(
        {**facts, "out": str(file.path), "items": items, "outputs": shapes},
        f"{file.path}: {', '.join(f'{name} {tuple(shape)}' for name, shape in shapes.items())}, verified against the chain",
    )


COMMANDS = (outputs,)
