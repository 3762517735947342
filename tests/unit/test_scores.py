"""Who is looked at first: odd scores, from the aggregation that gives them to the verifier that acts on them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepers.work import WorkStatus
from node.training import ShardResult
from tests.unit.node_jobs import publish
from tests.unit.test_keepers_verifier import commits, verifier
from zoo_compute.rounds import SCORES
from zoo_compute.scores import Score, scores_of
from zoo_compute.spec.params import POLICY_DELAYED


@pytest.mark.parametrize(
    ("norm", "cosine", "odd"),
    [
        (1.0, 0.3, False), (0.5, 0.01, False), (2.0, 0.9, False), (0.0, 0.0, False),
        (2.01, 0.9, True), (0.49, 0.9, True), (1.0, 0.0, True), (1.0, -0.2, True), (math.inf, 0.0, True), (math.nan, 0.5, True),
    ],
)  # fmt: skip
def test_a_score__is_odd_where_the_update_is_unlike_the_others(norm: float, cosine: float, odd: bool):
    assert Score(0, norm, cosine, 0.1).odd == odd


def test_scores__are_the_rows_of_a_robust_jobs_checkpoint():
    state = {SCORES: np.array([[1, 0.5, 0.25], [0, 0, 0]], np.float32)}
    assert scores_of(state) == [Score(0, 1.0, 0.5, 0.25), Score(1, 0.0, 0.0, 0.0)]
    assert [score.absent for score in scores_of(state)] == [False, True]
    assert scores_of({"weight": np.zeros(3, np.float32)}) == []


def opposite(_: Any, result: ShardResult) -> ShardResult:
    """Three times what the slot should have sent, the other way."""
    return result.with_update({name: -3 * values for name, values in result.update.items()})


@pytest.mark.parametrize(("rule", "odd"), [("clipped_mean", [1]), ("mean", [])])
def test_a_verification__names_the_slots_that_the_last_aggregation_found_odd(tmp_path: Path, rule: str, odd: list[int]):
    job = publish(tmp_path, rule=rule)
    for slot in range(3):
        job.train(slot, tamper=opposite if slot == 1 else None)
    job.commit(7, [0, 1, 2])
    first = job.verify(0)
    assert (first["agrees"], first["odd"]) == (True, [])
    made = job.aggregate()
    job.base |= {"round": 1, "checkpoint": made["pointer"], "start_root": made["root"]}
    job.train(0)
    job.bundles = []
    job.commit(7, [0])
    second = job.verify(0)
    assert (second["agrees"], second["odd"]) == (True, odd)


@pytest.mark.parametrize(("policy", "before"), [(0, 1), (POLICY_DELAYED, 2)], ids=["newest", "delayed"])
def test_a_verifier__does_again_what_was_found_odd(tmp_path: Path, policy: int, before: int):
    looked_at = commits(turns=10)
    looked_at = replace(looked_at, terms=replace(looked_at.terms, policy=policy))
    done = WorkStatus("done", result={"agrees": True, "segments": 2, "odd": [4]})
    eye, asked = verifier(tmp_path, done, rate=0.1)
    eye.look_at(looked_at)
    sampled = set(asked)
    turns = {int(name.split("-")[2]) for name in sampled}
    assert 2 <= len(sampled) <= 20
    eye.look_at(looked_at)
    more = {name for name in asked if name not in sampled}
    assert more
    assert {tuple(map(int, name.split("-")[2:4])) for name in more} <= {(turn - before, 4) for turn in turns}
