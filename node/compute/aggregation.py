"""From a checkpoint and a round's updates to the next checkpoint, by the program that the manifest implies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from node.compute.programs import Programs, State, applied
from node.errors import BadInputs
from zoo_compute.formats.manifest import Joining, Manifest
from zoo_compute.jobs.files import unlike
from zoo_compute.training.rounds import PRODUCTS, SCORES, aggregation_batch


def aggregate(manifest: Manifest, programs: Programs, checkpoint: State, updates: Mapping[int, State]) -> State:
    """The next checkpoint, by the job's rule and outer optimiser. Raises BadInputs.

    updates: slot -> update. What is not exchanged stays as it is in the checkpoint. Runs tensor by tensor: beside
    checkpoint and updates it holds all slots' rows of one tensor, once for the mean.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    told = unlike(checkpoint, programs.graph, manifest.joining)
    if told:
        raise BadInputs(f"aggregate: the checkpoint does not fit the program: {told}")
    exchanged = programs.graph.exchanged
    for slot, update in updates.items():
        if not 0 <= slot < manifest.slots:
            raise BadInputs(f"aggregate: an update of slot {slot}; the job has {manifest.slots}")
        _check_same({name: checkpoint[name] for name in exchanged}, update, slot)
    made, joining = dict(checkpoint), manifest.joining
    verdict = {} if joining.rule.is_mean else _verdict(programs, joining, updates)
    if verdict:
        made[SCORES] = verdict.pop(SCORES)
    for name in exchanged:
        run = programs.aggregation(name, joining)
        made |= applied(run, checkpoint, aggregation_batch([name], joining, updates, run.batch) | verdict)
    return made


def _verdict(programs: Programs, joining: Joining, updates: Mapping[int, State]) -> State:
    """Which rows count and what they weigh, from the products of all tensors' rows; and the slots' scores."""
    made = {PRODUCTS: np.zeros((joining.slots, joining.slots), np.float32)}
    for name in programs.graph.exchanged:
        run = programs.products(name, joining.slots)
        made = applied(run, made, aggregation_batch([name], joining, updates, run.batch))
    run = programs.verdict(joining)
    return applied(run, run.state, made)


def _check_same(parameters: State, update: State, slot: int) -> None:
    if update.keys() != parameters.keys():
        odd = min(update.keys() ^ parameters.keys())
        raise BadInputs(
            f"aggregate: the update of slot {slot} and the checkpoint do not hold the same tensors ({odd!r})"
        )
    for name, value in parameters.items():
        if update[name].shape != value.shape or update[name].dtype != value.dtype:
            raise BadInputs(f"aggregate: the update of slot {slot} has {name!r} of another shape or dtype")
