"""How pieces of work are named: `TASK-JOB-ROUND-...`. A name says what the work is, so asking twice is asking once.

`keepers.decisions.requests` makes the names; the queue and the workers read only what is here.
"""

from __future__ import annotations

PREPARE_PREFIX = "prepare-"  # of the preparation for a job
DISPUTE_PREFIX = "dispute-"  # of answers and asks


def round_of(name: str) -> list[str]:
    """What all names of a round's work have in common: task, job and round."""
    return name.split("-")[:3]
