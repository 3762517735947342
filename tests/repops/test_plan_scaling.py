"""Planning takes time in proportion to a program's nodes, whatever the program: counted in bytecodes, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from repops.builder import Builder, View
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from repops.native import runner
from repops.plan import fuse
from tests.support.work import bytecodes_of

FEW = 60  # rounds; the longer program has four times as many
MOST = 5.0  # times the work: four, and a logarithm


def _inputs(b: Builder, count: int, shape: tuple[int, ...]) -> Iterator[View]:
    return (b.input(F32, shape, STATE_ROLE, at) for at in range(count))


def _stepped(b: Builder, pairs: list[tuple[View, View]], batch: list[tuple[str, View]]) -> Graph:
    state = [(f"w{at:06}", PARAMETER, before, after) for at, (before, after) in enumerate(pairs)]
    return b.finish(state, batch, b.scalar(0.0, F32))


def sums_of_many_sizes(count: int) -> Graph:
    b = Builder()
    x = b.input(F32, (1 << 14,), BATCH_ROLE, 0)
    total = b.scalar(0.0, F32)
    for at in range(count):
        total = b.map("add", total, b.sum(x.slice(0, 0, 65 + at), [0]))
    return b.finish([], [("x", x)], total)


def updates_of_one_size(count: int) -> Graph:
    b = Builder()
    return _stepped(b, [(w, b.map("mul", b.map("exp", w), 0.5)) for w in _inputs(b, count, (100,))], [])


def updates_of_scalars(count: int) -> Graph:
    b = Builder()
    return _stepped(b, [(w, b.map("mul", b.map("exp", w), 0.5)) for w in _inputs(b, count, ())], [])


def products_in_any_order(count: int) -> Graph:
    b = Builder()
    x = b.input(F32, (4, 4), BATCH_ROLE, 0)
    return _stepped(b, [(w, b.matmul(x, w)) for w in _inputs(b, count, (4, 4))], [("x", x)])


def values_read_again_at_the_end(count: int) -> Graph:
    b = Builder()
    x = b.input(F32, (8, 100), BATCH_ROLE, 0)
    made = [x]
    for _ in range(count):
        made.append(b.map("exp", made[-1]))
    out = made[-1]
    for value in reversed(made):
        out = b.map("add", out, value)
    return b.finish([], [("x", x)], b.sum(out, [0, 1]))


def folds_that_share_a_chain(count: int) -> Graph:
    """Each fold waits for the one before and reads one more map of a chain."""
    b = Builder()
    x = b.input(F32, (8, 100), BATCH_ROLE, 0)
    link, total = x, b.reduce("sum_sequential", x, [0])
    for _ in range(count):
        link = b.map("exp", link)
        total = b.reduce("sum_sequential", b.map("add", link, total), [0])
    return b.finish([], [("x", x)], b.sum(total, [0]))


def values_that_leave_holes(count: int) -> Graph:
    b = Builder()
    x = b.input(F32, (1 << 13,), BATCH_ROLE, 0)
    one = x.slice(0, 0, 1).reshaped((1, 1))
    assert one is not None
    made = []
    for at in range(count):
        size = 16 * (1 + at * 7 % 500)
        column = x.slice(0, 0, size).reshaped((size, 1))
        assert column is not None
        made.append(b.matmul(column, one))
    total = b.scalar(0.0, F32)
    for value in made[::2] + made[1::2]:
        total = b.map("add", total, value.select(0, 0).squeeze(0))
    return b.finish([], [("x", x)], total)


def _plan(graph: Graph) -> None:
    made = runner.prepare(graph)
    for plan in (made.plan, made._trace):
        assert plan._encoded


PROGRAMS = [
    sums_of_many_sizes, updates_of_one_size, updates_of_scalars, products_in_any_order, values_read_again_at_the_end,
    folds_that_share_a_chain, values_that_leave_holes,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_plan__of_four_times_the_nodes__takes_four_times_the_work(
    program: Callable[[int], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuse, "LOOK_BACK", 8)  # in place of 128, which short programs never reach
    few, many = program(FEW), program(4 * FEW)
    assert 3.5 < len(many.nodes) / len(few.nodes) <= 4
    _plan(program(3))  # imports, caches
    assert bytecodes_of(lambda: _plan(many)) < MOST * bytecodes_of(lambda: _plan(few))


def test_plan__of_a_chain_longer_than_pythons_stack__is_made() -> None:
    """A fold reads maps that are computed inside it, one after another."""
    b = Builder()
    link = x = b.input(F32, (8, 4), BATCH_ROLE, 0)
    for _ in range(4_000):
        link = b.map("neg", link)
    graph = b.finish([], [("x", x)], b.sum(b.reduce("sum_sequential", link, [0]), [0]))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)  # some libraries raise it for the whole process
    try:
        _plan(graph)
    finally:
        sys.setrecursionlimit(before)
