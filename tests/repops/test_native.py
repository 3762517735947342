"""The native executor on whole steps: one set of bits however it is fused, traced, threaded and compiled."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from repops import native, reference
from repops.commitments import Array, canonical
from repops.graph import Graph
from repops.native import runner
from tests.repops.random_programs import fill, random_program
from tests.repops.step_programs import STEPS

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
    for at, (given, wanted) in enumerate(zip(made.trace(batch, threads=2), _wanted(name)[0], strict=True)):
        np.testing.assert_array_equal(given.view(np.uint32), wanted.view(np.uint32), f"node {at} {graph.nodes[at].op}")
    for entry, array in state.items():
        np.testing.assert_array_equal(made.state[entry], array)


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
