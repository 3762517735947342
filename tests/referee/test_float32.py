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


def expected(name: str, given: Sequence[int]) -> int:
    return canonical(PRIMITIVES[name][0](*given))


@pytest.mark.parametrize("name", BATCHED)
def test_arithmetic__edges_and_random_words__is_the_executors(harness, name: str):
    every = cases(name, 600)
    for first in range(0, len(every), BATCH):
        group = every[first : first + BATCH]
        columns = [list(column) for column in zip(*group, strict=True)]
        found = harness.batch(BATCHED.index(name), *columns, *[[]] * (3 - len(columns)))
        assert list(found) == [expected(name, given) for given in group]


@pytest.mark.parametrize("name", ALONE)
def test_comparison_and_conversion__edges_and_random_words__is_the_executors(harness, name: str):
    for given in cases(name, 60):
        assert getattr(harness, name)(*given) == PRIMITIVES[name][0](*given), [hex(word) for word in given]
