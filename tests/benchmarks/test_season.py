"""Three weeks of a rotating pool: what the simulation counts adds up."""

from __future__ import annotations

import random

import pytest

from benchmarks.economy import season
from zoo_compute.spec.params import ZEN


@pytest.fixture(scope="module")
def week() -> dict:
    return season.play(1, weeks=1)


def test_every_slot_round__is_paid_void_convicted_vacant_or_late(week: dict) -> None:
    counts = week["counts"]
    ends = ("paid", "void", "convicted", "vacant slot-rounds", "timed out")
    assert sum(counts[end] for end in ends) == counts["rounds"] * season.SLOTS
    assert counts["convicted"] == 1
    assert all(counts[what] for what in ("killed", "silent", "left", "taken over"))


def test_cost_and_time__are_those_of_what_was_paid(week: dict) -> None:
    assert week["gpu_hours"] == week["counts"]["paid"] * season.TRAIN_S / season.HOUR_S
    assert week["cost_per_gpu_hour"] == pytest.approx(week["cost_zen"] / week["gpu_hours"])
    assert week["efficiency"] == pytest.approx(week["gpu_hours"] / (season.SLOTS * week["wall_h"]))
    assert week["efficiency"] < week["training"] < week["uptime"] < 1


def test_the_same_seed__is_the_same_season() -> None:
    assert season.play(2, weeks=1) == season.play(2, weeks=1)


def test_nodes_that_ask_more_than_a_seat_pays__leave_it_vacant() -> None:
    pool = season.Season(chance=random.Random(1))
    for _ in range(season.POOL):
        pool.join()
    pool.level = 10.0
    dearest = max(pool.price_of(node) for node in pool.nodes.values())
    assert dearest > season.REFERENCE * season.TRAIN_S // season.HOUR_S
    assert pool.price_of(next(iter(pool.nodes.values()))) < 100 * ZEN
