"""From a checkpoint and a round's updates to the next checkpoint, by the program that the manifest implies."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from node.compute.programs import Programs, State, run_step
from node.errors import BadInputs
from repops.graph import Graph
from zoo_compute.formats.manifest import AggregationSpec, Manifest
from zoo_compute.training.rounds import PRODUCTS, SCORES, aggregation_batch, checkpoint_nodes
from zoo_compute.training.shapes import shape_mismatch


def aggregate(manifest: Manifest, programs: Programs, checkpoint: State, updates: Mapping[int, State]) -> State:
    """The next checkpoint, by the job's rule and outer optimiser. Raises BadInputs.

    updates: slot -> update. What is not exchanged stays as it is in the checkpoint. Runs tensor by tensor: beside
    checkpoint and updates it holds all slots' rows of one tensor, once for the mean.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    mismatch = shape_mismatch(checkpoint, programs.graph, manifest.aggregation_spec)
    if mismatch:
        raise BadInputs(f"aggregate: the checkpoint does not fit the program: {mismatch}")
    exchanged = programs.graph.exchanged
    for slot, update in updates.items():
        if not 0 <= slot < manifest.slots:
            raise BadInputs(f"aggregate: an update of slot {slot}; the job has {manifest.slots}")
        _check_same({name: checkpoint[name] for name in exchanged}, update, slot)
    made, aggregation_spec = dict(checkpoint), manifest.aggregation_spec
    verdict = {} if aggregation_spec.rule.is_mean else _verdict(programs, aggregation_spec, updates)
    if verdict:
        made[SCORES] = verdict.pop(SCORES)
    for name in exchanged:
        run = programs.aggregation(name, aggregation_spec)
        made |= run_step(run, checkpoint, aggregation_batch([name], aggregation_spec, updates, run.batch) | verdict)
    return made


def _verdict(programs: Programs, aggregation_spec: AggregationSpec, updates: Mapping[int, State]) -> State:
    """Which rows count and what they weigh, from the products of all tensors' rows; and the slots' scores."""
    made = {PRODUCTS: np.zeros((aggregation_spec.slots, aggregation_spec.slots), np.float32)}
    for name in programs.graph.exchanged:
        run = programs.products(name, aggregation_spec.slots)
        made = run_step(run, made, aggregation_batch([name], aggregation_spec, updates, run.batch))
    run = programs.row_weights(aggregation_spec)
    return run_step(run, run.state, made)


def _check_same(parameters: State, update: State, slot: int) -> None:
    if update.keys() != parameters.keys():
        odd = min(update.keys() ^ parameters.keys())
        raise BadInputs(
            f"aggregate: the update of slot {slot} and the checkpoint do not hold the same tensors ({odd!r})"
        )
    for name, value in parameters.items():
        if update[name].shape != value.shape or update[name].dtype != value.dtype:
            raise BadInputs(f"aggregate: the update of slot {slot} has {name!r} of another shape or dtype")


def should_precompute(manifest: Manifest, step: Graph) -> bool:
    """Whether all updates of a round have fewer bytes than the checkpoint that is made of them."""
    compression = manifest.compression
    share = compression.bits / 32
    if compression.keep is not None:
        share = (compression.bits + math.log2(compression.chunk)) / 32 * compression.keep / compression.chunk
    update = sum(4 * step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged)
    checkpoint = sum(4 * node.elements for node in checkpoint_nodes(step, manifest.aggregation_spec).values())
    return manifest.slots * share * update < checkpoint
