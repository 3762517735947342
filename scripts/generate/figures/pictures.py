"""Draw the pictures of the docs: docs/figures/*.svg.

    python -m scripts.generate figures.pictures [--check]

job.svg: the life of a job; parties.svg: who runs what, and where money sits. Drawn from the code: descent.svg: the trees that
a dispute about the demo's model goes down, with that program's shapes; clocks.svg: the seconds of one path of asks.
`--check` exits 1 when one is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.generate.figures.explored_trees import draw_descent
from scripts.generate.figures.job_life import draw_job_life
from scripts.generate.figures.parties import draw_parties
from scripts.generate.figures.path_clocks import draw_clocks

ROOT = Path(__file__).resolve().parents[3]

FOLDER = ROOT / "docs" / "figures"
PICTURES: dict[str, Callable[[], str]] = {
    "job": draw_job_life,
    "parties": draw_parties,
    "descent": draw_descent,
    "clocks": draw_clocks,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a picture is stale")
    arguments = parser.parse_args()
    stale = 0
    for name, draw in PICTURES.items():
        path, made = FOLDER / f"{name}.svg", draw()
        if not arguments.check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(made)
        elif not path.exists() or path.read_text() != made:
            print(f"docs/figures/{name}.svg is stale: run `make generate`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
