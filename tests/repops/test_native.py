"""The native executor on whole steps: one set of bits however it is fused, traced, threaded and compiled."""

from __future__ import annotations

import gc
import weakref
from functools import cache

import numpy as np
import pytest

from repops import native, reference
from repops.builder import Builder
from repops.commitments import Array, canonical
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, STATE_ROLE, Graph
from repops.native import runner
from tests.repops.step_programs import STEPS
from tests.support.programs.random_programs import fill, random_program

Wanted = tuple[list[Array], dict[str, Array]]


def _loaded(graph: Graph, state: dict[str, Array], *, fused: bool = True) -> runner.NativeRunner:
    made = runner.prepare(graph, fused=fused)
    for name, array in state.items():
        made.state[name][...] = array
    return made


def _bits(array: Array) -> np.ndarray:
    return np.atleast_1d(canonical(np.asarray(array))).view(np.uint32)


@cache
def _wanted(name: str) -> tuple[list[Array], list[Array], dict[str, Array]]:
    """The reference's values of every node in two steps, and the state after them."""
    graph, state, batch = STEPS[name]()
    made = reference.prepare(graph)
    for entry, array in state.items():
        made.state[entry][...] = array
    first = made.trace(batch)
    made.step(batch)
    second = made.trace(batch)
    made.step(batch)
    return first, second, made.state


@pytest.fixture(params=native.available())
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("REPOPS_ISA", request.param)
    return str(request.param)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_two_steps__fused_or_not_on_any_threads__have_the_references_bits(
    isa: str, name: str, fused: bool, threads: int
):
    graph, state, batch = STEPS[name]()
    first, second, after = _wanted(name)
    made = _loaded(graph, state, fused=fused)
    for values in (first, second):
        loss = made.step(batch, threads=threads)
        assert _bits(np.float32(loss)) == _bits(values[graph.loss])
    for entry, array in after.items():
        np.testing.assert_array_equal(_bits(made.state[entry]), _bits(array), entry)


@pytest.mark.parametrize("name", STEPS)
def test_trace__of_a_step__gives_every_node_and_leaves_the_state(isa: str, name: str):
    graph, state, batch = STEPS[name]()
    made = _loaded(graph, state)
    for at, (actual, wanted) in enumerate(zip(made.trace(batch, threads=2), _wanted(name)[0], strict=True)):
        np.testing.assert_array_equal(actual.view(np.uint32), wanted.view(np.uint32), f"node {at} {graph.nodes[at].op}")
    for entry, array in state.items():
        np.testing.assert_array_equal(made.state[entry], array)


@pytest.mark.parametrize("extent", [1, 2, 17, 96, 97])
@pytest.mark.parametrize("columns", [63, 64, 200])
def test_rank__down_columns__counts_the_larger_and_the_earlier_equals(isa: str, extent: int, columns: int):
    rng = np.random.default_rng(extent)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-42, 1.0], np.float32)
    column = np.where(
        rng.random((extent, columns)) < 0.5, rng.choice(odd, (extent, columns)), rng.normal(size=(extent, columns))
    )
    column = column.astype(np.float32)
    b = Builder()
    rows = b.input(F32, column.shape, BATCH_ROLE, 0)
    before = b.input(I32, column.shape, STATE_ROLE, 0)
    made = runner.prepare(b.finish([("place", BUFFER, before, b.rank(rows, 0))], [("rows", rows)], b.scalar(0.0, F32)))
    made.step({"rows": column}, threads=2)
    words = _bits(column).astype(np.int64)
    keys = np.where(words >> 31, -(words & 0x7FFFFFFF) - 1, words)  # ascending as the table orders them
    order = np.argsort(-keys, axis=0, kind="stable")
    expected = np.empty_like(order)
    np.put_along_axis(expected, order, np.arange(extent)[:, None].repeat(columns, 1), 0)
    np.testing.assert_array_equal(made.state["place"], expected)


@pytest.mark.parametrize("name", STEPS)
def test_loss__alone__is_that_of_the_step_and_leaves_the_state(name: str):
    graph, state, batch = STEPS[name]()
    made = _loaded(graph, state)
    assert _bits(np.float32(made.loss(batch))) == _bits(_wanted(name)[0][graph.loss])
    for entry, array in state.items():
        np.testing.assert_array_equal(made.state[entry], array)


@pytest.mark.parametrize("seed", range(40))
def test_large_random_program__fused__has_the_references_bits(seed: int):
    graph = random_program(1000 * seed, nodes=60)
    state, batch = fill(np.random.default_rng(seed), graph)
    wanted = reference.prepare(graph)
    for name, array in state.items():
        wanted.state[name][...] = array
    made = _loaded(graph, state)
    with np.errstate(all="ignore"):
        assert _bits(np.float32(made.step(batch, threads=2))) == _bits(np.float32(wanted.step(batch)))
    for name, array in wanted.state.items():
        np.testing.assert_array_equal(_bits(made.state[name]), _bits(array), name)


def test_state__written_between_steps__is_the_next_steps():
    graph, state, batch = STEPS["norm"]()
    made = _loaded(graph, state)
    first = made.step(batch)
    made.state["w"][...] = state["w"]
    made.state["bias"][...] = state["bias"]
    assert made.step(batch) == first


def test_batch__of_the_wrong_shape__is_refused():
    graph, state, batch = STEPS["norm"]()
    with pytest.raises(ValueError, match="'x' is float32"):
        _loaded(graph, state).step({**batch, "x": batch["x"][:1]})


def test_library__of_other_recipes__is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "_recipes", lambda: b"other")
    with pytest.raises(native.NoNativeLibrary, match="other recipes"):
        runner.check()


@pytest.mark.parametrize("name", STEPS)
def test_step__whose_batch_is_written_into_the_runners_room__is_the_same(name: str):
    graph, state, batch = STEPS[name]()
    made = _loaded(graph, state)
    for entry, array in batch.items():
        made.batch[entry][...] = array
    for values in _wanted(name)[:2]:
        assert _bits(np.float32(made.step(made.batch))) == _bits(values[graph.loss])
    for entry, array in _wanted(name)[2].items():
        np.testing.assert_array_equal(_bits(made.state[entry]), _bits(array), entry)


@pytest.mark.parametrize("name", STEPS)
def test_a_runner_that_rests__gives_the_memory_of_its_values_back_and_goes_on_with_the_same_bits(name: str) -> None:
    graph, state, batch = STEPS[name]()
    tired, rested = _loaded(graph, state), _loaded(graph, state)
    rested.rest()  # before there is anything to give back
    assert tired.step(batch) == rested.step(batch)
    rested.rest()
    assert not rested.plan.arena.words.any()
    assert tired.step(batch) == rested.step(batch)
    for entry, array in tired.state.items():
        assert array.tobytes() == rested.state[entry].tobytes()


def test_memory_of_a_runner__is_given_back_with_it_and_not_when_cycles_are_looked_for():
    """A trace in pieces has hundreds of runners: what each held for a while longer was more than the trace."""
    graph, state, batch = STEPS[min(STEPS)]()
    gc.disable()
    try:
        made = _loaded(graph, state)
        made.step(batch)
        made.trace(batch)
        arenas = [weakref.ref(plan.arena) for plan in (made.plan, made._trace)]
        del made
        assert [arena() for arena in arenas] == [None, None]
    finally:
        gc.enable()
