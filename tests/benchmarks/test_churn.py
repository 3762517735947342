"""The churn benchmark reckons from what it saw: a run whose figures are known by hand."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks.network.churn import Run, reckon

SLOT_S = 2.0


def event(at: float, name: str, **more: Any) -> dict[str, Any]:
    return {"event": name, "at": at, **more}


def began(at: float, round: int, slot: int) -> dict[str, Any]:
    return event(at, "began", job=1, round=round, slot=slot)


def slot(at: float, round: int, slot: int) -> list[dict[str, Any]]:
    return [began(at, round, slot), event(at + SLOT_S, "ended", tokens=10, job=1, round=round, slot=slot)]


def reckoned(**changes: Any) -> dict[str, Any]:
    """Two workers, two slots a round, a round every 3 s: two of three seconds are used. In round 3 one is killed; the other does both."""
    one = [event(0, "ready"), *slot(0, 0, 0), *slot(3, 1, 0), *slot(6, 2, 0), *slot(9, 3, 0), *slot(11, 3, 1), *slot(14, 4, 0)]  # fmt: skip
    other = [event(0, "ready"), *slot(0, 0, 1), *slot(3, 1, 1), *slot(6, 2, 1), began(9.1, 3, 1)]
    other += [event(12, "imported"), event(13, "ready"), *changes.get("twice", ())]
    posted = {(1, 0): 3.0, (1, 1): 6.0, (1, 2): 9.0, (1, 3): 14.0}
    run = Run(
        worker_events={"worker-0": one, "worker-1": other},
        kills=[(9.5, "worker-1")],
        launches=[(9.6, "worker-1")],
        seen={
            "ResultsCommitted": {(1, 0): 2.5, (1, 1): 5.5, (1, 2): 8.5, (1, 3): 13.25},
            "CheckpointPosted": posted,
        },
        calm=(3.0, 9.0),
        churn=(9.0, 14.0),
        fired={"kill": 1},
    )
    return reckon(run, argparse.Namespace(slot_s=SLOT_S))


def test_goodput__is_the_utilisation_of_the_living_against_that_before_the_first_kill():
    figures = reckoned()
    assert figures["calm"]["utilisation"] == pytest.approx(2 / 3)
    ready_s = 5 + 0.5 + 1  # of the one, and of the other before its death and after its return
    assert figures["churn"]["utilisation"] == pytest.approx(4 / ready_s)
    assert figures["goodput"] == pytest.approx(4 / ready_s / (2 / 3))


def test_what_died_with_its_worker__is_not_of_the_surviving_capacity():
    figures = reckoned()
    assert figures["lost_s_a_kill"] == pytest.approx(9.5 - 9.1)
    assert figures["goodput_survivors"] == pytest.approx(4 / (5 + 0.5 + 1 - 0.4) / (2 / 3))


def test_a_slot_round_that_is_done_twice__counts_once():
    again = reckoned(twice=slot(13.0, 3, 1))
    assert again["done_twice"] == 1
    assert again["goodput"] == pytest.approx(reckoned()["goodput"])


def test_a_slot_round_that_ends_after_the_window__counts_for_its_part_in_it():
    figures = reckoned(twice=slot(13.0, 4, 1))  # half of it before 14
    assert figures["churn"]["tokens"] == 20 + 5


def test_commitment_and_return__are_timed_from_the_last_slot_round_and_from_the_launch():
    figures = reckoned()
    assert figures["survivor_commit_s"] == pytest.approx(0.25)
    assert figures["checkpoint_s"] == pytest.approx(0.75)
    assert (figures["rejoin_s"], figures["restart_s"]) == (pytest.approx(3.4), pytest.approx(0.1))
    assert figures["rejoin_parts_s"]["imported"] == pytest.approx(2.4)
