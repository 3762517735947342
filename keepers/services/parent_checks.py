"""Whether a merged job begins where its branches say: a custodian has that computed before it offers to hold the job, or signs for it.

`zoo job parents` computes it, in a process of its own: it fetches the branches' checkpoints, and holds whole models in memory.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from zoo_compute.subprocesses import tied_to_parent

log = logging.getLogger("zoo.custody")

AGAIN_S = 30.0  # after a check that could not be made
ANSWERED = (0, 3)  # exit codes of `zoo job parents`: all agrees, something differs


def parents_command(network: Path, store: str, networks: Sequence[Path]) -> list[str]:
    """Without the job's number. networks: files of the networks that branches may be on, beside its own."""
    elsewhere = [word for each in networks for word in ("--branch-network", str(each))]
    own = ["--network", str(network), "--store", store, "--json"]
    return [sys.executable, "-m", "zoo_compute.cli.main", "job", "parents", *own, *elsewhere]


class ParentChecks:
    """Of one keeper."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._command, self._clock = command, clock
        self._running: dict[int, subprocess.Popen[str]] = {}
        self._agreed: dict[int, bool] = {}
        self._again_at: dict[int, float] = {}

    def agrees(self, job: int) -> bool:
        """Whether the check of this job was made and agreed; it is started where it was not, one at a time."""
        for each, running in list(self._running.items()):  # also of a job that nobody asks about any more
            if running.poll() is not None:
                self._end(each, running)
        if not self._running and job not in self._agreed and self._clock() >= self._again_at.get(job, 0.0):
            self._running[job] = subprocess.Popen(
                [*self._command, str(job)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=tied_to_parent(),
            )
        return self._agreed.get(job, False)

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    def forget(self, job: int) -> None:
        running = self._running.pop(job, None)
        if running is not None:
            running.kill()
            running.communicate()
        self._agreed.pop(job, None)
        self._again_at.pop(job, None)

    def _end(self, job: int, running: subprocess.Popen[str]) -> None:
        del self._running[job]
        said, _ = running.communicate()
        last = said.strip().rpartition("\n")[2]
        if running.returncode not in ANSWERED:
            log.warning("job %d: its parents could not be checked: %s", job, last)
            self._again_at[job] = self._clock() + AGAIN_S
            return
        self._agreed[job] = running.returncode == 0
        if self._agreed[job]:
            log.info("job %d begins at the merge of its parents", job)
        else:
            log.error("job %d does not begin at the merge of its parents: %s", job, "; ".join(json.loads(last)["differences"]))  # fmt: skip
