"""Which device a node has, which kernels run programs on it, and whether a job fits its memory.

A program gives the same bits on every device and thread count; a device with other bits is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from node import conformance
from node.backends import GuardedRunner, kernels_for
from node.errors import NodeOutOfMemory, NoDevice
from node.hardware import CPU, Device, device_named, gpus_of, machine_memory, torch_build
from repops import backend
from repops.cuda import driver
from repops.graph import Graph
from repops.profile import Profile
from zoo_compute.training.memory import needed_bytes

log = logging.getLogger("zoo.node")
GB = 10**9
MEMORY_SHARE = 0.75  # of the machine's: what a measurement and a worker plan with
USABLE = ("cpu", "cuda", "mps")  # an Intel GPU is named in the log, and not used
KINDS = ("data", "pipeline", "tensor")  # of several ranks (repops.parallel)


@dataclass(frozen=True)
class RankLayout:
    """Several processes that compute one program on this machine's CPU: `data:2`, `pipeline:3`, `tensor:2`."""

    kind: str
    ranks: int


def parse_layout(name: str | None) -> RankLayout | None:
    """The ranks that a device's name asks for; None if it names one device. Raises NoDevice."""
    kind, colon, count = (name or "").partition(":")
    if kind not in KINDS:
        return None
    if not (colon and count.isdecimal() and int(count) >= 2):
        raise NoDevice(f"device {name!r}: expected {kind}:N with two or more ranks")
    return RankLayout(kind, int(count))


def pick_device(name: str | None = None) -> Device:
    """The named device, or the best one: CUDA, then MPS, then the CPU. Raises NoDevice.

    For several ranks it is the CPU, which computes everything that the ranks do not.
    """
    if parse_layout(name) is not None:
        return CPU
    if name is None:
        best = next((kind for kind in ("cuda", "mps") if gpus_of(kind)), None)
        if best is None:
            _say_unused()
            return CPU
        return Device(best)
    try:
        device = device_named(name)
    except ValueError as error:
        raise NoDevice(f"device {name!r}: expected cpu, cuda, cuda:N, mps, or data:N, pipeline:N, tensor:N") from error
    if device.type not in USABLE or (device.index or 0) >= gpus_of(device.type):
        raise NoDevice(f"device {name!r} is not on this machine", hint="leave it out to take the best there is")
    return device


@cache
def _say_unused() -> None:
    """Log one line about a GPU of this machine that cannot be used."""
    if gpus_of("xpu"):
        log.warning("Intel GPU: this release has no kernels for it; programs run on the CPU, with the same bits")
    try:
        name = driver.name_of(0)
    except (RuntimeError, OSError, AttributeError):
        return
    log.warning(
        "%s: torch %s cannot use it; programs run on the CPU, with the same bits. Install torch for CUDA %s",
        name,
        torch_build().version,
        "and a driver that is new enough for it" if torch_build().cuda else "in place of this one",
    )


@cache
def computes_on(device: Device) -> Device:
    """The device itself if it computed the CPU's bits on this machine, else the CPU, with one line in the log.

    A device that was never checked is checked now, which takes a minute or more (node.conformance).
    """
    if device.type == "cpu":
        return CPU
    result = conformance.check(device)
    if not result.conformed:
        log.warning("%s", result.line)
        return CPU
    try:
        driver.gpu(device.index or 0)
    except (ImportError, RuntimeError) as error:
        log.warning("%s: %s; programs run on the CPU, with the same bits", result.name, error)
        return CPU
    return device


def ensure_checked(name: str | None) -> None:
    """Check the device now, if it was never checked. If it is absent, the first work on it fails too, so log only."""
    try:
        log.info("programs run on %s", computes_on(pick_device(name)))
    except NoDevice as error:
        log.error("%s", error)


def runner(graph: Graph, device: Device, limit: int | None = None, folder: Path | None = None) -> backend.Runner:
    """A runner of the graph on a device that `computes_on` returned. limit: bytes of its values; folder: for its state (`backend.prepare`).

    Raises NoBackend, BackendFailed (node/backends.py).
    """
    if device.type == "cuda":
        return GuardedRunner(f"cuda:{device.index or 0}", lambda: _cuda_runner(graph, device))
    return GuardedRunner(backend.current(), lambda: backend.prepare(graph, memory=limit, folder=folder))


def kernels_of(request: Mapping[str, Any]) -> str:
    """What a request's programs run on: `cuda:1`, or CPU kernels by name. Raises NoDevice, NoBackend."""
    device = computes_on(pick_device(request.get("device")))
    if device.type == "cuda":
        return f"cuda:{device.index or 0}"
    return kernels_for(request) or backend.current()


def _cuda_runner(graph: Graph, device: Device) -> backend.Runner:
    from repops.cuda.runner import CudaRunner

    return CudaRunner(graph, driver.gpu(device.index or 0), fused=True)


def memory(device: Device) -> tuple[int, int]:
    """Free and total bytes of the device's memory (of what this process may use of the machine's, for the CPU and unified memory)."""
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(str(device))
        return int(free), int(total)
    return machine_memory()


@contextmanager
def as_node_memory_errors(profile: Profile, device: Device) -> Iterator[None]:
    """Turn every form of "out of memory" into NodeOutOfMemory that names the sizes."""
    try:
        yield
    except (driver.OutOfMemory, MemoryError) as error:
        raise _out_of_memory(profile, device) from error
    except RuntimeError as error:  # torch has no other class for a CPU's
        is_torchs = type(error).__name__ == "OutOfMemoryError"
        if not is_torchs and "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise _out_of_memory(profile, device) from error


def _out_of_memory(profile: Profile, device: Device) -> NodeOutOfMemory:
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
    free, total = memory(device)
    return NodeOutOfMemory(
        f"{device} ran out of memory: {profile.parameters:,} parameters need about {needed_bytes(profile) / GB:.2f} GB "
        f"({profile.state_bytes / GB:.2f} GB of state, {profile.activation_bytes / GB:.2f} GB of activations), "
        f"{free / GB:.2f} of {total / GB:.2f} GB are free",
        hint="end other programs on the device, run fewer workers on it, use a larger one, or decline jobs of this size",
    )
