"""benchmarks/training/partition.py on jobs of seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.training import loss_gap, partition

pytestmark = pytest.mark.long


def test_one_round_apart__merges_to_what_an_undivided_round_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a mean, an outer rate of 1 and no momentum, shares by examples are the mean over all slots; even shares are not."""
    text = tmp_path / "text"
    text.write_bytes(b"".join(b"%d bottles of beer on the wall\n" % n for n in range(400)))
    monkeypatch.setattr(loss_gap, "MODEL", {"layers": 1, "heads": 2, "width": 16, "context": 8, "tied": False})
    monkeypatch.setattr(loss_gap, "TRAINING", {"batch_size": 2, "inner_steps": 5, "slots": 4})
    monkeypatch.setattr(loss_gap, "HELDOUT", 16)
    monkeypatch.setattr(partition, "KIND", partition.KIND | {"rate": 0.01, "outer": (1.0, 0.0)})
    monkeypatch.setattr(partition, "TEXT", (text,))
    figures = partition.partition(1, rounds=1, after=1, pretrained=3)
    assert set(figures["cut_off"]) == {"1 of 4", "2 of 4"}
    for each in figures["cut_off"].values():
        assert np.isclose(each["merged"], each["undivided"], rtol=1e-5)
        assert each["merged"] < each["base"]
    unequal = figures["cut_off"]["1 of 4"]
    assert not np.isclose(unequal["even"], unequal["undivided"], rtol=1e-5)
    assert figures["loss_gap"] == max(each["loss_gap"] for each in figures["cut_off"].values())
