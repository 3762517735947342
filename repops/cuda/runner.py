"""A graph on one GPU, behind the interface of `backend.Runner`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from repops.backend import DTYPE, check_batch, room_for_batch
from repops.commitments import Array, canonical
from repops.cuda import plan as plans
from repops.cuda.driver import Address, Call, Device, Words, gpu
from repops.cuda.plan import Plan
from repops.cuda.source import Kernel, distinct
from repops.graph import BATCH_ROLE, Graph, Node


class CudaRunner:
    """state: arrays over memory that host and device share; see `driver.Gpu.shared` for what touching them costs.

    Kernels are compiled and memory is taken when a step, a loss or a trace is first asked for. Raises CudaError.
    """

    def __init__(self, graph: Graph, device: Device, *, fused: bool) -> None:
        self.graph, self._device, self._fused = graph, device, fused
        self.state: dict[str, Array] = {}
        places, words = _places([graph.nodes[entry.before].elements for entry in graph.state])
        block, self._state_address = device.shared(words)
        self._state_words = words
        self._sources: dict[int, Address] = {}
        for entry, place in zip(graph.state, places, strict=True):
            node = graph.nodes[entry.before]
            array = block[place : place + node.elements].view(DTYPE[node.dtype])
            self.state[entry.name] = array.reshape(node.shape)
            self._sources[entry.before] = self._state_address + 4 * place
        self._load_constants()
        self._memory = [device.memory(graph.nodes[at].elements) for _, at in graph.batch]
        self._sources |= {at: memory.address for (_, at), memory in zip(graph.batch, self._memory, strict=True)}
        self._plans: dict[str, Loaded] = {}

    def _load_constants(self) -> None:
        """All memory whose size is known before the first step, in one allocation."""
        nodes = self.graph.nodes
        known = [at for at, node in enumerate(nodes) if node.op in ("scalar", "constant", "iota")]
        places, words = _places([nodes[at].elements for at in known])
        self._constants = self._device.memory(words)
        for at, place in zip(known, places, strict=True):
            self._sources[at] = self._constants.address + 4 * place
            self._device.write(self._sources[at], _known_words(self.graph, at))

    @cached_property
    def batch(self) -> dict[str, Array]:
        return room_for_batch(self.graph)

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        wanted = [self.graph.loss, *(entry.after for entry in self.graph.state)]
        return self._run("step", wanted, batch, updates=True)

    def rest(self) -> None:
        """Keeps its memory."""

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return self._run("loss", [self.graph.loss], batch, updates=False)

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        inputs = self._start(batch)
        if "trace" not in self._plans:
            wanted = range(len(self.graph.nodes))
            plan = plans.make(self.graph, wanted, fused=False, updates=False, kept=False)
            self._plans["trace"] = Loaded(self.graph, self._device, plan, self._sources)
        loaded, values = self._plans["trace"], []
        computed = {unit.members[0]: number for number, unit in enumerate(loaded.plan.units)}
        for at, node in enumerate(self.graph.nodes):
            if at in computed:
                self._device.launch(loaded.calls[computed[at]])
                words = self._device.read(loaded.address(at), node.elements)
            elif node.op == "input":
                role, position = node.attributes
                name = self.graph.batch[position][0] if role == BATCH_ROLE else self.graph.state[position].name
                source = inputs[name] if role == BATCH_ROLE else self.state[name].copy()
                words = source.reshape(-1).view(np.uint32)
            else:
                words = _known_words(self.graph, at)
            values.append(canonical(words.view(DTYPE[node.dtype]).reshape(node.shape)))
        return values

    def _start(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        inputs = check_batch(self.graph, batch)
        for array, memory in zip(inputs.values(), self._memory, strict=True):
            self._device.write(memory.address, array.reshape(-1).view(np.uint32))
        self._device.to_device(self._state_address, self._state_words)
        return inputs

    def _run(self, name: str, wanted: Sequence[int], batch: Mapping[str, Array], *, updates: bool) -> float:
        self._start(batch)
        if name not in self._plans:
            plan = plans.make(self.graph, wanted, fused=self._fused, updates=updates)
            self._plans[name] = Loaded(self.graph, self._device, plan, self._sources)
        loaded = self._plans[name]
        loaded.run()
        return float(self._device.read(loaded.address(self.graph.loss), 1).view(np.float32)[0])


class Loaded:
    """A plan with its kernels compiled and its memory taken. calls: of each unit."""

    def __init__(self, graph: Graph, device: Device, plan: Plan, sources: Mapping[int, Address]) -> None:
        self._graph, self.plan, self._sources = graph, plan, sources
        self._arena = device.memory(plan.arena)
        kernels = [(number, kernel) for number, unit in enumerate(plan.units) for kernel in unit.kernels]
        ends = [plans.whole_copy(graph, at, at) for at in plan.saved]
        texts, names = distinct([kernel for _, kernel in kernels] + ends + plan.copies)
        self._module = device.build(texts)
        functions = iter([self._module.functions[name] for name in names])
        self.calls: list[list[Call]] = [[] for _ in plan.units]
        for number, kernel in kernels:
            addresses = [self._buffer(number, buffer) for buffer in kernel.buffers]
            self.calls[number].append(_call(next(functions), kernel, addresses))
        last = [
            _call(next(functions), kernel, [sources[at], self._arena_address(plan.saved[at])])
            for at, kernel in zip(plan.saved, ends, strict=True)
        ]
        for kernel in plan.copies:
            source, target = kernel.buffers
            last.append(_call(next(functions), kernel, [self.address(source), sources[target]]))
        self.run = device.sequence([call for calls in [*self.calls, last] for call in calls])

    def _arena_address(self, place: int) -> Address:
        return self._arena.address + 4 * place

    def address(self, at: int) -> Address:
        """The address of a node's words after the run."""
        if at in self.plan.saved:
            return self._arena_address(self.plan.saved[at])
        return self._buffer(0, self.plan.home.get(at, at))

    def _buffer(self, unit: int, name: int) -> Address:
        if name < 0:
            return self._arena_address(self.plan.scratch[(unit, -1 - name)])
        if name in self._sources:
            return self._sources[name]
        if not self._graph.nodes[name].elements:
            return self._arena.address  # never read
        return self._arena_address(self.plan.addresses[name])


def _call(function: int, kernel: Kernel, addresses: Sequence[Address]) -> Call:
    return Call(function, kernel.blocks, kernel.threads, addresses)


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where tensors of these many words start in one block, and the block's size."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += plans.aligned(size)
    return places, end


def _known_words(graph: Graph, at: int) -> Words:
    """The words of a node that depends on no input."""
    node: Node = graph.nodes[at]
    if node.op == "scalar":
        return np.array(node.attributes, np.uint32)
    if node.op == "constant":
        return np.frombuffer(graph.constants[at], "<u4").astype(np.uint32)
    if node.op == "iota":
        axis = node.attributes[0]
        along = np.arange(node.shape[axis], dtype=np.uint32).reshape(-1, *(1,) * (len(node.shape) - axis - 1))
        return np.ascontiguousarray(np.broadcast_to(along, node.shape)).reshape(-1)
    return np.zeros(node.elements, np.uint32)  # what has no elements


def prepare(graph: Graph, *, fused: bool = True, memory: int | None = None, folder: Path | None = None) -> CudaRunner:
    """memory, folder: ignored. Raises NoBackend."""
    return CudaRunner(graph, gpu(), fused=fused)


def check() -> None:
    """Raises NoBackend when there is no driver, no GPU or no NVRTC."""
    gpu()
