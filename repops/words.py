"""The primitive scalar operations: plain Python on 32-bit words, slow and obviously right.

A word is an int in [0, 2^32): the bits of a float32, or of a 32-bit integer (two's complement where it has a sign).
The referee executes a primitive as one operation; a recipe (`repops.recipes`) is a straight-line sequence of primitives.
Float32 is IEEE 754 binary32, round to nearest even, with subnormals; every NaN that a primitive returns is 0x7fc00000.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

NAN = 0x7FC00000
INFINITY = 0x7F800000
NEGATIVE_INFINITY = 0xFF800000
SIGN = 0x80000000
MASK = 0xFFFFFFFF

# The same bytes as floats and as words: one at a time, and for primitives of two and three floats.
_FLOAT, _WORD = struct.Struct("<f"), struct.Struct("<I")
_FLOATS_2, _WORDS_2 = struct.Struct("<2f"), struct.Struct("<2I")
_FLOATS_3, _WORDS_3 = struct.Struct("<3f"), struct.Struct("<3I")
_DOUBLE, _LONG = struct.Struct("<d"), struct.Struct("<Q")


def word(value: float) -> int:
    """The float32 nearest to a Python float, as a word."""
    if value != value:
        return NAN
    try:
        return int(_WORD.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return NEGATIVE_INFINITY if value < 0 else INFINITY


def number(bits: int) -> float:
    """The float32 of a word, exactly."""
    return float(_FLOAT.unpack(_WORD.pack(bits))[0])


def _numbers(a: int, b: int) -> tuple[float, float]:
    return _FLOATS_2.unpack(_WORDS_2.pack(a, b))


def is_nan(bits: int) -> bool:
    return bits & 0x7FFFFFFF > INFINITY


def signed(bits: int) -> int:
    return bits - (1 << 32) if bits & SIGN else bits


# float64 holds the sum, difference, product, quotient and root of float32s with 2 * 24 + 2 bits to spare or more, so
# rounding twice is rounding once (Figueroa 1995); only fma needs care.


def add(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return word(x + y)


def sub(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return word(x - y)


def mul(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return word(x * y)


def div(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    if y == 0.0:
        if x == 0.0 or x != x:
            return NAN
        return INFINITY | ((a ^ b) & SIGN)
    return word(x / y)


def sqrt(a: int) -> int:
    x = number(a)
    return NAN if x < 0 else word(math.sqrt(x))


def fma(a: int, b: int, c: int) -> int:
    """a * b + c, rounded once."""
    x, y, z = _FLOATS_3.unpack(_WORDS_3.pack(a, b, c))
    product = x * y  # exact: 48 bits
    total = product + z
    if not math.isfinite(total):
        return word(total)
    back = total - product  # Knuth's two-sum: total + error == product + z
    error = (product - (total - back)) + (z - back)
    if error != 0.0 and not _LONG.unpack(_DOUBLE.pack(total))[0] & 1:
        # Round to odd: the last bit of an inexact sum is set, so that rounding to float32 sees what was cut off.
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return word(total)


def lt(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return int(x < y)


def le(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return int(x <= y)


def eq(a: int, b: int) -> int:
    x, y = _numbers(a, b)
    return int(x == y)


def iadd(a: int, b: int) -> int:
    return (a + b) & MASK


def isub(a: int, b: int) -> int:
    return (a - b) & MASK


def imul(a: int, b: int) -> int:
    return (a * b) & MASK


def imulh(a: int, b: int) -> int:
    """The upper word of the unsigned product."""
    return (a * b) >> 32


def idiv(a: int, b: int) -> int:
    """Signed quotient rounded towards minus infinity, mod 2^32; 0 when b is 0."""
    return (signed(a) // signed(b)) & MASK if b else 0


def and_(a: int, b: int) -> int:
    return a & b


def or_(a: int, b: int) -> int:
    return a | b


def xor(a: int, b: int) -> int:
    return a ^ b


def shl(a: int, b: int) -> int:
    """a shifted left by the low five bits of b."""
    return (a << (b & 31)) & MASK


def shr(a: int, b: int) -> int:
    """a shifted right by the low five bits of b, zeros coming in."""
    return a >> (b & 31)


def ieq(a: int, b: int) -> int:
    return int(a == b)


def ilt(a: int, b: int) -> int:
    """1 when a < b as signed integers."""
    return int(signed(a) < signed(b))


def where(c: int, a: int, b: int) -> int:
    """a if the word c is not 0, else b; bits unchanged."""
    return a if c else b


def to_float(a: int) -> int:
    """The float32 nearest to a signed integer."""
    return word(float(signed(a)))


def to_int(a: int) -> int:
    """A float32 towards zero, as a signed integer: 0 for NaN, the nearest end of the range when it does not fit."""
    x = number(a)
    if x != x:
        return 0
    if x >= 2147483648.0:
        return 0x7FFFFFFF
    if x <= -2147483648.0:
        return SIGN
    return int(x) & MASK


# name: (function, types of the arguments, type of the result); f float32, i integer, w either, its bits untouched
PRIMITIVES: dict[str, tuple[Callable[..., int], str, str]] = {
    "add": (add, "ff", "f"),
    "sub": (sub, "ff", "f"),
    "mul": (mul, "ff", "f"),
    "div": (div, "ff", "f"),
    "sqrt": (sqrt, "f", "f"),
    "fma": (fma, "fff", "f"),
    "lt": (lt, "ff", "i"),
    "le": (le, "ff", "i"),
    "eq": (eq, "ff", "i"),
    "iadd": (iadd, "ii", "i"),
    "isub": (isub, "ii", "i"),
    "imul": (imul, "ii", "i"),
    "imulh": (imulh, "ii", "i"),
    "idiv": (idiv, "ii", "i"),
    "and": (and_, "ww", "w"),
    "or": (or_, "ww", "w"),
    "xor": (xor, "ww", "w"),
    "shl": (shl, "ii", "i"),
    "shr": (shr, "ii", "i"),
    "ieq": (ieq, "ww", "i"),
    "ilt": (ilt, "ww", "i"),
    "where": (where, "iww", "w"),
    "to_float": (to_float, "i", "f"),
    "to_int": (to_int, "f", "i"),
}
