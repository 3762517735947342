"""How pieces of work are named: `TASK-JOB-ROUND-...`. A name says what the work is, so asking twice is asking once.

`keepers.decisions.requests` makes the names; the queue and the workers read only what is here.
"""

from __future__ import annotations

import re
from collections.abc import Collection

PREPARE_PREFIX = "prepare-"  # of the preparation for a job
DISPUTE_PREFIX = "dispute-"  # of answers and asks
KEY_DIGITS = 16  # of a claim's key, in hex, that follow it


def is_of(name: str, job: int, claims: Collection[str]) -> bool:
    """Whether a name is of a job's work. claims: keys of its claims, as names of answers and asks begin with them."""
    task, of, *_ = [*re.split("[-:]", name), ""]
    return of in claims if f"{task}-" == DISPUTE_PREFIX else of == str(job)


def round_of(name: str) -> list[str]:
    """What all names of a round's work have in common: task, job and round."""
    return name.split("-")[:3]
