"""Clocks that a job's file does not name follow from its work: short for a small job, long for a large one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repops.profile import Profile
from zoo_compute.jobs.clocks import SHORTEST_CLOCKS, Clocks, clocks_of
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.quote import quote
from zoo_compute.spec.params import MAX_SECONDS, PRESETS

SMALL = Profile(
    flops=10**6, depth=1, bytes=1, parameters=10_000, state_bytes=1, activation_bytes=1, nodes=1
)  # of one step
CONFIG: dict[str, Any] = {
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
    "training": {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 20, "rounds": 4, "slots": 4},
}
README_JOB_FLOPS = 1_104_400_000  # of a step; 395,008 parameters


def test_a_job_without_limits__can_be_paid_within_two_minutes_of_its_end_on_a_devnet():
    readme = replace(SMALL, flops=README_JOB_FLOPS, parameters=395_008)
    assert 3 * clocks_of(readme, inner_steps=20, slots=4).reexecute_s <= 100
    assert quote(ComputeJob.from_dict(CONFIG | {"budget_max": 50}), PRESETS["devnet"]).window_s <= 100


def test_the_shortest_clocks__are_those_of_a_tiny_job():
    assert clocks_of(SMALL, inner_steps=20, slots=4) == SHORTEST_CLOCKS == (120, 60, 30)


@pytest.mark.parametrize("inner_steps", [20, 10**3, 10**5, 10**6])
def test_an_operator_on_the_reference_machine__has_time_enough(inner_steps: int):
    """Its keeper takes 1.5 times what training takes, and bids for two slots where its worker can train both."""
    step = replace(SMALL, flops=README_JOB_FLOPS)
    clocks = clocks_of(step, inner_steps, slots=4)
    on_a_cpu, on_a_gpu = (1.5 * step.flops * inner_steps / speed for speed in (1.25e9, 5e12))
    assert min(on_a_cpu, max(3_600, on_a_gpu)) <= clocks.reexecute_s <= min(MAX_SECONDS, on_a_cpu + 31)
    assert clocks.slot_s >= min(MAX_SECONDS, 2 * clocks.reexecute_s)


def test_more_work__never_has_shorter_clocks():
    steps = [replace(SMALL, flops=10**n, parameters=10 ** (n // 2)) for n in range(3, 22)]
    clocks = [clocks_of(step, inner_steps=10, slots=8) for step in steps]
    for name in Clocks._fields:
        clock = [getattr(each, name) for each in clocks]
        assert clock == sorted(clock)
    assert clocks[-1].reexecute_s == MAX_SECONDS, "a clock the contracts refuse is no default"


def test_private_state_that_is_carried__is_trained_again_from_where_it_began():
    step = replace(SMALL, flops=README_JOB_FLOPS)
    once, carried = (clocks_of(step, inner_steps=100, slots=4, carry=carry) for carry in (1, 8))
    assert carried.slot_s == once.slot_s
    assert abs(carried.reexecute_s - 8 * once.reexecute_s) <= 8


def test_a_large_model__has_time_to_be_fetched_and_joined():
    large = replace(SMALL, parameters=10**9)  # 4 GB, 800 s at 40 Mbit/s
    assert clocks_of(large, inner_steps=1, slots=8) == Clocks(60 + 800 + 3, 30 + 8 * 800, 30)


def test_explicit_seconds__win_one_by_one():
    job = ComputeJob.from_dict(CONFIG | {"budget_max": 50, "limits": {"slot_s": 45}})
    manifest = job.outline(job.profile)
    assert (manifest.slot_s, manifest.aggregate_s, manifest.reexecute_s) == (45, 60, 30)


def test_the_manifest__has_the_clocks_that_the_quote_promised(tmp_path: Path):
    from zoo_compute.jobs.data_source import dataset_of
    from zoo_compute.jobs.files import publish_files
    from zoo_compute.store import BlockStore

    (tmp_path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 4_000)
    changes = {
        "model": {"layers": 2, "heads": 2, "width": 64, "context": 64},
        "data": {"path": "text"},
        "training": CONFIG["training"] | {"inner_steps": 80, "batch_size": 8},
        "budget_max": 50,
    }
    job = ComputeJob.from_dict(CONFIG | changes, directory=tmp_path)
    manifest = publish_files(job, dataset_of(job, lambda _: None), BlockStore(tmp_path / "store"))
    assert manifest.reexecute_s > SHORTEST_CLOCKS.reexecute_s
    assert 3 * manifest.reexecute_s == quote(job, PRESETS["devnet"]).window_s
    assert (
        manifest.to_bytes()
        == publish_files(job, dataset_of(job, lambda _: None), BlockStore(tmp_path / "again")).to_bytes()
    )
