"""A runner of which one operator is wrong by one bit, in one element: what a conformance run has to notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from repops.backend import Runner, prepare
from repops.builder import Builder, View
from repops.commitments import Array
from repops.conformance.programs import Sample
from repops.graph import F32, I32, Graph, StateEntry, contiguous


class BitFlippingRunner:
    """`Runner` of a sample on the CPU's kernels. In each node of `op` the lowest bit of its last element is turned.

    The last that is no NaN, of which one is like another.
    """

    def __init__(self, sample: Sample, op: str) -> None:
        self._graph, state, batch = sample
        right = prepare(self._graph)
        for name, array in state.items():
            right.state[name][...] = array
        self._last = [_last_number(values) for values in right.trace(batch)]
        self.flips = 0
        written, self._place = self._rewritten(op)
        self._runner: Runner = prepare(written)
        self.state = self._runner.state

    @property
    def batch(self) -> dict[str, Array]:
        return self._runner.batch

    def _rewritten(self, op: str) -> tuple[Graph, list[int]]:
        """The graph with an xor behind each node of `op`, and where each node's value is then."""
        b, place, inputs = Builder(), list[int](), dict[int, int]()
        for at, node in enumerate(self._graph.nodes):
            operands = tuple(replace(operand, node=place[operand.node]) for operand in node.operands)
            b.nodes.append(replace(node, operands=operands))
            inputs[at] = new = len(b.nodes) - 1
            if node.op == "constant":
                b.constants[new] = self._graph.constants[at]
            if node.op == op and self._last[at] is not None:
                self.flips += 1
                new = _flip(b, View(new, node.dtype, node.shape, 0, contiguous(node.shape)), self._last[at])
            place.append(new)
        state = tuple(StateEntry(e.name, e.kind, inputs[e.before], place[e.after]) for e in self._graph.state)
        batch = tuple((name, inputs[at]) for name, at in self._graph.batch)
        return Graph(tuple(b.nodes), state, batch, place[self._graph.loss], b.constants), place

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return self._runner.step(batch, threads=threads)

    def rest(self) -> None:
        """Keeps its memory."""

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return self._runner.loss(batch, threads=threads)

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        values = self._runner.trace(batch, threads=threads)
        return [values[at] for at in self._place]


def _last_number(values: Array) -> int | None:
    numbers = np.flatnonzero(~np.isnan(values.reshape(-1)))
    return int(numbers[-1]) if numbers.size else None


def _flip(b: Builder, view: View, element: int | None) -> int:
    mask = np.zeros(view.shape, np.int32)
    mask.reshape(-1)[element] = 1
    word = b.map("bits", view) if view.dtype == F32 else view
    other = b.map("xor", word, b.constant(mask), dtype=I32)
    return (b.map("from_bits", other) if view.dtype == F32 else other).node
