"""Measures a keeper, part by part; each part's module says what its figures are. Run by `python benchmarks/keepers.py`.

start       keeper_starts.py      catching up with `--jobs` past jobs, and starting again
idle        keeper_idle.py        waiting for jobs, for `--idle-s`
reactions   keeper_reactions.py   how soon answers follow what calls for them, over `--reactions` of them
answers     keeper_answers.py     how many answers come into one block, of all claims of a job of `--rounds`
soak        benchmarks/soak       jobs and hostile parties for `--soak-minutes`: memory, disk, handles, deadlines, payments, slashes
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.network import keeper_answers, keeper_idle, keeper_reactions, keeper_starts
from benchmarks.soak import soak

Part = Callable[[Path, argparse.Namespace], dict[str, Any]]
PARTS: Mapping[str, Part] = {
    "start": lambda folder, options: keeper_starts.measured(folder, options.jobs),
    "idle": lambda folder, options: keeper_idle.measured(folder, options.idle_s),
    "reactions": lambda folder, options: keeper_reactions.measured(folder, options.reactions),
    "answers": lambda folder, options: keeper_answers.measured(folder, options.rounds),
    "soak": lambda folder, options: soak.measured(folder, options.soak_minutes, options.beside, _say),
}


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    report: dict[str, Any] = {"cores": os.cpu_count(), "load": {}}
    for name in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="zoo-keepers-") as folder:
            load, began = os.getloadavg()[0], time.monotonic()
            report |= PARTS[name](Path(folder), options)
            # Of others and of this part together: how busy the machine was.
            report["load"][name] = {"before": load, "after": os.getloadavg()[0], "took_s": time.monotonic() - began}
    if options.json:
        print(json.dumps(report))
    else:
        print("\n".join(f"{name:26} {_text(value)}" for name, value in report.items()))
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000, help="past jobs on the chain (%(default)s)")
    parser.add_argument("--idle-s", type=float, default=240.0, help="for which requests are counted (%(default)s)")
    parser.add_argument("--reactions", type=int, default=120, help="answers that are timed (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=12, help="of the job whose claims are all asked about (%(default)s)"
    )
    parser.add_argument("--soak-minutes", type=float, default=60.0, help="for which jobs are posted (%(default)s)")
    parser.add_argument("--beside", type=int, default=12, help="jobs under way in the soak (%(default)s)")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args(argv)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else json.dumps(value)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
