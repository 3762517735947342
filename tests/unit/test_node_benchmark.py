"""Device classes by name and memory, and a benchmark that says what it ran on."""

from __future__ import annotations

import json

import pytest
import torch

from node import benchmark
from node.device import pick
from node.errors import NoDevice


@pytest.mark.parametrize(
    ("name", "vram_gb", "kind", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 80, "cuda", "datacenter"),
        ("NVIDIA A100-SXM4-40GB", 40, "cuda", "datacenter"),
        ("NVIDIA H200", 140, "cuda", "datacenter"),
        ("Tesla V100-SXM2-16GB", 16, "cuda", "professional"),
        ("NVIDIA A10", 23, "cuda", "professional"),
        ("NVIDIA RTX A6000", 48, "cuda", "professional"),
        ("NVIDIA RTX 6000 Ada Generation", 48, "cuda", "professional"),
        ("NVIDIA L4", 23, "cuda", "professional"),
        ("NVIDIA GeForce RTX 4090", 24, "cuda", "consumer"),
        ("NVIDIA GeForce RTX 4060", 8.2, "cuda", "consumer"),
        ("NVIDIA GeForce GTX 1050", 4, "cuda", None),
        ("Apple silicon", 16, "mps", "apple silicon"),
        ("Apple silicon", 4, "mps", None),
        ("CPU", 512, "cpu", None),
    ],
)
def test_classify__by_name_bounded_by_memory(name: str, vram_gb: float, kind: str, expected: str | None) -> None:
    assert benchmark.classify(name, vram_gb, kind) == expected


def test_benchmark__on_a_cpu__is_labelled_and_only_for_a_devnet(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--device", "cpu"]) == 1
    assert "devnet only" in capsys.readouterr().err
    assert benchmark.main(["--device", "cpu", "--devnet", "--steps", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["gpu_class"], found["class_id"]) == (None, None)
    assert "devnet only" in found["note"]
    assert found["flops_per_s"] > 0
    assert benchmark.main(["--device", "cpu", "--devnet", "--steps", "1"]) == 0
    assert found["root"] in capsys.readouterr().out, "the same steps gave another state"


def test_pick__device_that_is_absent_or_nonsense__is_refused() -> None:
    with pytest.raises(NoDevice, match="expected cpu"):
        pick("gpu0")
    absent = "cuda:99" if torch.cuda.is_available() else "cuda"
    with pytest.raises(NoDevice, match="not on this machine"):
        pick(absent)
