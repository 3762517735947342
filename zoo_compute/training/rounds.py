"""A round's own programs: the update of a slot, and the aggregation of the updates. Made from the manifest, by everybody alike.

Both are programs like a job's step, so that whoever judges a step can judge them: a program's state is what it turns
from one value into the next, its batch is what it is given. Their roots follow from the job's program and the outer
optimiser, which the manifest commits to; nobody publishes them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from repops.builder import Builder, View
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, I32, OPTIMIZER, SEED, STATE_ROLE, BadProgram, Graph, Node, StateEntry
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.manifest import Compression
from zoo_compute.training.compression import decoded_update, zero_nonfinite
from zoo_compute.training.outer_optimizers import OUTER, OUTER_RULES
from zoo_compute.training.parts import Part, parts_of
from zoo_compute.training.robust_rules import (
    RowWeights,
    aggregate_rows,
    nonzero_rows,
    row_mean,
    row_products,
    scores_shape,
    shares_shape,
    weigh_rows,
)
from zoo_compute.training.shares import Names, cut

PROGRAMS_KEPT = 32  # of each kind: a quote, a submission and a worker ask for those of one job again and again
HEADER_ROOM = 2**20  # the most bytes of a state's file beside its tensors
RESIDUAL = "residual/"  # the unsent rest of NAME's updates is `residual/NAME` in a slot's private state
PRESENT = "present"  # in the batch of an aggregation, if the rule is the mean: the number of present slots
SCORES = OUTER + "scores"  # the slots' scores, in the checkpoint of their aggregation (robust_rules.weigh_rows)
PRODUCTS, COUNTED_ROWS, SHARES = "products", "verdict/counted", "verdict/shares"  # between the parts of an aggregation


def batch_nodes(graph: Graph) -> dict[str, Node]:
    """The inputs of a program's batch by name."""
    return {name: graph.nodes[at] for name, at in graph.batch}


def checkpoint_nodes(step: Graph, aggregation_spec: AggregationSpec, share: int | None = None) -> dict[str, Node]:
    """The tensors of a checkpoint: the module's, the outer optimiser's state, and the scores. share: those of one aggregator."""
    if share is not None:
        own = checkpoint_shares(step, aggregation_spec)[share]
        return {name: node for name, node in checkpoint_nodes(step, aggregation_spec).items() if name in own}
    nodes = {entry.name: step.nodes[entry.before] for entry in step.state}
    carried = {entry.name: nodes[entry.name] for entry in step.state if entry.kind != OPTIMIZER}
    optimiser = OUTER_RULES[aggregation_spec.outer.kind]
    carried |= {prefix + name: nodes[name] for prefix in optimiser.prefixes for name in step.exchanged}
    carried |= {name: Node("input", F32, ()) for name in optimiser.scalars}
    return (
        carried
        if aggregation_spec.rule.is_mean
        else carried | {SCORES: Node("input", F32, scores_shape(aggregation_spec.slots))}
    )


def checkpoint_shares(step: Graph, aggregation_spec: AggregationSpec) -> tuple[Names, ...]:
    """The names of a checkpoint's tensors, by aggregator. Raises JobError."""
    prefixes = OUTER_RULES[aggregation_spec.outer.kind].prefixes
    exchanged = set(step.exchanged)
    return tuple(
        names | {prefix + name for prefix in prefixes for name in names & exchanged}
        for names in shares_of(step, aggregation_spec)
    )


def shares_of(step: Graph, aggregation_spec: AggregationSpec) -> tuple[Names, ...]:
    """The names of the module's tensors, by aggregator. Raises JobError."""
    return _shares(_StepTensors.of(step), aggregation_spec.rule.aggregators)


def file_bytes(nodes: Mapping[str, Node]) -> int:
    """The most bytes that a file of these tensors can have."""
    return HEADER_ROOM + 4 * sum(node.elements for node in nodes.values())


def checkpoint_bytes(step: Graph, aggregation_spec: AggregationSpec) -> int:
    """The most bytes a checkpoint's file can have."""
    return file_bytes(checkpoint_nodes(step, aggregation_spec))


def private(step: Graph) -> list[str]:
    """Names of a slot's private state, which may be carried over to the next round: the optimizer's entries except the seed."""
    return [entry.name for entry in step.state if entry.kind == OPTIMIZER and entry.name != SEED]


def begin(
    step: Graph,
    state: Mapping[str, Array],
    checkpoint: Mapping[str, Array],
    seed: int = 0,
    carried: Mapping[str, Array] | None = None,
) -> None:
    """Write the first state of a slot-round into `state`: the checkpoint's tensors, and the private ones carried over.

    seed: of the module's random draws (Manifest.draw_seed). carried: None or empty if the private state starts at zero.
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
    """Tokens of one step if its inputs are integers, else examples."""
    nodes = batch_nodes(step)
    first = nodes.get("inputs") or next(iter(nodes.values()))
    return first.elements if first.dtype == I32 else batch_size


def with_residuals(step: Graph) -> Graph:
    """The step with an optimiser entry `residual/NAME` for every exchanged tensor. Steps do not change these entries.

    Raises BadProgram if an entry of that name is something else.
    """
    nodes, entries = list(step.nodes), {entry.name: entry for entry in step.state}
    for name in step.exchanged:
        node = step.nodes[entries[name].before]
        residual = entries.get(RESIDUAL + name)
        if residual is None:
            entries[RESIDUAL + name] = StateEntry(RESIDUAL + name, OPTIMIZER, len(nodes), len(nodes))
            nodes.append(node)
        elif (
            residual.kind != OPTIMIZER
            or residual.after != residual.before
            or nodes[residual.before].shape != node.shape
        ):
            raise BadProgram(f"program: state {residual.name!r} is not a residual of {name!r}")
    state = tuple(sorted(entries.values(), key=lambda entry: entry.name.encode()))
    for at, entry in enumerate(state):
        nodes[entry.before] = replace(nodes[entry.before], attributes=(STATE_ROLE, at))
    return replace(step, nodes=tuple(nodes), state=state)


@dataclass(frozen=True)
class _StepTensors:
    """What a round's programs need to know of a step: its state's tensors. state: name -> (kind, dtype, shape), as pairs."""

    state: tuple[tuple[str, tuple[str, str, tuple[int, ...]]], ...]
    exchanged: tuple[str, ...]

    @classmethod
    def of(cls, step: Graph) -> _StepTensors:
        nodes = ((entry, step.nodes[entry.before]) for entry in step.state)
        return cls(tuple((entry.name, (entry.kind, node.dtype, node.shape)) for entry, node in nodes), step.exchanged)

    def only(self, names: Names) -> _StepTensors:
        exchanged = tuple(name for name in self.exchanged if name in names)
        return _StepTensors(tuple(each for each in self.state if each[0] in names), exchanged)


@lru_cache(PROGRAMS_KEPT)
def _shares(tensors: _StepTensors, aggregators: int) -> tuple[Names, ...]:
    sizes = {name: math.prod(shape) for name, (kind, _, shape) in tensors.state if kind != OPTIMIZER}
    return cut(sizes, tensors.exchanged, aggregators)


def update_program(step: Graph, compression: Compression, *, only: str | None = None) -> Graph:
    """The program that makes a slot's update: start - end of every exchanged tensor, compressed.

    State: the exchanged tensors at the start of the round, afterwards the update; and the residuals, if the step's state has
    them, at the slot's end, afterwards the new ones. Batch: the exchanged tensors at the slot's end. A map's update is its outputs at
    the slot's end, as they are.
    only: return only what makes the update of this tensor; tensors do not depend on each other.
    """
    return _update_program(_StepTensors.of(step), compression, only)


@lru_cache(PROGRAMS_KEPT)
def _update_program(tensors: _StepTensors, compression: Compression, only: str | None) -> Graph:
    writer, entries = _RoundBuilder(tensors), list[tuple[str, str, View, View]]()
    names = {name for name, (kind, *_) in tensors.state if kind == OPTIMIZER}
    for name in tensors.exchanged if only is None else (only,):
        if name in names:  # a map's: what a slot keeps is its own, as a residual is
            end = writer.state(name)
            entries.append((name, OPTIMIZER, end, end))
            continue
        start, end = writer.state(name), writer.batch(name, name)
        change = writer.map("sub", start, end)
        if not compression.is_lossy:
            entries.append((name, writer.kinds[name], start, change))
            continue
        residual = writer.state(name) if RESIDUAL + name in names else None
        if residual is not None:
            change = writer.map("fma", compression.decay, residual, change)
        change = zero_nonfinite(writer, change)
        nonzero_rows = decoded_update(writer, change, compression)
        entries.append((name, writer.kinds[name], start, nonzero_rows))
        if residual is not None:
            entries.append((RESIDUAL + name, OPTIMIZER, residual, writer.map("sub", change, nonzero_rows)))
    return writer.finish(entries, writer.batches, writer.scalar(0.0, F32))


def aggregation_program(
    step: Graph, aggregation_spec: AggregationSpec, *, only: Part | None = None, share: int | None = None
) -> Graph:
    """The program of the next checkpoint: the job's rule aggregates a round's updates, then the outer optimiser makes one step.

    State: the checkpoint; tensors that are not exchanged do not change. Batch: see `aggregation_batch`.
    only: return only what makes this part, from the part of the checkpoint. Parts depend on each other only through the rule's
    row weights, which are in this program's batch. share: what one of several aggregators executes, of its tensors alone.
    """
    tensors = _StepTensors.of(step)
    if share is not None:
        tensors = tensors.only(shares_of(step, aggregation_spec)[share])
    return _aggregation_program(tensors, aggregation_spec, only)


def aggregation_programs(step: Graph, aggregation_spec: AggregationSpec) -> list[Graph]:
    """What each aggregator executes, in the order of their seats."""
    return [aggregation_program(step, aggregation_spec, share=share) for share in aggregation_shares(aggregation_spec)]


def aggregation_shares(aggregation_spec: AggregationSpec) -> Sequence[int | None]:
    """`share` of each aggregator's functions here: None of the only one."""
    count = aggregation_spec.rule.aggregators
    return range(count) if count > 1 else [None]


@lru_cache(PROGRAMS_KEPT)
def _aggregation_program(tensors: _StepTensors, aggregation_spec: AggregationSpec, only: Part | None) -> Graph:
    writer, rule, optimiser = _RoundBuilder(tensors), aggregation_spec.rule, OUTER_RULES[aggregation_spec.outer.kind]
    entries: dict[str, tuple[str, View, View]] = {}
    if rule.is_mean:
        present, verdict = writer.batch_input(PRESENT, F32), None
    elif only is not None:
        verdict = writer.row_weights_input(aggregation_spec)
    else:
        verdict, scores = writer.row_weights_and_scores(aggregation_spec)
        entries[SCORES] = (OPTIMIZER, writer.state_input(F32, *scores_shape(aggregation_spec.slots)), scores)
    scalars = {name: writer.state_input(F32) for name in optimiser.scalars}

    def joined(part: Part) -> View:
        rows = writer.rows(part, aggregation_spec.slots)
        if verdict is not None:
            return aggregate_rows(writer, rows, verdict, rule)
        return row_mean(writer, rows, present if rule.rule == "mean" else nonzero_rows(writer, rows))

    for name in writer.kinds if only is None else (only.name,):
        kind = writer.kinds[name]
        if name not in tensors.exchanged:
            before = writer.state(name)
            entries[name] = (kind, before, before)
            continue
        kinds = {name: kind} | {prefix + name: OPTIMIZER for prefix in optimiser.prefixes}
        before_of = {each: writer.state(name, only) for each in kinds}
        made: list[list[View]] = []
        for part in writer.parts(name, aggregation_spec) if only is None else (only,):
            views = [part.view_of(view) if only is None else view for view in before_of.values()]
            after, kept = optimiser.step(
                writer, aggregation_spec.outer, views[0], joined(part), *views[1:], *scalars.values()
            )
            made.append([after, *kept])
        for each, pieces in zip(kinds, zip(*made, strict=True), strict=False):
            entries[each] = (kinds[each], before_of[each], writer.concat(pieces, 0) if len(pieces) > 1 else pieces[0])
        # The scalars' steps are the same of every part.
        entries |= {
            each: (OPTIMIZER, view, new)
            for (each, view), new in zip(scalars.items(), made[0][len(kinds) :], strict=True)
        }
    return writer.finish_entries(entries)


def products_program(step: Graph, aggregation_spec: AggregationSpec, part: Part) -> Graph:
    """A stage of the aggregation: adds the products of one part's rows to those of the parts before it."""
    writer, slots = _RoundBuilder(_StepTensors.of(step)), aggregation_spec.slots
    products = writer.state_input(F32, slots, slots)
    return writer.finish_entries(
        {PRODUCTS: (OPTIMIZER, products, row_products(writer, [writer.rows(part, slots)], products))}
    )


def row_weights_program(step: Graph, aggregation_spec: AggregationSpec) -> Graph:
    """A stage of the aggregation: row weights and the next checkpoint's scores, from the products of all updates."""
    writer, slots = _RoundBuilder(_StepTensors.of(step)), aggregation_spec.slots
    verdict, scores = weigh_rows(writer, writer.batch_input(PRODUCTS, F32, slots, slots), aggregation_spec.rule)
    made = {COUNTED_ROWS: verdict.counted, SHARES: verdict.shares, SCORES: scores}
    return writer.finish_entries(
        {
            n: (OPTIMIZER, writer.state_input(view.dtype, *view.shape), view)
            for n, view in made.items()
            if view is not None
        }
    )


def aggregation_parts(step: Graph, aggregation_spec: AggregationSpec, share: int | None = None) -> tuple[Part, ...]:
    """The parts of all exchanged tensors, in the order in which the aggregation takes them. share: of one aggregator's."""
    writer = _RoundBuilder(_StepTensors.of(step))
    own = writer.kinds if share is None else shares_of(step, aggregation_spec)[share]
    names = [name for name in step.exchanged if name in own]
    return tuple(part for name in names for part in writer.parts(name, aggregation_spec))


def aggregation_batch(
    parts: Collection[Part],
    aggregation_spec: AggregationSpec,
    updates: Mapping[int, Mapping[str, Array]],
    room: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """The batch of an aggregation for these parts: slot i's update in row i, +0 if the slot is absent.

    Rows of +0 change no bit of a mean: a sum that starts from +0 is never -0, and adding +0 to anything else does not change
    it. A mean also needs the number of present slots; other rules see which rows count. room: arrays to write into.
    """
    first, batch = next(iter(updates.values())), {}
    for part in parts:
        shape = (aggregation_spec.slots, *part.shape(first[part.name].shape))
        rows = np.empty(shape, np.float32) if room is None else room[part.batch_name]
        for slot in range(aggregation_spec.slots):
            rows[slot] = part.of(updates[slot][part.name]) if slot in updates else 0
        batch[part.batch_name] = rows
    return batch | ({PRESENT: np.asarray(len(updates), np.float32)} if aggregation_spec.rule.is_mean else {})


class _RoundBuilder(Builder):
    """A builder whose inputs have the shapes of the tensors of a job's step."""

    def __init__(self, step: _StepTensors) -> None:
        super().__init__()
        self.kinds = {name: kind for name, (kind, *_) in step.state if kind != OPTIMIZER}
        self.batches: list[tuple[str, View]] = []
        self._tensors = {name: (dtype, shape) for name, (_, dtype, shape) in step.state}
        self._inputs = 0
        self._step = step
        self._rows: dict[Part, View] = {}

    def state(self, like: str, part: Part | None = None) -> View:
        """An input of the state, shaped as the step's tensor `like`, or as a part of it."""
        dtype, shape = self._tensors[like]
        return self._of(dtype, shape if part is None else part.shape(shape), STATE_ROLE)

    def batch(self, like: str, name: str) -> View:
        """An input of the batch, shaped as the step's tensor `like`."""
        dtype, shape = self._tensors[like]
        return self._batch(name, self._of(dtype, shape, BATCH_ROLE))

    def batch_input(self, name: str, dtype: str, *shape: int) -> View:
        """An input of the batch, once for each name."""
        return self._batch(name, self._of(dtype, shape, BATCH_ROLE))

    def state_input(self, dtype: str, *shape: int) -> View:
        """An input of the state."""
        return self._of(dtype, shape, STATE_ROLE)

    def parts(self, name: str, aggregation_spec: AggregationSpec) -> tuple[Part, ...]:
        """The parts of the exchanged tensor `name`."""
        return parts_of(name, self._tensors[name][1], aggregation_spec.slots, aggregation_spec.rule.part_size)

    def rows(self, part: Part, slots: int) -> View:
        """All slots' updates of a part, as one shared input."""
        if part not in self._rows:
            dtype, shape = self._tensors[part.name]
            rows = self._of(dtype, (slots, *part.shape(shape)), BATCH_ROLE)
            self._rows[part] = self._batch(part.batch_name, rows)
        return self._rows[part]

    def row_weights_and_scores(self, aggregation_spec: AggregationSpec) -> tuple[RowWeights, View]:
        """The row weights and the scores, from all tensors' rows."""
        parts = (part for name in self._step.exchanged for part in self.parts(name, aggregation_spec))
        rows = (self.rows(part, aggregation_spec.slots) for part in parts)
        return weigh_rows(self, row_products(self, rows, self.scalar(0.0, F32)), aggregation_spec.rule)

    def row_weights_input(self, aggregation_spec: AggregationSpec) -> RowWeights:
        """The row weights as inputs of a part of the program."""
        shape = shares_shape(aggregation_spec.rule, aggregation_spec.slots)
        counted = self.batch_input(COUNTED_ROWS, I32, aggregation_spec.slots)
        return RowWeights(counted, None if shape is None else self.batch_input(SHARES, F32, *shape))

    def finish_entries(self, entries: Mapping[str, tuple[str, View, View]]) -> Graph:
        """entries: kind, before and after of the state by name."""
        return self.finish([(name, *entry) for name, entry in entries.items()], self.batches, self.scalar(0.0, F32))

    def _batch(self, name: str, view: View) -> View:
        self.batches.append((name, view))
        return view

    def _of(self, dtype: str, shape: tuple[int, ...], role: int) -> View:
        self._inputs += 1
        return self.input(dtype, shape, role, self._inputs)
