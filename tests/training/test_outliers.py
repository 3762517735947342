"""Who is looked at first: odd scores, from the aggregation that gives them to the verifier that acts on them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepers.queue.work_queue import WorkStatus
from node import tasks
from node.compute.training import ShardResult
from tests.keepers.test_verification import commits, verifier
from tests.support.liars.faults import with_update
from tests.support.small_job import SmallJob, publish
from zoo_compute.training.outliers import Score, harmful_slots, scores_of
from zoo_compute.training.rounds import SCORES


@pytest.mark.parametrize(
    ("norm", "cosine", "odd"),
    [
        (1.0, 0.3, False), (0.5, 0.01, False), (2.0, 0.9, False), (0.0, 0.0, False),
        (2.01, 0.9, True), (0.49, 0.9, True), (1.0, 0.0, True), (1.0, -0.2, True), (math.inf, 0.0, True), (math.nan, 0.5, True),
    ],
)  # fmt: skip
def test_a_score__is_odd_where_the_update_is_unlike_the_others(norm: float, cosine: float, odd: bool):
    assert Score(0, norm, cosine, 0.1).is_outlier == odd


def test_scores__are_the_rows_of_a_robust_jobs_checkpoint():
    state = {SCORES: np.array([[1, 0.5, 0.25], [0, 0, 0]], np.float32)}
    assert scores_of(state) == [Score(0, 1.0, 0.5, 0.25), Score(1, 0.0, 0.0, 0.0)]
    assert [score.is_absent for score in scores_of(state)] == [False, True]
    assert scores_of({"weight": np.zeros(3, np.float32)}) == []


@pytest.mark.parametrize(
    ("after", "slots"),
    [
        ([2.0, 2.1, 1.9, 2.05], []), ([2.0, 2.1, 1.9, 3.5], [3]), ([2.0, math.nan, math.inf, 2.05], [1, 2]),
        ([2.0, 2.6, 2.55, 2.5], []),  # worse too, and no worse than is usual here
        ([1.0, 2.4, 1.0, 1.0], []),  # far from the others, and still better than before
        ([math.nan, math.nan], [0, 1]), ([4.0], []), ([3.1, 2.9, 2.9], [0]), ([], []),
    ],
)  # fmt: skip
def test_an_update__is_harmful_where_it_alone_makes_the_loss_worse(after: list[float], slots: list[int]):
    assert harmful_slots(2.5 if after != [3.1, 2.9, 2.9] else 3.0, dict(enumerate(after))) == slots


def opposite(_: Any, result: ShardResult) -> ShardResult:
    """Three times what the slot should have sent, the other way."""
    return with_update(result, {name: -3 * values for name, values in result.update.items()})


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
    assert (second["agrees"], second["odd"]) == (True, [[0, slot] for slot in odd])


@pytest.mark.parametrize("rule", ["mean", "clipped_mean"])
def test_the_check_of_an_aggregation__names_the_slots_whose_updates_make_the_loss_worse(tmp_path: Path, rule: str):
    def astray(_: Any, result: ShardResult) -> ShardResult:
        rng = np.random.default_rng(0)
        return with_update(
            result,
            {name: rng.normal(0, 0.3, values.shape).astype(np.float32) for name, values in result.update.items()},
        )

    report = checked(publish(tmp_path, rule=rule), astray)
    assert (report["agrees"], report["odd"]) == (True, [[0, 1]])
    assert report["probe"]["after"]["1"] > report["probe"]["before"] > report["probe"]["after"]["0"]


def test_the_check_of_an_aggregation__probes_updates_that_are_not_finite(tmp_path: Path):
    def infinite(_: Any, result: ShardResult) -> ShardResult:
        return with_update(result, {name: np.full_like(values, np.inf) for name, values in result.update.items()})

    report = json.loads(json.dumps(checked(publish(tmp_path), infinite), allow_nan=False))
    assert (report["agrees"], report["odd"], report["probe"]["after"]["1"]) == (True, [[0, 1]], None)


def test_the_check_of_an_aggregation__needs_no_held_out_examples(tmp_path: Path):
    job = publish(tmp_path)
    job.store.unpin(job.manifest.heldout.cid)
    job.store.collect_garbage()
    report = checked(job, None)
    assert report["agrees"]
    assert not {"odd", "probe"} & report.keys()


def checked(job: SmallJob, tamper: tasks.Tamper | None) -> dict[str, Any]:
    """A round of three slots, of which `tamper` does the second, combined and checked."""
    for slot in range(3):
        job.train(slot, tamper=tamper if slot == 1 else None)
    job.commit(7, [0, 1, 2])
    root = job.aggregate()["root"]
    return tasks.run_aggregation_check({**job.base, "operator": 7, "root": root, "bundles": job.bundles}, job.store)


def test_a_verifier__does_again_what_was_found_odd(tmp_path: Path):
    looked_at = commits(turns=10)
    done = WorkStatus("done", result={"agrees": True, "segments": 2, "odd": [[3, 4], [99, 4]]})
    eye, asked = verifier(tmp_path, done, rate=0.1)
    eye.observe(looked_at)
    sampled = set(asked)
    assert 2 <= len(sampled) <= 20
    eye.observe(looked_at)
    more = {name for name in asked if name not in sampled}
    assert {tuple(map(int, name.split("-")[2:4])) for name in more} == {(3, 4)}
