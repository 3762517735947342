"""Open jobs that an operator does not bid in: the reasons, for its owner, and when its keeper looks at them again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from keepers.decisions.obstacles import is_measured_short, is_permanent, reasons_not_to_bid, times
from keepers.decisions.orders import AskPrice, Duty, OperatorContext, Progress, SealBid
from zoo_compute.chain.views import JobState, JobView, Kind
from zoo_compute.spec.params import RING

log = logging.getLogger("zoo.keeper")

UNSUITABLE_RECHECK_S = 600  # between looks at a job whose price, length or class will never suit this operator


class OpenJobs:
    """reasons: by job, why this operator does not bid; the keeper's status has them."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}
        self._look_again: dict[int, int] = {}  # job -> the chain's time

    def can_skip(self, job: int, now: int) -> bool:
        """Whether nothing needs this operator in the job yet."""
        return now < self._look_again.get(job, 0)

    def record(self, view: JobView, me: OperatorContext, progress: Progress, due: Sequence[Duty]) -> None:
        """Record one look at a job. due: its duties now."""
        is_open = view.state == JobState.OPEN
        why = reasons_not_to_bid(view, me, progress) if is_open else ""
        if not why and any(isinstance(duty, AskPrice) for duty in due):
            return  # the reason that price_script gave last stays until it says something else
        if why and self.reasons.get(view.job) != why:
            log.warning("job %d: cannot bid: %s", view.job, why)
        for bid in (duty for duty in due if isinstance(duty, SealBid)):
            if is_measured_short(view, me, progress, bid.kind):
                units = view.lots[bid.kind].units
                log.warning("job %d: bids for %d of %d slots: %s", view.job, bid.capacity, units, times(progress))
        self.reasons.pop(view.job, None)
        self._look_again.pop(view.job, None)
        if why:
            self.reasons[view.job] = why
        if is_open and not due and not any(operator == me.operator for _, operator in view.bids):
            lot = view.lots[Kind.SLOTS]
            never = all(is_permanent(view, me, kind) for kind in me.kinds)
            # A quarter of the reveal window: time enough to join an operator that bids.
            self._look_again[view.job] = view.now + (
                UNSUITABLE_RECHECK_S if never else (lot.reveal_end - lot.bid_end) // 4
            )


def ring_conflicts(view: JobView, others: Iterable[JobView], operator: int) -> dict[int, int]:
    """By kind, the other job whose bid of this operator has the place in its ring that a bid in `view`'s job would take."""
    conflicts = {}
    for other in others:
        if other.job == view.job or other.job % RING != view.job % RING:
            continue
        for kind in (Kind.SLOTS, Kind.AGGREGATOR):
            bid = other.bids.get((kind, operator))
            # As `Auction._is_free` has it: every winner of a job that was awarded is priced.
            if bid is not None and (other.state == JobState.OPEN or not bid.revealed):
                conflicts[int(kind)] = other.job
    return conflicts
