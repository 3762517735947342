"""Small training steps written by hand: what fusion, placement and updates in place are made for."""

from __future__ import annotations

import numpy as np

from repops.builder import Builder, View
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, I32, OPTIMIZER, PARAMETER, STATE_ROLE, Graph

StepProgram = tuple[Graph, dict[str, Array], dict[str, Array]]  # the program, its state, its batch


def softmax(b: Builder, x: View) -> View:
    """Over the last axis."""
    last = x.rank - 1
    e = b.map("exp", b.map("sub", x, b.reduce("reduce_max", x, [last]).unsqueeze(last)))
    return b.map("div", e, b.sum(e, [last]).unsqueeze(last))


def adamw(b: Builder, p: View, m: View, v: View, gradient: View, scale: View) -> tuple[View, View, View]:
    """p, m and v after a step; scale: () float32, joins late."""
    m1 = b.map("fma", gradient, 0.1, b.map("mul", m, 0.9))
    v1 = b.map("fma", b.map("mul", gradient, gradient), 0.05, b.map("mul", v, 0.95))
    moved = b.map("div", b.map("mul", m1, scale), b.map("add", b.map("sqrt", v1), 1e-8))
    return b.map("sub", b.map("mul", p, 0.99), b.map("mul", moved, 0.01)), m1, v1


def attention_step() -> StepProgram:
    """Two heads of attention over an embedding, its loss, gradients of one matrix, AdamW. B 2, T 5, H 2, D 4."""
    b, rng = Builder(), np.random.default_rng(1)
    table, w = b.input(F32, (11, 8), STATE_ROLE, 0), b.input(F32, (8, 24), STATE_ROLE, 1)
    m, v = b.input(F32, (8, 24), STATE_ROLE, 2), b.input(F32, (8, 24), STATE_ROLE, 3)
    tokens, target = b.input(I32, (2, 5), BATCH_ROLE, 0), b.input(I32, (10,), BATCH_ROLE, 1)
    rows = View(table.node, F32, (2, 5, 8, 11), 0, (0, 0, 1, 8))
    x = b.take(rows, tokens.unsqueeze(2))
    qkv = b.reshape(b.matmul(b.reshape(x, (10, 8)), w), (2, 5, 3, 2, 4)).permute([2, 0, 3, 1, 4])
    q, k, values = (b.reshape(b.copy(qkv.select(0, n)), (4, 5, 4)) for n in range(3))
    mask = b.constant(np.triu(np.ones((5, 5), np.int32), 1))
    scores = b.map("where", mask, float("-inf"), b.map("mul", b.matmul(q, k.transpose(1, 2)), 0.5))
    mixed = b.matmul(softmax(b, scores), values)
    joined = b.reshape(b.copy(b.reshape(mixed, (2, 2, 5, 4)).permute([0, 2, 1, 3])), (10, 8))
    chance = softmax(b, b.matmul(joined, table.transpose(0, 1)))
    loss = b.map("div", b.sum(b.map("neg", b.map("log", b.take(chance, target))), [0]), 10.0)
    hit = b.map("to_float", b.map("ieq", b.iota(11), target.unsqueeze(1)))
    back = b.matmul(b.map("div", b.map("sub", chance, hit), 10.0), table)
    parts = [b.map("mul", back, float(n)) for n in (1, 2)] + [b.matmul(back, w.slice(1, 0, 8))]
    gradient = b.matmul(b.reshape(x, (10, 8)).transpose(0, 1), b.concat(parts, 1))
    squares = b.sum(b.map("mul", gradient, gradient), [0, 1])
    w1, m1, v1 = adamw(b, w, m, v, gradient, b.map("div", 1.0, b.map("add", 1.0, squares)))
    table1 = b.scatter(table, 0, b.reshape(tokens, (10,)), b.map("mul", back, -0.1), adds=True)
    state = [("m", OPTIMIZER, m, m1), ("table", PARAMETER, table, table1), ("v", OPTIMIZER, v, v1)]
    graph = b.finish([*state, ("w", PARAMETER, w, w1)], [("tokens", tokens), ("target", target)], loss)
    values_of = {name: rng.standard_normal(s).astype(np.float32) for name, s in [("table", (11, 8)), ("w", (8, 24))]}
    values_of |= {"m": np.zeros((8, 24), np.float32), "v": np.ones((8, 24), np.float32)}
    return (
        graph,
        values_of,
        {
            "tokens": rng.integers(0, 11, (2, 5)).astype(np.int32),
            "target": np.array([0, 3, 11, -1, 5, 5, 10, 2, 1, 0], np.int32),  # two outside the vocabulary
        },
    )


def norm_step() -> StepProgram:
    """LayerNorm with its backward pass over rows and down columns. R 12, C 40."""
    b, rng = Builder(), np.random.default_rng(2)
    w, bias = b.input(F32, (40,), STATE_ROLE, 0), b.input(F32, (40,), STATE_ROLE, 1)
    x, dy = b.input(F32, (12, 40), BATCH_ROLE, 0), b.input(F32, (12, 40), BATCH_ROLE, 1)
    mean = b.map("div", b.sum(x, [1]), 40.0).unsqueeze(1)
    centred = b.map("sub", x, mean)
    variance = b.map("div", b.sum(b.map("mul", centred, centred), [1]), 40.0)
    scale = b.map("div", 1.0, b.map("sqrt", b.map("add", variance, 1e-5))).unsqueeze(1)
    unit = b.map("mul", centred, scale)
    y = b.map("fma", unit, w, bias)
    loss = b.sum(b.map("mul", y, dy), [0, 1])
    dw, db = b.sum(b.map("mul", dy, unit), [0]), b.sum(dy, [0])
    after = [b.map("sub", p, b.map("mul", d, 0.1)) for p, d in ((w, dw), (bias, db))]
    graph = b.finish([("bias", PARAMETER, bias, after[1]), ("w", PARAMETER, w, after[0])], [("x", x), ("dy", dy)], loss)
    arrays = {name: rng.standard_normal((12, 40)).astype(np.float32) for name in ("x", "dy")}
    return graph, {"w": np.ones(40, np.float32), "bias": np.zeros(40, np.float32)}, arrays


def exchange_step() -> StepProgram:
    """State that trades places, stays, or becomes a transposed view; a loss that is state itself."""
    b = Builder()
    first, second = b.input(F32, (3, 3), STATE_ROLE, 0), b.input(F32, (3, 3), STATE_ROLE, 1)
    turned, last = b.input(F32, (3, 3), STATE_ROLE, 2), b.input(F32, (), STATE_ROLE, 3)
    x = b.input(F32, (3, 3), BATCH_ROLE, 0)
    state = [
        ("first", PARAMETER, first, second),
        ("last", OPTIMIZER, last, b.sum(b.map("mul", x, first), [0, 1])),
        ("second", PARAMETER, second, first),
        ("turned", PARAMETER, turned, b.map("add", turned.transpose(0, 1), x)),
    ]
    graph = b.finish(state, [("x", x)], last)
    numbers = np.arange(9, dtype=np.float32).reshape(3, 3)
    before = {"first": numbers, "second": numbers + 10, "turned": numbers + 20, "last": np.array(7, np.float32)}
    return graph, before, {"x": numbers + 1}


STEPS = {"attention": attention_step, "norm": norm_step, "exchange": exchange_step}
