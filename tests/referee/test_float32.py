"""modules/float32 on chain gives the words that the plain executor gives, which softfloat and rationals gave before it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from repops.words import PRIMITIVES
from tests.support.programs.primitives import canonical, cases
from tests.support.protocol_driver import load

BATCHED = ("add", "sub", "mul", "div", "sqrt", "fma")  # the harness's numbers for them are their places here
ALONE = ("lt", "le", "eq", "to_float", "to_int")
BATCH = 512


@pytest.fixture(scope="module")
def harness():
    return load("mocks/Float32Harness").deploy()


def expected(name: str, operands: Sequence[int]) -> int:
    return canonical(PRIMITIVES[name][0](*operands))


@pytest.mark.parametrize("name", BATCHED)
def test_arithmetic__edges_and_random_words__is_the_executors(harness, name: str):
    every = cases(name, 600)
    for first in range(0, len(every), BATCH):
        group = every[first : first + BATCH]
        columns = [list(column) for column in zip(*group, strict=True)]
        answers = harness.batch(BATCHED.index(name), *columns, *[[]] * (3 - len(columns)))
        assert list(answers) == [expected(name, operands) for operands in group]


@pytest.mark.parametrize("name", ALONE)
def test_comparison_and_conversion__edges_and_random_words__is_the_executors(harness, name: str):
    for operands in cases(name, 60):
        assert getattr(harness, name)(*operands) == PRIMITIVES[name][0](*operands), [hex(word) for word in operands]
