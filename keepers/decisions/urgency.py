"""What an operator has to do in a job, and by when: each transaction waits for its block, so a keeper serves the job with the earliest
deadline first. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zoo_compute.chain.views import JobState, JobView


def deadlines(view: JobView, operator: int, ready_window_s: int, answer_s: int) -> Iterator[tuple[str, int]]:
    """Each thing that costs money if it is not done in time, and the second by which it must be done.

    bid: open a sealed bid. ready: say so of a seat that was won. seat: commit a slot-round. aggregation: post a checkpoint.
    demand: answer with data. ready_window_s, answer_s: of the deployment.
    """
    for kind, lot in view.lots.items():
        bid = view.bids.get((kind, operator))
        if bid is not None and lot.revealing(view.now) and bid.attempt == lot.attempt and not bid.revealed:
            yield "bid", lot.reveal_end
    run = view.run
    if run is not None:
        missing = {number: seat for number, seat in view.seats_of(operator).items() if run.missing >> number & 1}
        if view.state == JobState.AWARDED:
            yield from (("ready", run.opened_at + ready_window_s) for _ in missing)
        elif view.state == JobState.RUNNING and not run.is_waiting and not run.holds:
            yield from (("seat", seat.deadline(run)) for seat in missing.values())
            if view.unposted_seats_of(operator) and run.aggregator_due:
                yield "aggregation", run.aggregator_due
    for demand in view.demands:
        if demand.is_open and demand.operator == operator:
            yield "demand", demand.opened_at + answer_s


def first_deadline(view: JobView, operator: int, ready_window_s: int, answer_s: int) -> float:
    """Infinite where nothing is due."""
    return min((second for _, second in deadlines(view, operator, ready_window_s, answer_s)), default=math.inf)
