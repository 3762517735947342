"""Every primitive against oracles that neither of us wrote."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import softfloatpy as softfloat

from repops import words
from repops.words import PRIMITIVES, number
from tests.support.programs.primitives import INTEGER, RANDOM, RATIONAL, SOFTFLOAT, canonical, cases, nearest
from tests.support.programs.random_programs import FLOATS


@pytest.mark.parametrize("name", SOFTFLOAT)
def test_primitive__edges_and_random_words__is_what_softfloat_says(name: str):
    function = PRIMITIVES[name][0]
    softfloat.set_rounding_mode(softfloat.RoundingMode.NEAR_EVEN)
    for operands in cases(name):
        assert function(*operands) == SOFTFLOAT[name](*operands), [hex(word) for word in operands]


@pytest.mark.parametrize("name", RATIONAL)
def test_primitive__finite_words__is_the_rational_result_rounded_once(name: str):
    tried = 0
    for operands in cases(name):
        values = [number(word) for word in operands]
        if not all(map(math.isfinite, values)):
            continue
        exact = RATIONAL[name](*map(Fraction, values))
        if exact:  # the sign of a zero is softfloat's to say
            tried += 1
            assert PRIMITIVES[name][0](*operands) == nearest(exact), [hex(word) for word in operands]
    assert tried > RANDOM


def test_sqrt__positive_words__is_the_nearest_root():
    for (operands,) in cases("sqrt"):
        x = number(operands)
        if not 0 < x < math.inf:
            continue
        root = words.sqrt(operands)
        below, above = (Fraction(number(root)) + Fraction(number(root + d)) for d in (-1, 1))
        assert below**2 <= 4 * Fraction(x) <= above**2, hex(operands)


@pytest.mark.parametrize("name", INTEGER)
def test_primitive__integers__is_what_python_says_mod_2_to_32(name: str):
    for operands in cases(name):
        assert PRIMITIVES[name][0](*operands) == INTEGER[name](*operands) % 2**32, [hex(word) for word in operands]


def test_primitives__all__have_an_oracle():
    assert set(SOFTFLOAT) | set(INTEGER) == set(PRIMITIVES)


def test_word__of_a_number__gives_the_number_back():
    for bits in FLOATS.tolist():
        assert words.word(number(bits)) == canonical(bits)
