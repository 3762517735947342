"""What the announcement prints, as it prints it: `from gym import DistributedTrainer` and the trainer of llama-7b.

The run against a network is a journey's (tests/journeys).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zoo_compute import ComputeJob, DistributedTrainer

ROOT = Path(__file__).resolve().parents[2]

PRINTED = """
from gym import DistributedTrainer

trainer = DistributedTrainer(
    model="llama-7b",
    dataset="zoo-dataset-v2",
    nodes=100,  # Request 100 nodes
    budget_tokens=1e12  # Train for 1T tokens
)
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """zoo-gym is installed; the folder is empty, and there is no network."""
    monkeypatch.syspath_prepend(str(ROOT / "packages" / "zoo-gym"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOO_NETWORK", raising=False)
    yield
    sys.modules.pop("gym", None)


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_printed_trainer__describes_llama_7b_on_a_hundred_slots() -> None:
    trainer = run(PRINTED)["trainer"]
    assert isinstance(trainer, DistributedTrainer)
    job = trainer.job_description
    assert isinstance(job, ComputeJob)
    assert job.model.parameters == 6_738_415_616
    assert job.training.slots == 100
    assert job.data.dataset == "zoo-dataset-v2"
    assert job.context == 2_048
    assert job.training.learning_rate == 3e-4


def test_the_printed_budget__becomes_rounds_that_a_job_may_have() -> None:
    training = run(PRINTED)["trainer"].job_description.training
    tokens = training.rounds * training.inner_steps * training.batch_size * training.slots * 2_048
    assert 0.99e12 < tokens < 1.02e12
    assert training.rounds <= 10_000


@pytest.mark.long
def test_the_printed_trainer__is_traced_without_the_weights_it_would_take() -> None:
    """27 GB of parameters, on any machine: in a child, whose memory is bounded."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))\n"
        + PRINTED
        + "assert trainer.job_description.profile.parameters == 6_738_415_616\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'packages' / 'zoo-gym'}:{ROOT}"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)
