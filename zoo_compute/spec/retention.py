"""What operators keep of a job, for how long, and who makes up for a holder that left (docs/protocol.md, "What is kept")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256

from zoo_compute.spec.topology import spread

SPARE_S: int = 3_600  # that files stay after a claim's window: who checks it may be a little behind


def outlives(number: int, keep_every: int, last: int | None) -> bool:
    """Whether checkpoint `number` is kept for good. last: the job's last one, once nothing can follow it."""
    return number > 0 and (number % keep_every == 0 or number == last)


def first_needed(oldest: int, carry: int, delay: int) -> int:
    """The first round whose files a claim of round `oldest`, or one after it, can still depend on.

    Its private state begins at the restart before it; its slots start from one checkpoint further back where the job is delayed;
    and a game about it may ask for claims of the round before.
    """
    return oldest - oldest % carry - delay - 1


def repairers(job: int, count: int, domains: Mapping[int, int], keeping: Collection[int]) -> tuple[int, ...]:
    """The operators that fetch a checkpoint of which `count` copies are missing: another order in each job, the same for all keepers.

    domains: operator -> failure domain, of those that could; keeping: those that have it, whose domains come last.
    """
    left = sorted(set(domains) - set(keeping), key=lambda operator: sha256(f"{job} {operator}".encode()).digest())
    places = {place: domains[operator] for place, operator in enumerate(left)}
    chosen = spread(count, places, [domains[operator] for operator in keeping if operator in domains])
    return tuple(left[place] for place in chosen)
