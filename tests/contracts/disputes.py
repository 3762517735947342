"""The Referee's calls of Settlement, from the account in its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.job_driver import Offer

FINAL, JUDGED, SILENT, EXHAUSTED, AGED = range(1, 6)
PAID, CONVICTED, VOID = 2, 3, 4  # statuses of a claim
OPEN_TURN = 2**256 - 1  # what is pending of a turn that is not closed


@pytest.fixture(name="cast")
def cast_fixture(play):
    """ada, bob, cy with a slot each at 1,000; agg at 500, and eve, who stands by for it."""
    return play.register_all(5)


@pytest.fixture(name="running")
def running_fixture(play, cast):
    ada, bob, cy, agg, eve = cast
    return play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5), eve: Offer(9)})


def ask(kit: Any, job: int, claim: Any) -> None:
    """The first ask."""
    kit.settlement.open_dispute(job, claim, sender=kit.referee)


def close(kit: Any, job: int, claim: Any, outcome: int, used_s: int = 0, burned: int = 0) -> None:
    kit.settlement.close_dispute(job, claim, outcome, used_s, burned, sender=kit.referee)


def judged(kit: Any, job: int, claim: Any, outcome: int = JUDGED, burned: int = 0) -> Any:
    """The conviction's event, of a claim that was asked about."""
    close(kit, job, claim, outcome, burned=burned)
    (event,) = events_named(kit, "ClaimConvicted")
    return event


def convict(kit: Any, job: int, claim: Any, outcome: int = JUDGED, burned: int = 0) -> Any:
    ask(kit, job, claim)
    return judged(kit, job, claim, outcome, burned)


def reward(kit: Any, job: int, claim: Any, finder: Any) -> None:
    kit.settlement.reward_finder(job, claim, finder, sender=kit.referee)


def events_named(kit: Any, name: str) -> list[Any]:
    """The events of a name in Settlement's last call."""
    return [event for event in kit.settlement.get_logs() if type(event).__name__ == name]


def pending_claims(kit: Any, job: int, turn: int) -> int:
    """How many claims of a closed turn are pending; OPEN_TURN of one that is not closed."""
    seats = int(kit.settlement.pending(job, turn))
    return OPEN_TURN if seats == OPEN_TURN else seats.bit_count()


def status(kit: Any, job: int, claim: Any) -> int:
    return int(kit.settlement.claims(job, claim[2], claim[0])[31])
