"""The benchmark of live inference: a small model served by a real process, and the gas of a short map."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.chain import maps
from benchmarks.served import serving

pytestmark = pytest.mark.integration

SMALL = serving.Size(layers=1, heads=2, width=16, context=12, batches=(1, 2))
BATCH = {
    "ratio",
    "served",
    "eager",
    "streamed_ratio",
    "streamed",
    "first_token_s",
    "eager_first_token_s",
    "equal",
}


def test_a_small_model__is_served_for_vouchers_and_has_all_figures(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        made = serving.figures(tmp_path, SMALL, rounds=1, threads=1)
    finally:
        torch.set_num_threads(threads)
    batches = [made["batch_1"], made["batch_2"]]
    assert made["serving_ratio"] == min(each["ratio"] for each in batches)
    for each in batches:
        assert each.keys() == BATCH
        assert each["equal"] == 1.0
        assert each["ratio"] == pytest.approx(each["served"] / each["eager"])  # of one round
        assert 0 < each["first_token_s"] < SMALL.new_tokens * 2 / each["streamed"]


def test_gas_of_a_map__is_all_of_its_rounds_and_more() -> None:
    few = maps.measure(rounds=2, items=100)
    assert few["gas_map_job"] > 2 * few["gas_map_round"] > 2 * 150_000
    assert few["gas_per_map_item"] == -(-few["gas_map_job"] // 200)
