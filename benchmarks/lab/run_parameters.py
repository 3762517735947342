"""The options in a benchmark's result, written the same way on every machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def parameters_of(options: argparse.Namespace, *, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options but --json, --folder and `leave_out`; paths without what only one machine has."""
    unwanted = {"json", "folder", *leave_out}
    return {name: portable(value) for name, value in vars(options).items() if name not in unwanted}


def portable(value: Any) -> Any:
    """A path inside the repository from its root on, any other by its last name alone; everything else as it is."""
    if isinstance(value, Path):
        path = value.resolve()
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    if isinstance(value, (list, tuple)):
        return [portable(each) for each in value]
    return value
