"""A process that flushes subnormals to zero: kernels give the same bits or refuse; none gives others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from repops import backend
from repops.backend import part_words
from repops.float_mode import SubnormalsFlushed, check_float_mode
from repops.graph import BATCH_ROLE, F32, Graph, Node, Operand

WORDS = 40_000  # enough for two threads
SQUARED, DOUBLED = np.float32(3e-22), np.float32(3e-40)  # whose square, and which itself, is subnormal


@pytest.fixture
def flushed() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormals")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _graph() -> Graph:
    x = Operand(0, 0, (1,))
    nodes = (
        Node("input", F32, (WORDS,), attributes=(BATCH_ROLE, 0)),
        Node("mul", F32, (WORDS,), (), (x, x)),
        Node("add", F32, (WORDS,), (), (x, x)),
        Node("dot", F32, (), (WORDS,), (x, x)),
        Node("sum", F32, (), (WORDS,), (x,)),
        Node("scalar", F32, (), attributes=(0,)),
    )
    return Graph(nodes, (), (("x", 0),), 5)


def _traced(name: str, value: np.float32, threads: int) -> list[list[int]]:
    made = backend.prepare(_graph(), name=name).trace({"x": np.full(WORDS, value)}, threads=threads)
    return [each.reshape(-1).view(np.uint32).tolist() for each in made]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", [SQUARED, DOUBLED])
def test_native_kernels__of_a_process_that_flushes__keep_subnormals(value: np.float32, threads: int) -> None:
    expected = _traced("native", value, threads)
    torch.set_flush_denormal(True)
    try:
        assert _traced("native", value, threads) == expected
        with pytest.raises(SubnormalsFlushed):  # the caller's mode is as it was
            check_float_mode()
    finally:
        torch.set_flush_denormal(False)
    assert any(0 < word < 0x00800000 for words in expected[1:] for word in words[:1])


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("name", ["numba", "reference"])
def test_other_backends__of_a_process_that_flushes__refuse(name: str) -> None:
    runner = backend.prepare(_graph(), name=name)
    batch = {"x": np.full(WORDS, SQUARED)}
    for run in (runner.step, runner.loss, runner.trace):
        with pytest.raises(SubnormalsFlushed, match="flushes subnormal floats to zero"):
            run(batch)
    with pytest.raises(SubnormalsFlushed):
        part_words(_graph().nodes[3], 0, [np.zeros(WORDS, np.uint32)] * 2, name=name)


def test_check__of_an_ordinary_process__passes() -> None:
    check_float_mode()
