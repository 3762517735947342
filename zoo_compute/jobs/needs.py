"""What a job needs of nodes, and whether the network has such nodes. Checked before tracing and before posting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.shortfall import GB, JobRequirements, Offer, shortfall
from zoo_compute.spec import params
from zoo_compute.spec.params import Terms
from zoo_compute.training.memory import least_bytes, needed_bytes

if TYPE_CHECKING:
    from zoo_compute.jobs.submission import PreparedJob


def job_requirements(job: ComputeJob, terms: Terms | None = None) -> JobRequirements:
    """memory_bytes: exact if the job is traced, a lower bound for a built-in model, else None. Traces nothing."""
    memory: int | None = None
    if "traced" in vars(job):
        memory = needed_bytes(job.profile)
    elif job.model.parameters is not None:
        memory = least_bytes(job.model.parameters, str(job.model.options.get("optimizer")))
    if terms is None:
        return JobRequirements(job.training.slots, memory, asks=job.requirements.word)
    lock = params.lock_of(terms.reserve, terms.audit_bps)
    return JobRequirements(
        job.training.slots,
        memory,
        lock=lock,
        once=params.lock_once(terms),
        flops=terms.flops,
        asks=terms.requirements,
    )


def check_capacity(
    job: ComputeJob, offers: Sequence[Offer], prepared: PreparedJob | None = None, *, say: Callable[[str], None]
) -> None:
    """Refuse a job that no operator can ever train; print what else is missing. Raises UserError."""
    needs = job_requirements(job, prepared.terms if prepared else None)
    of_one = JobRequirements(1, needs.memory_bytes, flops=needs.flops, asks=needs.asks)
    lacks = shortfall(of_one, [replace(offer, free_collateral=1) for offer in offers])  # collateral can change any time
    if lacks:
        raise UserError(f"no operator of this network can train this job: {'; '.join(lacks)}", hint=_hint(needs))
    for sentence in shortfall(needs, offers) if prepared else ():
        say(f"note: {sentence}")


def _hint(needs: JobRequirements) -> str:
    wanted = f"{needs.slots} slot{'s' * (needs.slots > 1)}"
    if needs.memory_bytes is not None:
        wanted += f", each on a GPU with {-(-needs.memory_bytes // GB):,} GB"
    change = "ask less of operators (`requirements`), or use a smaller model" if needs.asks else "use a smaller model"
    return (
        f"it needs {wanted}; {change}, or post it anyway (--anyway, in Python anyway=True): "
        "it waits for such nodes, and `zoo job cancel` returns the escrow"
    )
