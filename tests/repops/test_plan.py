"""The planner: what becomes one item, what is never copied, and who may use whose memory when."""

from __future__ import annotations

import numpy as np
import pytest

from repops.backend import prepare
from repops.builder import Builder
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from repops.plan import build
from repops.plan.access import axes_of, split, stride_of, table_of
from repops.plan.ir import Group, Item, Literal, Memory, Product
from repops.plan.memory import barriers, place
from tests.repops.step_programs import STEPS, adamw, softmax


def _groups(items: list[Item]) -> list[Group]:
    return [item for item in items if isinstance(item, Group)]


def _softmax() -> Graph:
    b = Builder()
    x = b.input(F32, (6, 5), BATCH_ROLE, 0)
    w = b.input(F32, (6, 5), STATE_ROLE, 0)
    y = softmax(b, x)
    return b.finish([("w", PARAMETER, w, y)], [("x", x)], b.scalar(0.0, F32))


def test_softmax__fused__is_one_group_with_one_value_in_memory():
    (group,) = build.step(_softmax(), fused=True).items
    assert isinstance(group, Group)
    assert [i.op for i in group.instructions] == ["reduce_max", "sub", "exp", "sum", "div"]
    assert len(group.stores) == 1


def test_softmax__unfused__is_an_item_per_node_and_the_update():
    assert len(build.step(_softmax(), fused=False).items) == 6 - 1  # the last node is written in place


def test_adamw__of_a_gradient__is_one_group_that_updates_all_three_in_place():
    b = Builder()
    p, m, v = (b.input(F32, (4, 6), STATE_ROLE, n) for n in range(3))
    g = b.input(F32, (4, 6), BATCH_ROLE, 0)
    late = b.map("div", 1.0, b.sum(b.map("mul", g, g), [0, 1]))
    after = adamw(b, p, m, v, g, late)
    state = [(name, PARAMETER, x, y) for name, x, y in zip("pmv", (p, m, v), after, strict=True)]
    graph = b.finish(state, [("g", g)], late)
    step = build.step(graph, fused=True)
    updates = [group for group in _groups(step.items) if any(node in step.in_place for node in group.stores)]
    assert len(step.in_place) == 3
    assert len(updates) == 1
    assert len(step.items) == 2  # the norm, the update


def test_attention__fused__copies_nothing():
    graph, _, _ = STEPS["attention"]()
    step = build.step(graph, fused=True)
    copies = [
        group
        for group in _groups(step.items)
        if all(i.op == "copy" for i in group.instructions)
        and not isinstance(group.instructions[0].arguments[0], Literal)
    ]
    assert not copies
    # The scatter starts from the table of the state, and writes into it.
    (scatter,) = [at for at, node in enumerate(graph.nodes) if node.op == "scatter_add" and node.shape == (11, 8)]
    assert step.in_place[scatter] == next(entry.before for entry in graph.state if entry.name == "table")


@pytest.mark.parametrize("reads_old", [False, True])
def test_a_fold_of_rows__is_written_over_a_state_that_it_does_not_read(reads_old: bool):
    b = Builder()
    old = b.input(F32, (300,), STATE_ROLE, 0)
    rows = b.input(F32, (5, 300), BATCH_ROLE, 0)
    terms = b.map("sub", rows, old) if reads_old else rows
    after = b.reduce("sum_sequential", terms, [0])
    graph = b.finish([("x", PARAMETER, old, after)], [("rows", rows)], b.scalar(0.0, F32))
    step = build.step(graph, fused=True)
    assert (len(step.in_place), len(step.items)) == ((0, 2) if reads_old else (1, 1))
    runner = prepare(graph)
    rng = np.random.default_rng(0)
    before, summed = rng.standard_normal(300).astype(np.float32), rng.standard_normal((5, 300)).astype(np.float32)
    runner.state["x"][...] = before
    runner.step({"rows": summed})
    expected = np.zeros(300, np.float32)
    for row in summed:
        expected = expected + (row - before if reads_old else row)
    assert np.array_equal(runner.state["x"], expected)


def test_dot__with_copied_batches__reads_their_source():
    graph, _, _ = STEPS["attention"]()
    products = [item for item in build.step(graph, fused=True).items if isinstance(item, Product)]
    read = {node for product in products for node in product.reads()}
    assert not any(graph.nodes[node].op == "copy" and graph.nodes[node].shape[:2] == (2, 2) for node in read)


def test_place__lives_that_do_not_meet__share_memory():
    whole = axes_of((16,), (1,))

    class Reading(Group):
        def __init__(self, source: int, target: int) -> None:
            super().__init__(1, 16, stores={target: Memory(target, 0, (), whole)})
            self.source = source

        def reads(self):
            yield self.source

    items = [Reading(0, 1), Reading(1, 2), Reading(2, 3), Reading(3, 4)]
    offsets, size = place(items, lambda node: 64, pinned=[0], kept=[4])
    assert size == 128
    assert offsets[1] == offsets[3] != offsets[2] == offsets[4]
    span = lambda node: (offsets.get(node, 1000), offsets.get(node, 1000) + 64)  # noqa: E731
    assert barriers(items, span) == [False, True, True, True]


def test_barriers__items_that_touch_nothing_of_each_other__need_none():
    whole = axes_of((4,), (1,))
    items = [Group(1, 4, stores={n: Memory(n, 0, (), whole)}) for n in range(3)]
    assert barriers(items, lambda node: (16 * node, 16 * node + 16)) == [False, False, False]


def test_split__inside_an_axis__cuts_it():
    assert split(axes_of((12,), (1,)), 4) == (((3, 4),), ((4, 1),))
    assert split(axes_of((2, 3), (1, 2)), 4) is None


def test_table__of_axes__lists_every_offset_in_order():
    axes = axes_of((2, 3), (1, 10))
    assert stride_of(axes) is None
    np.testing.assert_array_equal(table_of(axes), [0, 10, 20, 1, 11, 21])
    assert stride_of(axes_of((2, 3), (3, 1))) == 1
    assert stride_of(axes_of((2, 3), (0, 0))) == 0
