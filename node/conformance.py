"""A device is used only after it computed the CPU's bits on this machine. The result is saved in `~/.zoo/conformance`.

The programs run in a process of their own, so that a driver that crashes or hangs takes no worker with it. They run again
when anything changes that their bits could depend on: card, driver, compiler, torch, or our own source.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from node import conformance_process
from node.hardware import Device, gpus_of, torch_build
from repops import backend, native
from repops.conformance import source_digest
from repops.cuda import driver
from zoo_compute import paths
from zoo_compute.atomic import write_atomically

log = logging.getLogger("zoo.node")

TRIES = 2  # runs that did not come to an end, after which a device is left alone
CHECKING = (
    "checking that it computes the CPU's bits, once for a card and driver: a minute or more",
    "checking its kernels",
)
UNCHECKED = "not checked on this machine yet"
MAX_LISTED = 6  # names of operators in a sentence

Record = dict[str, Any]  # what a file keeps: facts, status, cases, differing, why, deaths, boot, checked_at
Say = Callable[[str], None]
Examine = Callable[[str, Say], Record]


@dataclass(frozen=True)
class ConformanceResult:
    """differing: names of cases, `PROGRAM: OPERATOR`. why: empty where the device conformed. kept: the file; empty where nothing ran."""

    device: str
    name: str
    driver: str
    conformed: bool
    cases: int = 0
    differing: tuple[str, ...] = ()
    why: str = ""
    kept: str = ""

    @property
    def line(self) -> str:
        """One line for a log: why programs do not run on the device."""
        if self.device == "cpu":
            return f"{self.name}: {self.why}. Do not serve with it; try REPOPS_BACKEND=numba, and check again"
        advice = ""
        if self.differing:
            advice = f". Please report it with {self.kept}"
        elif self.kept:
            advice = ". `zoo node conformance --again` checks again"
        return f"{self.name}: {self.why}; programs run on the CPU, with the same bits{advice}"


def check(
    device: Device, *, again: bool = False, say: Say = log.info, examine: Examine | None = None
) -> ConformanceResult:
    """The saved result of the device, else that of a run now, which takes a minute or more. Raises nothing on purpose.

    again: run even if a result is saved.
    """
    known = _known(device)
    if isinstance(known, ConformanceResult):
        return known
    where, facts = _named(device), known
    path = record_path_of(facts)
    with _alone(path, lambda: say(f"{facts['name']}: another process checks it; waiting for the result")):
        record = {} if again else kept_record(path, facts)
        if record.get("status") == "running" and record.get("boot") == _boot():
            record = {}  # somebody ended the process that ran it: no fault of the device
        if record.get("status") not in ("conformed", "differs", "refused") and record.get("deaths", 0) < TRIES:
            record = _run(where, path, facts, record.get("deaths", 0), say, examine or conformance_process.examine)
    return _verdict(where, path, facts, record)


def kept(device: Device) -> ConformanceResult:
    """The result of an earlier run, if nothing changed since; runs nothing."""
    known = _known(device)
    if isinstance(known, ConformanceResult):
        return known
    path = record_path_of(known)
    return _verdict(_named(device), path, known, kept_record(path, known) or {"why": UNCHECKED})


def _known(device: Device) -> dict[str, str] | ConformanceResult:
    """What a device's bits could depend on, or why it cannot compute anyway."""
    where = _named(device)
    if missing := why_no_kernels(device):
        return ConformanceResult(where, device_name(device), "", False, why=missing)
    try:
        return device_facts(device)
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        return ConformanceResult(where, device_name(device), "", False, why=str(error))


def record_path_of(facts: dict[str, str]) -> Path:
    """By card and not by number, which CUDA_VISIBLE_DEVICES changes."""
    name = f"cuda-{facts['uuid'][:12]}" if "uuid" in facts else "cpu"
    return paths.home() / "conformance" / f"{name}.json"


def why_no_kernels(device: Device) -> str:
    """Why no kernels of this release run there; empty for CPUs and NVIDIA GPUs."""
    if device.type not in ("cpu", "cuda"):
        return f"this release has no kernels for {device.type}"
    is_amd = device.type == "cuda" and torch_build().hip
    return "this release has no kernels for AMD GPUs" if is_amd else ""


def device_name(device: Device) -> str:
    """As a sentence names it where the driver was not asked."""
    if device.type == "cuda" and gpus_of("cuda"):
        import torch

        return str(torch.cuda.get_device_name(str(device)))
    return {"mps": "Apple GPU (MPS)", "cpu": "CPU"}.get(device.type, str(device))


def device_facts(device: Device) -> dict[str, str]:
    """What its bits could depend on. Raises NoBackend, CudaError."""
    ours = {"repops": _release(), "source": source_digest(), "torch": torch_build().version}
    if device.type == "cpu":
        kernels = backend.backend().__name__.split(".")[1]
        if kernels == "native":
            kernels += f" {os.environ.get('REPOPS_ISA') or native.available()[0]}"
        return {"name": f"CPU {_cpu_name()}", "driver": kernels, **ours}
    return {**driver.facts(device.index or 0), **ours}


def _release() -> str:
    try:
        return metadata.version("zoo-compute")
    except metadata.PackageNotFoundError:
        return "source"


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _boot() -> str:
    """Another one after the machine was down; empty where the system does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _named(device: Device) -> str:
    """`cuda` is `cuda:0`; there is one CPU and one MPS."""
    return f"cuda:{device.index or 0}" if device.type == "cuda" else device.type


@contextlib.contextmanager
def _alone(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """One process of this machine at a time. Where nothing can be written there is nothing to share either."""
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(path.with_suffix(".lock").open("a"))
        except OSError:
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kept_record(path: Path, facts: Mapping[str, Any]) -> Record:
    """What is kept for these facts; nothing where any of them changed, or the file is no record."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("facts") == facts else {}


def _write(path: Path, record: Record) -> None:
    """A record that cannot be kept costs the next start a run, and nothing else."""
    try:
        write_atomically(path, json.dumps(record, indent=1).encode() + b"\n", mode=0o644)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)


def _run(where: str, path: Path, facts: dict[str, str], deaths: int, say: Say, examine: Examine) -> Record:
    """Written before it starts, so that a machine that goes down meanwhile has a record of that."""
    began = {"facts": facts, "status": "running", "boot": _boot(), "deaths": deaths + 1}
    _write(path, began | {"why": "the machine went down while its bits were checked"})
    say(f"{facts['name']}: {CHECKING[where == 'cpu']}")
    try:
        answer = examine(where, say)
    except BaseException:  # an interrupted check says nothing about the device
        path.unlink(missing_ok=True)
        raise
    record = {**began, "checked_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if "died" in answer:
        record |= {"status": "died", "why": f"the check of its bits {answer['died']}"}
    elif "error" in answer:
        record |= {"status": "refused", "why": answer["error"], "deaths": 0}
    else:
        differing = list(answer["differing"])
        record |= {"status": "differs" if differing else "conformed", "why": "", "deaths": 0}
        record |= {"cases": int(answer["cases"]), "differing": differing}
    if answer.get("out_of_memory"):  # of this moment, not of the device
        path.unlink(missing_ok=True)
    else:
        _write(path, record)
    return record


def _verdict(where: str, path: Path, facts: dict[str, str], record: Record) -> ConformanceResult:
    cases, differing = int(record.get("cases", 0)), tuple(record.get("differing", ()))
    why = str(record.get("why", ""))
    if differing:
        why = f"{len(differing)} of {cases} cases differ from the CPU ({_operators(differing)})"
        if all(case.startswith("cpu ") for case in differing):
            why = f"the CPU's own kernels differ from the definition in {len(differing)} of {cases} cases ({_operators(differing)})"
    conformed = record.get("status") == "conformed"
    return ConformanceResult(
        where,
        facts["name"],
        facts["driver"],
        conformed,
        cases,
        differing,
        "" if conformed else why,
        str(path) if path.exists() else "",
    )


def _operators(differing: tuple[str, ...]) -> str:
    """`sweep: exp` and `chains: step` -> `exp, chains`: an operator, or the program whose step differs."""
    pairs = [case.rpartition(": ")[::2] for case in differing]
    names = list(dict.fromkeys(program if what in ("step", "loss") else what for program, what in pairs))
    operators = [name for name in names if name in {what for _, what in pairs}] or names
    more = f" and {len(operators) - MAX_LISTED} more" if len(operators) > MAX_LISTED else ""
    return ", ".join(operators[:MAX_LISTED]) + more
