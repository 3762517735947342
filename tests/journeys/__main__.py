"""`python -m tests.journeys [--all] [--json] [--keep FOLDER]`: every command and its seconds; exit code 1 when one fails."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tests.journeys.blocks import ELSEWHERE
from tests.journeys.journeys import FIRST, FOURTH, JOURNEYS, LONG, OPERATING, PAGES, SECOND, THIRD
from tests.journeys.machine import ROOT, Machine, build_wheels
from tests.journeys.pages import Page
from tests.journeys.terminal import CommandFailed
from tests.journeys.walk import Walk


def untried(pages: dict[str, Page]) -> list[str]:
    """Blocks that no journey ran, on this page or another, and that ELSEWHERE does not have."""
    run = {block.text for page in pages.values() for block in page.taken}
    return [
        f"{block.place}: {block.text.splitlines()[0]}"
        for page in pages.values()
        for block in page.left
        if block.text not in run and not any(text in block.text for text in ELSEWHERE.get(block.page, ()))
    ]


class Report:
    """What the journeys took, a line as each command ends."""

    def __init__(self, quiet: bool) -> None:
        self.say: Callable[[str], None] = (lambda _: None) if quiet else (lambda line: print(line, flush=True))
        self.journeys: list[dict[str, Any]] = []

    def make(self, name: str, walk: Walk) -> bool:
        """One journey; whether it ended well. What failed is in its `error`."""
        self.say(f"\n{name}: {(JOURNEYS[name].__doc__ or '').splitlines()[0]}")
        began, before, error = time.monotonic(), len(walk.steps), None
        try:
            JOURNEYS[name](walk)
        except (CommandFailed, LookupError, AssertionError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        seconds = round(time.monotonic() - began, 1)
        self.say(f"  {seconds:7.1f} s  in all{': FAILED' if error else ''}")
        steps = [asdict(step) for step in walk.steps[before:]]
        self.journeys.append({"journey": name, "seconds": seconds, "error": error, "steps": steps})
        return error is None


def make_all(report: Report, folder: Path, wheels: list[Path], pages: dict[str, Page], log: IO[str]) -> None:
    """The journeys in order, up to the first that fails. Raises CommandFailed when something does not end."""
    with Walk(Machine(folder / "first", wheels, log), pages, report.say) as first:
        if not all(report.make(name, first) for name in FIRST):
            return
        with Walk(Machine(folder / "second", wheels, log), pages, report.say, network=first) as second:
            if not all(report.make(name, second) for name in SECOND):
                return
        if OPERATING not in pages:
            return
        with Walk(Machine(folder / "third", wheels, log), pages, report.say, network=first) as third:
            if not all(report.make(name, third) for name in THIRD):
                return
    with Walk(Machine(folder / "fourth", wheels, log), pages, report.say) as fourth:
        all(report.make(name, fourth) for name in FOURTH)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.journeys", description="What the docs print, run as a newcomer would")
    parser.add_argument(
        "--all", action="store_true", help="also join as an operator and fine-tune, each on a clean machine"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep transcripts and files there")
    options = parser.parse_args()
    pages = {path: Page.read(ROOT / path, ROOT) for path in PAGES if options.all or path not in LONG}
    report, left = Report(quiet=options.json), ""
    with tempfile.TemporaryDirectory(prefix="journeys") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        report.say("building the wheels")
        wheels = build_wheels(folder / "wheels")
        with (folder / "transcript.txt").open("w") as log:
            try:
                make_all(report, folder, wheels, pages, log)
            except CommandFailed as failure:
                left = str(failure)
    missed = untried(pages)
    failed = [each for each in report.journeys if each["error"]]
    if options.json:
        print(json.dumps({"journeys": report.journeys, "untried": missed}))
    if left:
        print(left, file=sys.stderr)
    for each in failed:
        print(f"\n{each['journey']} failed: {each['error']}", file=sys.stderr)
    for each in missed if not failed else ():
        print(f"no journey runs {each}", file=sys.stderr)
    return 1 if failed or missed or left else 0


if __name__ == "__main__":
    sys.exit(main())
