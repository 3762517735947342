"""Recipes: straight-line sequences of primitives that return one word. Each elementwise operator is a recipe; the kernels are
generated from them.

Registers hold words; each primitive decides whether a word is a float or an integer, so recipes can work on bits.
A recipe has at most MAX_STEPS steps, which the referee executes in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from repops.words import INFINITY, NAN, NEGATIVE_INFINITY, PRIMITIVES, SIGN, is_nan, word

MAX_STEPS = 64


@dataclass(frozen=True)
class Step:
    """One primitive. arguments: register numbers; inputs come first, then constants, then the steps' results."""

    primitive: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Recipe:
    inputs: int
    constants: tuple[int, ...]
    steps: tuple[Step, ...]
    result: int

    def run(self, *words: int) -> int:
        registers = [*words, *self.constants]
        if len(words) != self.inputs:
            raise ValueError(f"recipe: {len(words)} words for {self.inputs} inputs")
        for function, a, b, c in self._calls:
            if c is not None:
                registers.append(function(registers[a], registers[b], registers[c]))
            elif b is not None:
                registers.append(function(registers[a], registers[b]))
            else:
                registers.append(function(registers[a]))
        return registers[self.result]

    @cached_property
    def _calls(self) -> list[tuple[Any, ...]]:
        """Of each step: its function, and the registers of its one to three arguments, then None."""
        return [
            (PRIMITIVES[step.primitive][0], *step.arguments, *(None, None)[: 3 - len(step.arguments)])
            for step in self.steps
        ]

    @property
    def flops(self) -> int:
        """Scalar operations, a fused multiply-add counting two."""
        return sum(2 if step.primitive == "fma" else 1 for step in self.steps)


@dataclass(frozen=True)
class Register:
    """Where a word is kept in a recipe under construction."""

    kind: str  # input, constant or step
    index: int


Value = Register | float | int  # a float is a float32 constant, an int a word


class Writer:
    """Writes a recipe: `w("add", x, y)` appends a step and returns its register. Float arguments become constants."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self._constants: list[int] = []
        self._steps: list[tuple[str, tuple[Register, ...]]] = []

    def arguments(self) -> list[Register]:
        return [Register("input", at) for at in range(self.inputs)]

    def __call__(self, primitive: str, *arguments: Value) -> Register:
        if len(arguments) != len(PRIMITIVES[primitive][1]):
            raise ValueError(f"recipe: {primitive} takes {len(PRIMITIVES[primitive][1])} arguments")
        self._steps.append((primitive, tuple(self._register(a) for a in arguments)))
        return Register("step", len(self._steps) - 1)

    def _register(self, argument: Value) -> Register:
        if isinstance(argument, Register):
            return argument
        bits = word(argument) if isinstance(argument, float) else argument
        if bits not in self._constants:
            self._constants.append(bits)
        return Register("constant", self._constants.index(bits))

    def finish(self, result: Value) -> Recipe:
        at = self._register(result)
        base = {"input": 0, "constant": self.inputs, "step": self.inputs + len(self._constants)}
        number = {register: base[register.kind] + register.index for _, a in self._steps for register in (*a, at)}
        number.setdefault(at, base[at.kind] + at.index)
        steps = tuple(Step(name, tuple(number[a] for a in arguments)) for name, arguments in self._steps)
        if len(steps) > MAX_STEPS:
            raise ValueError(f"recipe: {len(steps)} steps exceed {MAX_STEPS}")
        return Recipe(self.inputs, tuple(self._constants), steps, number[at])


Body = Callable[..., Value]


def recipe(inputs: int) -> Callable[[Body], Recipe]:
    """Turn a function of (writer, registers...) into the recipe it writes."""

    def written(body: Body) -> Recipe:
        writer = Writer(inputs)
        return writer.finish(body(writer, *writer.arguments()))

    return written


def primitive(name: str) -> Recipe:
    """The recipe of one step."""
    return recipe(len(PRIMITIVES[name][1]))(lambda w, *arguments: w(name, *arguments))


def inline(w: Writer, inner: Recipe, arguments: Sequence[Value]) -> Value:
    """Write the steps of `inner` into `w`."""
    registers: list[Value] = [*arguments, *inner.constants]
    for step in inner.steps:
        registers.append(w(step.primitive, *(registers[at] for at in step.arguments)))
    return registers[inner.result]


def chain(recipe_of_two: Recipe, terms: int) -> Recipe:
    """f(...f(f(carried, x0), x1)..., x_{terms-1}) of one carried word and `terms` words."""

    @recipe(1 + terms)
    def folded(w: Writer, carried: Value, *more: Value) -> Value:
        for x in more:
            carried = inline(w, recipe_of_two, (carried, x))
        return carried

    return folded


@recipe(1)
def copy(w: Writer, x: Value) -> Value:
    return x


@recipe(1)
def neg(w: Writer, x: Value) -> Value:
    return w("xor", x, SIGN)


@recipe(1)
def absolute(w: Writer, x: Value) -> Value:
    return w("and", x, 0x7FFFFFFF)


@recipe(1)
def bits(w: Writer, x: Value) -> Value:
    """The float's word, with a canonical NaN: nothing else could observe a NaN's bits."""
    return w("where", w("eq", x, x), x, NAN)


def _extreme(w: Writer, a: Value, b: Value, first: Value, second: Value, zero: str) -> Value:
    """NaN if either is; two zeros are combined by `zero` (and, or); else the larger or smaller."""
    best = w("where", w("lt", first, second), b, a)
    best = w("where", w("eq", a, b), w(zero, a, b), best)
    best = w("where", w("eq", a, a), best, a)
    return w("where", w("eq", b, b), best, b)


@recipe(2)
def maximum(w: Writer, a: Value, b: Value) -> Value:
    """+0 exceeds -0, so any order of comparisons gives the same bits."""
    return _extreme(w, a, b, a, b, "and")


@recipe(2)
def minimum(w: Writer, a: Value, b: Value) -> Value:
    return _extreme(w, a, b, b, a, "or")


@recipe(2)
def imaximum(w: Writer, a: Value, b: Value) -> Value:
    return w("where", w("ilt", a, b), b, a)


@recipe(2)
def imodulo(w: Writer, a: Value, b: Value) -> Value:
    """Sign of the divisor; a when b is 0."""
    return w("isub", a, w("imul", w("idiv", a, b), b))


# Integers up to 2^23 in size come out of adding and taking away 1.5 * 2^23.
_ROUNDER = 12582912.0


@recipe(1)
def exp(w: Writer, x: Value) -> Value:
    """Exactly +0 below -87; within 0.9 ulp elsewhere. Coefficients by N. Juffa.

    2^n is added to the exponent's bits: above -87 and up to 88.72283 no result leaves the normal range on the way.
    """
    t = w("fma", x, 1.44269504, _ROUNDER)
    n = w("sub", t, _ROUNDER)
    r = w("fma", n, -1.42860677e-6, w("fma", n, -0.693145752, x))
    p: Value = 1.37805939e-3
    for c in (8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0):
        p = w("fma", p, r, c)
    p = w("iadd", p, w("shl", w("isub", t, word(_ROUNDER)), 23))
    p = w("where", w("lt", 88.72283172607422, x), INFINITY, p)
    p = w("where", w("lt", x, -87.0), 0, p)
    return w("where", w("eq", x, x), p, NAN)


@recipe(1)
def log(w: Writer, x: Value) -> Value:
    """Within 0.9 ulp. -inf at zeros, NaN below. Polynomial of Cephes' logf."""
    small = w("lt", x, 1.17549435e-38)
    y = w("where", small, w("mul", x, 8388608.0), x)
    e = w("isub", w("shr", y, 23), w("where", small, 149, 126))
    m = w("or", w("and", y, 0x007FFFFF), 0x3F000000)
    low = w("lt", m, 0.707106781)
    e = w("to_float", w("isub", e, low))
    f = w("sub", w("where", low, w("add", m, m), m), 1.0)
    p: Value = 7.0376836292e-2
    for c in (
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ):
        p = w("fma", p, f, c)
    z = w("mul", f, f)
    r = w("mul", w("mul", f, z), p)
    r = w("fma", -0.5, z, w("fma", e, -2.12194440e-4, r))
    r = w("fma", e, 0.693359375, w("add", f, r))
    r = w("where", w("eq", x, 0.0), NEGATIVE_INFINITY, r)
    r = w("where", w("le", 0.0, x), r, NAN)
    return w("where", w("eq", x, float("inf")), x, r)


@recipe(1)
def round_(w: Writer, x: Value) -> Value:
    """To nearest, ties to even; what is 2^23 or more, and NaN, is integral as it is."""
    size = w("and", x, 0x7FFFFFFF)
    r = w("sub", w("add", size, 8388608.0), 8388608.0)
    return w("where", w("lt", size, 8388608.0), w("or", r, w("and", x, SIGN)), x)


@recipe(1)
def floor(w: Writer, x: Value) -> Value:
    r = inline(w, round_, (x,))
    return w("where", w("lt", x, r), w("sub", r, 1.0), r)


@recipe(1)
def tanh(w: Writer, x: Value) -> Value:
    """Within 1.4 ulp. Polynomial of Cephes' tanhf below 0.625, 1 - 2 / (exp(2 |x|) + 1) above."""
    size, sign = w("and", x, 0x7FFFFFFF), w("and", x, SIGN)
    far = w("sub", 1.0, w("div", 2.0, w("add", inline(w, exp, (w("add", size, size),)), 1.0)))
    z = w("mul", x, x)
    p: Value = -5.70498872745e-3
    for c in (2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1):
        p = w("fma", p, z, c)
    near = w("fma", w("mul", p, z), x, x)
    return w("or", w("where", w("lt", size, 0.625), near, far), sign)


@recipe(1)
def erf(w: Writer, x: Value) -> Value:
    """Within 1 ulp. Two polynomials (coefficients by N. Juffa); beyond 4 it is 1 to the last bit."""
    size, sign = w("and", x, 0x7FFFFFFF), w("and", x, SIGN)
    t = w("where", w("lt", 4.0, size), 4.0, size)
    s = w("mul", t, t)
    far = w("fma", -1.72853470e-5, t, 3.83197126e-4)
    far = w("fma", far, s, w("fma", -3.88396438e-3, t, 2.42546219e-2))
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        far = w("fma", far, t, c)
    far = w("sub", 1.0, inline(w, exp, (w("fma", far, t, w("xor", t, SIGN)),)))
    near: Value = -5.96761703e-4
    for c in (4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1):
        near = w("fma", near, s, c)
    near = w("fma", near, x, x)
    return w("where", w("lt", size, 0.927734375), near, w("or", far, sign))


MAX_RADIANS = 1048576.0  # 2^20


def _wave(w: Writer, size: Value, ahead: int) -> Value:
    """sin(size + ahead * pi / 2) of size >= 0; NaN beyond MAX_RADIANS. Polynomials of Cephes' sinf and cosf.

    pi / 2 is taken away in three parts. The first difference is exact, and what the third leaves out is far less than
    the distance of any float32 in the range from a multiple of pi / 2. `lost` is what rounding r took.
    """
    t = w("fma", size, 0.636619772, _ROUNDER)
    n = w("sub", t, _ROUNDER)
    r = w("fma", n, -1.57079601287841796875, size)
    rough = w("fma", n, -3.139164786504813e-7, r)
    r = w("fma", n, -5.390302529957764e-15, rough)
    lost = w("fma", n, -5.390302529957764e-15, w("sub", rough, r))
    z = w("mul", r, r)
    s: Value = -1.9515295891e-4
    for c in (8.3321608736e-3, -1.6666654611e-1):
        s = w("fma", s, z, c)
    s = w("add", w("fma", w("mul", s, z), r, lost), r)
    c_: Value = 2.443315711809948e-5
    for c in (-1.388731625493765e-3, 4.166664568298827e-2):
        c_ = w("fma", c_, z, c)
    c_ = w("fma", w("mul", c_, z), z, w("fma", -0.5, z, 1.0))
    quadrant = w("iadd", t, ahead)
    value = w("where", w("and", quadrant, 1), c_, s)
    value = w("xor", value, w("shl", w("and", quadrant, 2), 30))
    return w("where", w("le", size, MAX_RADIANS), value, NAN)


@recipe(1)
def sin(w: Writer, x: Value) -> Value:
    """Within 1.6 ulp up to 2^20 radians; beyond, where angles have lost their meaning, NaN."""
    return w("xor", _wave(w, w("and", x, 0x7FFFFFFF), 0), w("and", x, SIGN))


@recipe(1)
def cos(w: Writer, x: Value) -> Value:
    """As `sin`."""
    return _wave(w, w("and", x, 0x7FFFFFFF), 1)


@recipe(3)
def random(w: Writer, index: Value, counter: Value, key: Value) -> Value:
    """Philox2x32-10 (Salmon et al. 2011): the first output word of counter (index, counter) under the key."""
    for turn in range(10):
        high, low = w("imulh", index, 0xD256D193), w("imul", index, 0xD256D193)
        index, counter = w("xor", w("xor", high, key), counter), low
        if turn < 9:
            key = w("iadd", key, 0x9E3779B9)
    return index


def _order(w: Writer, x: Value) -> Value:
    """An integer that orders floats' words under signed comparison: -0 below +0, NaN on top."""
    word_ = inline(w, bits, (x,))
    negative = w("isub", 0, w("shr", word_, 31))
    return w("xor", word_, w("and", negative, 0x7FFFFFFF))


@recipe(4)
def rank_term(w: Writer, carried: Value, own: Value, rival: Value, is_earlier: Value) -> Value:
    """One more when the rival is larger, or equal and earlier."""
    mine, other = _order(w, own), _order(w, rival)
    ahead = w("or", w("ilt", mine, other), w("and", w("ieq", mine, other), is_earlier))
    return w("iadd", carried, ahead)


def canonical(bits_: int) -> int:
    """The word of a float32 node as it is committed: NaN becomes 0x7fc00000."""
    return NAN if is_nan(bits_) else bits_
