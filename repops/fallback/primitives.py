"""The primitives of `repops.words` as LLVM instructions, and whole recipes of them as one call in a numba kernel.

Instructions fix exactly what is computed: numba's own arithmetic sometimes widens int32 to int64 and float32 to float64.
None carries a fast-math flag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from repops.recipes import Recipe
from repops.words import PRIMITIVES

WORD, LONG, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
Value = Any  # of llvmlite: an operand of instructions
Builder = Any


def _library(builder: Builder, name: str, *arguments: Value) -> Value:
    """A correctly rounded function that LLVM knows: the CPU's instruction, or the C library's where it has none."""
    function = builder.module.declare_intrinsic(name, [FLOAT], ir.FunctionType(FLOAT, [FLOAT] * len(arguments)))
    return builder.call(function, arguments)


def _compared(builder: Builder, how: str, a: Value, b: Value) -> Value:
    return builder.zext(builder.fcmp_ordered(how, a, b), WORD)


def _upper(b: Builder, x: Value, y: Value) -> Value:
    product = b.mul(b.zext(x, LONG), b.zext(y, LONG))
    return b.trunc(b.lshr(product, LONG(32)), WORD)


def _floor_divided(b: Builder, x: Value, y: Value) -> Value:
    """In 64 bits, where -2^31 / -1 fits. For a divisor of 0 it divides by 1 and discards the result."""
    none = b.icmp_signed("==", y, WORD(0))
    wide, by = b.sext(x, LONG), b.sext(b.select(none, WORD(1), y), LONG)
    quotient, rest = b.sdiv(wide, by), b.srem(wide, by)
    apart = b.icmp_signed("<", b.xor(rest, by), LONG(0))
    down = b.and_(apart, b.icmp_signed("!=", rest, LONG(0)))
    return b.select(none, WORD(0), b.trunc(b.sub(quotient, b.zext(down, LONG)), WORD))


def _to_int(b: Builder, x: Value) -> Value:
    """Values out of range are replaced before the conversion, which LLVM leaves undefined for them."""
    limit = FLOAT(2147483648.0)
    inside = b.and_(b.fcmp_ordered("<", x, limit), b.fcmp_ordered(">", x, FLOAT(-2147483648.0)))
    whole = b.fptosi(b.select(inside, x, FLOAT(0.0)), WORD)
    low = b.select(b.fcmp_ordered("<=", x, FLOAT(-2147483648.0)), WORD(0x80000000), whole)
    return b.select(b.fcmp_ordered(">=", x, limit), WORD(0x7FFFFFFF), low)


def _shift(b: Builder, by: Value) -> Value:
    return b.and_(by, WORD(31))


_INSTRUCTIONS: dict[str, Callable[..., Value]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "sqrt": lambda b, x: _library(b, "llvm.sqrt", x),
    "fma": lambda b, x, y, z: _library(b, "llvm.fma", x, y, z),
    "lt": lambda b, x, y: _compared(b, "<", x, y),
    "le": lambda b, x, y: _compared(b, "<=", x, y),
    "eq": lambda b, x, y: _compared(b, "==", x, y),
    "iadd": lambda b, x, y: b.add(x, y),
    "isub": lambda b, x, y: b.sub(x, y),
    "imul": lambda b, x, y: b.mul(x, y),
    "imulh": _upper,
    "idiv": _floor_divided,
    "and": lambda b, x, y: b.and_(x, y),
    "or": lambda b, x, y: b.or_(x, y),
    "xor": lambda b, x, y: b.xor(x, y),
    "shl": lambda b, x, y: b.shl(x, _shift(b, y)),
    "shr": lambda b, x, y: b.lshr(x, _shift(b, y)),
    "ieq": lambda b, x, y: b.zext(b.icmp_signed("==", x, y), WORD),
    "ilt": lambda b, x, y: b.zext(b.icmp_signed("<", x, y), WORD),
    "where": lambda b, c, x, y: b.select(b.icmp_signed("!=", c, WORD(0)), x, y),
    "to_float": lambda b, x: b.sitofp(x, FLOAT),
    "to_int": _to_int,
}
assert _INSTRUCTIONS.keys() == PRIMITIVES.keys()


def emit(builder: Builder, recipe: Recipe, words: Sequence[Value]) -> Value:
    """The instructions of a recipe."""
    registers = [*words, *(WORD(word) for word in recipe.constants)]
    for step in recipe.steps:
        _, kinds, result = PRIMITIVES[step.primitive]
        arguments = [registers[at] for at in step.arguments]
        arguments = [builder.bitcast(x, FLOAT) if kind == "f" else x for x, kind in zip(arguments, kinds, strict=True)]
        value = _INSTRUCTIONS[step.primitive](builder, *arguments)
        registers.append(builder.bitcast(value, WORD) if result == "f" else value)
    return registers[recipe.result]


_RECIPES: dict[int, Recipe] = {}
_SOURCE = Path(__file__).read_bytes()


def register(recipe: Recipe) -> int:
    """The number that identifies a recipe to `apply`: the same in every process; it changes with this file."""
    digest = hashlib.sha256(_SOURCE + repr(recipe).encode()).digest()
    number = int.from_bytes(digest[:7], "little")
    _RECIPES[number] = recipe
    return number


@intrinsic(prefer_literal=True)
def apply(typing_context: Any, number: Any, words: Any) -> Any:
    """apply(number, (word, ...)): the recipe registered under a constant number, on uint32 words."""
    if not isinstance(number, types.IntegerLiteral):
        return None  # numba asks again with the literal
    recipe = _RECIPES[number.literal_value]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, recipe, [builder.extract_value(arguments[1], at) for at in range(recipe.inputs)])

    words_type = types.UniTuple(types.uint32, recipe.inputs)  # type: ignore[no-untyped-call]
    return types.uint32(number, words_type), generate


@intrinsic
def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of float32s, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _library(builder, "llvm.fma", *arguments)

    return types.float32(types.float32, types.float32, types.float32), generate
