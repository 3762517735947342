"""Others' trials: a verifier runs some of them again, and asks about those that are false.

The draw hashes the verifier's own secret, as that of slot-rounds does. Only trials of this installation's benchmark can be run again.
Whoever shows a lie, and sealed its step before, has a part of the stake that it costs (docs/protocol/admissions.md).
"""

from __future__ import annotations

import logging

from eth_utils.crypto import keccak

from keepers.decisions.requests_of_no_job import trial_check_name, trial_check_request
from keepers.services.challenging import Challenge
from keepers.services.verification import RequestWork
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.event_log import history_of
from zoo_compute.operators.admission import TrialAnswer, answered
from zoo_compute.spec.trials import TRIALS

log = logging.getLogger("zoo.verifier")


class TrialChecks:
    """Of one verifier. operator: its own, whose trials it does not check; 0: of none."""

    def __init__(
        self,
        chain: Chain,
        ask: RequestWork,
        challenge: Challenge,
        *,
        operator: int,
        secret: bytes,
        sample_rate: float,
    ) -> None:
        self._chain, self._ask, self._challenge = chain, ask, challenge
        self._operator, self._secret, self._sample_rate = operator, secret, sample_rate
        self._history = history_of(chain, names=("TrialAnswered",))
        self._done: set[bytes] = set()  # hashes of claims

    def look(self, head: Head) -> None:
        """Request what was drawn, and ask about what proved false."""
        now = self._chain.time(head)
        for event in self._history.events_until(head):
            trial = answered(event)
            if now <= trial.deadline and trial.claim_hash not in self._done and self._is_drawn(trial):
                self._check(trial)

    def _check(self, trial: TrialAnswer) -> None:
        operator, name = trial.claim.operator, trial_check_name(trial)
        status = self._ask("work.trial", name, trial_check_request(trial))
        if status.state == "failed":
            log.error("not verified: %s: %s", name, status.error)
        elif status.state != "done" or status.result is None:
            return
        elif status.result["agrees"]:
            log.info("%s agrees", name)
        elif status.result["agrees"] is None:
            log.info("%s: %s", name, status.result["message"])
        else:
            log.error("MISMATCH: the trial of operator %d: %s", operator, status.result["message"])
            self._challenge(TRIALS, trial.view, [status.result["dispute"]])
        self._done.add(trial.claim_hash)

    def _is_drawn(self, trial: TrialAnswer) -> bool:
        if trial.claim.operator == self._operator:
            return False
        digest = keccak(self._secret + b"trial " + trial.claim_hash)
        return int.from_bytes(digest[:8], "big") / 2**64 < self._sample_rate
