"""Which of a job's files an operator keeps, decided from one snapshot of the chain by the rules of `zoo_compute.spec.retention`.

What a worker makes or fetches for a round is pinned under the round's tag, and goes with it. A job's own files, its bundles, and
the checkpoints that outlive their round are pinned under the job's tag, and go a while after the job is closed. What is pinned without
a tag is the operator's own, and stays.
"""

from __future__ import annotations

from zoo_compute.chain.views import JobView
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec import retention


def first_needed(view: JobView, manifest: Manifest, now: int) -> int:
    """The first round whose files are still needed: every claim on one before it is final, and was for a while."""
    needed = _needed_rounds(view, now)
    if not needed:
        return manifest.rounds + 1
    return retention.first_needed(min(needed), manifest.carry, manifest.delay)


def is_done_with(view: JobView, now: int) -> bool:
    """Whether no claim, demand or later round can need a file of the job."""
    return not _needed_rounds(view, now)


def spare_s(view: JobView) -> int:
    """How long a round's files stay after the window of its claims."""
    return retention.SPARE_S if view.run is None else retention.spare_s(view.run.window_s)


def _needed_rounds(view: JobView, now: int) -> list[int]:
    needed = [c.round for c in view.claims if not c.final or now <= c.deadline + spare_s(view)]
    needed += [demand.claim.round for demand in view.demands if demand.is_open]
    if not view.settled:
        needed.append(view.final_rounds)  # where the next round starts, or one that is done again
    return needed


def permanent_checkpoints(view: JobView, manifest: Manifest) -> list[int]:
    """The final checkpoints that are kept as long as the job's own files, ascending."""
    final = view.final_rounds
    last = final if view.settled else None
    return [n for n in range(1, final + 1) if retention.outlives(n, manifest.keep_every, last)]
