"""Programs that between them reach every kernel, and the check that a runner gives the reference's bits on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from repops import reference
from repops.backend import Runner
from repops.commitments import Array
from repops.conformance.compare import bits, same_number
from repops.conformance.programs import (
    Sample,
    convolutions,
    elementwise,
    exchange,
    indexed,
    ordinary,
    reductions,
)
from repops.graph import F32, Graph
from tests.support.programs import samples


def assert_agree(sample: Sample, runners: Sequence[Runner]) -> None:
    """Trace, loss, and two steps of each runner against the reference."""
    graph, state, batch = sample
    oracle = reference.prepare(graph)
    for each in (oracle, *runners):
        for name, array in state.items():
            each.state[name][...] = array
    traced = zip(graph.nodes, oracle.trace(batch), runners[0].trace(batch), strict=True)
    for at, (node, expected, got) in enumerate(traced):
        assert (bits(expected) == got.reshape(-1).view(np.uint32)).all(), f"node {at} ({node.op})"
    assert same_number(oracle.loss(batch), runners[0].loss(batch))
    for step in range(2):
        loss = oracle.step(batch)
        for runner in runners:
            assert same_number(loss, runner.step(batch))
            for name, array in oracle.state.items():
                assert (bits(array) == bits(runner.state[name])).all(), f"{name} after step {step}"


class _Words:
    """An array's words as Python's integers: the reference's lists, for arrays too large to make lists of."""

    def __init__(self, array: Array) -> None:
        self._words = array.reshape(-1).view(np.uint32)

    def __getitem__(self, index: int) -> int:
        return int(self._words[index])


def assert_elements(graph: Graph, batch: Mapping[str, Array], result: Array, count: int = 24) -> None:
    """Some elements of the program's only `dot`, whose operands are in the batch, against the reference."""
    node = next(node for node in graph.nodes if node.op == "dot")
    values = [_Words(np.empty(0, np.float32)) for _ in graph.nodes]
    for name, at in graph.batch:
        values[at] = _Words(batch[name])
    picked = np.random.default_rng(0).integers(0, node.elements, count).tolist()
    got = bits(result)
    for element in {0, node.elements - 1, *picked}:
        assert reference.element(node, element, values) == got[element], element  # type: ignore[arg-type]


def whole(graph: Graph) -> Sample:
    """With ordinary numbers and small indices."""
    rng = np.random.default_rng(6)

    def input_of(at: int) -> Array:
        node = graph.nodes[at]
        return ordinary(rng, node.shape) if node.dtype == F32 else rng.integers(0, 5, node.shape).astype(np.int32)

    state = {entry.name: input_of(entry.before) for entry in graph.state}
    return graph, state, {name: input_of(at) for name, at in graph.batch}


def lookup_sample() -> Sample:
    return whole(samples.lookup())


def table() -> dict[str, Sample]:
    """Between them every operator of the table."""
    return {
        "elementwise": elementwise(),
        "reductions": reductions(),
        "convolutions": convolutions(),
        "indexed": indexed(),
        "exchange": exchange(),
        "regression": whole(samples.regression()),
        "lookup": lookup_sample(),
        "convolution": whole(samples.convolution()),
        "empty": whole(samples.empty()),
    }
