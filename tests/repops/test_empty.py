"""Tensors without elements: every backend runs, traces and divides into parts whatever the checks accept."""

from __future__ import annotations

import numpy as np
import pytest

from repops import backend, encoding, native, reference, streaming
from repops.backend import Runner, part_words
from repops.graph import BATCH_ROLE, F32, I32, PARAMETER, STATE_ROLE, Graph, Node, Operand, StateEntry
from repops.parts import part_count
from tests.support.programs.random_programs import Array, fill, random_program

BACKENDS = ("native", "numba", "reference")
SEEDS, NODES, EMPTY = range(12), 60, 0.5


def _words(array: Array) -> np.ndarray:
    flat = np.asarray(array).reshape(-1)
    words = flat.view(np.uint32).copy()
    if flat.dtype == np.float32:
        words[np.isnan(flat)] = 0x7FC00000
    return words


def _loaded(graph: Graph, state: dict[str, Array], name: str, *, fused: bool = True) -> Runner:
    runner = backend.prepare(graph, fused=fused, name=name)
    for entry, array in state.items():
        runner.state[entry][...] = array
    return runner


def _check_everything(graph: Graph, state: dict[str, Array], batch: dict[str, Array], name: str) -> None:
    """A step, fused or not, a trace whole and in pieces, and every part: the reference's words."""
    expected = _loaded(graph, state, "reference")
    values = expected.trace(batch)
    for at, value in enumerate(_loaded(graph, state, name).trace(batch, threads=2)):
        np.testing.assert_array_equal(_words(value), _words(values[at]), f"trace: node {at} {graph.nodes[at].op}")
    prepare = lambda piece: backend.prepare(piece, name=name)  # noqa: E731
    for at, value in streaming.values(graph, state, batch, piece_bytes=64, prepare=prepare):
        np.testing.assert_array_equal(_words(value), _words(values[at]), f"pieces: node {at} {graph.nodes[at].op}")
    for node in graph.nodes:
        if node.op not in ("input", "constant") and node.elements:
            sources = [_words(values[operand.node]) for operand in node.operands]
            made = part_words(node, node.elements - 1, sources, name=name)
            assert len(made) == part_count(node)
            np.testing.assert_array_equal(made, reference.results(node, node.elements - 1, sources), node.op)
    loss = expected.step(batch)
    for fused in (True, False):
        runner = _loaded(graph, state, name, fused=fused)
        with np.errstate(all="ignore"):
            assert _words(np.float32(runner.step(batch))) == _words(np.float32(loss))
        for entry in graph.state:
            np.testing.assert_array_equal(_words(runner.state[entry.name]), _words(expected.state[entry.name]))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_program__with_empty_tensors__is_run_traced_and_proven(seed: int, name: str) -> None:
    graph = random_program(90_000 + seed, nodes=NODES, empty=EMPTY)
    state, batch = fill(np.random.default_rng(seed), graph)
    _check_everything(graph, state, batch, name)


def test_random_programs__read_empty_tensors_that_were_computed() -> None:
    """What the property above is about: nodes with elements that read a computed node without any."""
    seen = set()
    for seed in SEEDS:
        nodes = random_program(90_000 + seed, nodes=NODES, empty=EMPTY).nodes
        for node in nodes:
            for operand in node.operands:
                source = nodes[operand.node]
                if node.elements and not source.elements and source.op not in ("input", "iota"):
                    seen.add(node.op)
    assert {"dot", "sum", "reduce_max", "scatter", "scatter_add"} <= seen


def _whole(at: int, *strides: int) -> Operand:
    return Operand(at, 0, strides)


def _of_nothing(op: str, *, computed: bool) -> Graph:
    """s = w + op(a, a) of an empty tensor a, which is computed or an input. loss: the sum of s."""
    reads = 2 if op == "dot" else 1
    nodes = [
        Node("input", F32, (3,), attributes=(STATE_ROLE, 0)),
        Node("input", I32, (0,), attributes=(BATCH_ROLE, 0)),
        Node("from_bits", F32, (0,), (), (_whole(1, 1),)),
        Node(op, F32, (), (0,), (_whole(2 if computed else 0, 1),) * reads),
        Node("add", F32, (3,), (), (_whole(0, 1), _whole(3, 0))),
        Node("sum", F32, (), (3,), (_whole(4, 1),)),
    ]
    return Graph(tuple(nodes), (StateEntry("w", PARAMETER, 0, 4),), (("x", 1),), 5)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("op", ["dot", "sum", "sum_sequential", "reduce_max"])
@pytest.mark.parametrize("computed", [True, False])
def test_reduction__of_an_empty_tensor__is_run_traced_and_proven(op: str, computed: bool, name: str) -> None:
    graph = _of_nothing(op, computed=computed)
    batch: dict[str, Array] = {"x": np.zeros(0, np.int32)}
    _check_everything(graph, {"w": np.array([1, 2, 3], np.float32)}, batch, name)


def test_native_isas__all_trace_an_empty_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    for isa in native.available():
        monkeypatch.setenv("REPOPS_ISA", isa)
        graph = _of_nothing("dot", computed=True)
        assert len(encoding.encode(graph)) > 0
        values = _loaded(graph, {}, "native").trace({"x": np.zeros(0, np.int32)})
        assert _words(values[3]).tolist() == [0]
