"""Draws the pictures of docs/referee.md from the code: docs/pictures/*.svg.

    python -m scripts.generate figures.pictures [--check]

descent.svg: the trees that a game about the demo's model goes through, with that program's shapes; moves.svg: which move is due
after which, as the specification takes them; clocks.svg: the seconds of one game, as the specification counts them.
`--check` exits 1 when one is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.generate.figures.game_clocks import draw_clocks
from scripts.generate.figures.game_trees import draw_descent
from scripts.generate.figures.move_order import draw_moves

ROOT = Path(__file__).resolve().parents[3]

FOLDER = ROOT / "docs" / "pictures"
PICTURES: dict[str, Callable[[], str]] = {"descent": draw_descent, "moves": draw_moves, "clocks": draw_clocks}


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
            print(f"docs/pictures/{name}.svg is stale: run `make generate`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
