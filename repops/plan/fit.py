"""Fits a program's values into a limit of bytes, with as little computed again as that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from repops.graph import Graph
from repops.plan import build
from repops.plan.build import SOURCES
from repops.plan.memory import Placed, place, place_tightly
from repops.plan.order import Step, whole_step
from repops.plan.recompute import OutOfWork, Simulation
from repops.plan.split import apart, moved
from repops.plan.values import Values

TRIES = 4  # budgets for one limit
NARROWINGS = 6  # of the interval in which the least memory lies


class TooLarge(MemoryError):
    """A program's values do not fit the limit, even if some are computed again. least: bytes that they fit in."""

    def __init__(self, limit: int, plain: int, least: int) -> None:
        super().__init__(
            f"the values of a step need {plain:,} bytes, {least:,} with recomputation; the limit is {limit:,} bytes"
        )
        self.limit, self.plain, self.least = limit, plain, least


@dataclass(frozen=True)
class Fitted:
    """A step's items, and where their values lie in an arena. extra: work done again, as a share of the step's."""

    step: Step
    placed: Placed
    extra: float

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return self.placed[1]


class Fitting:
    """A step's plan in as much memory as it likes (`plain`), in the least (`least`), or in a limit (`within`)."""

    def __init__(self, graph: Graph, *, fused: bool = True) -> None:
        self.graph, self._fused = graph, fused
        step = build.step(graph, fused=fused)
        self.plain = Fitted(step, place(step.items, self._bytes, {*self._sources, *step.in_place}, step.kept), 0.0)

    def within(self, limit: int) -> Fitted:
        """The plan in at most `limit` bytes. Raises TooLarge."""
        if self.plain.size <= limit:
            return self.plain
        budget = limit
        for _ in range(TRIES):
            fitted = self._simulated(budget)
            if fitted is None:
                break
            if fitted.size <= limit:
                return fitted
            budget -= fitted.size - limit  # holes between the values
        if self.least.size <= limit:
            return self.least
        raise TooLarge(limit, self.plain.size, self.least.size)

    @cached_property
    def least(self) -> Fitted:
        """About the least memory in which a step runs without more work than pays."""
        best, low, high = self.plain, 0, self.plain.size
        for _ in range(NARROWINGS):
            budget = (low + high) // 2
            fitted = self._simulated(budget)
            if fitted is None:
                low = budget
                continue
            best, high = min(best, fitted, key=lambda each: each.size), budget
        return best

    @cached_property
    def _values(self) -> Values:
        """Of the step in small items."""
        roots = [self.graph.loss, *(entry.after for entry in self.graph.state)]
        items = apart(build.plan(self.graph, roots, fused=self._fused), self._bytes, self._sources)
        step = whole_step(self.graph, items)
        step = moved(step, self._bytes, {*self._sources, *step.in_place})
        return Values(self.graph.nodes, step, self._bytes, self._sources)

    def _simulated(self, budget: int) -> Fitted | None:
        simulation = Simulation(self._values, budget)
        try:
            items = simulation.run()
        except OutOfWork:
            return None
        step = replace(self._values.step, items=items)
        placed = place_tightly(items, self._bytes, {*self._sources, *step.in_place}, step.kept)
        return Fitted(step, placed, simulation.extra / max(1, self._values.work))

    @cached_property
    def _sources(self) -> list[int]:
        return [at for at, node in enumerate(self.graph.nodes) if node.op in SOURCES]

    def _bytes(self, node: int) -> int:
        return 4 * build.elements(self.graph, node)
