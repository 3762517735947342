"""Whether tensors and examples have the shapes that a job's program takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repops.backend import DTYPE
from repops.commitments import Array
from repops.graph import RATE, Graph
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.examples import TOKENS, ExampleRows, batch_of
from zoo_compute.training.rounds import batch_nodes, checkpoint_nodes


def shape_mismatch(
    checkpoint: Mapping[str, Array], step: Graph, aggregation_spec: AggregationSpec, share: int | None = None
) -> str:
    """In which way these are not the tensors of a checkpoint of this job, or of one aggregator's share; empty when they are."""
    nodes = checkpoint_nodes(step, aggregation_spec, share)
    if checkpoint.keys() != nodes.keys():
        name = min(checkpoint.keys() ^ nodes.keys())
        return f"{name!r} is {'missing' if name in nodes else 'not one of its tensors'}"
    for name, node in nodes.items():
        array = checkpoint[name]
        if array.shape != node.shape or array.dtype != DTYPE[node.dtype]:
            return f"{name!r} is {array.dtype.name} {array.shape}, it takes {DTYPE[node.dtype].name} {node.shape}"
    return ""


def batch_mismatch(examples: ExampleRows, step: Graph, batch_size: int, accumulate: int) -> str:
    """In which way batches of these examples are not what the program takes; empty when they are."""
    ranks = {name: array.ndim for name, array in examples.items()}
    if min(ranks.values(), default=0) < 1 or (
        TOKENS in ranks and (ranks.keys() - {TOKENS, RATE} or ranks[TOKENS] != 2)
    ):
        return f"arrays of rank {ranks} are not examples"
    batch, nodes = batch_of(examples, np.zeros(batch_size, np.int64), accumulate), batch_nodes(step)
    if batch.keys() != nodes.keys():
        return f"the data has {', '.join(sorted(batch))}, the program takes {', '.join(sorted(nodes))}"
    for name, node in nodes.items():
        array = batch[name]
        if array.shape != node.shape or array.dtype != DTYPE[node.dtype]:
            return (
                f"{name} is {array.dtype.name} {array.shape}, the program takes {DTYPE[node.dtype].name} {node.shape}"
            )
    return ""


def outputs_mismatch(step: Graph, manifest: Manifest) -> str:
    """How a program's outputs do not fit its manifest; empty if they do. A map's are (inner_steps, batch_size, ...)."""
    shapes = [step.nodes[entry.before].shape for entry in step.state if entry.name in step.outputs]
    rows = (manifest.inner_steps, manifest.batch_size)
    if not manifest.is_map:
        return f"it keeps outputs {shapes}, and the job trains" if shapes else ""
    odd = [shape for shape in shapes if shape[:2] != rows]
    return f"it keeps outputs {odd or 'of no kind'}, and the map's are {rows} and further" if odd or not shapes else ""
