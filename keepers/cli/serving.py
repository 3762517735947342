"""`zoo serving start`: answer the requests of your serving seat."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from keepers.config import load
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.cli.serving import SEAT
from zoo_compute.errors import UserError

PORT, WAITING = 8000, 64
NEEDED = ("starlette", "uvicorn")


@click.command("start", cls=Command)
@click.option("--seat", "number", type=SEAT, required=True, help="Your seat, from `zoo serving take`.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 takes a free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 for all. Put a proxy with TLS before it.",
)
@click.option(
    "--waiting",
    type=click.IntRange(1, 10_000),
    default=WAITING,
    show_default=True,
    help="Most requests that wait or are answered; others are sent away, before they pay.",
)
@home_option
@pass_settings
def start(settings: Settings, number: int, port: int, host: str, waiting: int, home: Path | None) -> None:
    """Answer the requests of your serving seat until Ctrl-C, by the OpenAI-compatible /v1/completions or /v1/embeddings.

    Each answer is paid before it is computed, and signed: a false one costs the seat's lock. Run it in your operator's folder, beside
    `zoo node start`, whose keeper closes the channels of clients that leave, and answers if somebody asks about a receipt.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"`zoo serving start` is not installed: it needs {', '.join(missing)}",
            hint="pip install 'zoo-compute[dashboard,node]'",
        )
    from keepers.serving.process import serve

    config = load(folder_of(home))
    serve(
        config,
        number,
        host,
        port,
        waiting,
        settings.say,
        lambda where: settings.emit(
            where, f"seat {number} answers {where['model']} at {where['url']}/v1 (Ctrl-C stops it)"
        ),
    )
