"""A job's programs on ranks. What else a slot-round needs (its update, an aggregation) is done in the worker, as always."""

from __future__ import annotations

from functools import cached_property

from node.compute.programs import Programs
from node.device import RankLayout
from node.errors import BadInputs
from node.hardware import threads
from node.parallel.ranks import ANSWER_S
from node.parallel.runner import RankedRunner
from repops.commitments import state_root_of
from repops.graph import Graph
from repops.parallel.owners import data, pipeline
from repops.parallel.placement import NotParallel, PlacedProgram
from repops.parallel.split import rows, tensor


def placed_on(graph: Graph, layout: RankLayout, parts: int) -> PlacedProgram:
    """Who computes what. Data-parallel goes by micro-batches where the job has enough, else by rows. Raises BadInputs."""
    try:
        if layout.kind == "pipeline":
            return pipeline(graph, layout.ranks, parts)
        if layout.kind == "tensor":
            return tensor(graph, layout.ranks, parts)
        return data(graph, layout.ranks, parts) if parts >= layout.ranks else rows(graph, layout.ranks, parts)
    except NotParallel as error:
        raise BadInputs(str(error)) from error


class RankedPrograms(Programs):
    """The step on several ranks, which start when they are first needed. parts: micro-batches of a step."""

    can_recompute = False

    def __init__(self, graph: Graph, layout: RankLayout, parts: int, *, timeout_s: float = ANSWER_S) -> None:
        super().__init__(graph)
        self.layout, self._parts, self._timeout_s = layout, parts, timeout_s
        self._ranked: RankedRunner | None = None

    @cached_property
    def placed(self) -> PlacedProgram:
        return placed_on(self.graph, self.layout, self._parts)

    @property
    def step(self) -> RankedRunner:  # type: ignore[override]
        """New ranks after some were lost: their state is to be loaded again."""
        if self._ranked is None or not self._ranked.ranks.alive:
            self._ranked = RankedRunner(self.graph, self.placed, threads=threads(), timeout_s=self._timeout_s)
        return self._ranked

    def close(self) -> None:
        if self._ranked is not None:
            self._ranked.ranks.close()

    def state_root(self) -> bytes:
        return state_root_of(self.tensor_roots())

    def tensor_roots(self) -> dict[str, bytes]:
        return self.step.tensor_roots()
