"""What a job's program may not have: nodes that nobody needs, and traces or openings out of proportion to a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.disputes.programs import conv
from repops import limits
from repops.builder import Builder, View
from repops.encoding import decode, encode, root
from repops.graph import (
    BATCH_ROLE,
    F32,
    I32,
    OPTIMIZER,
    PARAMETER,
    SEED,
    STATE_ROLE,
    BadProgram,
    Graph,
    Node,
    Operand,
    StateEntry,
)
from repops.profile import trace_bytes
from tests.support.programs.random_programs import pruned, random_program


def _program(*more: Node) -> Graph:
    """w - x, its square the loss; then `more` nodes."""
    nodes = [
        Node("input", F32, (3,), attributes=(STATE_ROLE, 0)),
        Node("input", F32, (3,), attributes=(BATCH_ROLE, 0)),
        Node("sub", F32, (3,), (), (Operand(0, 0, (1,)), Operand(1, 0, (1,)))),
        Node("dot", F32, (), (3,), (Operand(2, 0, (1,)), Operand(2, 0, (1,)))),
    ]
    return Graph((*nodes, *more), (StateEntry("w", PARAMETER, 0, 2),), (("x", 1),), 3)


def _dead_empty_dot(at: int) -> tuple[Node, ...]:
    return (
        Node("iota", I32, (0,), attributes=(0,)),
        Node("from_bits", F32, (0,), (), (Operand(at, 0, (1,)),)),
        Node("dot", F32, (), (0,), (Operand(at + 1, 0, (1,)), Operand(at + 1, 0, (1,)))),
    )


def test_decode__a_node_that_nobody_needs__is_refused_by_its_number() -> None:
    """The audit's program: a dead empty dot behind a conv net's step, which trained and could not be traced."""
    graph = conv().graph
    count = len(graph.nodes)
    assert root(decode(encode(graph))) == root(graph)
    dead = replace(graph, nodes=graph.nodes + _dead_empty_dot(count))
    with pytest.raises(BadProgram, match=rf"node {count} \(iota\): neither the state nor the loss needs it"):
        decode(encode(dead))


def test_decode__dead_iotas__are_refused() -> None:
    huge = Node("iota", I32, (1 << 28,), attributes=(0,))
    with pytest.raises(BadProgram, match=r"node 4 \(iota\): neither"):
        decode(encode(_program(huge)))
    count = 262_136
    file = encode(_program(*[huge] * count))
    with pytest.raises(BadProgram, match="262,140 nodes exceed 131,072"):
        decode(file)


def test_decode__needed_iotas__are_refused_by_the_bytes_of_a_trace() -> None:
    """Each iota is read by one word, so a step costs nothing and its trace everything."""
    extent, count = 1 << 28, 8_000
    nodes: list[Node] = [Node("input", F32, (), attributes=(STATE_ROLE, 0)), Node("scalar", F32, (), attributes=(0,))]
    last = 0
    for _ in range(count):
        at = len(nodes)
        nodes += [
            Node("iota", I32, (extent,), attributes=(0,)),
            Node("to_float", F32, (), (), (Operand(at, 0, ()),)),
            Node("add", F32, (), (), (Operand(last, 0, ()), Operand(at + 1, 0, ()))),
        ]
        last = at + 2
    graph = Graph(tuple(nodes), (StateEntry("w", PARAMETER, 0, last),), (), 1)
    assert trace_bytes(graph) > 4 * extent * count
    with pytest.raises(BadProgram, match="a trace of a step hashes"):
        decode(encode(graph))


@pytest.mark.parametrize("op", ["sum", "sum_sequential", "reduce_max", "dot", "scatter_add"])
def test_decode__a_reduction_of_2_31_terms_of_one_word__is_refused(op: str) -> None:
    count = 2**31 - 1
    if op == "scatter_add":
        index = Node("iota", I32, (3,), attributes=(0,))
        views = (Operand(0, 0, (1,)), Operand(4, 0, (0, 0)), Operand(0, 0, (0, 0)))
        more = (index, Node(op, F32, (3,), (count,), views, (0,)))
    else:
        more = (Node(op, F32, (), (count,), (Operand(0, 0, (0,)),) * (2 if op == "dot" else 1)),)
    graph = _program(*more)
    at = len(graph.nodes)
    strides = (1,) if op == "scatter_add" else (0,)
    after = Node("add", F32, (3,), (), (Operand(0, 0, (1,)), Operand(at - 1, 0, strides)))
    graph = Graph((*graph.nodes, after), (StateEntry("w", PARAMETER, 0, at),), graph.batch, 3)
    with pytest.raises(BadProgram, match="2,147,483,647 terms; at most 536,870,912"):
        decode(encode(pruned(graph)))


def test_builder__prunes_what_nobody_needs() -> None:
    b = Builder()
    x = b.input(F32, (4,), BATCH_ROLE, 0)
    b.map("exp", x)
    b.iota(1 << 28)
    assert len(b.finish([], [("x", x)], b.sum(x, [0])).nodes) == 2


@pytest.mark.parametrize("seed", range(5))
def test_random_programs__are_refused_until_they_are_pruned(seed: int) -> None:
    graph = random_program(seed)
    with pytest.raises(BadProgram, match="neither the state nor the loss needs it"):
        decode(encode(graph))
    assert decode(encode(pruned(graph))) == pruned(graph)


@pytest.mark.parametrize(("kind", "dtype", "accepted"), [
    (OPTIMIZER, I32, True), (OPTIMIZER, F32, False), (PARAMETER, F32, True),
])  # fmt: skip
def test_decode__a_seed_that_the_contract_cannot_judge__is_refused(kind: str, dtype: str, accepted: bool) -> None:
    nodes = (Node("input", dtype, (), attributes=(STATE_ROLE, 0)), Node("scalar", F32, (), attributes=(0,)))
    file = encode(Graph(nodes, (StateEntry(SEED, kind, 0, 0),), (), 1))
    if accepted:
        decode(file)
    else:
        with pytest.raises(BadProgram, match="the optimizer's 'seed' is f32; expected i32"):
            decode(file)


# --- the largest programs that must pass: benchmarks/disputes/programs.py has the sizes of a 7B Llama

WIDTH, TALL, VOCABULARY, TOKENS, HEADS, LAYERS = 4096, 11008, 32000, 4096, 32, 32


def _largest_products(b: Builder, new: Callable[..., View]) -> list[View]:
    """Gradient of the head, logits, attention, a layer's widest gradient; then the norm of a gradient."""
    x, wide = new(TOKENS, WIDTH), new(TOKENS, TALL)
    head = new(WIDTH, VOCABULARY)
    logits = b.matmul(x, head)
    gradient = b.matmul(x.transpose(0, 1), logits)
    q, k = new(HEADS, TOKENS, WIDTH // HEADS), new(HEADS, TOKENS, WIDTH // HEADS)
    scores = b.matmul(q, k.transpose(1, 2))
    norm = b.sum(b.map("mul", gradient, gradient).reshaped((WIDTH * VOCABULARY,)) or gradient, [0])
    widest = b.matmul(x.transpose(0, 1), wide)
    return [logits, scores, norm, widest]


def test_llama_7b__passes_with_each_of_its_layers() -> None:
    """Every layer's attention and gradients, and AdamW's tensors of 6.7 billion parameters."""
    b = Builder()
    batch: list[tuple[str, View]] = []

    def new(*shape: int) -> View:
        view = b.input(F32, shape, BATCH_ROLE, len(batch))
        batch.append((f"x{len(batch)}", view))
        return view

    ends = _largest_products(b, new)
    for _ in range(LAYERS):
        q, k = new(HEADS, TOKENS, WIDTH // HEADS), new(HEADS, TOKENS, WIDTH // HEADS)
        scores = b.matmul(q, k.transpose(1, 2))
        for _ in range(10):
            scores = b.map("exp", scores)
        ends.append(scores)
        weight = new(WIDTH * 50_000)  # of a layer: four of WIDTH x WIDTH and three of WIDTH x TALL
        for _ in range(20):
            weight = b.map("sqrt", weight)
        ends.append(weight)
    loss = b.scalar(0.0, F32)
    for end in ends:
        loss = b.map(
            "add", loss, b.copy(end.reshaped((end.elements,)) or end).slice(0, 0, 1).squeeze(0) if end.rank else end
        )
    graph = b.finish([], batch, loss)
    assert trace_bytes(graph) > 10**12
    assert trace_bytes(graph) < limits.MAX_TRACE_BYTES / 4


def test_largest_sum_of_an_8b_model__passes() -> None:
    b = Builder()
    table = b.input(F32, (128_256, 4_096), BATCH_ROLE, 0)
    b.finish([], [("table", table)], b.sum(table, [0, 1]))
