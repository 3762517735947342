"""From a checkpoint and a round's updates to the next checkpoint, by the program that the manifest implies."""

from __future__ import annotations

from collections.abc import Mapping

from node.errors import BadInputs
from node.programs import Programs, State, applied
from zoo_compute.manifest import Manifest
from zoo_compute.publish import unlike
from zoo_compute.rounds import aggregation_batch


def aggregate(manifest: Manifest, programs: Programs, checkpoint: State, updates: Mapping[int, State]) -> State:
    """Mean of the updates in ascending order of slots, then outer SGD with Nesterov momentum. Raises BadInputs.

    updates: slot -> update. What is not exchanged stays as it is in the checkpoint. Runs tensor by tensor: beside
    checkpoint and updates it holds all slots' rows of one tensor, twice.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    told = unlike(checkpoint, programs.graph)
    if told:
        raise BadInputs(f"aggregate: the checkpoint does not fit the program: {told}")
    exchanged = programs.graph.exchanged
    for slot, update in updates.items():
        if not 0 <= slot < manifest.slots:
            raise BadInputs(f"aggregate: an update of slot {slot}; the job has {manifest.slots}")
        _check_same({name: checkpoint[name] for name in exchanged}, update, slot)
    made = dict(checkpoint)
    for name in exchanged:
        run = programs.aggregation(name, manifest.slots, manifest.outer)
        made |= applied(run, checkpoint, aggregation_batch([name], manifest.slots, updates))
    return made


def _check_same(parameters: State, update: State, slot: int) -> None:
    if update.keys() != parameters.keys():
        odd = min(update.keys() ^ parameters.keys())
        raise BadInputs(
            f"aggregate: the update of slot {slot} and the checkpoint do not hold the same tensors ({odd!r})"
        )
    for name, value in parameters.items():
        if update[name].shape != value.shape or update[name].dtype != value.dtype:
            raise BadInputs(f"aggregate: the update of slot {slot} has {name!r} of another shape or dtype")
