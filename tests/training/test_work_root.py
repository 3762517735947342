"""The work root: what a job's terms commit to, from the manifest and the program's file alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from node.errors import BadInputs
from node.inputs.job_files import fetch_inputs
from node.inputs.programs import fetch_programs
from repops import encoding
from tests.support.small_job import SmallJob, publish
from zoo_compute.formats.aggregation import AggregationSpec, OuterOptimizer
from zoo_compute.formats.manifest import Compression, Manifest
from zoo_compute.training.rounds import aggregation_program, update_program
from zoo_compute.training.work_root import work_of


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    return publish(tmp_path_factory.mktemp("work"))


def test_work_root__is_the_hash_of_three_programs_and_four_numbers(job: SmallJob) -> None:
    manifest, step = job.manifest, fetch_programs(job.store, job.manifest).graph
    programs = (
        step,
        update_program(step, Compression()),
        aggregation_program(step, AggregationSpec(3, OuterOptimizer(0.7, 0.5))),
    )
    text = b"\x09" + b"".join(encoding.root(each) for each in programs)
    for number in (
        5,
        2,
        4,
        1,
    ):  # inner steps, steps of a segment, examples of a batch, rounds that private state is carried
        text += number.to_bytes(4, "big")
    assert (manifest.outer, manifest.slots) == (OuterOptimizer(0.7, 0.5), 3)
    assert work_of(manifest, step).root == hashlib.sha256(text).digest()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, slots=4),
        lambda m: replace(m, outer=OuterOptimizer(0.7, 0.6)),
        lambda m: replace(m, outer=OuterOptimizer(0.8, 0.5)),
        lambda m: replace(m, inner_steps=6),
        lambda m: replace(m, segment_steps=3),
        lambda m: replace(m, batch_size=8),
        lambda m: replace(m, carry=2),
    ],
)
def test_work_root__of_another_manifest__is_another(job: SmallJob, change: Callable[[Manifest], Manifest]) -> None:
    step = job.programs.graph
    assert work_of(change(job.manifest), step).root != work_of(job.manifest, step).root


def test_work_root__does_not_depend_on_prices_data_or_seed(job: SmallJob) -> None:
    step, manifest = job.programs.graph, job.manifest
    other = replace(manifest, seed=9, data=replace(manifest.data, root="11" * 32), rounds=1, redundancy=3)
    assert work_of(other, step) == work_of(manifest, step)


def test_fetch_inputs__of_a_job_that_was_posted_with_another_segment_length__is_refused(
    job: SmallJob,
) -> None:
    """The chain's record, not the manifest's word, is what a dispute is judged by."""
    posted = work_of(replace(job.manifest, segment_steps=3), job.programs.graph).root
    with pytest.raises(BadInputs, match="the manifest's work_root is"):
        fetch_inputs(job.store, job.base | {"work_root": posted.hex()})
