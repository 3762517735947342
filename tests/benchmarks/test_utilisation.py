"""The benchmark of utilisation reckons from what it saw: a run whose figures are known by hand."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks.network import utilisation
from benchmarks.network.cost import costs
from benchmarks.network.utilisation import PARTS, Run, lost, reckon

STEP_S, STEPS, ROUNDS = 2.0, 30, 4
PERIOD_S = 64.0  # of 60 s in steps
OPTIONS = argparse.Namespace(
    step_s=STEP_S,
    inner_steps=STEPS,
    rounds=ROUNDS,
    nodes=2,
    layers=1,
    width=16,
    mbit=100,
    rtt_ms=50,
    updates="int8",
)


def log_lines(made_here: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for round_ in range(ROUNDS):
        at = round_ * PERIOD_S
        place = {"round": round_, "computed_s": 3.0}
        events.append({"event": "train", **place, "first": at, "last": at + 60.5, "ended": at + 61.0})
        if made_here:
            events.append({"event": "advance", "round": round_, "began": at + 62.5, "ended": at + 63.0})
    return events


def seen(*, made_here: bool = True) -> Run:
    committed = {round_: {1: round_ * PERIOD_S + 61.25, 2: round_ * PERIOD_S + 62.0} for round_ in range(ROUNDS)}
    posted = {round_: round_ * PERIOD_S + 63.5 for round_ in range(ROUNDS)}
    moved = {"node0": 3_000, "node1": 3_000}
    profile = utilisation.traced(OPTIONS).profile
    return Run([log_lines(made_here)] * 2, [1, 2], committed, posted, moved, {"kind": "relay"}, 500, profile)


def test_utilisation__is_the_steps_time_against_all__of_rounds_after_the_first():
    figures = reckon(seen(), OPTIONS)
    assert figures["utilisation"] == pytest.approx(60 / 64)
    assert figures["round_s"] == pytest.approx(64)
    assert figures["made_here"] > 1 / 2
    assert figures["bytes_in_a_round"] == {"node0": 1_000, "node1": 1_000}


def test_what_is_lost__adds_up_to_what_is_missing():
    for part in lost(seen(), OPTIONS):
        assert sum(part[name] for name in PARTS) == pytest.approx(part["whole"])
    first = lost(seen(), OPTIONS)[0]
    assert [first[name] for name in PARTS] == pytest.approx([0.5, 0.5, 0.25, 0.75, 0.5, 0.5, 1.0])


def test_where_a_checkpoint_is_downloaded__the_wait_for_it_counts():
    first = lost(seen(made_here=False), OPTIONS)[0]
    assert (first["fetch"], first["combine"], first["begin"]) == pytest.approx((1.5, 0.0, 0.5))


def test_the_cost_of_a_pflop_day__is_the_reference_price_over_what_is_really_computed():
    figures = costs(share=0.5, utilisation=0.97)["A100-80"]
    assert figures["tflops"] == pytest.approx(19.5 * 0.5 * 0.97)
    assert figures["zen"] == pytest.approx(4 * 24 * 1_000 / figures["tflops"])
