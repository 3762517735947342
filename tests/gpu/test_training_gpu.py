"""What only a GPU can show: a slot-round on it has the bits that it has on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from node import benchmark, syncer
from node.device import CPU, computes_on, pick
from node.programs import Programs
from node.training import train_shard
from tests.unit.node_jobs import publish

gpu = pytest.mark.skipif(
    not (torch.cuda.is_available() or torch.backends.mps.is_available()),
    reason="no GPU here: torch finds neither CUDA nor MPS; run `make test-integration` on a machine that has one",
)


@gpu
def test_train_shard__on_a_gpu__has_the_roots_of_the_cpu(tmp_path: Path) -> None:
    job = publish(tmp_path)
    graph = job.programs.graph
    inputs = syncer.fetch_inputs(job.store, job.base)
    runs = [
        train_shard(job.manifest, Programs(graph, device), inputs.checkpoint, inputs.examples, 0, 1)
        for device in (computes_on(pick()), computes_on(pick()), CPU)
    ]
    assert len({run.segment_root for run in runs}) == len({run.update_root for run in runs}) == 1
    assert runs[0].losses == runs[2].losses


@gpu
def test_benchmark__on_a_gpu__repeats_its_root(tmp_path: Path) -> None:
    one, same = benchmark.run(steps=3), benchmark.run(steps=3)
    assert one.root == same.root
    assert one.vram_gb > 0
