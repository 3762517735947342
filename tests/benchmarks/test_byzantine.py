"""benchmarks/training/byzantine.py: what its runs share changes no score, and its rules on rows at hand are the rounds' own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.training.attacks import ATTACKS
from benchmarks.training.byzantine import HOSTILE, RECOMMENDED, SLOTS, Lab, digits
from benchmarks.training.rule_times import named, rule_of
from node.compute.aggregation import aggregate
from zoo_compute.formats.aggregation import Aggregation, OuterOptimizer
from zoo_compute.jobs.files import initial_checkpoint

SEED = 100
RULE = named(RECOMMENDED, HOSTILE)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return digits(SEED, rounds=2, inner_steps=2)


def test_a_run__scores_after_others_as_in_a_fresh_laboratory(lab: Lab) -> None:
    joined = rule_of(RULE, SLOTS, lab.values)
    lab.run(Aggregation(), None, SEED, joined, peer=False)
    losses = lab.run(RULE, ATTACKS["replay"], SEED, joined, peer=False)
    assert losses == digits(SEED, rounds=2, inner_steps=2).run(RULE, ATTACKS["replay"], SEED, joined, peer=False)


def test_rows_that_are_not_finite__leave_nothing_of_the_mean_and_the_recommended_rule_as_it_was(lab: Lab) -> None:
    plain, joined = rule_of(Aggregation(), SLOTS, lab.values), rule_of(RULE, SLOTS, lab.values)
    assert lab.run(Aggregation(), ATTACKS["not_finite"], SEED, plain, peer=False) == 100
    assert lab.run(RULE, ATTACKS["not_finite"], SEED, joined, peer=False) < 90


@pytest.mark.parametrize("name", ["median", RECOMMENDED])
def test_a_rule_on_rows_at_hand__is_the_rule_of_the_rounds(lab: Lab, name: str) -> None:
    rule = named(name, HOSTILE)
    manifest = replace(lab.manifest, aggregation=rule, outer=OuterOptimizer(1.0, 0.0))
    before = initial_checkpoint(lab.programs.graph, lab.tensors, manifest.aggregation_spec)
    updates = {slot: lab.trained(before, 0, slot) for slot in range(SLOTS)}
    after = aggregate(manifest, lab.programs, before, updates)
    rows = np.stack([lab.flat(updates[slot]) for slot in range(SLOTS)])
    np.testing.assert_allclose(lab.flat(before) - lab.flat(after), rule_of(rule, SLOTS, lab.values)(rows), atol=1e-6)
