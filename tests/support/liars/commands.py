"""Command lines of workers that lie, for the plans of a local network."""

from __future__ import annotations

import sys


def lying_worker(**options: object) -> tuple[str, ...]:
    """options: of `tests.support.liars.lying_worker`, such as round=1, slot=0, step=5."""
    words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
    return (sys.executable, "-m", "tests.support.liars.lying_worker", *words)
