"""A job with default settings, one of whose slots sends anything at all: it learns on (H3)."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.training.byzantine import Lab, laboratory
from node.compute.aggregation import aggregate
from repops.commitments import Array
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.files import initial_checkpoint
from zoo_compute.training.examples import prepare_arrays

LIAR, CHANCE = 2, 90.0  # percent of ten digits that a guess gets wrong
LIES: dict[str, Callable[[Array], Array]] = {
    "NaN": lambda row: np.full_like(row, np.nan),
    "one NaN": lambda row: np.where(np.arange(row.size) == 0, np.float32(np.nan), row),
    "infinity": lambda row: np.full_like(row, np.inf),
    "huge": lambda row: np.full_like(row, 3e38),
    "large": lambda row: np.full_like(row, 1e6),
    "garbage": lambda row: np.random.default_rng(0).normal(0, 1_000, row.size).astype(np.float32),
    "backwards": lambda row: -100 * row,
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    from sklearn.datasets import load_digits  # late: other processes collect this file too

    digits = load_digits()
    arrays = {"inputs": (digits.data / 16).astype(np.float32), "targets": digits.target.astype(np.int32)}
    training = {"batch_size": 32, "inner_steps": 5, "rounds": 12, "slots": 4, "seed": 1}
    job = ComputeJob(
        {"module": "benchmarks.training.byzantine:classifier", "seed": 1}, {"arrays": arrays}, training, "1"
    )
    return laboratory(job, prepare_arrays(arrays, 1, wanted=job.examples_wanted, heldout=360), accuracy=True)


def errors(lab: Lab, lie: Callable[[Array], Array] | None = None, rule: Aggregation | None = None) -> float:
    """Percent of held-out digits that the last checkpoint gets wrong."""
    manifest = lab.manifest if rule is None else lab.manifest.__class__(**{**vars(lab.manifest), "aggregation": rule})
    checkpoint = initial_checkpoint(lab.programs.graph, lab.tensors, manifest.aggregation_spec)
    for round_ in range(manifest.rounds):
        updates = {slot: lab.trained(checkpoint, round_, slot) for slot in range(manifest.slots)}
        if lie is not None:
            updates[LIAR] = lab.shaped(lie(lab.flat(updates[LIAR])))
        checkpoint = aggregate(manifest, lab.programs, checkpoint, updates)
        if not lab.finite(checkpoint):
            break
    return lab.score(checkpoint)


def test_the_default_of_four_slots_is_a_rule_that_tolerates_one(lab: Lab) -> None:
    assert (lab.manifest.aggregation, lab.manifest.policy) == (Aggregation("trimmed_mean", 1, "nearest"), "tolerate")


@pytest.mark.parametrize("lie", LIES)
def test_a_default_job_learns_on_whatever_one_slot_sends(lab: Lab, lie: str) -> None:
    assert errors(lab, LIES[lie]) <= errors(lab) + 3


@pytest.mark.parametrize("lie", ["NaN", "huge", "garbage"])
def test_the_same_lie_ruins_a_mean(lab: Lab, lie: str) -> None:
    assert errors(lab, LIES[lie], Aggregation()) > CHANCE - 15
