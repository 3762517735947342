"""A round's own programs: the update of a slot, and the aggregation of the updates. Made from the manifest, by everybody alike.

Both are programs like a job's step, so that whoever judges a step can judge them: a program's state is what it turns
from one value into the next, its batch is what it is given. Their roots follow from the job's program and the outer
optimiser, which the manifest commits to; nobody publishes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from repops.builder import Builder, View
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, I32, OPTIMIZER, SEED, STATE_ROLE, Graph, Node

OUTER = "outer/"  # NAME's outer momentum is `outer/NAME` in a checkpoint


def batch_nodes(graph: Graph) -> dict[str, Node]:
    """The inputs of a program's batch by name."""
    return {name: graph.nodes[at] for name, at in graph.batch}


def checkpoint_nodes(step: Graph) -> dict[str, Node]:
    """What a checkpoint of a job with this step holds: the module's tensors, and `outer/NAME` of those exchanged."""
    nodes = {entry.name: step.nodes[entry.before] for entry in step.state}
    held = {entry.name: nodes[entry.name] for entry in step.state if entry.kind != OPTIMIZER}
    return held | {OUTER + name: nodes[name] for name in step.exchanged}


def begin(step: Graph, state: Mapping[str, Array], checkpoint: Mapping[str, Array], seed: int = 0) -> None:
    """Write the first state of a slot-round into `state`: the module's tensors as in the checkpoint, all else zero.

    seed: of the module's random draws (Manifest.draws).
    """
    for entry in step.state:
        start = checkpoint[entry.name] if entry.kind != OPTIMIZER else seed if entry.name == SEED else 0
        state[entry.name][...] = start


def tokens_of(step: Graph, batch_size: int) -> int:
    """What one step sees: tokens where its inputs are integers, else examples."""
    nodes = batch_nodes(step)
    first = nodes.get("inputs") or next(iter(nodes.values()))
    return first.elements if first.dtype == I32 else batch_size


def update_program(step: Graph) -> Graph:
    """start - end of every exchanged tensor.

    State: the exchanged tensors as the round started, afterwards the update. Batch: the same names, as the slot ended.
    """
    writer = _Writer(step)
    entries = []
    for name in step.exchanged:
        start, end = writer.state(name), writer.batch(name, name)
        entries.append((name, writer.kinds[name], start, writer.map("sub", start, end)))
    return writer.finish(entries, writer.batches, writer.scalar(0.0, F32))


def aggregation_program(step: Graph, *, count: int, rate: float, momentum: float) -> Graph:
    """Mean of `count` updates in ascending order of slots, then outer SGD with Nesterov momentum.

    g = (u_0 + u_1 + ...) / n;  m' = mu * m + g;  p' = p - lr * (g + mu * m'), each operation rounded by itself.
    State: the checkpoint, of which what is not exchanged stays as it is. Batch: `0/NAME`, `1/NAME`, ... of the present slots.
    """
    writer = _Writer(step)
    entries = []
    for name, kind in writer.kinds.items():
        before = writer.state(name)
        if name not in step.exchanged:
            entries.append((name, kind, before, before))
            continue
        held = writer.state(name)
        total = writer.batch(name, update_name(0, name))
        for place in range(1, count):
            total = writer.map("add", total, writer.batch(name, update_name(place, name)))
        mean = writer.map("div", total, float(count))
        kept = writer.map("add", writer.map("mul", momentum, held), mean)
        ahead = writer.map("add", mean, writer.map("mul", momentum, kept))
        after = writer.map("sub", before, writer.map("mul", rate, ahead))
        entries += [(name, kind, before, after), (OUTER + name, OPTIMIZER, held, kept)]
    return writer.finish(entries, writer.batches, writer.scalar(0.0, F32))


def update_name(place: int, name: str) -> str:
    """A tensor of the update of the `place`-th present slot, in the batch of the aggregation."""
    return f"{place}/{name}"


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

    def batch(self, like: str, name: str) -> View:
        self.batches.append((name, self._input(like, BATCH_ROLE)))
        return self.batches[-1][1]

    def _input(self, like: str, role: int) -> View:
        node = self._nodes_of[like]
        self._inputs += 1
        return self.input(node.dtype, node.shape, role, self._inputs)
