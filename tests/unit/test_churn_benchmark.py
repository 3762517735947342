"""The churn benchmark reckons from what it saw: a run whose figures are known by hand."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks.churn import Run, reckon

SLOT_S = 2.0


def event(at: float, name: str, **more: Any) -> dict[str, Any]:
    return {"event": name, "at": at, **more}


def slot(at: float, round: int, slot: int) -> list[dict[str, Any]]:
    place = {"round": round, "slot": slot}
    return [event(at, "began", **place), event(at + SLOT_S, "ended", tokens=10, **place)]


def test_goodput__is_the_utilisation_of_the_living_against_that_before_the_first_kill():
    # Two workers, two slots a round, a round every 3 s: two of three seconds are used. In round 3 one is killed, and the other does both.
    one = [
        event(0, "ready"),
        *slot(0, 0, 0),
        *slot(3, 1, 0),
        *slot(6, 2, 0),
        *slot(9, 3, 0),
        *slot(11, 3, 1),
        *slot(14, 4, 0),
    ]
    other = [event(0, "ready"), *slot(0, 0, 1), *slot(3, 1, 1), *slot(6, 2, 1), event(9, "began", round=3, slot=1)]
    other += [event(9.6, "launched"), event(12, "imported"), event(13, "ready")]
    closed = {0: 3.0, 1: 6.0, 2: 9.0, 3: 14.0}
    run = Run(
        told={"worker-0": one, "worker-1": other},
        kills=[(9.5, "worker-1")],
        seen={"ResultsCommitted": {0: 2.5, 1: 5.5, 2: 8.5, 3: 13.25}, "CheckpointPosted": closed},
        churn_from=9.0,
        fired={"kill": 1},
    )
    found = reckon(run, argparse.Namespace(slot_s=SLOT_S))
    assert found["calm"]["utilisation"] == pytest.approx(2 / 3)
    alive_s = 5 + 0.5 + 1  # of the one, and of the other before its death and after its return
    assert found["churn"]["utilisation"] == pytest.approx(20 / (alive_s / SLOT_S * 10))
    assert found["goodput"] == pytest.approx(found["churn"]["utilisation"] / found["calm"]["utilisation"])
    assert found["survivor_commit_s"] == pytest.approx(0.25)
    assert found["checkpoint_s"] == pytest.approx(0.75)
    assert (found["rejoin_s"], found["restart_s"]) == (pytest.approx(3.4), pytest.approx(0.1))
    assert found["rejoin_parts_s"]["imported"] == pytest.approx(2.4)
    assert found["done_twice"] == 0
