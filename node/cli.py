"""`zoo node benchmark` and `zoo node conformance`. Torch is loaded when a command runs, not for its help."""

from __future__ import annotations

import sys
from typing import Any

import click

from zoo_compute.cli.context import Command, Settings, pass_settings


@click.command("benchmark")
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best one by default.")
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True, help="Steps to time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--devnet", is_flag=True, help="Accept a CPU; the result says so.")
def benchmark(device: str | None, steps: int, as_json: bool, devnet: bool) -> None:
    """Time this machine's training step and print its GPU class."""
    from node.admission import benchmark as admission

    flags = [*(["--json"] if as_json else []), *(["--devnet"] if devnet else [])]
    sys.exit(admission.main([*(["--device", device] if device else []), "--steps", str(steps), *flags]))


@click.command("conformance", cls=Command)
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best one by default.")
@click.option("--again", is_flag=True, help="Check again, even if a result is saved.")
@pass_settings
def conformance(settings: Settings, device: str | None, again: bool) -> int:
    """Check that a device computes the same bits as the CPU, and save the result.

    A GPU is used only after it passed. `zoo node start` checks new cards and new drivers by itself.
    """
    from node.conformance import check
    from node.device import pick_device

    result = check(pick_device(device), again=again, say=settings.say)
    answer = vars(result) | {"differing": list(result.differing)}
    answer["computes_on"] = result.device if result.conformed else "cpu"
    settings.emit(answer, [f"{key:<12} {_text(value)}" for key, value in answer.items()])
    return 0 if result.conformed or not result.kept else 1


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(value) if isinstance(value, list) else str(value)) or "-"
