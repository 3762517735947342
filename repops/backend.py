"""What can run a graph: the native kernels, numba where there is no compiler, and the reference. Equal bits from all.

A backend is a module with `prepare(graph, *, fused=True) -> Runner`. REPOPS_BACKEND names one; else the first that works.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Protocol

import numpy as np

from repops.commitments import Array
from repops.graph import F32, I32, Graph

BACKENDS = {
    "native": "repops.native.runner",
    "numba": "repops.fallback",
    "reference": "repops.reference",
    "cuda": "repops.cuda.runner",  # by name only
}
DTYPE = {F32: np.dtype(np.float32), I32: np.dtype(np.int32)}


class NoBackend(RuntimeError):
    """Nothing on this machine can run a program; the text says what was missing in each backend."""


class Runner(Protocol):
    """A graph made ready to run. It owns the memory of one state.

    state: name -> array (float32 or int32, row-major), live: `step` updates it in place; writing into it loads a state.
    batch: name -> array of the input's shape and dtype (float32 or int32); wrong ones are a ValueError that says so.
    threads: as many as there may be; bits do not depend on it.
    """

    state: dict[str, Array]

    @property
    def batch(self) -> dict[str, Array]:
        """Room for a batch, by name: what is written here and given to a step need not be copied on the way."""
        ...

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        """One step: the loss before it. The state is updated in place."""
        ...

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        """The loss alone, computing only what it needs; the state stays."""
        ...

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        """Every node's value in the graph's order, each NaN canonical, as a step would make them; the state stays."""
        ...


def backend(name: str | None = None) -> ModuleType:
    """The backend asked for, by argument or REPOPS_BACKEND; else the first that works. Raises NoBackend."""
    wanted = name or os.environ.get("REPOPS_BACKEND")
    if wanted is not None:
        if wanted not in BACKENDS:
            raise NoBackend(f"backend {wanted!r}: expected one of {', '.join(BACKENDS)}")
        return importlib.import_module(BACKENDS[wanted])
    missing = []
    for each in ("native", "numba"):
        try:
            module = importlib.import_module(BACKENDS[each])
            module.check()
        except (ImportError, RuntimeError) as error:
            missing.append(f"{each}: {error}")
        else:
            return module
    raise NoBackend("no kernels can run here; install a C++ compiler, or numba. " + "; ".join(missing))


def prepare(graph: Graph, *, fused: bool = True, name: str | None = None) -> Runner:
    runner: Runner = backend(name).prepare(graph, fused=fused)
    return runner


def room_for_batch(graph: Graph) -> dict[str, Array]:
    """Arrays of a batch's shapes."""
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
