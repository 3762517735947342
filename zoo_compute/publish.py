"""The files of a job, from its configuration, its text and its initial weights: stored, rooted, named by a manifest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repops.commitments import state_root, tensor_root
from repops.files import state_bytes
from zoo_compute.data import Dataset
from zoo_compute.job import ComputeJob, DataFile, HeldoutFile, JobError, Manifest, StateFile
from zoo_compute.store.interface import Store

OUTER = "outer/"


def initial_checkpoint(parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checkpoint 0: the parameters, and the outer momentum `outer/NAME` at zero."""
    return {**parameters, **{OUTER + name: np.zeros_like(value) for name, value in parameters.items()}}


def publish_files(job: ComputeJob, dataset: Dataset, parameters: Mapping[str, np.ndarray], store: Store) -> Manifest:
    """Store and pin a job's initial checkpoint, examples and held-out examples; return its manifest (not stored yet).

    parameters: `repops.program.build(job.spec).initial_state(job.training.seed)`, as numpy arrays.
    """
    width = job.model.context + 1
    for name, array in dataset._asdict().items():
        if array.ndim != 2 or array.shape[1] != width:
            raise JobError(f"{name}: expected shape (examples, {width}) for this context, got {array.shape}")
    highest = int(max(dataset.examples.max(), dataset.heldout.max()))
    if highest >= job.model.vocab:
        raise JobError(f"data: holds token {highest}, model.vocab is {job.model.vocab}; bytes need 256")
    checkpoint = initial_checkpoint(parameters)
    return job.manifest(
        StateFile(store.add(state_bytes(checkpoint)), state_root(checkpoint).hex()),
        DataFile(
            store.add(state_bytes({"examples": dataset.examples})),
            tensor_root(dataset.examples).hex(),
            len(dataset.examples),
        ),
        HeldoutFile(store.add(state_bytes({"examples": dataset.heldout}))),
    )
