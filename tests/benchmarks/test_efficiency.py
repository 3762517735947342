"""benchmarks/network/efficiency.py on a job of seconds: from a finished run's folder, and by simulation."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.small_job import MODEL, TRAINING, SmallJob, publish

KEYS = {
    "loss_network",
    "loss_central",
    "loss_gap",
    "tokens",
    "utilisation",
    "loss_first",
    "loss_last",
    "bit_equal_replay",
}


@pytest.fixture(scope="module")
def efficiency() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "network" / "efficiency.py"
    spec = importlib.util.spec_from_file_location("efficiency", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["efficiency"] = module
    spec.loader.exec_module(module)
    return module


def config_file(folder: Path, **training: object) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps({"model": MODEL, "training": TRAINING | training, "budget_max": 10}))
    return path


@pytest.fixture
def run(tmp_path: Path) -> tuple[SmallJob, dict[str, object]]:
    job = publish(tmp_path)
    shards, root = [], ""
    for _ in range(2):
        root = job.advance()["root"]
        shards += list(job.reports.values())
    (tmp_path / "manifest.json").write_bytes(job.manifest.to_bytes())
    return job, {"masks": [7, "0x7"], "checkpoint_root": root, "losses": [5.0, 4.0, 3.0], "shard_reports": shards}


def test_efficiency__of_a_finished_run__replays_it_and_reads_its_reports(
    efficiency: ModuleType, run: tuple[SmallJob, dict[str, object]], tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(run[1]))
    figures = efficiency.finished(tmp_path, config_file(tmp_path), sequential=True)
    assert set(figures) >= KEYS
    assert figures["bit_equal_replay"] is True
    assert figures["tokens"] == 2 * 3 * 5 * 4 * 16
    assert 0 < figures["utilisation"] < 1
    assert figures["loss_gap"] == pytest.approx(figures["loss_network"] / figures["loss_central"] - 1)
    assert figures["losses"] != run[1]["losses"], "measured here, not believed"
    assert "loss_network" in efficiency.table(figures)


def test_efficiency__of_a_run_whose_weights_differ__says_so(
    efficiency: ModuleType, run: tuple[SmallJob, dict[str, object]], tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(run[1] | {"checkpoint_root": "00" * 32}))
    assert efficiency.finished(tmp_path, config_file(tmp_path), sequential=False)["bit_equal_replay"] is False


def test_efficiency__of_a_run_by_another_configuration__asks_for_its_own(
    efficiency: ModuleType, run: tuple[SmallJob, dict[str, object]], tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(run[1]))
    with pytest.raises(SystemExit, match="--config"):
        efficiency.finished(tmp_path, config_file(tmp_path, warmup_steps=3), sequential=False)


def test_efficiency__by_simulation__gives_the_same_keys(efficiency: ModuleType, tmp_path: Path) -> None:
    figures = efficiency.simulated(config_file(tmp_path), [Path(json.__file__)], sequential=False)
    assert set(figures) >= KEYS
    assert figures["bit_equal_replay"] is True
    assert figures["loss_last"] < figures["loss_initial"]
    json.dumps(figures, allow_nan=False)


def test_network_order__is_every_example_of_a_step_before_the_next(efficiency: ModuleType, tmp_path: Path) -> None:
    manifest = publish(tmp_path).manifest
    order = efficiency.network_order(manifest).tolist()
    first_step = [int(i) for slot in range(3) for i in manifest.examples_for(0, slot, 0)]
    assert order[:12] == first_step
    assert sorted(order) == list(range(2 * 3 * 5 * 4))
