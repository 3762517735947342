"""`zoo proxy`: any OpenAI client of this machine asks a served model, and pays for it by your channels."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from zoo_compute.cli.context import Settings
from zoo_compute.cli.inference import PAYS, asking
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.inference.client import Inference

PORT = 8630
LOOPBACK = "127.0.0.1"
NEEDED = ("starlette", "uvicorn", "jinja2", "pydantic")
STOP_S = 5  # for answers on their way, at Ctrl-C


@click.command("proxy", cls=Sending, signs=PAYS)
@asking
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on this machine; 0 takes a free one.",
)
def proxy(settings: Settings, inference: Inference, port: int) -> None:
    """Serve SERVICE to OpenAI clients on this machine until Ctrl-C: pays, checks receipts, and balances over its seats.

    Every program of this machine that reaches the port spends your channels, at --max-price or less.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"`zoo proxy` is not installed: it needs {', '.join(missing)}", hint="pip install 'zoo-compute[dashboard]'"
        )
    import uvicorn

    from keepers.serving.proxy import application
    from zoo_compute.dashboard.process import listening

    try:
        listener = listening(port)
    except OSError as error:
        raise UserError(f"port {port} on {LOOPBACK} cannot be used: {error.strerror}", hint="try --port 0") from error
    with listener:
        url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/v1"
        model = inference.service.model
        settings.emit({"url": url, "model": model}, f"{model} is at {url} (Ctrl-C stops it)")
        config = uvicorn.Config(
            application(inference),
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
            lifespan="off",
        )
        uvicorn.Server(config).run(sockets=[listener])
