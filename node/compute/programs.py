"""A job's programs made ready on this machine: the step, the update, the aggregation. Kept from one slot-round to the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from node.compute.memory_choice import MemoryChoice, choose_memory
from node.device import runner
from node.hardware import CPU, Device, threads
from repops import encoding
from repops.backend import Runner
from repops.commitments import Array
from repops.graph import OPTIMIZER, STEP, Graph
from repops.hashing import StateHasher
from repops.profile import Profile, profile
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.manifest import Compression, Manifest
from zoo_compute.training.parts import Part
from zoo_compute.training.rounds import (
    aggregation_program,
    begin,
    products_program,
    row_weights_program,
    update_program,
)

State = dict[str, Array]
Tensors = Mapping[str, Array]  # a state that is only read, and may be read as it is asked for


class Programs:
    """Programs of one job on `device`. They have one state: loading another replaces it. Not thread-safe."""

    can_recompute = True

    def __init__(self, graph: Graph, device: Device = CPU) -> None:
        self.graph = graph
        self.device = device
        self.checked: set[Manifest] = set()  # manifests that the program was checked against
        self._hasher = StateHasher(graph)
        # As graphs: their memory is for one at a time.
        self._updates: dict[tuple[str, Compression], Graph] = {}
        self._aggregations: dict[tuple[Part, AggregationSpec], Graph] = {}

    @cached_property
    def root(self) -> bytes:
        return encoding.root(self.graph)

    @cached_property
    def profile(self) -> Profile:
        return profile(self.graph)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The module's tensors: what a model's file holds."""
        return tuple(entry.name for entry in self.graph.state if entry.kind != OPTIMIZER)

    @cached_property
    def memory(self) -> MemoryChoice:
        """How they fit this machine's memory. Raises NodeOutOfMemory."""
        return choose_memory(self.graph, self.profile, self.device, can_recompute=self.can_recompute)

    @cached_property
    def step(self) -> Runner:
        return runner(self.graph, self.device, self.memory.limit, self.memory.folder)

    def close(self) -> None:
        """Free its resources; it is not used any more."""

    def begin(self, checkpoint: Tensors, seed: int = 0, carried: State | None = None) -> State:
        """Load the first state of a slot-round: the module's tensors from the checkpoint, private ones as carried, else zero."""
        self._hasher.release()
        begin(self.graph, self.step.state, checkpoint, seed, carried)
        return self.step.state

    def load(self, state: State) -> None:
        """Load any state of the step."""
        self._hasher.release()
        for name, array in self.step.state.items():
            array[...] = state[name]

    def state_root(self) -> bytes:
        """The root of the loaded state; tensors that no step changes are hashed once."""
        return self._hasher.root(self.step.state, threads=threads())

    def tensor_roots(self) -> dict[str, bytes]:
        """The roots of its tensors by name."""
        return self._hasher.tensor_roots(self.step.state, threads=threads())

    def advance(self, batch: State) -> tuple[float, bool]:
        """One step: the loss before it, and whether it was taken (else the state is as before)."""
        count = self.step.state.get(STEP)
        before = None if count is None else count.copy()
        loss = self.step.step(batch, threads=threads())
        return loss, before is None or bool((self.step.state[STEP] != before).any())

    def rest(self) -> None:
        """Give the memory of a step's values back until the next step."""
        self.step.rest()

    def loss(self, batch: State) -> float:
        """The loss of the loaded state."""
        return self.step.loss(batch, threads=threads())

    def update(self, compression: Compression, start: Tensors, end: State) -> State:
        """A slot's update, from the checkpoint it started from and the state it ended with; a tensor at a time."""
        made: State = {}
        for name in self.graph.exchanged:
            run = self._update(name, compression)
            batch = {each: end[each] for each in run.batch}
            before = {each: (start if each in batch else end)[each] for each in run.state}
            made |= run_step(run, before, batch)
        return made

    def _update(self, name: str, compression: Compression) -> Runner:
        if (name, compression) not in self._updates:
            self._updates[name, compression] = update_program(self.graph, compression, only=name)
        return runner(self._updates[name, compression], CPU)

    def aggregation(self, part: Part, aggregation_spec: AggregationSpec) -> Runner:
        """What makes a part of the next checkpoint, and what the outer optimiser keeps of it."""
        if (part, aggregation_spec) not in self._aggregations:
            self._aggregations[part, aggregation_spec] = aggregation_program(self.graph, aggregation_spec, only=part)
        return runner(self._aggregations[part, aggregation_spec], CPU)

    def products(self, part: Part, aggregation_spec: AggregationSpec) -> Runner:
        """The stage of the aggregation that adds the products of the part's rows."""
        return runner(products_program(self.graph, aggregation_spec, part), CPU)

    def row_weights(self, aggregation_spec: AggregationSpec) -> Runner:
        """The stage of the aggregation that says of each row what it weighs."""
        return runner(row_weights_program(self.graph, aggregation_spec), CPU)


def run_step(run: Runner, state: Tensors, batch: Tensors) -> State:
    """One step of a program from the entries of `state` that it has; a state with memory of its own."""
    for name, array in run.state.items():
        array[...] = state[name]
    run.step(batch, threads=threads())
    return {name: array.copy() for name, array in run.state.items()}
