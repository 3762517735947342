"""What only a GPU can show: a slot-round on it gives the same bits twice, and fits, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from node import benchmark, syncer
from node.device import pick
from node.training import train_shard
from tests.unit.node_jobs import publish

gpu = pytest.mark.skipif(
    not (torch.cuda.is_available() or torch.backends.mps.is_available()),
    reason="no GPU here: torch finds neither CUDA nor MPS; run `make test-integration` on a machine that has one",
)


@gpu
def test_train_shard__twice_on_a_gpu__gives_equal_roots(tmp_path: Path) -> None:
    job = publish(tmp_path)
    inputs, device = syncer.fetch_inputs(job.store, job.base), pick()
    runs = [
        train_shard(job.manifest, inputs.program, inputs.checkpoint, inputs.examples, 0, 1, device=device)
        for _ in range(2)
    ]
    assert runs[0].segment_root == runs[1].segment_root
    assert runs[0].update_root == runs[1].update_root


@gpu
def test_train_shard__on_a_gpu__is_close_to_the_cpu(tmp_path: Path) -> None:
    job = publish(tmp_path)
    inputs = syncer.fetch_inputs(job.store, job.base)
    losses = [
        train_shard(job.manifest, inputs.program, inputs.checkpoint, inputs.examples, 0, 1, device=device).losses
        for device in (pick(), torch.device("cpu"))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@gpu
def test_benchmark__on_a_gpu__repeats_its_root(tmp_path: Path) -> None:
    one, same = benchmark.run(steps=3), benchmark.run(steps=3)
    assert one.root == same.root
    assert one.vram_gb > 0
