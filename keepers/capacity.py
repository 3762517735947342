"""What an operator's jobs bind of its slots, collateral and worker time, so that no two of them are promised the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from keepers.config import OperatorConfig
from keepers.decisions.defence import PathClock, Promise
from keepers.decisions.duties import training_time_s
from keepers.decisions.orders import SealBid
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobState, JobView, Kind

log = logging.getLogger("zoo.keeper")


class Capacity:
    """Counts from the snapshot of a tick, and adds what the tick itself binds before the next snapshot shows it.

    locked: collateral bound since the snapshot, in the smallest unit of the job's token.
    """

    def __init__(self, config: OperatorConfig) -> None:
        self._config = config
        self.locked = 0
        self._slots: dict[int, int] = {}  # job -> slots that I hold in it, or bid for
        self._slot_s: dict[int, float] = {}  # job -> timed seconds of one of its slot-rounds
        self._openings: dict[int, tuple[float, PathClock]] = {}  # job -> seconds of one of its openings, and its clock
        self._paces: dict[int, tuple[float, ...]] = {}  # job -> relative paces of my workers
        self.memory: dict[int, str] = {}  # job -> how my workers fit it into their memory, where that slows them

    def begin_tick(self, views: Sequence[JobView]) -> None:
        """Start again from a snapshot of all jobs."""
        self._slots = {view.job: _engaged_slots(view, self._config.operator) for view in views}
        self.locked = 0

    def forget(self, job: int) -> None:
        """The job is over."""
        self.memory.pop(job, None)
        for known in (self._slot_s, self._openings, self._paces):
            known.pop(job, None)

    def slots_for(self, job: int) -> int:
        """Slots that my other jobs leave to this one."""
        return self._config.capacity - sum(slots for other, slots in self._slots.items() if other != job)

    def busy_elsewhere_s(self, job: int) -> float:
        """Seconds of a round that my workers spend on the slots of my other jobs."""
        total = 0.0
        for other, slots in self._slots.items():
            if other != job and slots:
                relative_paces = self._paces.get(other, (1.0,) * self._config.workers)
                total += training_time_s(self._slot_s.get(other, 0.0), slots, relative_paces)
        return total

    def record_paces(self, job: int, relative_paces: tuple[float, ...]) -> None:
        self._paces[job] = relative_paces

    def record_slot_time(self, job: int, slot_s: float) -> None:
        self._slot_s[job] = slot_s

    def record_opening_time(self, view: JobView, opening_s: float, committer_s: int) -> None:
        self._openings[view.job] = (opening_s, PathClock(view.terms.reexecute_s, committer_s))

    def record_memory(self, job: int, line: str) -> None:
        if line and self.memory.get(job) != line:
            self.memory[job] = line
            log.info("job %d: %s", job, line)

    def promises_elsewhere(self, job: int) -> tuple[Promise, ...]:
        """What my other jobs may ask of me in disputes."""
        return tuple(
            Promise(other, slots, *self._openings[other])
            for other, slots in self._slots.items()
            if other != job and slots and other in self._openings
        )

    def add_bid(self, view: JobView, bid: SealBid) -> None:
        """Bind what a bid could win."""
        self._slots[view.job] += bid.capacity if bid.kind == Kind.SLOTS else 0
        self.locked += view.bid_lock(bid.kind, bid.capacity)

    def add_takeover(self, view: JobView, args: tuple[Any, ...]) -> None:
        """Bind what a takeover does. args: those of `Settlement.take_over`."""
        _, seat, operator, count, _ = args
        self.locked += view.takeover_lock(seat, count, operator)
        self._slots[view.job] += 0 if seat >= AGGREGATOR_SEAT else count


def _engaged_slots(view: JobView, operator: int) -> int:
    """Slots that the operator may have to train for the job at once."""
    bid = view.bids.get((Kind.SLOTS, operator))
    if view.state == JobState.OPEN:
        return bid.capacity if bid is not None and bid.attempt == view.lots[Kind.SLOTS].attempt else 0
    return view.slot_count_of(operator) if view.state in (JobState.AWARDED, JobState.RUNNING) else 0
