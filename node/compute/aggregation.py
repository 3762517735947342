"""From a checkpoint and a round's updates to the next checkpoint, by the program that the manifest implies."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from node.compute.programs import Programs, State, Tensors, run_step
from node.errors import BadInputs
from node.hardware import threads
from repops.backend import Runner
from repops.commitments import Array
from repops.graph import Graph
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.dag import prefetch
from zoo_compute.training.parts import Part
from zoo_compute.training.rounds import (
    PRODUCTS,
    SCORES,
    aggregation_batch,
    aggregation_parts,
    checkpoint_nodes,
    shares_of,
)
from zoo_compute.training.shapes import shape_mismatch
from zoo_compute.training.shares import SharedCheckpoint


def next_checkpoint(
    manifest: Manifest, programs: Programs, checkpoint: Tensors, updates: Mapping[int, Tensors]
) -> Tensors:
    """As all of a job's aggregators make it. Raises BadInputs."""
    aggregators = manifest.aggregators
    if aggregators == 1:
        return aggregate(manifest, programs, checkpoint, updates)
    shares = (aggregate(manifest, programs, checkpoint, updates, share) for share in range(aggregators))
    return SharedCheckpoint(tuple(shares))


def aggregate(
    manifest: Manifest,
    programs: Programs,
    checkpoint: Tensors,
    updates: Mapping[int, Tensors],
    share: int | None = None,
) -> State:
    """The next checkpoint, by the job's rule and outer optimiser; with `share`, one of several aggregators' share of it. Raises BadInputs.

    updates: slot -> update, or the share of it, whose tensors are asked for in ascending order. What is not exchanged stays as it is in the
    checkpoint. Runs part by part: beside both checkpoints and the updates it holds all slots' rows of one part.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    nodes = checkpoint_nodes(programs.graph, manifest.aggregation_spec, share)
    known = checkpoint if share is None else {name: checkpoint[name] for name in nodes if name in checkpoint}
    mismatch = shape_mismatch(known, programs.graph, manifest.aggregation_spec, share)
    if mismatch:
        raise BadInputs(f"aggregate: the checkpoint does not fit the program: {mismatch}")
    exchanged = set(programs.graph.exchanged)
    own = exchanged if share is None else exchanged & shares_of(programs.graph, manifest.aggregation_spec)[share]
    for slot, update in updates.items():
        if not 0 <= slot < manifest.slots:
            raise BadInputs(f"aggregate: an update of slot {slot}; the job has {manifest.slots}")
        if not own <= update.keys() <= exchanged:
            odd = min((own - update.keys()) | (update.keys() - exchanged))
            raise BadInputs(
                f"aggregate: the update of slot {slot} and the checkpoint do not hold the same tensors ({odd!r})"
            )
    aggregation_spec = manifest.aggregation_spec
    made = {name: checkpoint[name] for name in nodes}
    verdict = {} if aggregation_spec.rule.is_mean else _verdict(programs, aggregation_spec, checkpoint, updates)
    if verdict:
        made[SCORES] = verdict.pop(SCORES)
    for part in aggregation_parts(programs.graph, aggregation_spec, share):
        run = programs.aggregation(part, aggregation_spec)
        for name, array in run.state.items():
            array[...] = part.of(checkpoint[name]) if array.shape else checkpoint[name]
        batch = _batch(part, aggregation_spec, updates, run, checkpoint[part.name])
        run.step(batch | verdict, threads=threads())
        _keep(made, part, run.state, checkpoint)
    return made


def _keep(made: State, part: Part, state: State, checkpoint: Tensors) -> None:
    """Write a part's state into the next checkpoint, in memory of its own."""
    for name, array in state.items():
        if made[name] is checkpoint[name]:
            made[name] = np.empty_like(checkpoint[name])
        (part.of(made[name]) if array.shape else made[name])[...] = array


def _verdict(
    programs: Programs, aggregation_spec: AggregationSpec, checkpoint: Tensors, updates: Mapping[int, Tensors]
) -> State:
    """Which rows count and what they weigh, from the products of all tensors' rows; and the slots' scores."""
    made = {PRODUCTS: np.zeros((aggregation_spec.slots, aggregation_spec.slots), np.float32)}
    for part in aggregation_parts(programs.graph, aggregation_spec):
        run = programs.products(part, aggregation_spec)
        made = run_step(run, made, _batch(part, aggregation_spec, updates, run, checkpoint[part.name]))
    run = programs.row_weights(aggregation_spec)
    return run_step(run, run.state, made)


def _batch(part: Part, spec: AggregationSpec, updates: Mapping[int, Tensors], run: Runner, like: Array) -> State:
    """The batch of a part. like: the checkpoint's tensor. Raises BadInputs."""
    tensors = prefetch(lambda update: update[part.name], updates.values(), max(1, threads()))  # of streams: decoded now
    for slot, tensor in zip(updates, tensors, strict=True):
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise BadInputs(f"aggregate: the update of slot {slot} has {part.name!r} of another shape or dtype")
    return aggregation_batch([part], spec, updates, run.batch)


def should_precompute(manifest: Manifest, step: Graph) -> bool:
    """Whether all updates of a round have fewer bytes than the checkpoint that is made of them. A map's is the one before."""
    if manifest.is_map:
        return False
    compression = manifest.compression
    share = compression.bits / 32
    if compression.keep is not None:
        share = (compression.bits + math.log2(compression.chunk)) / 32 * compression.keep / compression.chunk
    update = sum(4 * step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged)
    checkpoint = sum(4 * node.elements for node in checkpoint_nodes(step, manifest.aggregation_spec).values())
    return manifest.slots * share * update < checkpoint
