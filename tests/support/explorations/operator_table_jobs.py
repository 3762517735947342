"""The programs that have every operator of the table between them, as slot-rounds of one step on a batch of their own."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from node.compute.programs import Programs, State
from node.disputes.computation import SlotRound
from repops.backend import DTYPE
from repops.commitments import Array
from repops.graph import OPTIMIZER
from tests.support.explorations.lying_jobs import OUTER, ROUND, SLOTS, Case
from tests.support.liars.faults import Liar
from tests.support.programs.table_programs import table
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.jobs.files import initial_checkpoint


class GivenBatch(SlotRound):
    """One step on a batch of its own."""

    arrays: State

    def batch(self, step: int) -> State:
        return self.arrays


class LyingGiven(Liar, GivenBatch):
    """The same, but for the lies."""


class TableCase(Case):
    """One of the table's programs, as a slot-round of one step."""

    arrays: State

    @cached_property
    def honest(self) -> SlotRound:
        return self.step_inputs(GivenBatch)

    def lying(self, **options: Any) -> Liar:
        return self.step_inputs(LyingGiven)

    def step_inputs(self, made: Any, **options: Any) -> Any:
        result = made(self.manifest, Programs(self.graph), self.checkpoint, self.examples, ROUND, self.slot, **options)
        result.arrays = self.arrays
        return result


@lru_cache
def sample(name: str, **options: Any) -> TableCase:
    """A program of the table's, as a job of one step."""
    graph, parameters, batch = table()[name]
    tensors: dict[str, Array] = {}
    for entry in graph.state:
        if entry.kind == OPTIMIZER:
            continue
        node = graph.nodes[entry.before]
        tensors[entry.name] = parameters.get(entry.name, np.zeros(node.shape, DTYPE[node.dtype]))
    examples = {"none": np.zeros((1, 1), np.float32)}
    case = TableCase(
        graph,
        initial_checkpoint(graph, tensors, AggregationSpec(SLOTS, OUTER)),
        examples,
        inner_steps=1,
        segment_steps=1,
        rows=1,
        **options,
    )
    object.__setattr__(case, "arrays", batch)
    return case
