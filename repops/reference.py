"""The reference executor: computes every element part by part, one scalar operation at a time. Slow, and obviously right.

It uses nothing but the operator table, and keeps every node's words in a Python list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from repops.backend import DTYPE, check_batch, room_for_batch
from repops.commitments import Array
from repops.float_mode import check_float_mode
from repops.graph import BATCH_ROLE, F32, Graph, Node
from repops.parts import Read, parts
from repops.recipes import canonical

Words = list[int]


def run(graph: Graph, state: Mapping[str, Words], batch: Mapping[str, Words]) -> list[Words]:
    """Every node's words, row-major. state and batch: the words of each input by name. Raises SubnormalsFlushed."""
    check_float_mode()
    values: list[Words] = []
    for at, node in enumerate(graph.nodes):
        values.append(_value(graph, at, node, values, state, batch))
    return values


def _value(
    graph: Graph, at: int, node: Node, values: list[Words], state: Mapping[str, Words], batch: Mapping[str, Words]
) -> Words:
    if node.op == "input":
        role, position = node.attributes
        name = graph.batch[position][0] if role == BATCH_ROLE else graph.state[position].name
        words = list((batch if role == BATCH_ROLE else state)[name])
        if len(words) != node.elements:
            raise ValueError(f"{name}: {len(words)} words given, {node.elements} expected")
    elif node.op == "constant":
        data = graph.constants[at]
        words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    else:
        words = [element(node, number, values) for number in range(node.elements)]
    return [canonical(word) for word in words] if node.dtype == F32 else words


def element(node: Node, number: int, values: list[Words]) -> int:
    """One element of a computed node, from the words of earlier nodes."""
    return _results(node, number, lambda operand, index: values[node.operands[operand].node][index])[-1]


def results(node: Node, element: int, operands: Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    """The word of each part of one element; the last is the element's. operands: the words of each one's source."""
    check_float_mode()
    words = _results(node, element, lambda operand, index: int(operands[operand][index]))
    return np.array(words, np.uint32)


def _results(node: Node, number: int, read: Read) -> Words:
    made: Words = []
    for part in parts(node, number, read):
        words = [made[at] for at in part.carried] + [read(*place) for place in part.reads]
        made.append(part.recipe.run(*words))
    return made


class ReferenceRunner:
    """The reference executor as a `backend.Runner`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._last: tuple[dict[str, Words], dict[str, Words], list[Words]] | None = None
        self.state: dict[str, Array] = {}
        for entry in graph.state:
            node = graph.nodes[entry.before]
            self.state[entry.name] = np.zeros(node.shape, DTYPE[node.dtype])

    @cached_property
    def batch(self) -> dict[str, Array]:
        return room_for_batch(self.graph)

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        values = self.trace(batch)
        for entry in self.graph.state:
            if entry.after != entry.before:  # unchanged tensors may be read-only
                self.state[entry.name][...] = values[entry.after]
        return float(values[self.graph.loss])

    def rest(self) -> None:
        """Keeps its memory."""

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return float(self.trace(batch)[self.graph.loss])

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        values = self._run(_words(self.state), _words(check_batch(self.graph, batch)))
        return [
            np.array(words, np.uint32).view(DTYPE[node.dtype]).reshape(node.shape)
            for node, words in zip(self.graph.nodes, values, strict=True)
        ]

    def _run(self, state: dict[str, Words], batch: dict[str, Words]) -> list[Words]:
        """The last run is kept: a comparison asks for trace, loss and step of the same words."""
        if self._last is None or self._last[:2] != (state, batch):
            self._last = state, batch, run(self.graph, state, batch)
        return self._last[2]


def prepare(
    graph: Graph, *, fused: bool = True, memory: int | None = None, folder: Path | None = None
) -> ReferenceRunner:
    """fused, memory, folder: ignored."""
    return ReferenceRunner(graph)


def check() -> None:
    """It always works."""


def _words(arrays: Mapping[str, Array]) -> dict[str, Words]:
    return {name: np.ascontiguousarray(a).reshape(-1).view(np.uint32).tolist() for name, a in arrays.items()}
