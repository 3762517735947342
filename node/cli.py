"""`zoo node benchmark`: the one command of the torch side."""

from __future__ import annotations

import sys

import click

from node import benchmark as admission


@click.command("benchmark")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--devnet", is_flag=True, help="Accept a CPU, labelled as such.")
def benchmark(as_json: bool, devnet: bool) -> None:
    """Time this machine's training step and tell its GPU class."""
    sys.exit(admission.main([*(["--json"] if as_json else []), *(["--devnet"] if devnet else [])]))
