"""In which order a keeper serves its jobs: each transaction waits for its block, so what has a deadline is not kept waiting by what has
none. Pure."""

from __future__ import annotations

import math

from zoo_compute.chain.views import JobState, JobView


def deadline(view: JobView, operator: int) -> float:
    """The second by which this operator must have acted in a job, or it loses money; infinite where nothing is due."""
    due: list[int] = []
    for kind, lot in view.lots.items():
        bid = view.bids.get((kind, operator))
        if bid is not None and lot.revealing(view.now) and bid.attempt == lot.attempt and not bid.revealed:
            due.append(lot.reveal_end)
    run = view.run
    if run is not None and view.state == JobState.RUNNING and not run.is_waiting:
        due += [seat.deadline(run) for number, seat in view.seats_of(operator).items() if run.missing >> number & 1]
        if run.aggregator == operator:
            due.append(run.aggregator_due)
    return min(due, default=math.inf)
