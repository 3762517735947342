"""`zoo dashboard`: a page on this machine that shows jobs, operators, the network and disputes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from zoo_compute import paths
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.errors import UserError

PORT = 8620
NEEDED = ("starlette", "uvicorn", "jinja2")


@click.command(cls=Command)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on this machine; 0 takes a free one.",
)
@click.option(
    "--jobs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder whose job files your browser's wallet can post.",
)
@home_option
@pass_settings
def dashboard(settings: Settings, port: int, jobs: Path | None, home: Path | None) -> None:
    """Show jobs, operators, the network and disputes as pages in a browser on this machine, until Ctrl-C.

    The page needs no account and has no key: your browser's wallet signs what you send. With an operator's folder (--home, ZOO_HOME) it
    also shows what needs you. Its JSON is an API: /api/schema.json describes it.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"`zoo dashboard` is not installed: it needs {', '.join(missing)}",
            hint="pip install 'zoo-compute[dashboard]'",
        )
    from zoo_compute.dashboard.process import serve

    folder = folder_of(home)
    if home is not None and not (folder / paths.CONFIG).exists():
        raise UserError(
            f"{folder} is not an operator's folder: it has no {paths.CONFIG}",
            hint="run `zoo node register` first, or leave --home out",
        )
    serve(
        settings.client(with_account=False),
        port,
        folder if (folder / paths.CONFIG).exists() else None,
        jobs,
        settings.emit,
    )
