"""What a job does about a hostile slot, where its submitter says nothing."""

from typing import Any

import pytest

from tests.support.small_job import MODEL, TRAINING
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.formats.manifest import JobError
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.spec.params import POLICY_ROLL_BACK


def chosen(slots: int, **sections: Any) -> tuple[Aggregation, str]:
    training = TRAINING | {"slots": slots} | sections.pop("training", {})
    job = ComputeJob(MODEL, {}, training, "100", **{f"{name}_config": keys for name, keys in sections.items()})
    manifest = job.outline()
    assert bool(manifest.policy_bits & POLICY_ROLL_BACK) == (manifest.policy == "roll back")
    return manifest.aggregation, manifest.policy


@pytest.mark.parametrize(("slots", "hostile"), [(4, 1), (5, 1), (8, 1), (9, 2), (17, 4), (64, 15)])
def test_from_4_to_64_slots_whole_updates_are_trimmed_and_tolerated(slots: int, hostile: int) -> None:
    assert chosen(slots) == (Aggregation("trimmed_mean", hostile, "nearest"), "tolerate")
    assert chosen(slots, compression={"bits": 8})[0].rule == "trimmed_mean", "fewer bits, but every element"


@pytest.mark.parametrize("slots", [1, 2, 3, 65, 256])
def test_fewer_or_more_slots_take_the_mean_and_roll_back(slots: int) -> None:
    assert chosen(slots) == (Aggregation("mean", 0, "none"), "roll back")


@pytest.mark.parametrize("compression", [{"keep": 64, "bits": 8}, {"bits": 1}])
def test_updates_that_are_not_whole_take_the_mean_and_roll_back(compression: dict[str, Any]) -> None:
    assert chosen(8, compression=compression) == (Aggregation("mean", 0, "none"), "roll back")


@pytest.mark.parametrize(
    ("slots", "aggregation", "policy"),
    [
        (8, {"rule": "mean"}, "roll back"),
        (8, {"rule": "clipped_mean"}, "roll back"),  # bounds a size, and no direction
        (8, {"rule": "median"}, "tolerate"),
        (4, {"rule": "krum"}, "tolerate"),
        (8, {"hostile": 0}, "roll back"),
        (3, {"rule": "median"}, "roll back"),  # none of three is outvoted by default
        (3, {"rule": "median", "hostile": 1}, "tolerate"),
        (100, {"rule": "trimmed_mean", "hostile": 3}, "tolerate"),
    ],
)
def test_a_rule_of_ones_own_decides_what_is_done_about_a_false_update(
    slots: int, aggregation: dict[str, Any], policy: str
) -> None:
    rule, done = chosen(slots, aggregation=aggregation)
    assert done == policy
    assert rule.rule == aggregation.get("rule", "trimmed_mean")


@pytest.mark.parametrize("policy", ["tolerate", "roll back"])
def test_a_policy_of_ones_own_stands(policy: str) -> None:
    for slots in (2, 8):
        assert chosen(slots, limits={"policy": policy})[1] == policy


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(JobError, match="unknown policy 'rollback'"):
        chosen(2, limits={"policy": "rollback"})
