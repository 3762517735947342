"""The operator's own trials: a recall is answered with a new one, and a trial whose window is over is settled.

A trial takes up to `benchmark_s` on the operator's device, beside its other work, so it runs in a thread of its own (and there in a
process: zoo_compute/operators/admission.py). The first trial is a person's decision: `zoo node admit`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import ZooError
from zoo_compute.operators.admission import EMPTY_HASH, SEAT, AdmissionStatus, advance_admission
from zoo_compute.spec.trials import TRIALS

log = logging.getLogger("zoo.keeper")

LOOK_S = 15  # between looks, of the chain's time
PLAIN_DEVICES = ("cpu", "cuda", "mps")  # of a trial: one process computes it
Advance = Callable[[Chain, Sender, int, Sequence[str]], AdmissionStatus]


class OwnTrials:
    """Of one operator. device: of its workers; empty takes the best there is."""

    def __init__(
        self, chain: Chain, sender: Sender, operator: int, device: str, advance: Advance = advance_admission
    ) -> None:
        self._chain, self._sender, self._operator, self._advance = chain, sender, operator, advance
        is_plain = device.split(":")[0] in PLAIN_DEVICES
        self._options = ["--device", device] if is_plain else []
        self._looked_at = 0
        self._running: threading.Thread | None = None
        self._failed_due = 0  # of the recall whose trial failed: it is tried once
        self.trouble: list[str] = []

    def look(self, head: Head) -> None:
        """Begin what is due, unless it runs."""
        if head.timestamp - self._looked_at < LOOK_S or (self._running and self._running.is_alive()):
            return
        self._looked_at = head.timestamp
        due = self._chain.admissions.recalls(self._operator, block=head.number).due
        word = self._chain.admissions.claims(TRIALS, SEAT, self._operator, block=head.number)
        now = self._chain.time(head)
        if word != EMPTY_HASH:
            trial = self._chain.admissions.trials(self._operator, block=head.number)
            is_due = now > trial.deadline and not self._chain.admissions.is_disputed(self._operator, block=head.number)
        else:
            is_due = bool(due) and now <= due and due != self._failed_due
        if is_due:
            self._running = threading.Thread(target=self._run, args=(due,), name="own trial", daemon=True)
            self._running.start()

    def _run(self, due: int) -> None:
        try:
            status = self._advance(self._chain, self._sender, self._operator, self._options)
        except ZooError as error:
            self._failed_due = due
            self.trouble = [f"the trial of operator {self._operator} failed: {error}"]
            log.error("%s (%s)", self.trouble[0], error.hint)
        else:
            self.trouble = []
            log.info("trial of operator %d: %s", self._operator, status)
