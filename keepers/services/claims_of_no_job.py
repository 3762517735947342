"""Claims that belong to no job, as disputes see them: trials, and receipts of answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keepers.decisions.requests_of_no_job import receipt_dispute_request, trial_dispute_request
from zoo_compute.errors import UserError
from zoo_compute.operators import admission, admitted_receipts
from zoo_compute.operators.admission import TrialAnswer, trial_answers
from zoo_compute.operators.admitted_receipts import AdmittedReceipt
from zoo_compute.spec.trials import TRIALS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.explorations import DisputeView
    from zoo_compute.chain.views import Claim

# The question of a receipt as plain JSON, by the hash of its claim; None: it is not known here.
Questions = Callable[[bytes], Mapping[str, Any] | None]


def no_questions(claim_hash: bytes) -> None:
    """Of who neither answers requests nor sends any."""


class ClaimsOfNoJob:
    def __init__(self, chain: Chain, questions: Questions = no_questions) -> None:
        self._chain, self._questions = chain, questions

    def view(self, dispute: DisputeView) -> Claim:
        """The disputed claim."""
        return self._disputed(dispute).view

    def request(self, dispute: DisputeView, **options: Any) -> dict[str, Any]:
        """What a worker is asked for. Raises UserError where the question that was answered is not known."""
        claimed = self._disputed(dispute)
        if isinstance(claimed, TrialAnswer):
            return trial_dispute_request(claimed, **options)
        question = self._questions(claimed.claim_hash)
        if question is None:
            raise UserError(
                f"the question of receipt {claimed.claim_hash.hex()[:16]} is not known here",
                hint="who answered it, and who asked it, have it",
            )
        return receipt_dispute_request(claimed, question, **options)

    def _disputed(self, dispute: DisputeView) -> TrialAnswer | AdmittedReceipt:
        if dispute.job == TRIALS:
            every: Any = trial_answers(self._chain, dispute.operator)
        else:
            every = admitted_receipts.admitted_receipts(self._chain, dispute.operator)
        claimed: TrialAnswer | AdmittedReceipt = next(
            each for each in reversed(every) if each.claim_hash == dispute.claim_hash
        )
        return claimed


def is_pending(chain: Chain, job: int, claim: Claim) -> bool:
    """Whether a claim of no job is neither ended nor judged."""
    kept = admission if job == TRIALS else admitted_receipts
    return kept.is_pending(chain, claim)
