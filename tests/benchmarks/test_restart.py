"""benchmarks/training/restart.py and one_round.py on jobs of seconds."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training import compression, one_round, restart
from tests.support.small_job import TEXT

pytestmark = pytest.mark.long


@pytest.fixture
def options(tmp_path: Path) -> Namespace:
    text = tmp_path / "text.py"
    text.write_bytes(TEXT)
    sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2, "rounds": 6, "slots": 2, "inner_steps": 2}
    rates = {"pretrained": 3, "pretrained_rate": 0.01, "learning_rate": 0.01, "warmup": 2, "heldout": 16, "seed": 0}
    return Namespace(**sizes, **rates, data=[text], kinds=["dense", "sparse_r1", "signs_r1", "signs_r1_3h"], json=True)


def test_restart__of_one_seed__has_gaps_to_the_mark_and_bytes_of_whole_runs(options: Namespace) -> None:
    result = restart.summary(options, {0: compression.seeded(options, 0, restart.kinds_of(options))})
    kinds = result["kinds"]
    assert kinds["dense"]["loss_gap"] == 0
    assert kinds["signs_r1_3h"]["ratio"] == pytest.approx(3 * kinds["signs_r1_3h"]["ratio_an_update"])
    assert kinds["signs_r1"]["ratio"] == kinds["signs_r1"]["ratio_an_update"] > 20
    assert len(result["seeds"]["0"]["signs_r1_3h"]["losses"]) == 2


def test_one_round__of_every_compression__costs_what_it_says_and_points_the_way(options: Namespace) -> None:
    figures = one_round.screened(options)["compressions"]
    assert figures["dense"]["cosine_squared"] == pytest.approx(1)
    assert figures["int4"]["ratio"] == pytest.approx(8)
    assert all(0 < row["cosine_squared"] <= 1.000001 for row in figures.values())


def test_signs__at_even_places__are_sent_by_as_many_slots_everywhere() -> None:
    x = np.random.default_rng(1).standard_normal((8, 4096))
    even, own = (one_round.signs(0.25, places)(x)[0] for places in ("even", "own"))
    assert set((even != 0).sum(axis=0)) == {2}
    assert len(set((own != 0).sum(axis=0))) > 3
