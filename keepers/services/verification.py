"""The verifier: re-executes sampled slot-rounds and aggregations, and reports whether the committed roots are right.

The draw cannot be guessed by those it watches: it hashes the verifier's own secret. A result that its author had to show on chain is
drawn in any case: somebody could not have it, and what the answer shows is enough to judge it without the author's files. So is one
that a report calls odd (zoo_compute/training/outliers.py): of its aggregation, by its loss; of a slot that starts from the next checkpoint, by
the scores in it. Reports go to `verified.jsonl`, one line each; a mismatch is also an error in the log, and its report
has the places to ask about (keepers.services.challenging).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from eth_utils.crypto import keccak

from keepers.config import OperatorConfig
from keepers.decisions.requests import aggregation_check_name, aggregation_check_request, verify_name, verify_request
from keepers.decisions.retention import spare_s
from keepers.monitoring.logs import rotated
from keepers.queue.work_queue import WorkStatus
from zoo_compute.chain.answered_results import answered_demands
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Commit, JobView
from zoo_compute.paths import REPORTS
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT
from zoo_compute.spec.frames import Result

log = logging.getLogger("zoo.verifier")
AGGREGATOR = "aggregation"  # drawn in the place of a slot
WorkRequest = tuple[str, str, dict[str, Any]]  # name of the work, task, request
RequestWork = Callable[[str, str, dict[str, Any]], WorkStatus]  # task, name of the work, request
FindRevealedResult = Callable[[JobView, Commit, int], Result | None]  # a slot's result, as an answer on chain shows it


class Verifier:
    """Samples what was committed, asks its worker to re-execute it, and keeps the reports."""

    def __init__(
        self,
        config: OperatorConfig,
        ask: RequestWork,
        secret: bytes,
        revealed: FindRevealedResult = lambda *_: None,
        is_over: Callable[[int], bool] = lambda job: False,
    ) -> None:
        self._config = config
        self._ask = ask
        self._secret = secret
        self._revealed = revealed
        self._path = config.folder / REPORTS
        # Of jobs that may not be over; a report that the keeper wrote of an older one is only for people.
        self._reported = {each["name"]: each for each in read_reports(self._path) if not is_over(each["job"])}
        self._owed: dict[int, set[tuple[int, int]]] = {}  # job -> (turn, unit) that I was drawn to audit

    def owe(self, job: int, work: set[tuple[int, int]]) -> None:
        """What is re-executed whatever is sampled: turns with an audit's unit each."""
        self._owed.setdefault(job, set()).update(work)

    def forget(self, job: int) -> None:
        """The job is over: its reports stay in the file alone."""
        self._owed.pop(job, None)
        self._reported = {name: each for name, each in self._reported.items() if each["job"] != job}

    def agrees(self, view: JobView, claim: Commit | Checkpoint, slot: int | None) -> bool | None:
        """Whether a result is what my worker found; None until that is known, and where its files are not those promised."""
        if isinstance(claim, Checkpoint):
            names = [aggregation_check_name(claim, view.job)]
        else:
            assert slot is not None, "results are drawn slot by slot"
            revealed = self._revealed(view, claim, slot)
            names = [verify_name(claim, view.job, slot, revealed), verify_name(claim, view.job, slot)]
        reports = (self._reported[name] for name in names if name in self._reported)
        known = (each for each in reports if "agrees" in each and each.get("field") != "bundle")
        return next((bool(each["agrees"]) for each in known), None)

    def observe(self, view: JobView) -> None:
        """Request the work that was drawn, and report what is done."""
        for claim, slot in self._drawn(view):
            asked = self._asked(view, claim, slot)
            if asked is None:
                continue
            name, task, request = asked
            status = self._ask(task, name, request)
            what = {"name": name, "job": view.job, "turn": claim.turn, "round": claim.round, "seat": claim.seat}
            what |= {"slot": slot, "root": claim.root.hex()}
            if status.state == "done" and status.result is not None:
                self._report({**what, **status.result})
            elif status.state == "failed":
                self._report({**what, "error": status.error})

    def pending(self, view: JobView) -> bool:
        """Whether something drawn is not reported yet."""
        return any(self._asked(view, *drawn) for drawn in self._drawn(view))

    def _asked(self, view: JobView, claim: Commit | Checkpoint, slot: int | None) -> WorkRequest | None:
        """What is to be asked of the worker; None once it is reported."""
        if isinstance(claim, Checkpoint):
            name = aggregation_check_name(claim, view.job)
            return None if name in self._reported else (name, "work.check", aggregation_check_request(view, claim))
        assert slot is not None, "results are drawn slot by slot"
        report = self._reported.get(verify_name(claim, view.job, slot))
        if (
            report and report.get("field") != "bundle"
        ):  # of a file that is not what was promised, the roots are not judged
            return None
        revealed = self._revealed(view, claim, slot)
        name = verify_name(claim, view.job, slot, revealed)
        return None if name in self._reported else (name, "work.verify", verify_request(view, claim, slot, revealed))

    def _drawn(self, view: JobView) -> list[tuple[Commit | Checkpoint, int | None]]:
        """Claims, with a slot each; an aggregation has none. Not those whose files may be gone."""
        reports = (report for report in self._reported.values() if report["job"] == view.job)
        owed = self._owed.get(view.job, set())
        odd = {(round_, slot) for report in reports for round_, slot in report.get("odd", ())}
        slots = [
            (commit, slot)
            for commit in sorted(view.commits, key=lambda c: (c.turn, c.first))
            for slot in commit.slots
            if not _is_past(view, commit)
            and (
                self._draw(view.job, commit.turn, slot) < self._config.sample_rate
                or answered_demands(view, commit, slot)
                or (commit.round, slot) in odd
                or (commit.turn, slot + FIRST_SLOT_UNIT) in owed
            )
        ]
        made = [
            (made, None)
            for made in view.checkpoints
            if not _is_past(view, made)
            and (
                self._draw(view.job, made.turn, _aggregator(made)) < self._config.sample_rate
                or (made.turn, made.seat - AGGREGATOR_SEAT) in owed
            )
        ]
        return [*slots, *made]

    def _draw(self, job: int, turn: int, slot: int | str) -> float:
        digest = keccak(self._secret + f"audit {job} {turn} {slot}".encode())
        return int.from_bytes(digest[:8], "big") / 2**64

    def _report(self, report: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(report, sort_keys=True) + "\n")
        self._reported[report["name"]] = report
        if "error" in report:  # this machine failed, which says nothing about the claim
            log.error("not verified: %s: %s", report["name"], report["error"])
        elif report["agrees"]:
            log.info("%s agrees", report["name"])
        else:
            log.error("MISMATCH: %s", json.dumps(report, sort_keys=True))


def _aggregator(made: Checkpoint) -> str:
    return AGGREGATOR if made.seat == AGGREGATOR_SEAT else f"{AGGREGATOR} {made.seat - AGGREGATOR_SEAT}"


def _is_past(view: JobView, claim: Commit | Checkpoint) -> bool:
    return claim.final and view.now > claim.deadline + spare_s(view)


def read_reports(path: Path) -> Iterator[dict[str, Any]]:
    """The reports in `path` and what was rotated of it, the oldest first; a line cut short by a crash is left out."""
    for each in (*reversed(rotated(path)), path):
        if not each.exists():
            continue
        with each.open() as file:
            for line in file:
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    log.warning("%s: a line was cut short; it will be reported again", each)
