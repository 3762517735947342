"""A worker maps items, hands the checkpoint on and repeats what others mapped, by the tasks that train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from node.errors import BadInputs
from node.inputs.programs import check_program
from tests.support.liars.faults import flip_bit
from tests.support.map_job import BATCH, SLOTS, STEPS, publish, wanted
from zoo_compute.formats.manifest import HeldoutFile
from zoo_compute.jobs.config import OuterOptimizer


def test_a_round__maps_its_items_and_hands_the_checkpoint_on(tmp_path: Path) -> None:
    job = publish(tmp_path)
    rows = STEPS * BATCH
    for slot in range(SLOTS):
        report = job.train(slot)
        assert (report["loss"], report["skipped"]) == ([None, None], 0)
        job.commit(7 + slot, [slot])
        made = job.sent(slot).state["outputs"].reshape(rows, 3)
        assert np.allclose(made, wanted()[slot * rows : (slot + 1) * rows], atol=1e-6)
    aggregated = job.aggregate()
    assert aggregated["root"] == job.manifest.state.root
    assert aggregated["state"] == job.manifest.state.cid, "the same file: nobody downloads it again"
    assert all(job.verify(slot)["agrees"] for slot in range(SLOTS))
    assert job.verify(0)["odd"] == []


def test_one_false_bit_of_an_output__is_seen_by_who_repeats_it(tmp_path: Path) -> None:
    job = publish(tmp_path)
    job.train(0, tamper=flip_bit(round=0, slot=0, tensor="outputs", element=4))
    job.train(1)
    job.commit(7, [0])
    job.commit(9, [1])
    answer = job.verify(0)
    assert (answer["agrees"], answer["field"]) == (False, "update_root")
    assert answer["dispute"] is not None
    assert job.verify(1)["agrees"]


def test_a_manifest_and_a_program_that_are_of_different_kinds__are_refused(tmp_path: Path) -> None:
    job = publish(tmp_path)
    check_program(job.manifest, job.programs)
    trains = replace(
        job.manifest, outer=OuterOptimizer(0.7, 0.9), heldout=HeldoutFile(job.manifest.data.cid), quorum=SLOTS
    )
    with pytest.raises(BadInputs, match="and the job trains"):
        check_program(trains, job.programs)
    with pytest.raises(BadInputs, match="and the map's are"):
        check_program(replace(job.manifest, inner_steps=STEPS + 1), job.programs)
