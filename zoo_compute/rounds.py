"""A round's own programs: the update of a slot, and the aggregation of the updates. Made from the manifest, by everybody alike.

Both are programs like a job's step, so that whoever judges a step can judge them: a program's state is what it turns
from one value into the next, its batch is what it is given. Their roots follow from the job's program and the outer
optimiser, which the manifest commits to; nobody publishes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from repops.builder import Builder, View
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, I32, OPTIMIZER, SEED, STATE_ROLE, BadProgram, Graph, Node, StateEntry
from zoo_compute.compression import decoded, finite
from zoo_compute.manifest import Compression

OUTER = "outer/"  # NAME's outer momentum is `outer/NAME` in a checkpoint
RESIDUAL = "residual/"  # what compression kept back of NAME's updates is `residual/NAME` in a slot's private state
UPDATES = "updates/"  # all slots' updates of NAME are `updates/NAME` in the batch of an aggregation
PRESENT = "present"  # there too: the number of present slots


def batch_nodes(graph: Graph) -> dict[str, Node]:
    """The inputs of a program's batch by name."""
    return {name: graph.nodes[at] for name, at in graph.batch}


def checkpoint_nodes(step: Graph) -> dict[str, Node]:
    """What a checkpoint of a job with this step holds: the module's tensors, and `outer/NAME` of those exchanged."""
    nodes = {entry.name: step.nodes[entry.before] for entry in step.state}
    held = {entry.name: nodes[entry.name] for entry in step.state if entry.kind != OPTIMIZER}
    return held | {OUTER + name: nodes[name] for name in step.exchanged}


def private(step: Graph) -> list[str]:
    """Names of a slot's private state, which may be carried from round to round: all of the optimizer's but the seed."""
    return [entry.name for entry in step.state if entry.kind == OPTIMIZER and entry.name != SEED]


def begin(
    step: Graph,
    state: Mapping[str, Array],
    checkpoint: Mapping[str, Array],
    seed: int = 0,
    carried: Mapping[str, Array] | None = None,
) -> None:
    """Write the first state of a slot-round into `state`: the module's tensors as in the checkpoint, private ones as carried.

    seed: of the module's random draws (Manifest.draws). carried: None or empty where the private state starts at zero.
    """
    for entry in step.state:
        if entry.kind != OPTIMIZER:
            start: Array | int = checkpoint[entry.name]
        elif entry.name == SEED:
            start = seed
        else:
            start = carried[entry.name] if carried else 0
        state[entry.name][...] = start


def tokens_of(step: Graph, batch_size: int) -> int:
    """What one step sees: tokens where its inputs are integers, else examples."""
    nodes = batch_nodes(step)
    first = nodes.get("inputs") or next(iter(nodes.values()))
    return first.elements if first.dtype == I32 else batch_size


def with_residuals(step: Graph) -> Graph:
    """The step with `residual/NAME` of every exchanged tensor among the optimiser's entries, which no step changes.

    Raises BadProgram for an entry of that name that is something else.
    """
    nodes, entries = list(step.nodes), {entry.name: entry for entry in step.state}
    for name in step.exchanged:
        node = step.nodes[entries[name].before]
        held = entries.get(RESIDUAL + name)
        if held is None:
            entries[RESIDUAL + name] = StateEntry(RESIDUAL + name, OPTIMIZER, len(nodes), len(nodes))
            nodes.append(node)
        elif held.kind != OPTIMIZER or held.after != held.before or nodes[held.before].shape != node.shape:
            raise BadProgram(f"program: state {held.name!r} is no residual of {name!r}")
    state = tuple(sorted(entries.values(), key=lambda entry: entry.name.encode()))
    for at, entry in enumerate(state):
        nodes[entry.before] = replace(nodes[entry.before], attributes=(STATE_ROLE, at))
    return replace(step, nodes=tuple(nodes), state=state)


def update_program(step: Graph, compression: Compression) -> Graph:
    """What a slot sends of what it changed: start - end of every exchanged tensor, or as much of it as compression keeps.

    State: the exchanged tensors as the round started, afterwards the update; and where the step's state has them, the
    residuals as the slot ended, afterwards what is left. Batch: the exchanged tensors as the slot ended.
    """
    writer, entries = _Writer(step), list[tuple[str, str, View, View]]()
    held = {entry.name for entry in step.state if entry.kind == OPTIMIZER}
    for name in step.exchanged:
        start, end = writer.state(name), writer.batch(name, name)
        change = writer.map("sub", start, end)
        if not compression.loses:
            entries.append((name, writer.kinds[name], start, change))
            continue
        residual = writer.state(name) if RESIDUAL + name in held else None
        if residual is not None:
            change = writer.map("fma", compression.decay, residual, change)
        change = finite(writer, change)
        sent = decoded(writer, change, compression)
        entries.append((name, writer.kinds[name], start, sent))
        if residual is not None:
            entries.append((RESIDUAL + name, OPTIMIZER, residual, writer.map("sub", change, sent)))
    return writer.finish(entries, writer.batches, writer.scalar(0.0, F32))


def aggregation_program(step: Graph, *, slots: int, rate: float, momentum: float, only: str | None = None) -> Graph:
    """Mean of the present slots' updates in ascending order of slots, then outer SGD with Nesterov momentum.

    g = (+0 + u_0 + u_1 + ...) / n;  m' = mu * m + g;  p' = p - lr * (g + mu * m'), each operation rounded by itself.
    State: the checkpoint, of which what is not exchanged stays as it is. Batch: as `aggregation_batch` makes it.
    only: the part of the program that makes this exchanged tensor; no tensor depends on another's updates.
    """
    writer = _Writer(step)
    present = writer.present()
    entries = []
    for name in writer.kinds if only is None else (only,):
        kind, before = writer.kinds[name], writer.state(name)
        if name not in step.exchanged:
            entries.append((name, kind, before, before))
            continue
        held, updates = writer.state(name), writer.batch(name, UPDATES + name, slots)
        mean = writer.map("div", writer.reduce("sum_sequential", updates, [0]), present)
        kept = writer.map("add", writer.map("mul", momentum, held), mean)
        ahead = writer.map("add", mean, writer.map("mul", momentum, kept))
        after = writer.map("sub", before, writer.map("mul", rate, ahead))
        entries += [(name, kind, before, after), (OUTER + name, OPTIMIZER, held, kept)]
    return writer.finish(entries, writer.batches, writer.scalar(0.0, F32))


def aggregation_batch(
    names: Collection[str], slots: int, updates: Mapping[int, Mapping[str, Array]]
) -> dict[str, Array]:
    """What an aggregation is given, of the tensors `names`: slot i's update in row i, +0 where the slot is absent.

    Rows of +0 change no bit: a sum that starts from +0 is never -0, and +0 added to anything else leaves it as it is.
    """
    first = next(iter(updates.values()))
    batch = {UPDATES + name: np.zeros((slots, *first[name].shape), np.float32) for name in names}
    for slot, update in updates.items():
        for name in names:
            batch[UPDATES + name][slot] = update[name]
    return batch | {PRESENT: np.asarray(len(updates), np.float32)}


class _Writer(Builder):
    """A builder whose inputs have the shapes of the tensors of a job's step."""

    def __init__(self, step: Graph) -> None:
        super().__init__()
        self.kinds = {entry.name: entry.kind for entry in step.state if entry.kind != OPTIMIZER}
        self.batches: list[tuple[str, View]] = []
        self._nodes_of = {entry.name: step.nodes[entry.before] for entry in step.state}
        self._inputs = 0

    def state(self, like: str) -> View:
        """An input of the state, shaped as the step's tensor `like`."""
        return self._input(like, STATE_ROLE)

    def batch(self, like: str, name: str, *rows: int) -> View:
        """An input of the batch, shaped as the step's tensor `like`; with `rows`, so many of them."""
        return self._batch(name, self._input(like, BATCH_ROLE, *rows))

    def present(self) -> View:
        self._inputs += 1
        return self._batch(PRESENT, self.input(F32, (), BATCH_ROLE, self._inputs))

    def _batch(self, name: str, view: View) -> View:
        self.batches.append((name, view))
        return view

    def _input(self, like: str, role: int, *rows: int) -> View:
        node = self._nodes_of[like]
        self._inputs += 1
        return self.input(node.dtype, (*rows, *node.shape), role, self._inputs)
