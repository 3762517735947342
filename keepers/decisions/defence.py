"""Whether an operator can answer every opening that it could owe at once. Pure, as `duties`.

An opening makes it compute a step's trace again and open one element of it. One worker of disputes does one at a time, so the
openings of all jobs follow one another, while the clock of each runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COUNTED_REEXECUTIONS = 32  # of openings a slot, for which a path's clock grows


@dataclass(frozen=True)
class PathClock:
    """What a job gives for answers: committer_s in sum along a path, and a re-execution for each opening owed per slot, up to 32."""

    reexecute_s: int
    committer_s: int

    def seconds(self, openings: int, slots: int) -> float:
        """Of the openings owed at once, and the slots they are about."""
        return self.committer_s + min(openings / slots, COUNTED_REEXECUTIONS) * self.reexecute_s


@dataclass(frozen=True)
class Promise:
    """Slots that an operator has in one job. opening_s: seconds of one opening here."""

    job: int
    slots: int
    opening_s: float
    clock: PathClock


@dataclass(frozen=True)
class Overload:
    """The first clock that the openings exceed. job: whose clock it is; openings: how many are owed; takes_s, clock_s: seconds."""

    job: int
    openings: int
    takes_s: float
    clock_s: float


def overload(promises: Sequence[Promise]) -> Overload | None:
    """The first clock that is too short where each slot of each job is asked at once; None if all of them suffice.

    Every slot is asked once, and as often as the clock counts. The work grows evenly with the number of openings, the clocks grow
    ever more slowly, so what is worst lies at one of these ends.
    """
    promises = [promise for promise in promises if promise.slots]
    slots = sum(promise.slots for promise in promises)
    for promise in promises:
        for per_slot in (1, COUNTED_REEXECUTIONS):
            takes_s = per_slot * sum(each.slots * each.opening_s for each in promises)
            clock_s = promise.clock.seconds(per_slot * slots, slots)
            if takes_s > clock_s:
                return Overload(promise.job, per_slot * slots, takes_s, clock_s)
    return None


def defensible_slots(wanted: Promise, others: Sequence[Promise]) -> int:
    """How many of the wanted slots an operator can answer for beside its other promises."""
    counts = range(wanted.slots, 0, -1)
    return next(
        (n for n in counts if overload([Promise(wanted.job, n, wanted.opening_s, wanted.clock), *others]) is None), 0
    )
