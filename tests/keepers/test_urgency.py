"""What has a deadline is served before what has none."""

from __future__ import annotations

import math
from dataclasses import replace

from keepers.decisions import urgency
from tests.keepers.test_duties import AGGREGATOR, BID, LOT, ME, OPENED, OTHER, RUN, SEAT, awarded, opening, view
from zoo_compute.chain.views import JobView

NOW = OPENED + 5
REVEALING = LOT.bid_end
SEALED = replace(BID, revealed=False)
READY_WINDOW_S = 20


def deadline(job: JobView, operator: int) -> float:
    return urgency.first_deadline(job, operator, READY_WINDOW_S, answer_s=30)


def test_an_unrevealed_bid__is_due_when_its_phase_ends() -> None:
    job = opening(REVEALING, bids={(0, ME): SEALED})
    assert deadline(job, ME) == LOT.reveal_end
    assert deadline(job, OTHER) == math.inf
    assert deadline(replace(job, bids={(0, ME): BID}), ME) == math.inf, "it is revealed"
    assert deadline(replace(job, now=REVEALING - 1), ME) == math.inf, "it cannot be revealed yet"
    assert deadline(replace(job, bids={(0, ME): replace(SEALED, attempt=2)}), ME) == math.inf, "of another attempt"


def test_a_seat_that_was_won__is_due_when_its_ready_window_ends() -> None:
    """Behind jobs in which nothing is due it expired, which costs a part of its lock."""
    job = awarded(NOW)
    assert deadline(job, ME) == OPENED + READY_WINDOW_S
    assert deadline(replace(job, run=replace(job.run, missing=0b10)), ME) == math.inf, "it is ready"


def test_a_seat_that_did_not_commit__is_due_at_its_deadline() -> None:
    assert deadline(view(NOW), ME) == SEAT.deadline(RUN)
    assert deadline(view(NOW, run=replace(RUN, missing=0b10)), ME) == math.inf
    assert deadline(view(NOW, run=replace(RUN, opened_at=0)), ME) == math.inf, "the turn waits"


def test_an_aggregation__is_due_when_its_aggregator_can_be_replaced() -> None:
    assert deadline(view(NOW), AGGREGATOR) == RUN.aggregator_due
