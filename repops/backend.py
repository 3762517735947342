"""Chooses what runs a graph: native kernels, numba (without a compiler) or the reference. All give the same bits.

A backend is a module with `prepare(graph, *, fused=True, memory=None, folder=None) -> Runner`. REPOPS_BACKEND names one; the default
is the first that works.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from repops.commitments import Array
from repops.graph import F32, I32, Graph, Node

BACKENDS = {
    "native": "repops.native.runner",
    "numba": "repops.fallback",
    "reference": "repops.reference",
    "cuda": "repops.cuda.runner",  # by name only
}
PARTS = {  # where each backend has its `results`; a GPU's elements are computed part by part on the CPU
    "native": "repops.native.parts",
    "numba": "repops.fallback.parts",
    "reference": "repops.reference",
}
DTYPE = {F32: np.dtype(np.float32), I32: np.dtype(np.int32)}

SLOWER = 5  # numba's time of a step over the native kernels': benchmarks/arithmetic/fallback.py

log = logging.getLogger("repops")
Words = npt.NDArray[np.uint32]


class NoBackend(RuntimeError):
    """No backend works on this machine; the message says what each of them lacks."""


class Runner(Protocol):
    """A graph ready to run. It owns the memory of one state.

    state: name -> array (float32 or int32, row-major). `step` updates it in place; write into it to load a state.
    batch: name -> array of the input's shape and dtype (float32 or int32). Raises ValueError for any other.
    threads: an upper limit. The bits do not depend on it.
    """

    state: dict[str, Array]

    @property
    def batch(self) -> dict[str, Array]:
        """Buffers for a batch, by name. A step that is passed these very arrays does not copy them."""
        ...

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        """Run one step, update the state in place, and return the loss before it."""
        ...

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        """The loss. Computes only what the loss needs; leaves the state unchanged."""
        ...

    def rest(self) -> None:
        """Give the memory of a step's values back until the next step, where the backend can. The state stays."""
        ...

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        """Every node's value in a step, in the graph's order, with canonical NaNs. Leaves the state unchanged."""
        ...


def backend(name: str | None = None) -> ModuleType:
    """The backend that the argument or REPOPS_BACKEND names; else the first that works. Raises NoBackend."""
    wanted = name or os.environ.get("REPOPS_BACKEND")
    if wanted is not None:
        if wanted not in BACKENDS:
            raise NoBackend(f"backend {wanted!r}: expected one of {', '.join(BACKENDS)}")
        return importlib.import_module(BACKENDS[wanted])
    return importlib.import_module(BACKENDS[_first_that_works()])


def _first_that_works() -> str:
    """Raises NoBackend."""
    missing: list[str] = []
    for each in ("native", "numba"):
        try:
            importlib.import_module(BACKENDS[each]).check()
        except (ImportError, RuntimeError) as error:
            missing.append(f"{each}: {error}")
        else:
            if missing:
                _say_slower(each, missing[0])
            return each
    raise NoBackend("no kernels can run here; install a C++ compiler, or numba. " + "; ".join(missing))


@cache
def _say_slower(name: str, why: str) -> None:
    """Once a process, on stderr unless logging is set up otherwise."""
    log.warning(
        "%s computes here: the same bits, in about %d times the time of compiled kernels. %s", name, SLOWER, why
    )


def kernels() -> list[str]:
    """The CPU kernels that this machine has, best first: `native avx512`, `native avx2`, `native portable`, `numba`."""
    from repops import native

    try:
        names = [f"native {isa}" for isa in native.available()]
    except native.NoNativeLibrary:
        names = []
    return names + ["numba"] * (importlib.util.find_spec("numba") is not None)


def current() -> str:
    """The kernels that `prepare` takes now, as `kernels` names them; another backend by its own name. Raises NoBackend."""
    module = backend().__name__
    name = next(name for name, path in BACKENDS.items() if path == module)
    if name != "native":
        return name
    isa = os.environ.get("REPOPS_ISA")
    return f"native {isa}" if isa else kernels()[0]


@contextmanager
def using(name: str | None) -> Iterator[None]:
    """Prepare programs for these kernels while the block runs, in this process and those that it starts; None changes nothing."""
    before = {key: os.environ.get(key) for key in ("REPOPS_BACKEND", "REPOPS_ISA")}
    if name is not None:
        kind, _, isa = name.partition(" ")
        os.environ |= {"REPOPS_BACKEND": kind} | ({"REPOPS_ISA": isa} if isa else {})
    try:
        yield
    finally:
        for key, value in before.items():
            if value is not None:
                os.environ[key] = value
            elif name is not None:
                os.environ.pop(key, None)


def prepare(
    graph: Graph, *, fused: bool = True, name: str | None = None, memory: int | None = None, folder: Path | None = None
) -> Runner:
    """memory: a limit in bytes of what a step computes, beside state, batch and constants. Native kernels drop values and compute
    them again to stay below it, and raise TooLarge (repops.plan.fit), a MemoryError, if that is not enough.
    folder: where native kernels keep the state, in a file without a name, so that the system may use its memory for something else
    meanwhile. Other backends ignore both.
    """
    runner: Runner = backend(name).prepare(graph, fused=fused, memory=memory, folder=folder)
    return runner


def part_words(node: Node, element: int, operands: Sequence[Words], *, name: str | None = None) -> Words:
    """The word of each part of one element (row-major number); the last is the element's. See `repops.parts`.

    operands: for each operand the committed words of its source, row-major, uint32. Some hundred million terms a second
    with kernels. Raises NoBackend.
    """
    wanted = name or os.environ.get("REPOPS_BACKEND")
    module = importlib.import_module(PARTS[wanted] if wanted in PARTS else PARTS[_first_that_works()])
    words: Words = module.results(node, element, operands)
    return words


def room_for_batch(graph: Graph) -> dict[str, Array]:
    """Empty arrays of the batch's shapes and dtypes."""
    return {name: np.zeros(graph.nodes[at].shape, DTYPE[graph.nodes[at].dtype]) for name, at in graph.batch}


def check_batch(graph: Graph, batch: Mapping[str, Array]) -> dict[str, Array]:
    """The batch's arrays, row-major, by name in the graph's order. Raises ValueError."""
    out = {}
    for name, at in graph.batch:
        if name not in batch:
            raise ValueError(f"batch: {name!r} is missing; the program takes {', '.join(n for n, _ in graph.batch)}")
        node, array = graph.nodes[at], np.asarray(batch[name])
        if array.shape != node.shape or array.dtype != DTYPE[node.dtype]:
            raise ValueError(
                f"batch: {name!r} is {array.dtype.name} {array.shape}, the program takes {DTYPE[node.dtype].name} {node.shape}"
            )
        out[name] = np.asarray(array, order="C")  # ascontiguousarray would give a scalar an axis
    if len(batch) != len(out):
        odd = sorted(set(batch) - set(out))
        raise ValueError(f"batch: unknown {', '.join(map(repr, odd))}")
    return out
