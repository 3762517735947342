"""`zoo train FILE`: prepare, store, post, follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.job.group import follow
from zoo_compute.cli.posting import posted, posting_options
from zoo_compute.cli.sending import Sending


@click.command(cls=Sending)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="Text file or folder to train on, instead of FILE's data.",
)
@posting_options
@click.option(
    "--parents",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that `zoo job merge` wrote beside the merged --weights.",
)
@click.option("--watch/--no-watch", default=True, show_default=True, help="Follow the job until training ends.")
@pass_settings
def train(
    settings: Settings, /, file: Path, data: Path | None, parents: Path | None, watch: bool, **options: Any
) -> None:
    """Submit the training job in FILE and follow it.

    Before sending anything, the command checks your budget against the worst case. Unspent escrow comes back.
    Ctrl-C leaves the job running. If interrupted, rerun the command: it resumes and never posts twice.
    """
    from zoo_compute.training.merge import Merge

    merge = Merge.from_bytes(parents.read_bytes()) if parents else None
    with posted(settings, file, data, merge=merge, **options) as made:
        if not watch or settings.prints():
            settings.emit(made.facts, str(made.job.id))
            return
        if not settings.as_json:
            click.echo(str(made.job.id))
        last = follow(settings, made.job)
        if settings.as_json:
            settings.emit({**made.facts, "progress": last.to_dict() if last else None})
