"""Pages with computed tables and plots: shared code of scripts/generate/economics.py, scaling.py and examples.py."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
COLOURS = ("#1f5fa8", "#c8553d", "#3d8b5f", "#7a5195")
Tables = Mapping[str, Callable[[], str]]  # mark -> its table


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def percent(value: float, places: int = 1) -> str:
    return f"{100 * value:.{places}f} %"


def filled(path: Path, tables: Tables) -> str:
    """A page with every table between its marks."""
    text = path.read_text()
    for name, made in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, mark, rest = text.partition(begin)
        if not mark or end not in rest:
            raise SystemExit(f"{path.name} lacks the marks {begin} and {end}")
        text = f"{before}{begin}\n{made()}\n{end}{rest.partition(end)[2]}"
    return text


def axes() -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    # The same file for the same numbers: no date, ids from a fixed salt.
    matplotlib.rcParams.update({"svg.hashsalt": "zoo", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot

    figure, drawn = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
    drawn.grid(alpha=0.3)
    drawn.spines[["top", "right"]].set_visible(False)
    return figure, drawn


def save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    # The writer leaves trailing spaces, which some viewers cannot read.
    path.write_text(re.sub(r"[ \t]+\n", "\n", path.read_text()))


def build(page: Path, tables: Tables, plots: Mapping[str, Callable[[Path], None]], about: str | None) -> int:
    """Write a page and its plots (docs/figures/PAGE/NAME.svg), or with --check report which are stale."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a table is stale or a plot missing")
    check = parser.parse_args().check
    made, folder = filled(page, tables), FIGURES / page.stem
    files = {folder / f"{name}.svg": plot for name, plot in plots.items()}
    if check:
        stale = made != page.read_text() or not all(file.exists() for file in files)
        if stale:
            print(f"{page.relative_to(FIGURES.parents[1])} is stale: run `make generate`", file=sys.stderr)
        return int(stale)
    page.write_text(made)
    for file, plot in files.items():
        plot(file)
    return 0
