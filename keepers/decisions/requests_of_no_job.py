"""Requests about claims of no job: trials, and receipts of answers; see `requests`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from keepers.decisions.requests import claim_fields
from zoo_compute.json_codec import encode
from zoo_compute.operators.admission import TrialAnswer
from zoo_compute.operators.admitted_receipts import AdmittedReceipt
from zoo_compute.spec import admissions, serving
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.trials import TRIALS, Workload


def trial_dispute_request(trial: TrialAnswer, **options: Any) -> dict[str, Any]:
    """As `dispute_request`, about a trial."""
    workload = trial.workload
    roots = [each.hex() for each in (workload.program_root, workload.state_root, trial.seed)]
    work = admissions.work_of(Workload(*workload))
    return {"job": TRIALS, "trial": roots, "work": encode(work), **claim_fields(tuple(trial.claim), **options)}


def receipt_dispute_request(admitted: AdmittedReceipt, question: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """As `dispute_request`, about a receipt. question: as `zoo_compute.serving.files.plain` has it."""
    claim, work = admitted.claim, serving.work_of(admitted.receipt)
    return {
        "job": RECEIPTS,
        "question": dict(question),
        "work": encode(work),
        **claim_fields(astuple(claim), **options),
    }


def trial_check_name(trial: TrialAnswer) -> str:
    return f"trial-{TRIALS}-{trial.claim.operator}-{trial.claim_hash.hex()[:16]}"


def trial_check_request(trial: TrialAnswer) -> dict[str, Any]:
    """To run an answered trial again (node.disputes.trial_check)."""
    workload = trial.workload
    roots = [each.hex() for each in (workload.program_root, workload.state_root, trial.seed)]
    return {"job": TRIALS, "trial": roots, "steps": workload.steps, "root": trial.claim.root.hex()}
