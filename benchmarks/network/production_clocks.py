"""A devnet with production's windows, epoch and clocks: what a keeper does by them, it does as often as in production.

python -m benchmarks.network.production_clocks keeper ...    as keepers.processes.run
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zoo_compute.spec.params import DEVNET, PRESETS, PRODUCTION

MODULE = "benchmarks.network.production_clocks"


@contextmanager
def used() -> Iterator[None]:
    """In this process, while the block runs."""
    PRESETS[DEVNET.name] = dataclasses.replace(PRODUCTION, name=DEVNET.name)
    try:
        yield
    finally:
        PRESETS[DEVNET.name] = DEVNET


if __name__ == "__main__":
    from keepers.processes import run

    with used():
        sys.exit(run.main(sys.argv[1:]))
