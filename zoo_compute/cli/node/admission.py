"""`zoo node admit`: prove with a benchmark that the registered machine exists."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_compute.amounts import format_seconds
from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.cli.sending import Sending


@click.command(cls=Sending, signs="the chain measures the time between them, and the hot key in --home signs them")
@click.option(
    "--program", type=click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True),
    help="The workload's program; by default this installation's.",
)  # fmt: skip
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best available by default.")
@home_option
@pass_settings
def admit(settings: Settings, program: Path | None, device: str | None, home: Path | None) -> None:
    """Run a trial, or settle one whose challenge window is over. Then the operator's class counts for rewards.

    Signs with the hot key in --home. Keep the device free meanwhile: the chain measures the time.
    """
    from zoo_compute.chain.sender import Sender
    from zoo_compute.operators import admission
    from zoo_compute.operators.account import Operators
    from zoo_compute.operators.hot_key import hot_account

    chain, folder = settings.chain(), folder_of(home)
    operator = Operators(chain).require_operator_in(folder)
    sender = Sender(chain, hot_account(folder), folder=folder)
    options = [*(["--program", str(program)] if program else []), *(["--device", device] if device else [])]
    progress = admission.advance_admission(chain, sender, operator, options)
    if progress.wait_s:
        message = f"answered in {progress.seconds} s; run this again in {format_seconds(progress.wait_s)} to settle it"
    else:
        message = f"admitted with {progress.score:,} FLOPs a second"
    settings.emit(
        {
            "operator": operator, "admitted": progress.admitted, "score": progress.score, "seconds": progress.seconds,
            "settles_in_s": progress.wait_s,
        },
        f"operator {operator}: {message}",
    )  # fmt: skip


COMMANDS = (admit,)
