"""Accuracy of the elementwise operators, on samples; `oracle/run.py` tries all 2^32 words."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

from repops.backend import prepare
from repops.builder import Builder
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE
from repops.operators import TABLE
from repops.recipes import MAX_RADIANS, MAX_STEPS
from repops.words import NAN, is_nan, number, signed, word
from tests.campaigns.oracle.run import Finding, NoCompiler, build, measure, stated_bound, unary
from tests.support.programs.random_programs import FLOATS


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _exp(x: float) -> float:
    return 0.0 if x < -87 else math.exp(x) if x < 700 else math.inf


def _in_range(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x) if abs(x) <= MAX_RADIANS else math.nan


INEXACT: dict[str, Callable[[float], float]] = {
    "exp": _exp,
    "log": _log,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": _in_range(math.sin),
    "cos": _in_range(math.cos),
}
PRECISE = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}


def _integral(function: Callable[[float], int]) -> Callable[[int], int]:
    """floor and round of a word: what has no fraction, and a zero's sign, stay."""

    def of(bits: int) -> int:
        x = number(bits)
        if not math.isfinite(x) or x == int(x):
            return bits
        return word(math.copysign(function(x), x))

    return of


EXACT: dict[str, Callable[[int], int]] = {
    "copy": lambda bits: bits,
    "from_bits": lambda bits: bits,
    "bits": lambda bits: NAN if is_nan(bits) else bits,
    "neg": lambda bits: bits ^ 0x80000000,
    "abs": lambda bits: bits & 0x7FFFFFFF,
    "sqrt": lambda bits: word(float(np.sqrt(np.float64(number(bits))))) if number(bits) >= 0 else NAN,
    "floor": _integral(math.floor),
    "round": _integral(round),
    "to_float": lambda bits: word(float(signed(bits))),
    "to_int": lambda bits: 0 if is_nan(bits) else int(max(min(number(bits), 2**31 - 1), -(2**31))) % 2**32,
}


def error_in_ulp(bits: int, exact: float) -> float:
    """Error of a float32 against the exact result; infinite when no rounding explains it."""
    y = number(bits)
    if math.isnan(exact) or math.isnan(y):
        return 0.0 if math.isnan(exact) and math.isnan(y) else math.inf
    if math.isinf(y) or math.isinf(exact) or exact == 0:
        same = y == word_value(exact) and math.copysign(1, y) == math.copysign(1, exact)
        return 0.0 if same else math.inf
    return abs(y - exact) / 2.0 ** (max(math.frexp(exact)[1], -125) - 24)


def word_value(exact: float) -> float:
    return number(word(exact))


def sample(name: str, count: int) -> np.ndarray:
    """Words: edges, all powers of two, the recipe's own constants, each with its neighbours; the rest at random."""
    recipe = TABLE[name].recipe
    assert recipe is not None
    centres = [*FLOATS.tolist(), *(exponent << 23 for exponent in range(255)), *recipe.constants]
    near = [(centre + d) ^ sign for centre in centres for d in (-2, -1, 0, 1, 2) for sign in (0, 0x80000000)]
    rng = np.random.default_rng(len(name))
    usual = rng.uniform(-20, 20, count // 2).astype(np.float32).view(np.uint32)
    return np.concatenate([np.array(near) % 2**32, usual, rng.integers(0, 1 << 32, count // 2)]).astype(np.uint32)


def _worst(name: str, words: np.ndarray, results: np.ndarray) -> float:
    exact = [INEXACT[name](x) if x == x else math.nan for x in words.view(np.float32).tolist()]
    return max(map(error_in_ulp, results.tolist(), exact))


@pytest.mark.parametrize("name", INEXACT)
def test_recipe__sample__is_within_the_stated_bound(name: str):
    recipe = TABLE[name].recipe
    assert recipe is not None
    words = sample(name, 1000)
    assert _worst(name, words, np.array([recipe.run(bits) for bits in words.tolist()], np.uint32)) <= stated_bound(
        TABLE[name]
    )


@pytest.mark.parametrize("name", EXACT)
def test_recipe__sample_of_exact_operator__is_exact(name: str):
    recipe = TABLE[name].recipe
    assert recipe is not None
    for bits in sample(name, 1000).tolist():
        actual, wanted = recipe.run(bits), EXACT[name](bits)
        assert actual == wanted or (TABLE[name].result == "f" and is_nan(actual) and is_nan(wanted)), hex(bits)


@pytest.mark.parametrize("name", INEXACT)
def test_kernels__200_000_words__are_within_the_stated_bound(name: str):
    words = sample(name, 200_000)
    builder = Builder()
    x = builder.input(F32, words.shape, BATCH_ROLE, 0)
    before = builder.input(F32, words.shape, STATE_ROLE, 0)
    graph = builder.finish([("y", PARAMETER, before, builder.map(name, x))], [("x", x)], builder.scalar(0.0, F32))
    runner = prepare(graph)
    runner.step({"x": words.view(np.float32)})
    assert _worst(name, words, runner.state["y"].view(np.uint32)) <= stated_bound(TABLE[name])


def test_unary_operators__all__have_an_oracle():
    assert set(INEXACT) | set(EXACT) == set(unary())
    assert all(stated_bound(TABLE[name]) > 0 for name in INEXACT)
    assert not any(stated_bound(TABLE[name]) for name in EXACT)


@pytest.mark.parametrize("name", PRECISE)
def test_oracle__float64_libm__is_right_to_a_millionth_of_an_ulp(name: str):
    """What the accuracy is measured with, measured: float64 libm against 60 digits."""
    with mpmath.workdps(60):
        for bits in sample(name, 400).tolist()[::3]:
            x = number(bits)
            exact = INEXACT[name](x) if math.isfinite(x) else math.nan
            if exact == 0 or not math.isfinite(exact):
                continue
            precise = PRECISE[name](mpmath.mpf(x))
            assert abs(precise - mpmath.mpf(exact)) <= abs(precise) * mpmath.mpf(2) ** -44, hex(bits)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("oracle"))
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", unary())
def test_oracle__every_4099th_word__finds_what_the_table_states(oracle: Path, name: str):
    result = measure(oracle, name, stride=4099)
    assert result.tried > 1_000_000
    assert result.refusal() is None


def test_oracle__a_wrong_figure__is_refused():
    assert "ulp" in (Finding("exp", 1, 1.5, 0, 0).refusal() or "")
    assert "wrong words" in (Finding("exp", 1, 0.0, 0, 3).refusal() or "")
    assert Finding("sqrt", 1, 0.1, 0, 0).refusal() is not None


def test_recipes__all__fit_one_call_of_the_referee():
    for row in TABLE.values():
        assert row.recipe is None or len(row.recipe.steps) <= MAX_STEPS


def test_exp__around_its_bounds__is_exactly_what_the_table_says():
    exp = TABLE["exp"].recipe
    assert exp is not None
    assert [exp.run(word(x)) for x in (-87.00001, -1e30, -math.inf)] == [0, 0, 0]
    assert exp.run(word(-87.0)) == word(math.exp(-87.0))
    assert exp.run(word(math.inf)) == exp.run(word(88.8)) == word(math.inf)
    assert exp.run(word(0.0)) == exp.run(word(-0.0)) == word(1.0)
