"""The native backend: a graph is planned once, then each step is one native call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from repops import native
from repops.backend import DTYPE, check_batch
from repops.commitments import Array
from repops.graph import F32, Graph
from repops.native import generate
from repops.plan import build, ir
from repops.plan.fit import Fitting
from repops.plan.items import STRUCTS, Encoder, Item
from repops.plan.memory import Arena, Placed, barriers, place, rounded

NAN = np.uint32(0x7FC00000)


@functools.cache
def _recipes() -> bytes:
    return generate.digest().encode()


def _library() -> ctypes.CDLL:
    library = native.load()
    library.repops_recipes.restype = ctypes.c_char_p
    if library.repops_recipes() != _recipes():
        raise native.NoNativeLibrary("the native library has other recipes; run `python -m repops.native.build`")
    library.repops_run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]
    library.repops_run.restype = None
    library.repops_size.restype = ctypes.c_int64
    for which, struct in enumerate(STRUCTS):
        if library.repops_size(which) != ctypes.sizeof(struct):
            raise native.NoNativeLibrary(
                f"the native library is of another version: {struct.__name__} differs. Rebuild it."
            )
    return library


class Sources:
    """Memory of a plan's sources: state, batch and constants. The addresses never change.

    memory: arrays of inputs that lie elsewhere, by node: row-major, at multiples of ALIGNMENT. folder: see `Arena`.
    """

    def __init__(self, graph: Graph, memory: Mapping[int, Array], folder: Path | None = None) -> None:
        self.graph = graph
        offsets: dict[int, int] = {}
        size = 0
        for at, node in enumerate(graph.nodes):
            if node.op in ("input", "constant", "scalar") and at not in memory:
                offsets[at] = size
                size += rounded(4 * node.elements)
        self.arena = Arena(size, folder)
        self.arrays: dict[int, Array] = {}
        for at, offset in offsets.items():
            node = graph.nodes[at]
            array = self.arena.array(offset, DTYPE[node.dtype], node.shape)
            self.arrays[at] = array
            if node.op == "constant":
                array.view(np.uint32)[...] = np.frombuffer(graph.constants[at], "<u4").reshape(node.shape)
            elif node.op == "scalar":
                array.view(np.uint32)[...] = node.attributes[0]
        self.arrays |= memory
        self.addresses = {at: self.arena.address + offset for at, offset in offsets.items()}
        self.addresses |= {at: array.ctypes.data for at, array in memory.items()}


class Plan:
    """Items for one purpose, and the memory of their results. kept: nodes whose values can be read afterwards."""

    def __init__(
        self,
        sources: Sources,
        items: Sequence[ir.Item],
        kept: Sequence[int],
        in_place: Mapping[int, int] | None = None,
        placed: Placed | None = None,
    ) -> None:
        self.graph, self.sources, self.items = sources.graph, sources, items
        self.source_of = {at: at for at in sources.addresses} | dict(in_place or {})  # node -> the source it lies in
        self.offsets, self.size = placed or place(items, self._bytes, self.source_of, kept)
        self.library = _library()

    @cached_property
    def arena(self) -> Arena:
        """Memory of the results. It may be replaced by another arena of at least `size` bytes before the first run."""
        return Arena(self.size)

    @cached_property
    def _encoded(self) -> tuple[ctypes.Array[Item], list[object]]:
        """The structs, and the objects that they point to. Not the encoder, which knows this plan: its arena would be freed late."""
        encoder = Encoder(self.address)
        return encoder.encode(self.items, barriers(self.items, self._span)), encoder.kept

    def _bytes(self, node: int) -> int:
        return 4 * build.elements(self.graph, node)

    def _span(self, node: int) -> tuple[int, int]:
        return self.address(node), self.address(node) + rounded(self._bytes(node))

    def address(self, node: int) -> int:
        source = self.source_of.get(node)
        if source is not None:
            return self.sources.addresses[source]
        # No item writes a value without words, and none reads a word of it: any address will do.
        return self.arena.address + (self.offsets[node] if self._bytes(node) else 0)

    def value(self, node: int) -> Array:
        """The memory of a kept node, live."""
        definition = self.graph.nodes[node]
        if node in self.source_of:
            return self.sources.arrays[self.source_of[node]].view(DTYPE[definition.dtype]).reshape(definition.shape)
        return self.arena.array(self.offsets.get(node, 0), DTYPE[definition.dtype], definition.shape)

    def rest(self) -> None:
        """Give the memory of the results back until the next run."""
        if "arena" in self.__dict__:
            self.arena.discard()

    def run(self, threads: int) -> None:
        self.library.repops_run(ctypes.addressof(self._encoded[0]), len(self.items), threads)


class NativeRunner:
    """See `backend.Runner`. Plans are made on first use.

    memory: arrays of state entries that live in the caller's memory (see `Sources`).
    limit: bytes of a step's values, all that is beside state, batch and constants. Some are computed twice if they need more.
    folder: where state, batch and constants lie in a file (see `Arena`).
    """

    def __init__(
        self,
        graph: Graph,
        *,
        fused: bool,
        memory: Mapping[str, Array] | None = None,
        limit: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self.graph, self.fused, self.limit = graph, fused, limit
        arrays = memory or {}
        self._sources = Sources(graph, {e.before: arrays[e.name] for e in graph.state if e.name in arrays}, folder)
        self.state: dict[str, Array] = {entry.name: self._sources.arrays[entry.before] for entry in graph.state}
        self.batch: dict[str, Array] = {name: self._sources.arrays[at] for name, at in graph.batch}

    @cached_property
    def plan(self) -> Plan:
        """Of a step. Raises TooLarge."""
        if self.limit is None:
            step = build.step(self.graph, fused=self.fused)
            return Plan(self._sources, step.items, step.kept, step.in_place)
        fitted = Fitting(self.graph, fused=self.fused).within(self.limit)
        return Plan(self._sources, fitted.step.items, fitted.step.kept, fitted.step.in_place, fitted.placed)

    @cached_property
    def _loss(self) -> Plan:
        items = build.plan(self.graph, [self.graph.loss], fused=self.fused)
        plan = Plan(self._sources, items, [self.graph.loss])
        if self.limit is not None and plan.size <= self.plan.size:
            plan.arena = self.plan.arena
        return plan

    @cached_property
    def _trace(self) -> Plan:
        nodes = range(len(self.graph.nodes))
        return Plan(self._sources, build.plan(self.graph, list(nodes), fused=False), list(nodes))

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        self._load(batch)
        plan = self.plan
        # A loss that is itself a part of the state is the one before the step.
        source = self._sources.arrays.get(self.graph.loss)
        before = None if source is None else float(source)
        plan.run(threads)
        return float(plan.value(self.graph.loss)) if before is None else before

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        self._load(batch)
        self._loss.run(threads)
        return float(self._loss.value(self.graph.loss))

    def rest(self) -> None:
        if "plan" in self.__dict__:
            self.plan.rest()

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        self._load(batch)
        self._trace.run(threads)
        out = []
        for at, node in enumerate(self.graph.nodes):
            value = self._trace.value(at).copy()
            if node.dtype == F32:
                np.copyto(value.view(np.uint32), NAN, where=np.isnan(value))
            out.append(value)
        return out

    def _load(self, batch: Mapping[str, Array]) -> None:
        inputs = check_batch(self.graph, batch)
        for name, at in self.graph.batch:
            if inputs[name] is not self.batch[name]:
                self._sources.arrays[at][...] = inputs[name]


def prepare(graph: Graph, *, fused: bool = True, memory: int | None = None, folder: Path | None = None) -> NativeRunner:
    """memory: a limit in bytes of a step's values; folder: for the state (see `NativeRunner`). Raises TooLarge, with the least that
    would do, and OSError if the disk is too full."""
    runner = NativeRunner(graph, fused=fused, limit=memory, folder=folder)
    if memory is not None:
        _ = runner.plan
    return runner


def check() -> None:
    """Raises if there is no native library for this machine and none can be built."""
    _library()
