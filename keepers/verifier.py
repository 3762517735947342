"""The verifier's lane: re-execute sampled slot-rounds and say whether the committed roots are right.

The draw cannot be guessed by those it watches: it hashes the verifier's own secret. Reports go to `verified.jsonl`, one line
each; a mismatch is also an error in the log, and what opens a game about it is in its report (keepers.challenging).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eth_utils.crypto import keccak

from keepers.config import OperatorConfig
from keepers.requests import verify_name, verify_request
from keepers.work import WorkStatus
from zoo_compute.chain.views import Commit, JobView

log = logging.getLogger("zoo.verifier")
REPORTS = "verified.jsonl"
Ask = Callable[[str, str, dict[str, Any]], WorkStatus]  # task, name of the work, request


class Verifier:
    """Samples what was committed, asks its worker to re-execute it, and keeps the reports."""

    def __init__(self, config: OperatorConfig, ask: Ask, secret: bytes) -> None:
        self._config = config
        self._ask = ask
        self._secret = secret
        self._path = config.folder / REPORTS
        self._reported = {report["name"] for report in read_reports(self._path)}

    def look_at(self, view: JobView) -> None:
        """Ask for what was drawn and not asked for yet; report what is done."""
        for commit, slot in self._drawn(view):
            name = verify_name(commit, view.job, slot)
            if name in self._reported:
                continue
            status = self._ask("work.verify", name, verify_request(view, commit, slot))
            what = {
                "name": name, "job": view.job, "turn": commit.turn, "round": commit.round, "slot": slot,
                "root": commit.root.hex(),
            }  # fmt: skip
            if status.state == "done" and status.result is not None:
                self._report({**what, **status.result})
            elif status.state == "failed":
                self._report({**what, "error": status.error})

    def pending(self, view: JobView) -> bool:
        """Whether something drawn is not reported yet."""
        return any(verify_name(commit, view.job, slot) not in self._reported for commit, slot in self._drawn(view))

    def _drawn(self, view: JobView) -> list[tuple[Commit, int]]:
        return [
            (commit, slot)
            for commit in sorted(view.commits, key=lambda c: (c.turn, c.first))
            for slot in commit.slots
            if self._draw(view.job, commit.turn, slot) < self._config.sample_rate
        ]

    def _draw(self, job: int, turn: int, slot: int) -> float:
        digest = keccak(self._secret + f"audit {job} {turn} {slot}".encode())
        return int.from_bytes(digest[:8], "big") / 2**64

    def _report(self, report: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(report, sort_keys=True) + "\n")
        self._reported.add(report["name"])
        if "error" in report:  # my machine failed, which says nothing about theirs
            log.error("not verified: %s: %s", report["name"], report["error"])
        elif report["agrees"]:
            log.info("%s agrees", report["name"])
        else:
            log.error("MISMATCH: %s", json.dumps(report, sort_keys=True))


def read_reports(path: Path) -> list[dict[str, Any]]:
    """The reports in `path`; a line cut short by a crash is left out."""
    reports = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                reports.append(json.loads(line))
            except json.JSONDecodeError:
                log.warning("%s: a line was cut short; it will be reported again", path)
    return reports
