"""Every operator of the table, on every backend: the bits of the reference, node by node and after a step."""

from __future__ import annotations

import functools
import importlib
import os
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

from repops import native, reference
from repops.backend import BACKENDS, Runner
from repops.graph import Graph
from repops.operators import TABLE
from tests.support.programs.random_programs import COMPUTED, FORMS, SOURCES, Array, fill, program_of, random_program

PROGRAMS = int(os.environ.get("REPOPS_CAMPAIGN", "60"))

# (shape, reduced): a vector's width and one more; several axes; scalars; nothing at all; a sum of nothing.
SHAPES = (((17,), (3,)), ((3, 4), (2, 5)), ((), (33,)), ((2, 0), (3,)), ((2, 3), (0,)))
LONG = (*(((5,), (k,)) for k in (1, 31, 32, 64, 255, 256, 257, 600)), ((33, 18), (9,)), ((2, 3, 5), (4, 3, 3)))


def _usable() -> list[tuple[str, str]]:
    """(backend, instruction set) of all that run here; the reference is what they are compared with."""
    kernels = []
    for name, path in BACKENDS.items():
        if name == "reference":
            continue
        try:
            importlib.import_module(path).check()
        except (ImportError, RuntimeError) as error:
            print(f"backend {name} is not tested here: {error}")
            continue
        kernels += [(name, isa) for isa in (native.available() if name == "native" else [""])]
    return kernels


USABLE = _usable()


@pytest.fixture(params=USABLE, ids=["-".join(filter(None, pair)) for pair in USABLE])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name, isa = request.param
    if isa:
        monkeypatch.setenv("REPOPS_ISA", isa)
    return importlib.import_module(BACKENDS[name])


def _bits(value: Array) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint32)


def _committed(value: Array) -> np.ndarray:
    """The words that are committed: a runner may leave any NaN in its state and its loss."""
    words = _bits(value)
    return np.where(np.isnan(value.reshape(-1)), np.uint32(0x7FC00000), words) if value.dtype == np.float32 else words


def _loaded(runner: Runner, state: dict[str, Array]) -> Runner:
    for name, value in state.items():
        runner.state[name][...] = value
    return runner


@dataclass(frozen=True)
class Expected:
    """A program, what it is given, and what the reference makes of it."""

    graph: Graph
    state: dict[str, Array]
    batch: dict[str, Array]
    values: list[Array]
    loss: float
    after: dict[str, Array]


@functools.cache
def expected(make: Callable[..., Graph], *arguments: Hashable) -> Expected:
    """Once for all backends: the reference is slow."""
    graph = make(*arguments)
    state, batch = fill(np.random.default_rng(len(graph.nodes)), graph)
    runner = _loaded(reference.prepare(graph), state)
    values, loss = runner.trace(batch), runner.step(batch)
    return Expected(graph, state, batch, values, loss, runner.state)


def check_bits(kernels: ModuleType, wanted: Expected) -> None:
    """Every node's value, the loss, and the state after a step."""
    for fused, threads in ((True, 1), (False, 2)):
        where = f"fused={fused}, {threads} threads"
        prepared = _loaded(kernels.prepare(wanted.graph, fused=fused), wanted.state)
        _same_values(wanted.graph, prepared.trace(wanted.batch, threads=threads), wanted.values, where)
        for name, value in wanted.state.items():
            assert np.array_equal(_bits(prepared.state[name]), _bits(value)), f"trace changed state {name}; {where}"
        assert _same_float(prepared.loss(wanted.batch, threads=threads), wanted.loss), f"loss; {where}"
        assert _same_float(prepared.step(wanted.batch, threads=threads), wanted.loss), f"loss of a step; {where}"
        for name, value in wanted.after.items():
            assert np.array_equal(_committed(prepared.state[name]), _bits(value)), f"state {name} after a step; {where}"


def _same_float(actual: float, expected: float) -> bool:
    return struct.pack("<d", actual) == struct.pack("<d", expected) or (actual != actual and expected != expected)


def _same_values(graph: Graph, actual: list[Array], expected: list[Array], where: str) -> None:
    assert len(actual) == len(expected)
    for at, (value, wanted) in enumerate(zip(actual, expected, strict=True)):
        node = graph.nodes[at]
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), f"node {at} ({node.op}); {where}"
        odd = np.flatnonzero(_bits(value) != _bits(wanted))
        if odd.size:
            first = int(odd[0])
            pytest.fail(
                f"node {at} {node}: {odd.size} of {node.elements} words differ, the first at {first}: "
                f"0x{_bits(value)[first]:08x}, expected 0x{_bits(wanted)[first]:08x}; {where}"
            )


def test_backends__here__are_at_least_one():
    assert USABLE, "nothing to compare with the reference"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", COMPUTED)
def test_operator__operands_of_each_form__has_the_references_bits(kernels: ModuleType, op: str, form: str):
    check_bits(kernels, expected(program_of, op, form, SHAPES))


@pytest.mark.parametrize("op", [name for name in COMPUTED if TABLE[name].reduces])
def test_reduction__around_blocks_and_lanes__has_the_references_bits(kernels: ModuleType, op: str):
    for form in ("whole", "transposed"):
        check_bits(kernels, expected(program_of, op, form, LONG))


def test_table__every_row__is_tested():
    assert set(COMPUTED) | set(SOURCES) == set(TABLE)
    made = {node.op for seed in range(60) for node in random_program(seed).nodes}
    assert made == set(TABLE)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program__random__has_the_references_bits(kernels: ModuleType, seed: int):
    check_bits(kernels, expected(random_program, seed))
