"""The profile against counting by hand, and against slow readings of the operator table."""

from __future__ import annotations

import numpy as np
import pytest

from repops.builder import Builder
from repops.graph import BUFFER, F32, I32, OPTIMIZER, PARAMETER, Graph, Node, Operand
from repops.parts import parts
from repops.profile import Profile, profile
from tests.support.programs.samples import SAMPLES, long_chain
from tests.support.work import bytecodes_of


def test_profile__of_a_matmul_step__is_what_one_counts_by_hand() -> None:
    b = Builder()
    w = b.input(F32, (4, 3), 0, 0)
    x = b.input(F32, (5, 4), 1, 0)
    y = b.matmul(x, w)  # (5, 3): 4 terms
    loss = b.sum(y, [0, 1])  # 15 terms in lanes
    after = b.map("sub", w, b.map("mul", w, 0.5))
    result = profile(b.finish([("w", PARAMETER, w, after)], [("x", x)], loss))
    assert result == Profile(
        flops=2 * 15 * 4 + 15 + 12 + 12,
        depth=(4 + 1) + (1 + 5),
        # dot, sum, the scalar 0.5, mul, sub
        bytes=4 * ((20 + 12 + 15) + (15 + 1) + 1 + (12 + 1 + 12) + (12 + 12 + 12)),
        parameters=12,
        state_bytes=48,
        # x, y, loss, then 0.5, the product, the new w: y is done when the loss is made, 0.5 when the product is
        activation_bytes=4 * max(20 + 15 + 1, 20 + 1 + 1 + 12, 20 + 1 + 12 + 12),
        nodes=7,
    )


def test_profile__counts_parameters_alone_as_parameters_and_everything_as_state() -> None:
    b = Builder()
    views = [b.input(dtype, (size,), 0, at) for at, (dtype, size) in enumerate([(F32, 3), (F32, 5), (I32, 7)])]
    state = [(name, kind, v, v) for name, kind, v in zip("abc", (PARAMETER, OPTIMIZER, BUFFER), views, strict=True)]
    result = profile(b.finish(state, [], b.sum(views[0], [0])))
    assert (result.parameters, result.state_bytes) == (3, 60)
    assert result.activation_bytes == 4, "what is in the state already was counted twice"


def slow_peak(graph: Graph) -> int:
    """Words alive at each node in turn, from the definition. Shares nothing with the implementation."""
    state = {entry.before for entry in graph.state}
    kept = {entry.after for entry in graph.state} | {graph.loss}

    def alive(at: int, now: int) -> bool:
        if at in state:
            return False
        if graph.nodes[at].op in ("input", "constant"):
            return True
        readers = [n for n, node in enumerate(graph.nodes) for operand in node.operands if operand.node == at]
        return at <= now and (at in kept or now <= max(readers, default=at))

    moments = range(len(graph.nodes))
    return max(sum(node.elements for at, node in enumerate(graph.nodes) if alive(at, now)) for now in moments)


@pytest.mark.parametrize("name", SAMPLES)
def test_activation_bytes__agree_with_a_slow_count(name: str) -> None:
    graph = SAMPLES[name]()
    assert profile(graph).activation_bytes == 4 * slow_peak(graph)


@pytest.mark.parametrize("name", ["regression", "lookup", "convolution", "empty"])
def test_bytes__agree_with_the_words_that_the_parts_read(name: str) -> None:
    """Every word the table says an element reads, each once a node, and the node's own words."""
    graph = SAMPLES[name]()
    total = 0
    for node in graph.nodes:
        if node.op in ("input", "constant"):
            continue
        words = {
            (operand, index)
            for e in range(node.elements)
            for p in parts(node, e, lambda *_: 0)
            for operand, index in p.reads
        }
        if node.op == "take":  # with index 0 everywhere, fewer words than elements; counted is one an element
            words |= {(0, -1 - extra) for extra in range(node.elements - len({i for o, i in words if o == 0}))}
        total += node.elements + len(words)
    assert profile(graph).bytes == 4 * total


def test_bytes__of_windows_that_overlap__are_counted_once() -> None:
    b = Builder()
    x = b.input(F32, (100,), 1, 0)
    windows = b.copy(x.window(0, 10))
    result = profile(b.finish([], [("x", x)], b.sum(windows, [0, 1])))
    assert result.bytes == 4 * ((100 + 910) + (910 + 1))


def test_depth__is_the_longest_path_not_the_sum() -> None:
    b = Builder()
    x = b.input(F32, (2,), 1, 0)
    short = b.map("add", x, x)
    long = b.map("mul", b.map("mul", b.map("mul", x, x), x), x)
    result = profile(b.finish([], [("x", x)], b.sum(b.map("add", short, long), [0])))
    assert result.depth == 3 + 1 + (1 + 5)
    assert profile(long_chain(50)).depth == 50 + 6


def test_depth_and_work__of_nothing__are_nothing() -> None:
    nodes = (
        Node("input", F32, (0,), attributes=(1, 0)),
        Node("exp", F32, (0,), (), (Operand(0, 0, (0,)),)),
        Node("scalar", F32, (), attributes=(0,)),
    )
    result = profile(Graph(nodes, (), (("x", 0),), 2))
    assert (result.flops, result.depth, result.bytes, result.activation_bytes) == (0, 0, 4, 4)


def test_profile__of_many_nodes__is_work_in_proportion() -> None:
    graphs = [long_chain(count) for count in (1_000, 10_000)]
    few, many = (bytecodes_of(lambda graph=graph: profile(graph)) for graph in graphs)
    assert many < 11 * few
    result = profile(graphs[1])
    assert result.nodes == 10_002
    assert result.flops == 2 * 10_000 + 2


def test_profile__needs_no_memory_for_what_it_describes() -> None:
    b = Builder()
    x = b.input(F32, (), 1, 0)
    wide = b.map("exp", x.expand((1 << 15, 1 << 14)))
    result = profile(b.finish([], [("x", x)], b.sum(wide, [0, 1])))
    assert result.activation_bytes == 4 * ((1 << 29) + 2)
    assert result.flops > 1 << 29
    assert isinstance(result.flops, int)
    assert not isinstance(result.flops, np.integer)
