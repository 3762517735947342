"""Which cards a machine has, read from what its driver's tools print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoo_compute.gpus import APPLE, CONSUMER, DATACENTER, PROFESSIONAL
from zoo_compute.operators import machine
from zoo_compute.operators.machine import Card

GIB = 2**30


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any tool."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(machine, "CARDS", tmp_path / "drm")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "bin").mkdir()


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_machine_without_a_gpu__has_no_card() -> None:
    assert machine.detect_cards() == []


@pytest.mark.parametrize(
    ("line", "card", "registers_as"),
    [
        ("NVIDIA GeForce RTX 4090, 24564", Card("NVIDIA GeForce RTX 4090", 24, "nvidia", "cuda:0"), (CONSUMER, 24)),
        ("NVIDIA H100 80GB HBM3, 81559", Card("NVIDIA H100 80GB HBM3", 80, "nvidia", "cuda:0"), (DATACENTER, 80)),
        ("NVIDIA RTX A4000, 16376", Card("NVIDIA RTX A4000", 16, "nvidia", "cuda:0"), (PROFESSIONAL, 16)),
        ("NVIDIA Unheard Of 9000, 12288", Card("NVIDIA Unheard Of 9000", 12, "nvidia", "cuda:0"), (CONSUMER, 12)),
        ("NVIDIA GeForce GTX 1650, 4096", Card("NVIDIA GeForce GTX 1650", 4, "nvidia", "cuda:0"), None),
    ],
)  # fmt: skip
def test_nvidia_smi__names_card_and_memory_as_sold(
    tmp_path: Path, line: str, card: Card, registers_as: tuple[object, int] | None
) -> None:
    tool(tmp_path, "nvidia-smi", f"echo '{line}'")
    assert machine.detect_cards() == [card]
    assert machine.registration_class(card) == registers_as


def test_several_cards__are_named_as_torch_names_them(tmp_path: Path) -> None:
    tool(tmp_path, "nvidia-smi", "printf 'NVIDIA GeForce RTX 3090, 24576\\nNVIDIA GeForce RTX 4090, 24564\\n'")
    assert [(card.name[-4:], card.device) for card in machine.detect_cards()] == [
        ("3090", "cuda:0"),
        ("4090", "cuda:1"),
    ]


def test_a_driver_that_fails_or_prints_nonsense__is_no_card(tmp_path: Path) -> None:
    tool(tmp_path, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    assert machine.detect_cards() == []
    tool(tmp_path, "nvidia-smi", "echo 'No devices were found'")
    assert machine.detect_cards() == []


def test_apple_silicon__has_its_unified_memory_and_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    tool(tmp_path, "sysctl", f'if [ "$2" = hw.memsize ]; then echo {32 * GIB}; else echo "Apple M2 Pro"; fi')
    card = Card("Apple M2 Pro", 32, "apple", "mps")
    assert machine.detect_cards() == [card]
    assert machine.registration_class(card) == (APPLE, 32)
    assert not card.has_kernels


def test_an_amd_card__is_listed_by_the_kernel_where_no_tool_is(tmp_path: Path) -> None:
    for name, vendor, size in (("card0", "0x8086", 0), ("card1", "0x1002", 24 * GIB), ("card2", "0x1002", 512 * 2**20)):
        folder = tmp_path / "drm" / name / "device"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "mem_info_vram_total").write_text(f"{size}\n")
    card = Card("AMD GPU", 24, "amd", "")
    assert machine.detect_cards() == [card], "neither another maker's nor an integrated one"
    assert machine.registration_class(card) == (CONSUMER, 24)
    assert not card.has_kernels


def test_torch__is_asked_where_no_tool_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr(machine.sys, "executable", str(tmp_path / "bin" / "python"))
    tool(tmp_path, "python", f"echo '[true, [[\"AMD Radeon RX 7900 XTX\", {24 * GIB}]]]'")
    assert machine.detect_cards() == [Card("AMD Radeon RX 7900 XTX", 24, "amd", "cuda:0")]
    tool(tmp_path, "python", "echo broken driver; exit 1")
    assert machine.detect_cards() == []


def test_roles__follow_the_main_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_gb", lambda: 4)
    assert machine.roles() == ("provider",)
    assert machine.cpu_substitute() == (CONSUMER, 8)
    monkeypatch.setattr(machine, "memory_gb", lambda: 32)
    assert machine.roles() == ("provider", "aggregator")
    assert machine.cpu_substitute() == (CONSUMER, 32)


def test_main_memory__is_that_of_this_machine() -> None:
    assert abs(machine.memory_gb() * GIB - os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) <= GIB
