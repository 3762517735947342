"""From a checkpoint and a round's updates to the next checkpoint, by the program that the manifest implies."""

from __future__ import annotations

from collections.abc import Sequence

from node.errors import BadInputs
from node.programs import Programs, State, applied
from zoo_compute.manifest import Manifest
from zoo_compute.publish import unlike
from zoo_compute.rounds import update_name


def aggregate(manifest: Manifest, programs: Programs, checkpoint: State, updates: Sequence[State]) -> State:
    """Mean of the updates, in ascending order of slots, then outer SGD with Nesterov momentum. Raises BadInputs.

    What is not exchanged stays as it is in the checkpoint.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    told = unlike(checkpoint, programs.graph)
    if told:
        raise BadInputs(f"aggregate: the checkpoint does not fit the program: {told}")
    exchanged = programs.graph.exchanged
    for index, update in enumerate(updates):
        _check_same({name: checkpoint[name] for name in exchanged}, update, index)
    batch = {update_name(at, name): update[name] for at, update in enumerate(updates) for name in exchanged}
    return applied(programs.aggregation(len(updates), manifest.outer), checkpoint, batch)


def _check_same(parameters: State, update: State, index: int) -> None:
    if update.keys() != parameters.keys():
        odd = min(update.keys() ^ parameters.keys())
        raise BadInputs(f"aggregate: update {index} and the checkpoint do not hold the same tensors ({odd!r})")
    for name, value in parameters.items():
        if update[name].shape != value.shape or update[name].dtype != value.dtype:
            raise BadInputs(f"aggregate: update {index} has {name!r} of another shape or dtype")
