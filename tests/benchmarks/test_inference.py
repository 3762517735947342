"""The benchmark of live inference, without its chain and its server."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.served import inference, serving
from benchmarks.served.decoding import Eager

SMALL = serving.Size(layers=1, heads=2, width=16, context=12, batches=(1, 2))


def test_texts_begin_with_tokens__whose_next_one_is_a_character() -> None:
    module = SMALL.model()
    first = serving.first_tokens(module, 3)
    assert len(first) == 3
    assert all(text[0] < 128 for text in Eager(module, first, fused=True, steps=1)())


def test_another_model_than_the_served_one__is_noticed(tmp_path: Path) -> None:
    from tests.support.served_model import served_model

    made = served_model()
    serving.check_same(made.model, made.service)  # type: ignore[arg-type]
    with torch.no_grad():
        made.model.norm.weight[0] += 1  # type: ignore[union-attr,index,operator]
    try:
        with pytest.raises(AssertionError, match="another model"):
            serving.check_same(made.model, made.service)  # type: ignore[arg-type]
    finally:
        with torch.no_grad():
            made.model.norm.weight[0] -= 1  # type: ignore[union-attr,index,operator]


def test_a_table__has_a_row_for_each_figure() -> None:
    assert inference.rows_of({"gas_open": 139_255, "batch_1": {"ratio": 1.23456}}) == [
        f"{'gas_open ':<32} 139,255",
        f"{'batch_1 ratio':<32} 1.235",
    ]


@pytest.mark.parametrize("option", ["--rounds", "--threads"])
def test_nothing_is_measured__no_times_or_by_no_thread(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        inference.main([option, "0"])
    assert f"{option}: expected 1 or more, got 0" in capsys.readouterr().err
