"""`zoo node benchmark`: the one command of the torch side. Torch is loaded when it runs, not for the help."""

from __future__ import annotations

import sys

import click


@click.command("benchmark")
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best there is when left out.")
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True, help="Steps to time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--devnet", is_flag=True, help="Accept a CPU, labelled as such.")
def benchmark(device: str | None, steps: int, as_json: bool, devnet: bool) -> None:
    """Time this machine's training step and tell its GPU class."""
    from node import benchmark as admission

    flags = [*(["--json"] if as_json else []), *(["--devnet"] if devnet else [])]
    sys.exit(admission.main([*(["--device", device] if device else []), "--steps", str(steps), *flags]))
