"""Small programs that between them use every form a file can take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repops.builder import Builder, View
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, OPTIMIZER, PARAMETER, STATE_ROLE, Graph


def regression() -> Graph:
    """A matmul, a loss, momentum; a constant tensor, a frozen buffer."""
    b = Builder()
    weight = b.input(F32, (4, 3), STATE_ROLE, 0)
    momentum = b.input(F32, (4, 3), STATE_ROLE, 1)
    mask = b.input(I32, (3,), STATE_ROLE, 2)
    x = b.input(F32, (5, 4), BATCH_ROLE, 0)
    scale = b.constant(np.arange(12, dtype=np.float32).reshape(4, 3) / 8)
    y = b.map("where", mask, b.matmul(x, weight), 0.0)
    loss = b.sum(b.map("mul", y, y), [0, 1])
    gradient = b.matmul(x.transpose(0, 1), y)
    moved = b.map("fma", momentum, 0.9, b.map("mul", gradient, scale))
    after = b.map("sub", weight, b.map("mul", moved, 0.01))
    state = [
        ("weight", PARAMETER, weight, after),
        ("weight/momentum", OPTIMIZER, momentum, moved),
        ("mask", BUFFER, mask, mask),
    ]
    return b.finish(state, [("x", x)], loss)


def lookup() -> Graph:
    """Indices: take, scatter, concat, iota, integers, a flipped and a strided view, an integer constant."""
    b = Builder()
    table = b.input(F32, (7, 2), STATE_ROLE, 0)
    counter = b.input(I32, (), STATE_ROLE, 1)
    index = b.input(I32, (5,), BATCH_ROLE, 0)
    rows = b.take(table.transpose(0, 1).unsqueeze(0).expand((5, 2, 7)), index.unsqueeze(1).expand((5, 2)))
    joined = b.concat([rows, rows.flip(0)], 0).slice(0, 1, 9, 2)
    noise = b.map("random", b.iota(4), counter, b.constant(np.array([3, 1, 4, 1], np.int32)))
    kept = b.map("lt", b.map("to_float", noise), 0.0)
    picked = b.map("where", kept.unsqueeze(1), joined, 0.0)
    places = b.map("iadd", index.slice(0, 0, 4), 1)
    after = b.scatter(table, 0, places, picked, adds=True)
    loss = b.sum(b.map("add", picked, b.map("to_float", b.rank(picked, 0))), [0, 1])
    state = [("table", PARAMETER, table, after), ("counter", BUFFER, counter, b.map("iadd", counter, 1))]
    return b.finish(state, [("index", index)], loss)


def convolution() -> Graph:
    """Windows as strides, three axes reduced at once, reductions of every kind, names that are not ASCII."""
    b = Builder()
    image = b.input(F32, (2, 3, 6, 6), BATCH_ROLE, 0)
    kernel = b.input(F32, (4, 3, 3, 3), STATE_ROLE, 0)
    windows = image.window(2, 3).window(3, 3).permute([0, 2, 3, 1, 4, 5])
    left = windows.unsqueeze(1).expand((2, 4, 4, 4, 3, 3, 3))
    right = kernel.unsqueeze(1).unsqueeze(1).unsqueeze(0).expand((2, 4, 4, 4, 3, 3, 3))
    maps = b.map("max", b.dot(left, right, 3), 0.0)
    top = b.reduce("reduce_max", maps, [2, 3])
    total = b.map("add", b.sum(top, [1]), b.sum(maps, [0]).slice(0, 0, 1).slice(1, 0, 1).slice(2, 0, 2).reshaped((2,)))  # type: ignore[arg-type]
    loss = b.sum(total, [0])
    after = b.map("sub", kernel, b.map("mul", kernel, loss))
    return b.finish([("Gewicht/größe ☃", PARAMETER, kernel, after)], [("bild", image)], loss)


def empty() -> Graph:
    """No state, no terms: the sum of nothing."""
    b = Builder()
    x = b.input(F32, (0, 3), BATCH_ROLE, 0)
    return b.finish([], [("x", x)], b.sum(x, [0, 1]))


def long_chain(nodes: int) -> Graph:
    b = Builder()
    x = b.input(F32, (2,), STATE_ROLE, 0)
    y: View = x
    for _ in range(nodes):
        y = b.map("add", y, x)
    return b.finish([("x", PARAMETER, x, y)], [], b.sum(y, [0]))


SAMPLES: dict[str, Callable[[], Graph]] = {f.__name__: f for f in (regression, lookup, convolution, empty)}
