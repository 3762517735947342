"""Oracles of the primitives that neither of us wrote: Berkeley softfloat, and exact rationals of Python; and cases for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import softfloatpy as softfloat

from repops import words
from repops.words import NAN, PRIMITIVES, SIGN, is_nan, number, signed
from tests.support.programs.random_programs import FLOATS, INTEGERS

RANDOM = 6000


def cases(name: str, count: int = RANDOM, seed: int = 0) -> list[tuple[int, ...]]:
    """Edges crossed with edges; random words; random words of like size, so that sums cancel and products round."""
    kinds = PRIMITIVES[name][1]
    rng = np.random.default_rng(len(name) + 1000 * len(kinds) + 10_000 * seed)
    edges = {"f": FLOATS, "i": INTEGERS, "w": np.concatenate([FLOATS[:4], INTEGERS[:4]])}
    crossed = list(itertools.product(*(edges[kind][:18].tolist() for kind in kinds)))
    anything = rng.integers(0, 1 << 32, (count, len(kinds)), np.uint32)
    alike = rng.integers(0x3E000000, 0x41000000, (count, len(kinds)), np.uint32) | rng.choice(
        np.array([0, SIGN], np.uint32), (count, len(kinds))
    )
    tiny = rng.integers(0, 0x02000000, (count // 4, len(kinds)), np.uint32)
    return [*crossed, *map(tuple, np.concatenate([anything, alike, tiny]).tolist())]


def _soft(bits: int) -> softfloat.Float32:
    return softfloat.Float32.from_bytes(bits.to_bytes(4, "big"))


def _word(value: softfloat.Float32 | softfloat.Int32) -> int:
    return int.from_bytes(value.to_bytes(), "big")


def canonical(bits: int) -> int:
    return NAN if is_nan(bits) else bits


SOFTFLOAT: dict[str, Callable[..., int]] = {
    "add": lambda a, b: canonical(_word(softfloat.f32_add(_soft(a), _soft(b)))),
    "sub": lambda a, b: canonical(_word(softfloat.f32_sub(_soft(a), _soft(b)))),
    "mul": lambda a, b: canonical(_word(softfloat.f32_mul(_soft(a), _soft(b)))),
    "div": lambda a, b: canonical(_word(softfloat.f32_div(_soft(a), _soft(b)))),
    "sqrt": lambda a: canonical(_word(softfloat.f32_sqrt(_soft(a)))),
    "fma": lambda a, b, c: canonical(_word(softfloat.f32_mul_add(_soft(a), _soft(b), _soft(c)))),
    "lt": lambda a, b: int(softfloat.f32_lt(_soft(a), _soft(b))),
    "le": lambda a, b: int(softfloat.f32_le(_soft(a), _soft(b))),
    "eq": lambda a, b: int(softfloat.f32_eq(_soft(a), _soft(b))),
    "to_float": lambda a: _word(softfloat.i32_to_f32(softfloat.Int32.from_int(signed(a)))),
}


def nearest(exact: Fraction) -> int:
    """The float32 nearest to a rational that is not 0, ties to even, as a word."""
    size, sign = abs(exact), SIGN if exact < 0 else 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, -126)
    units = round(size / Fraction(2) ** (exponent - 23))
    return sign | min(((exponent + 126) << 23) + units, words.INFINITY)


RATIONAL: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else Fraction(0),
    "fma": lambda a, b, c: a * b + c,
}


def _truncated(a: int) -> int:
    x = number(a)
    if math.isnan(x):
        return 0
    return int(max(min(Fraction(x) if math.isfinite(x) else Fraction(math.copysign(2**40, x)), 2**31 - 1), -(2**31)))


INTEGER: dict[str, Callable[..., int]] = {
    "iadd": lambda a, b: signed(a) + signed(b),
    "isub": lambda a, b: signed(a) - signed(b),
    "imul": lambda a, b: signed(a) * signed(b),
    "imulh": lambda a, b: a * b // 2**32,
    "idiv": lambda a, b: math.floor(Fraction(signed(a), signed(b))) if b else 0,
    "and": lambda a, b: sum(2**at for at in range(32) if a // 2**at % 2 and b // 2**at % 2),
    "or": lambda a, b: sum(2**at for at in range(32) if a // 2**at % 2 or b // 2**at % 2),
    "xor": lambda a, b: sum(2**at for at in range(32) if a // 2**at % 2 != b // 2**at % 2),
    "shl": lambda a, b: a * 2 ** (b % 32),
    "shr": lambda a, b: a // 2 ** (b % 32),
    "ieq": lambda a, b: int(signed(a) == signed(b)),
    "ilt": lambda a, b: int(signed(a) < signed(b)),
    "where": lambda c, a, b: b if c == 0 else a,
    "to_int": _truncated,
}
