"""What only a GPU can show: a slot-round on it has the bits that it has on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from node.admission import benchmark
from node.compute.programs import Programs
from node.compute.training import train_shard
from node.hardware import CPU, Device
from node.inputs.job_files import fetch_inputs
from tests.node.test_benchmark import AFTER_THREE_STEPS
from tests.support.small_job import publish

GPU = Device("cuda", 0)


def test_train_shard__on_a_gpu__has_the_roots_of_the_cpu(tmp_path: Path) -> None:
    job = publish(tmp_path)
    graph = job.programs.graph
    inputs = fetch_inputs(job.store, job.base)
    runs = [
        train_shard(job.manifest, Programs(graph, device), inputs.checkpoint, inputs.examples, 0, 1)
        for device in (GPU, GPU, CPU)
    ]
    assert len({run.segment_root for run in runs}) == len({run.update_root for run in runs}) == 1
    assert runs[0].losses == runs[2].losses


def test_benchmark__on_a_gpu__ends_in_the_state_of_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} here has no CUDA, by which the benchmark names the card")
    monkeypatch.setattr(benchmark, "computes_on", lambda device: device)
    figures = benchmark.run("cuda:0", steps=1)
    assert figures.root == AFTER_THREE_STEPS
    assert figures.vram_gb > 0
