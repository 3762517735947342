"""This machine's GPUs and memory. Read from the driver's tools if possible, else with torch."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo_compute import gpus
from zoo_compute.errors import UserError
from zoo_compute.spec.params import MAX_VRAM_GB, GpuClass

PATIENCE_S = 60.0  # for a driver's tool, and for loading torch
GIB = 2**30
WSL = "/usr/lib/wsl/lib"  # where WSL2 puts nvidia-smi, often outside PATH
CARDS = Path("/sys/class/drm")
AMD_VENDOR = "0x1002"
AGGREGATOR_GB = 8  # of main memory: an aggregator keeps a checkpoint and all updates of a round there


@dataclass(frozen=True)
class Card:
    """One GPU. device: its name for `zoo node configure --device`; empty if torch cannot use it."""

    name: str
    memory_gb: int
    maker: str  # nvidia, amd or apple
    device: str

    @property
    def has_kernels(self) -> bool:
        """Whether this release has kernels for it. The node checks the card itself when it starts."""
        return self.maker == "nvidia"

    def __str__(self) -> str:
        return f"{self.name}, {self.memory_gb} GB"


def detect_cards() -> list[Card]:
    """This machine's GPUs, from the first source that lists any. Empty if there is none."""
    for source in _SOURCES:
        if cards := source():
            return cards
    return []


def memory_gb() -> int:
    """Main memory, in whole gigabytes as sold."""
    return max(1, round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB))


def registration_class(card: Card) -> tuple[GpuClass, int] | None:
    """The class and memory that a card registers with; None if it is too small for all classes. Unknown cards are consumer cards."""
    try:
        gpu_class = gpus.class_of(card.name)
    except UserError:
        gpu_class = gpus.APPLE if card.maker == "apple" else gpus.CONSUMER
    fitting = gpus.fitting(gpu_class, card.memory_gb)
    return (fitting, min(card.memory_gb, MAX_VRAM_GB)) if fitting else None


def cpu_substitute() -> tuple[GpuClass, int]:
    """Class and memory that a machine without a GPU registers with on a devnet, where the CPU computes."""
    return gpus.CONSUMER, max(gpus.CONSUMER.least_vram_gb, memory_gb())


def roles() -> tuple[str, ...]:
    """Roles of this machine: provider, and aggregator if its memory suffices."""
    return ("provider", "aggregator") if memory_gb() >= AGGREGATOR_GB else ("provider",)


# -- sources


def _nvidia_smi() -> list[Card]:
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=WSL)
    if not program:
        return []
    output = _output_of([program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    cards: list[Card] = []
    for line in output.splitlines():
        name, _, mib = line.rpartition(",")
        if name.strip() and mib.strip().isdecimal():
            cards.append(Card(name.strip(), round(int(mib) / 1024), "nvidia", f"cuda:{len(cards)}"))
    return cards


def _apple() -> list[Card]:
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return []
    name = _output_of(["sysctl", "-n", "machdep.cpu.brand_string"]).strip()
    size = _output_of(["sysctl", "-n", "hw.memsize"]).strip()
    return [Card(name or "Apple silicon", round(int(size) / GIB), "apple", "mps")] if size.isdecimal() else []


def _torch() -> list[Card]:
    """If no tool answers: torch's list. A process of its own, since a broken driver can crash it."""
    if importlib.util.find_spec("torch") is None:
        return []
    question = (
        "import json, torch; c = torch.cuda; n = c.device_count() if c.is_available() else 0;"
        "print(json.dumps([bool(torch.version.hip), [[c.get_device_properties(i).name, c.get_device_properties(i).total_memory]"
        " for i in range(n)]]))"
    )
    try:
        rocm, listed = json.loads(_output_of([sys.executable, "-c", question]).splitlines()[-1])
    except (ValueError, IndexError):
        return []
    maker = "amd" if rocm else "nvidia"
    return [Card(name, round(size / GIB), maker, f"cuda:{index}") for index, (name, size) in enumerate(listed)]


def _amd() -> list[Card]:
    """AMD cards as the Linux kernel lists them, for machines without ROCm: memory, and sometimes a name."""
    cards: list[Card] = []
    for folder in sorted(CARDS.glob("card[0-9]*/device")):
        try:
            if (folder / "vendor").read_text().strip() != AMD_VENDOR:
                continue
            size = int((folder / "mem_info_vram_total").read_text())
            product = folder / "product_name"
            name = product.read_text().strip() if product.exists() else ""
        except (OSError, ValueError):
            continue
        if round(size / GIB) >= 1:
            cards.append(Card(name or "AMD GPU", round(size / GIB), "amd", ""))
    return cards


def _output_of(command: Sequence[str]) -> str:
    """Output of a tool; empty if it failed."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


_SOURCES: tuple[Callable[[], list[Card]], ...] = (_nvidia_smi, _apple, _torch, _amd)
