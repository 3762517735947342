"""benchmarks/training/loss_gap.py on jobs of seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training import loss_gap
from tests.support.small_job import TEXT

pytestmark = pytest.mark.long


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    path = tmp_path / "text.py"
    path.write_bytes(TEXT)
    monkeypatch.setattr(loss_gap, "MODEL", {"layers": 1, "heads": 2, "width": 16, "context": 8, "tied": False})
    training = {"batch_size": 4, "inner_steps": 3, "slots": 2, "warmup_steps": 4}
    monkeypatch.setattr(loss_gap, "TRAINING", training)
    monkeypatch.setattr(loss_gap, "HELDOUT", 16)
    return [path]


def test_one_slot_that_is_taken_whole__is_the_central_run(text: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loss_gap.TRAINING, "slots", 1)
    alone = {"rate": 0.01, "outer": (1.0, 0.0), "compression": None, "rule": "mean"}
    monkeypatch.setattr(loss_gap, "NETWORKS", {"dense": alone})
    monkeypatch.setattr(loss_gap, "DECLARED", "dense")
    result = loss_gap.loss_gap(1, rounds=4, pretrained=5, kinds=["dense"], rates=[0.01], text=text)
    assert abs(result["loss_gap"]) < 1e-5
    assert abs(result["loss_gap_from_first_weights"]) < 1e-5
    losses = result["seeds"]["0"]["networks"]["dense"]["losses"]
    assert losses[-1] < losses[0] < result["seeds"]["0"]["first_weights"]["networks"]["dense"]["losses"][0]


def test_the_gap__is_to_the_best_of_the_central_rates(text: list[Path]) -> None:
    result = loss_gap.loss_gap(2, rounds=2, pretrained=0, kinds=["int8"], rates=[0.01, 1e-6], text=text)
    for seed in result["seeds"].values():
        assert seed["central"] == min(seed["central_by_rate"].values()) == seed["central_by_rate"]["0.01"]
        assert seed["networks"]["int8"]["loss_gap"] == seed["networks"]["int8"]["loss"] / seed["central"] - 1
    assert result["loss_gap_from_first_weights"] is None
    assert json.loads(json.dumps(result))["tokens"] == 2 * 2 * 3 * 4 * 8
    assert "int8" in loss_gap.as_text(result)


def test_the_steps_before_the_run__take_examples_that_the_run_does_not(text: list[Path]) -> None:
    job = loss_gap.job_of(0, 2, loss_gap.NETWORKS["dense"])
    short, long = loss_gap.data_of(job, 0, text), loss_gap.data_of(job, 3, text)
    np.testing.assert_array_equal(long.examples["tokens"][: job.examples_wanted], short.examples["tokens"])
    assert len(long.examples["tokens"]) == job.examples_wanted + 3 * 4
