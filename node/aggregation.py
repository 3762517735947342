"""From a checkpoint and a round's updates to the next checkpoint. Elementwise float32 in numpy: the bits are fixed.

Every operation is rounded on its own (numpy contracts nothing), so any machine with IEEE 754 makes the same checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from node.errors import BadInputs
from node.training import arrays_of, parameters_of, tensors_of
from repops.commitments import Array
from repops.program import State
from zoo_compute.manifest import Manifest
from zoo_compute.publish import OUTER


def aggregate(manifest: Manifest, checkpoint: State, updates: Sequence[State]) -> State:
    """Mean of the updates, in ascending order of slots, then outer SGD with Nesterov momentum.

    g = (u_0 + u_1 + ...) / n;  m' = mu * m + g;  p' = p - lr * (g + mu * m'). Raises BadInputs.
    """
    if not updates:
        raise BadInputs("aggregate: a round without updates has no next checkpoint")
    parameters = arrays_of(parameters_of(checkpoint))
    momenta = arrays_of({name.removeprefix(OUTER): m for name, m in checkpoint.items() if name.startswith(OUTER)})
    if momenta.keys() != parameters.keys():
        raise BadInputs("aggregate: the checkpoint needs `outer/NAME` for each parameter")
    arrays = [arrays_of(update) for update in updates]
    for index, update in enumerate(arrays):
        _check_same(parameters, update, index)
    mu, rate, count = (np.float32(x) for x in (manifest.outer.momentum, manifest.outer.lr, len(updates)))
    new: dict[str, Array] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, value in parameters.items():
            mean = arrays[0][name].copy()
            for update in arrays[1:]:
                mean += update[name]
            mean /= count
            momentum = mu * momenta[name] + mean
            new[name] = value - rate * (mean + mu * momentum)
            new[OUTER + name] = momentum
    return tensors_of({name: np.asarray(value, dtype=np.float32) for name, value in new.items()})


def _check_same(parameters: dict[str, Array], update: dict[str, Array], index: int) -> None:
    if update.keys() != parameters.keys():
        odd = sorted(update.keys() ^ parameters.keys())[0]
        raise BadInputs(f"aggregate: update {index} and the checkpoint do not hold the same tensors ({odd!r})")
    for name, value in parameters.items():
        if update[name].shape != value.shape or update[name].dtype != np.float32:
            raise BadInputs(f"aggregate: update {index} has {name!r} of another shape or dtype")
