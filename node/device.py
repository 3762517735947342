"""Which device a node trains on, and how it is made to give the same bits every time.

On one machine: the CPU always runs on one thread here, since a thread count changes the order of sums. Between
machines bits may still differ until programs run on the project's own kernels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# cuBLAS reads it when its first handle is made, so it is set before any.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from node.errors import NodeOutOfMemory, NoDevice
from repops.specs import Profile

CPU_THREADS = 1
GB = 10**9


def pick(name: str | None = None) -> torch.device:
    """The device asked for, or the best there is: CUDA, then MPS, then the CPU. Raises NoDevice."""
    if name is None:
        found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(found)
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise NoDevice(f"device {name!r}: expected cpu, cuda, cuda:N or mps") from error
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present.get(device.type, False):
        raise NoDevice(f"device {name!r} is not on this machine", hint="leave it out to take the best there is")
    return device


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Deterministic algorithms, full float32 (no TF32), one CPU thread; the former settings come back after.

    Subnormals are kept from here on, as torch cannot tell what was set: keeping them is its default.
    """
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    strict, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn
    tf32, timed = cudnn.allow_tf32, cudnn.benchmark
    torch.set_flush_denormal(False)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32, cudnn.benchmark = False, False
    if device.type == "cpu":
        torch.set_num_threads(CPU_THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warned)
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32, cudnn.benchmark = tf32, timed


def memory(device: torch.device) -> tuple[int, int]:
    """Free and total bytes of the device's memory (of the machine's, for the CPU and unified memory)."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(free), int(total)
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    try:
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        free = total  # macOS has no such figure
    return free, total


def needed_bytes(profile: Profile) -> int:
    """Parameters, moments, gradients, their successors while a step is applied, and a step's activations."""
    return 2 * profile.state_bytes + 8 * profile.parameters + profile.activation_bytes


@contextmanager
def memory_errors_told(profile: Profile, device: torch.device) -> Iterator[None]:
    """Turn every form of "out of memory" into NodeOutOfMemory that names the sizes."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _told(profile, device) from error
    except RuntimeError as error:
        if "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise _told(profile, device) from error


def _told(profile: Profile, device: torch.device) -> NodeOutOfMemory:
    if device.type == "cuda":
        torch.cuda.empty_cache()
    free, total = memory(device)
    return NodeOutOfMemory(
        f"{device} ran out of memory: {profile.parameters:,} parameters need about {needed_bytes(profile) / GB:.2f} GB "
        f"({profile.state_bytes / GB:.2f} GB of state, {profile.activation_bytes / GB:.2f} GB of activations), "
        f"{free / GB:.2f} of {total / GB:.2f} GB are free",
        hint="end other programs on the device, run fewer workers on it, use a larger one, or decline jobs of this size",
    )
