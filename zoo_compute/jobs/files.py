"""Makes and stores a job's files: program, initial weights, data, and the manifest that names them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repops import encoding
from repops.backend import DTYPE
from repops.commitments import Array, state_root
from repops.files import state_pieces
from repops.graph import Graph
from repops.pieces import piece_roots
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.lineage import Parents
from zoo_compute.jobs.config import ComputeJob, DataFile, HeldoutFile, JobError, Manifest, ProgramFile, StateFile
from zoo_compute.store.dag import stream_of
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import TOKENS, Dataset, Examples
from zoo_compute.training.outer_optimizers import OUTER
from zoo_compute.training.rounds import checkpoint_nodes
from zoo_compute.training.schedules import with_rates
from zoo_compute.training.shapes import batch_mismatch, outputs_mismatch, shape_mismatch
from zoo_compute.training.work_root import work_of


def initial_checkpoint(
    step: Graph, tensors: Mapping[str, Array], aggregation_spec: AggregationSpec
) -> dict[str, Array]:
    """Checkpoint 0: the module's tensors, with the outer optimiser's state and the scores at zero.

    Raises JobError if `tensors` are not those of the job's module.
    """
    nodes = checkpoint_nodes(step, aggregation_spec)
    checkpoint = {n: np.zeros(node.shape, DTYPE[node.dtype]) for n, node in nodes.items() if n.startswith(OUTER)}
    checkpoint |= tensors
    mismatch = shape_mismatch(checkpoint, step, aggregation_spec)
    if mismatch:
        raise JobError(f"the weights do not fit the module: {mismatch}")
    return checkpoint


def with_schedule(job: ComputeJob, dataset: Dataset) -> Dataset:
    """The dataset, with the factors of the learning rate if the job has a schedule. Traces the module."""
    training, factors = job.training, job.traced.factors
    if not factors:
        return dataset
    sizes = {"inner_steps": training.inner_steps, "batch_size": training.batch_size}
    return with_rates(dataset, factors, slots=training.slots, **sizes)


def publish_files(
    job: ComputeJob,
    dataset: Dataset,
    store: Store,
    *,
    weights: Mapping[str, Array] | None = None,
    parents: Parents | None = None,
) -> Manifest:
    """Store and pin a job's program, initial checkpoint, examples and held-out examples; return its manifest, not stored yet.

    weights: replace the module's initial tensors. parents: the branches that they were merged from.
    """
    traced = job.traced
    tensors = traced.initial if weights is None else weights
    if tensors is None:
        raise JobError("a program file has no weights", hint="give them with --weights FILE (safetensors)")
    outline = job.outline()
    if mismatch := outputs_mismatch(traced.graph, outline):
        raise JobError(
            f"model.program: {mismatch}",
            hint="a map takes a program of `repops.trace_map`, and training one of `repops.trace`",
        )
    parts = {name: examples for name, examples in dataset._asdict().items() if examples}
    for name, examples in parts.items():
        mismatch = batch_mismatch(examples, traced.graph, job.training.batch_size, job.training.accumulate)
        if mismatch:
            raise JobError(f"data ({name}): {mismatch}")
    _check_tokens(job, dataset)
    counts = {name: len(next(iter(examples.values()))) for name, examples in parts.items()}
    if counts.get("heldout", job.training.batch_size) < job.training.batch_size:
        raise JobError(
            f"data.heldout: {counts['heldout']} examples make no batch of {job.training.batch_size}",
            hint="set data.heldout to at least training.batch_size",
        )
    checkpoint = initial_checkpoint(traced.graph, tensors, outline.aggregation_spec)
    learned = [name for name in traced.graph.exchanged if name in checkpoint]
    broken = next((name for name in learned if not np.isfinite(checkpoint[name]).all()), None)
    if broken is not None:  # every update would be non-finite too and be discarded
        raise JobError(f"the weights contain a NaN or an infinity in {broken!r}", hint="use finite weights")
    work_of(outline, traced.graph)  # refused here, before anything is stored
    return job.manifest(
        ProgramFile(store.add(encoding.encode(traced.graph)), traced.root.hex(), traced.profile.flops),
        StateFile(_add(store, checkpoint), state_root(checkpoint).hex()),
        _data_file(store, dataset.examples, counts["examples"]),
        HeldoutFile(_add(store, dataset.heldout)) if dataset.heldout else None,
        parents,
        step=traced.profile,
    )


def _data_file(store: Store, examples: Examples, count: int) -> DataFile:
    pieces = store.add(piece_roots(examples))
    return DataFile(_add(store, examples), state_root(examples).hex(), count, pieces)


def _add(store: Store, state: Mapping[str, Array]) -> str:
    """Without the whole file in memory."""
    return store.add(stream_of(state_pieces(state)))


def _check_tokens(job: ComputeJob, dataset: Dataset) -> None:
    """Refuse tokens beyond the model's vocabulary, if that is known: such steps would be skipped but still paid."""
    vocabulary = job.model.vocabulary
    for examples in dataset:
        highest = int(examples[TOKENS].max()) if TOKENS in examples else -1
        if vocabulary is not None and highest >= vocabulary:
            raise JobError(f"data: contains token {highest}, but model.vocab is {vocabulary}; bytes need 256")
