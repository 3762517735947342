"""What this machine can compute on, without loading torch where it has no GPU: torch takes seconds and 200 MB in every process."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DEV = Path("/dev")
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Device files of a GPU's driver: NVIDIA's on servers, on Jetsons and under WSL; AMD's.
GPU_FILES = ("nvidia*", "nvhost*", "nvgpu*", "dxg", "kfd")
TYPES = ("cpu", "cuda", "mps", "xpu")
TIME_MARGIN = 1.5  # of measured times, unless an operator says otherwise


@dataclass(frozen=True)
class Device:
    """One device by torch's name for it: `cpu`, `cuda`, `cuda:1`, `mps`. Without an index it is the first one."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


CPU = Device("cpu")


def device_named(name: str) -> Device:
    """Raises ValueError for a name that is no device's."""
    match = re.fullmatch(r"([a-z]+)(?::(0|[1-9]\d*))?", name)
    if match is None or match[1] not in TYPES:
        raise ValueError(f"{name!r} names no device")
    return Device(match[1], None if match[2] is None else int(match[2]))


def torch_may_find_gpu() -> bool:
    """False only where torch cannot find a GPU: on Linux, without any GPU driver's device file."""
    if sys.platform != "linux" or torch_build().xpu:
        return True
    return any(next(DEV.glob(pattern), None) is not None for pattern in GPU_FILES)


def gpus_of(type_: str) -> int:
    """How many devices of a type torch can use; of MPS there is one."""
    if type_ == "cpu":
        return 1
    if not torch_may_find_gpu():
        return 0
    import torch

    if type_ == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    if type_ == "mps":
        return int(torch.backends.mps.is_available())
    return torch.xpu.device_count() if torch.xpu.is_available() else 0


@dataclass(frozen=True)
class TorchBuild:
    """version: such as 2.13.0+cpu; cuda, hip, xpu: the version it was built for, else None."""

    version: str
    cuda: str | None
    hip: str | None
    xpu: str | None


def torch_build() -> TorchBuild:
    """Of the installed torch, read from its file of versions unless torch is loaded anyway. Raises ImportError."""
    if loaded := sys.modules.get("torch"):
        return _build({**vars(loaded.version), "__version__": loaded.__version__})
    return _installed_build()


@cache
def _installed_build() -> TorchBuild:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ImportError("torch is not installed", name="torch")
    return _build(runpy.run_path(str(Path(spec.origin).parent / "version.py")))


def _build(names: dict[str, Any]) -> TorchBuild:
    return TorchBuild(str(names["__version__"]), *(names.get(name) for name in ("cuda", "hip", "xpu")))


_chosen_threads = 0
_memory_limit = 0
_state_folder: Path | None = None
_time_margin = TIME_MARGIN


def threads() -> int:
    """The threads that a program's step takes: as many as `use_threads` said, else as many as torch would take."""
    if _chosen_threads:
        return _chosen_threads
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    return _default_threads()


def use_memory(limit: int) -> None:
    """Count on at most so many bytes of main memory in this process; 0: on all that it may use."""
    global _memory_limit
    _memory_limit = limit


def time_margin() -> float:
    """By how much the time of work is over-estimated: a machine shared with other work is slower at times."""
    return _time_margin


def use_time_margin(factor: float) -> None:
    """Set it for the whole process."""
    global _time_margin
    _time_margin = factor


def state_folder() -> Path | None:
    """Where the state of a job may lie in a file, if memory is too small for it; None unless `use_state_folder` named one."""
    return _state_folder


def use_state_folder(folder: Path | None) -> None:
    """Set it for the whole process."""
    global _state_folder
    _state_folder = folder


def use_threads(count: int) -> None:
    """Set the threads of the whole process: fewer than the cores if several workers share them."""
    global _chosen_threads
    _chosen_threads = count
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)


@cache
def _default_threads() -> int:
    """OMP_NUM_THREADS, else one for each core that this process may use: two threads of one core share its arithmetic."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    topology = "/sys/devices/system/cpu/cpu{}/topology/{}_id"
    try:
        cores = {
            tuple(Path(topology.format(cpu, part)).read_text() for part in ("physical_package", "core"))
            for cpu in allowed
        }
    except OSError:
        return len(allowed)
    return len(cores)


def machine_memory() -> tuple[int, int]:
    """Free and total bytes that this process may use: of the machine, or of a container or by `use_memory` fewer."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    try:
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        free = total  # macOS has no such figure
    for used, limit in _cgroup_memory(CGROUPS, OWN_CGROUP):
        free, total = min(free, max(0, limit - used)), min(total, limit)
    most = _memory_limit or total
    return min(free, most), min(total, most)


def _cgroup_memory(root: Path, own: Path) -> Iterator[tuple[int, int]]:
    """Used bytes and the limit of each control group that this process is in and that has a limit. Linux, versions 1 and 2."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if number == "0":
            place, files = root, ("memory.current", "memory.max")
        elif "memory" in controllers.split(","):
            place, files = root / "memory", ("memory.usage_in_bytes", "memory.limit_in_bytes")
        else:
            continue
        inner = place / path.lstrip("/")
        # A container may see its own group at the root, whatever path the file names.
        for folder in dict.fromkeys([inner, *(each for each in inner.parents if each.is_relative_to(place))]):
            try:
                used, limit = ((folder / name).read_text().strip() for name in files)
            except OSError:
                continue
            if limit.isdecimal():
                yield int(used), int(limit)
