"""Device classes by name and memory, and a benchmark that says what it ran on."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from node.admission import benchmark
from node.cli import benchmark as command
from node.compute.programs import Programs
from node.compute.training import root_of
from node.device import pick_device
from node.errors import NoDevice
from repops import encoding
from zoo_compute.gpus import CONSUMER, PROFESSIONAL, check_memory, class_of
from zoo_compute.spec.params import GpuClass

# Of the state after two steps that warm up and one that is timed: a constant of every machine, device and thread count.
AFTER_THREE_STEPS = "1cb1079e53f740a592e2cf446623229e55777b8a39036019457b987e8a066b25"

# One table for both who ask: an operator who registers a card by name, and a node that reads its device's name.
CARDS = {
    "datacenter": {
        "a100": 80, "NVIDIA A100-SXM4-40GB": 42, "NVIDIA A100-SXM4-80GB": 85, "NVIDIA A100 80GB PCIe": 85, "h100": 80,
        "NVIDIA H100 80GB HBM3": 85, "NVIDIA H100 PCIe": 85, "NVIDIA H100 NVL": 100, "H200": 150, "NVIDIA H20": 96, "NVIDIA B200": 190,
        "NVIDIA GH200 480GB": 102, "GH200 480GB": 102, "NVIDIA GH200 144G HBM3e": 150, "L40S": 48, "NVIDIA L40": 48, "MI300X": 200,
        "AMD Instinct MI250X": 68, "AMD Instinct MI300X": 206, "AMD Instinct MI325X OAM": 256, "MI355X": 288,
    },
    "professional": {
        "A40": 48, "NVIDIA A40": 47.6, "A10G": 24, "NVIDIA A10": 23.7, "T4": 16, "Tesla T4": 15.84, "L4": 24, "NVIDIA L4": 23.6,
        "A4000": 16.9, "a4500": 20, "a5000": 24, "NVIDIA RTX A6000": 51, "NVIDIA RTX 6000 Ada Generation": 51, "rtx6000ada": 48,
        "NVIDIA RTX 4000 SFF Ada Generation": 21, "RTX PRO 6000 Blackwell": 102, "NVIDIA RTX PRO 6000 Blackwell Server Edition": 102,
        "Quadro RTX 6000": 25, "Tesla V100-SXM2-16GB": 16.9, "v100": 34, "NVIDIA A30": 25, "AMD Radeon Pro W7900": 48, "MI100": 34,
    },
    "consumer": {
        "RTX 3060": 12, "rtx3090": 25, "rtx4090": 25, "NVIDIA GeForce RTX 4090": 25, "NVIDIA GeForce RTX 4070 Ti SUPER": 17, "rtx5090": 34,
        "NVIDIA GeForce RTX 5090": 34, "NVIDIA GeForce RTX 4060": 8.2, "NVIDIA GeForce RTX 3080 Laptop GPU": 16.9, "geforcertx3080": 10,
        "NVIDIA TITAN RTX": 25, "TITAN RTX": 25, "AMD Radeon RX 7900 XTX": 25, "NVIDIA GeForce GTX 1080 Ti": 11, "Intel Arc A770": 16,
    },
    "apple silicon": {"Apple M1": 8, "m1": 8, "M2 Pro": 16, "m3": 24, "Apple M4 Max": 64, "Apple silicon": 16},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "vram_gb", "expected"),
    [(name, vram_gb, expected) for expected, cards in CARDS.items() for name, vram_gb in cards.items()],
)
def test_class__of_a_card__is_the_same_for_its_operator_and_for_its_node(
    name: str, vram_gb: float, expected: str
) -> None:
    registered = class_of(name)
    assert registered.name == expected
    check_memory(registered, round(vram_gb))
    assert benchmark.classify(name, vram_gb, "mps" if expected == "apple silicon" else "cuda") == registered


@pytest.mark.parametrize(
    ("name", "vram_gb", "kind", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39, "cuda", PROFESSIONAL),
        ("NVIDIA A100-SXM4-80GB", 20, "cuda", PROFESSIONAL),
        ("NVIDIA H100 80GB HBM3", 10, "cuda", CONSUMER),
        ("NVIDIA RTX A2000", 6, "cuda", None),
        ("NVIDIA GeForce GTX 1050", 4, "cuda", None),
        ("some card of tomorrow", 64, "cuda", CONSUMER),
        ("Tesla M4", 16, "cuda", CONSUMER),
        ("Apple silicon", 4, "mps", None),
        ("CPU", 512, "cpu", None),
    ],
)
def test_classify__memory_bounds_what_the_name_claims(
    name: str, vram_gb: float, kind: str, expected: GpuClass | None
) -> None:
    assert benchmark.classify(name, vram_gb, kind) == expected


def test_benchmark__on_a_cpu__is_labelled_and_only_for_a_devnet(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--device", "cpu"]) == 1
    assert "devnet only" in capsys.readouterr().err
    assert benchmark.main(["--device", "cpu", "--devnet", "--steps", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["gpu_class"], report["class_id"]) == (None, None)
    assert "devnet only" in report["note"]
    assert report["flops_per_s"] > 0
    assert report["conformed"] is None
    assert benchmark.main(["--device", "cpu", "--devnet", "--steps", "1"]) == 0
    assert report["root"] in capsys.readouterr().out, "the same steps gave another state"
    assert report["root"] == AFTER_THREE_STEPS


def test_the_benchmarks_program__is_the_same_for_every_node() -> None:
    assert encoding.root(benchmark.fixed_program()).hex() == benchmark.PROGRAM_ROOT
    one, other = (benchmark.fixed_state(Programs(benchmark.fixed_program())) for _ in range(2))
    assert root_of(one) == root_of(other)
    matrices = [array for array in one.values() if array.ndim > 1]
    assert all(-1 <= array.min() < -0.01 < 0.01 < array.max() <= 1 for array in matrices)
    assert len({array.tobytes() for array in matrices}) == len(matrices), "no two draws alike"


def test_pick__device_that_is_absent_or_nonsense__is_refused() -> None:
    with pytest.raises(NoDevice, match="expected cpu"):
        pick_device("gpu0")
    absent = "cuda:99" if torch.cuda.is_available() else "cuda"
    with pytest.raises(NoDevice, match="not on this machine"):
        pick_device(absent)


def test_command__passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(benchmark, "main", lambda arguments: seen.append(arguments) or 3)
    ran = CliRunner().invoke(command, ["--device", "cuda:1", "--steps", "4", "--json", "--devnet"])
    assert (ran.exit_code, seen) == (3, [["--device", "cuda:1", "--steps", "4", "--json", "--devnet"]])
    assert CliRunner().invoke(command, ["--steps", "0"]).exit_code == 2
