"""Which files of a job operators store, for how long, and who replaces a missing copy (docs/protocol/retention.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256

from zoo_compute.spec.topology import spread

SPARE_S: int = 3_600  # files of a round stay this long after a claim's window, because verifiers may be a little behind
SPARE_WINDOWS: int = 6  # or so many windows, where those are so short that this is less
KEEP_DAYS: int = 30  # after a job is closed, for which those who took part in it keep its files


def spare_s(window_s: int) -> int:
    """How long a round's files stay after the window of a claim, which lasted `window_s` or longer."""
    return min(SPARE_S, SPARE_WINDOWS * window_s)


def outlives(number: int, keep_every: int, last: int | None) -> bool:
    """Whether checkpoint `number` is kept with the job, and not only with a round. last: the job's last checkpoint, once it is final."""
    return number > 0 and (number % keep_every == 0 or number == last)


def first_needed(oldest: int, carry: int, delay: int) -> int:
    """The first round on whose files a claim of round `oldest` or later can still depend.

    Its private state begins at the restart before it; its slots start from one checkpoint further back where the job is delayed;
    and a dispute about it may ask for claims of the round before.
    """
    return oldest - oldest % carry - delay - 1


def repairers(job: int, count: int, domains: Mapping[int, int], keeping: Collection[int]) -> tuple[int, ...]:
    """The operators that must fetch a checkpoint with `count` missing copies. The order differs per job, but all keepers compute the same.

    domains: operator -> failure domain, for all candidates; keeping: operators that have a copy, whose domains come last.
    """
    left = sorted(set(domains) - set(keeping), key=lambda operator: sha256(f"{job} {operator}".encode()).digest())
    places = {place: domains[operator] for place, operator in enumerate(left)}
    chosen = spread(count, places, [domains[operator] for operator in keeping if operator in domains])
    return tuple(left[place] for place in chosen)
