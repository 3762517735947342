"""What happens when kernels fail in a slot-round or a dispute: the work is done again on the next ones.

The order is: the GPU, then the CPU's native kernels (AVX-512, AVX2, portable), then numba. All give the same bits, and that is
compared once on a small program before the next ones are used, so that a wrong result is not taken for a remedy. What a job's
program failed on is remembered, for the other workers too: on that job's program only, since one stranger's program must not
slow down the others.

Every runner of a node is a `GuardedRunner`; every task that runs programs is decorated with `falls_back`. A worker that dies of an
illegal instruction cannot do that: its daemon reports the crash, and the worker that takes its work over calls `on_next`.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from node.errors import BackendFailed
from repops import backend, reference
from repops.commitments import Array
from repops.conformance.compare import compare
from repops.conformance.programs import SMALL
from repops.cuda import driver
from zoo_compute import paths
from zoo_compute.atomic import write_atomically
from zoo_compute.store.interface import Store

log = logging.getLogger("zoo.node")

KNOWN_PROGRAMS = ("elementwise", "indexed", "reductions", "product 12x9x8 xlz")  # small: the reference takes seconds
REMEMBERED = 1_000  # jobs

Task = Callable[..., dict[str, Any]]
_forgetters: list[Callable[[], None]] = []
_checked: dict[str, bool] = {}  # kernels -> whether their bits were right


class GuardedRunner:
    """A `backend.Runner` whose failures are BackendFailed. ValueError, about a batch that does not fit, stays as it is, and so does
    MemoryError on a CPU: the next kernels need the same memory."""

    def __init__(self, kernels: str, make: Callable[[], backend.Runner]) -> None:
        self.kernels = kernels
        self._runner: backend.Runner = self._guarded(make)
        self.state = self._runner.state

    @property
    def batch(self) -> dict[str, Array]:
        return self._runner.batch

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return float(self._guarded(self._runner.step, batch, threads=threads))

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return float(self._guarded(self._runner.loss, batch, threads=threads))

    def rest(self) -> None:
        self._guarded(self._runner.rest)

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        return list(self._guarded(self._runner.trace, batch, threads=threads))

    def _guarded(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options)
        except driver.OutOfMemory as error:
            raise BackendFailed(self.kernels, error, out_of_memory=True) from error
        except (ValueError, MemoryError, backend.NoBackend):
            raise
        except OSError as error:
            if error.errno == errno.ENOSPC:  # a file for the state: other kernels need the same
                raise
            raise BackendFailed(self.kernels, error) from error
        except Exception as error:
            raise BackendFailed(self.kernels, error) from error


def on_switch(forget: Callable[[], None]) -> None:
    """Register what forgets programs that were made ready: they hold the kernels that failed, and half a step."""
    _forgetters.append(forget)


def falls_back(task: Task) -> Task:
    """A worker's task (request, store) that is done again on the next kernels where kernels fail."""

    @functools.wraps(task)
    def run(request: Mapping[str, Any], store: Store, **options: Any) -> dict[str, Any]:
        while True:
            with backend.using(kernels_for(request)):
                try:
                    return task(request, store, **options)
                except BackendFailed as error:
                    failure = error
            request = on_next(request, failure)

    return run


def next_kernels(failed: str) -> str:
    """The best CPU kernels after `failed`, with the right bits. Raises NoBackend."""
    names = backend.kernels()
    for name in names if failed.startswith("cuda") else names[names.index(failed) + 1 :] if failed in names else []:
        if _bits_are_right(name):
            return name
    raise backend.NoBackend(f"no other kernels are left on this machine after {failed}")


def kernels_for(request: Mapping[str, Any]) -> str | None:
    """What the job's program is run with after a failure; None: the best."""
    try:
        record = json.loads(_path(request).read_bytes())
        return str(record["kernels"]) if record["kernels"] in backend.kernels() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(request: Mapping[str, Any], kernels: str, why: str) -> None:
    """Use these kernels for the job's program from now on, in every worker of this user."""
    path = _path(request)
    try:
        write_atomically(path, json.dumps({"kernels": kernels, "why": why}).encode() + b"\n", mode=0o644)
        for old in sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)[:-REMEMBERED]:
            old.unlink(missing_ok=True)
    except OSError as error:  # the next failure finds them again
        log.warning("%s cannot be written: %s", path, error)


def on_next(request: Mapping[str, Any], failure: BackendFailed) -> Mapping[str, Any]:
    """The request as it is done again. Raises what failed where no kernels are left."""
    for forget in _forgetters:
        forget()
    try:
        kernels = next_kernels(failure.kernels)
    except backend.NoBackend:
        raise failure.cause from None
    log.warning("%s failed (%s); the work is done again on %s, with the same bits", *_pair(failure), kernels)
    if failure.kernels.startswith("cuda"):  # memory may be free again the next time, and a driver may recover
        return {**request, "device": "cpu"}
    remember(request, kernels, str(failure))
    return request


def _pair(failure: BackendFailed) -> tuple[str, str]:
    return failure.kernels, f"{type(failure.cause).__name__}: {failure.cause}"


def _bits_are_right(kernels: str) -> bool:
    """Whether they agree with the reference on a small program, compared once a process."""
    if kernels not in _checked:
        try:
            wrong = [name for name, agrees in _cases(kernels).items() if not agrees]
            reason = f"other bits than the definition in {', '.join(wrong)}"
        except Exception as error:  # noqa: BLE001 - whatever it is, they are not used
            wrong, reason = ["failed"], f"{type(error).__name__}: {error}"
        if wrong:
            log.error("%s are not used: %s; please report it", kernels, reason)
        _checked[kernels] = not wrong
    return _checked[kernels]


def _cases(kernels: str) -> dict[str, bool]:
    """By operator of the known programs, whether its bits are right."""
    cases: dict[str, bool] = {}
    for program in KNOWN_PROGRAMS:
        sample = SMALL[program]()
        with backend.using(kernels):
            result = compare(sample, backend.prepare(sample[0]), reference.prepare(sample[0]))
        cases |= {f"{program}: {what}": agrees for what, agrees in result.items()}
    return cases


def _path(request: Mapping[str, Any]) -> Path:
    """By job and device. Other versions of the kernels are tried again."""
    from repops.conformance import source_digest

    key = json.dumps([request.get("manifest"), request.get("device"), source_digest()])
    return paths.home() / "kernels" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
