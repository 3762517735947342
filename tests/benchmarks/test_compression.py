"""benchmarks/training/compression.py on a job of seconds."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import powersgd
from benchmarks.training import compression
from tests.support.small_job import TEXT

pytestmark = pytest.mark.long


@pytest.fixture
def options(tmp_path: Path) -> Namespace:
    text = tmp_path / "text.py"
    text.write_bytes(TEXT)
    sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2, "rounds": 3, "slots": 2, "inner_steps": 2}
    rest = {
        "pretrained": 3,
        "pretrained_rate": 0.01,
        "learning_rate": 0.01,
        "warmup": 2,
        "heldout": 16,
        "kinds": ["dense", "int8", "sparse"],
        "json": True,
    }
    return Namespace(**sizes, **rest, data=[text], rank=1, synced=2)


def test_compression__of_two_seeds__tells_what_each_kind_sent_and_lost(options: Namespace) -> None:
    result = compression.summary(options, {seed: compression.seeded(options, seed) for seed in (0, 1)})
    kinds = result["kinds"]
    assert kinds["dense"]["loss_gap"] == 0
    assert 0.9 < kinds["dense"]["ratio"] < 2
    assert 3 < kinds["int8"]["ratio"] < kinds["sparse"]["ratio"] == result["compression_ratio"]
    assert result["loss_gap"] == kinds["sparse"]["loss_gap"] > 0
    assert result["codec_mb_s"] > 0
    assert json.loads(json.dumps(result))["parameters"]["rounds"] == 3
    assert "sparse" in compression.as_text(result)


def test_the_peers_examples__are_those_of_all_slots_at_the_step(options: Namespace) -> None:
    job = compression.job_of(options, 0, compression.KINDS["dense"])
    manifest = replace(job.outline(), data=replace(job.outline().data, examples=11))
    for step in range(6):
        taken = [manifest.examples_for(step // 2, slot, step % 2) for slot in range(2)]
        np.testing.assert_array_equal(powersgd._examples(job, 11, step), np.concatenate(taken))
