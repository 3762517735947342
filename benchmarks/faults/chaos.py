"""Fires every fault several times at a network of real processes that serves jobs, one fault after the other.

A fault that did nothing is an error, and in `troubles`. recovery: seconds from a fault's end, or from a kill, to the first useful thing of who suffered: a
completed look of a keeper, an answer of a gateway or of Redis, a worker that takes work. What was missed, slashed or paid wrongly counts
for the last fault that was fired before.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.faults import chains, machine, reorgs, rpcs
from benchmarks.faults.firing import Firing
from benchmarks.faults.network import ChaosNetwork, running
from benchmarks.faults.record import Record
from benchmarks.soak.traffic import Traffic
from zoo_compute.chain.connection import connect
from zoo_compute.chain.network import load
from zoo_compute.chain.snapshot import read_operator
from zoo_compute.errors import ZooError

FAULTS: Mapping[str, tuple[Callable[[Firing, int], None], int]] = {
    **machine.FAULTS,
    **rpcs.FAULTS,
    **chains.FAULTS,
    **reorgs.FAULTS,  # the last: what follows would wait for the blocks that these undid
}
LIMITS = {"slot_s": 180, "aggregate_s": 180, "reexecute_s": 5}  # as with the windows: faults take a part of it
SETTLE_S = 600.0
UNSERVED_S = 300.0  # of a job that waits for bids, before its submitter cancels it
EMPTY: dict[str, Any] = {"runs": [], "troubles": {}, "faults": []}
JOBS_EVERY_S = 4.0  # between two looks at how many are over


STOPPED = threading.Event()  # fire no more, and settle
STOPPED_FIRST = "not fired, since the run was stopped"


def _stop(*_: object) -> None:
    """After a first SIGTERM the run settles; a second one ends it at once, with its processes and disks."""
    if STOPPED.is_set():
        sys.exit(1)
    STOPPED.set()


class Jobs(threading.Thread):
    """Keeps jobs under way, until `stopped`."""

    def __init__(self, network: ChaosNetwork, record: Record, beside: int) -> None:
        super().__init__(daemon=True)
        self._record, self._traffic, self._beside = record, Traffic(network, beside, LIMITS), beside
        self._chain = connect(load(network.network_path))
        self.stopped = threading.Event()

    @property
    def under_way(self) -> int:
        return len(self._traffic.posted) - self._record.closed(self._chain)

    def run(self) -> None:
        while not self.stopped.wait(JOBS_EVERY_S):
            self.give_up()
            with suppress(ZooError):  # while fees are high, or a block is replaced, the submitter waits
                self._traffic.post(self.under_way)

    def give_up(self) -> None:
        with suppress(ZooError):
            self._traffic.give_up(UNSERVED_S)


def fire_all(network: ChaosNetwork, options: argparse.Namespace) -> dict[str, Any]:
    began, record = time.monotonic(), Record.of(network)
    jobs = Jobs(network, record, options.beside)
    jobs.start()
    firing = Firing(network, record, _say)
    network.wait(options.warm_s)
    troubles: dict[str, str] = {}
    for name in options.only or FAULTS:
        if STOPPED.is_set():
            troubles[name] = STOPPED_FIRST
            continue
        fire, times = FAULTS[name]
        _say(f"--- {name}")
        try:
            fire(firing, max(1, round(times * options.times)))
        except AssertionError as error:
            troubles[name] = f"{type(error).__name__}: {error}"
            _say(traceback.format_exc())
        for row in record.rows.values():
            row.only = row.only or name
    jobs.stopped.set()
    jobs.join()
    until = time.monotonic() + SETTLE_S
    while (is_open := bool(jobs.under_way or _bound(network))) and time.monotonic() < until:
        jobs.give_up()
        network.wait(2)
    if is_open:
        troubles["settling"] = f"{jobs.under_way} jobs are under way, locks or payments open after {SETTLE_S:.0f} s"
    totals = record.settle(_say)
    run = {"took_s": round(time.monotonic() - began), **totals}
    return {"runs": [run], "troubles": troubles, "faults": [row.report() for row in record.rows.values() if row.fired]}


def merged(old: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """An earlier result, in which this run's faults replace theirs, also where they went wrong now."""
    tried = {name for run in report["runs"] for name in run["only"] if report["troubles"].get(name) != STOPPED_FIRST}
    rows = [row for row in old["faults"] if row["only"] not in tried] + report["faults"]
    rows.sort(key=lambda row: list(FAULTS).index(row["only"]))
    kept = FAULTS.keys() - tried  # what else was wrong is of a run, not of a fault
    troubles = {name: why for name, why in old["troubles"].items() if name in kept} | report["troubles"]
    runs = [run for run in old["runs"] if not set(run["only"]) <= tried] + report["runs"]
    return {"runs": runs, "troubles": troubles, "faults": rows}


def _bound(network: ChaosNetwork) -> bool:
    operators = [read_operator(network.devnet.chain, number) for number in network.operators]
    return any(each.locks or any(each.owed.values()) for each in operators)


def table(report: Mapping[str, Any]) -> str:
    """In Markdown, as in docs/guides/chaos.md."""
    lines = [
        "| fault | fired | worst recovery | longest without a look | missed | lost or doubled | slashed |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report["faults"]:
        times = [f"{row[name]} s" if row[name] is not None else "" for name in ("worst_recovery_s", "longest_blind_s")]
        losses = [str(row[name]) for name in ("deadlines_missed", "payments_lost_or_doubled", "honest_slashes")]
        lines.append(f"| {' | '.join([row['fault'], str(row['fired']), *times, *losses])} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    signal.signal(signal.SIGTERM, _stop)
    if os.geteuid():
        print("chaos needs root, for disks that are full or read-only (tmpfs)", file=sys.stderr)
        return 2
    if options.folder:
        report = _report(options.folder, options)
    else:
        with tempfile.TemporaryDirectory(prefix="zoo-chaos-", ignore_cleanup_errors=True) as folder:
            report = _report(Path(folder), options)
    if options.into:
        old = json.loads(options.into.read_text()) if options.into.exists() else EMPTY
        report = merged(old, report)
        options.into.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report) if options.json else table(report))
    return 1 if report["troubles"] else 0


def _report(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with running(folder, dies="steps" in (options.only or FAULTS)) as network:
        _say(f"the network runs in {folder}")
        report = fire_all(network, options)
    report["runs"][0] |= {
        "only": options.only or list(FAULTS),
        "cores": os.cpu_count(),
        "load": {"before": load, "after": os.getloadavg()[0]},  # of others and of this run together
    }
    return report


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="a fault; may be repeated")
    parser.add_argument("--times", type=float, default=1.0, help="as often as usual, times this (%(default)s)")
    parser.add_argument("--beside", type=int, default=5, help="jobs under way (%(default)s)")
    parser.add_argument("--warm-s", type=float, default=30.0, help="before the first fault (%(default)s)")
    parser.add_argument("--folder", type=Path, help="for the network; kept")
    parser.add_argument("--into", type=Path, help="an earlier result, in which these faults' rows are replaced")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args(argv)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
