"""The operator table: the one definition of what every node computes.

A node's value is a tensor of words. Each operand is a strided view of an earlier node: an offset and one stride (in
elements; 0 repeats) per axis of the operand's domain. There is no other index map: views, broadcasts, transposes, slices
and convolution windows are strides, not nodes.

`repops.parts` derives from this table how one element is computed, part by part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from repops import recipes
from repops.graph import Node, Shape
from repops.recipes import Recipe, primitive
from repops.words import NEGATIVE_INFINITY, SIGN

BLOCK = 256  # terms of a dot product that are chained before block sums are added
LANES = 32  # strided partial sums of `sum`


@dataclass(frozen=True)
class Operator:
    """One row. operands: their dtypes, `f` float32, `i` int32, `w` the node's own; a trailing `*` repeats the last.

    domains: what each operand's view ranges over: `s` the node's shape, `r` shape and reduced axes. recipe: of an
    elementwise operator; of a reduction, what joins the carried word and one term's words. attributes: their names.
    """

    name: str
    code: int
    operands: str
    domains: str
    result: str
    about: str
    recipe: Recipe | None = None
    attributes: tuple[str, ...] = ()
    start: int | None = None

    @property
    def is_map(self) -> bool:
        """Elementwise: each element is the recipe of the operands' words at its place."""
        return self.recipe is not None and self.start is None

    @property
    def is_fold(self) -> bool:
        """A reduction whose terms join one carried word in order."""
        return self.start is not None

    @property
    def reduces(self) -> bool:
        return "r" in self.domains


_rows: list[Operator] = []


def _row(*args: object, **kwargs: object) -> None:
    _rows.append(Operator(*args, **kwargs))  # type: ignore[arg-type]


# --- sources
_row(
    "input",
    1,
    "",
    "",
    "w",
    "a tensor of the state (role 0) or of the batch (role 1), by position",
    attributes=("role", "position"),
)
_row("scalar", 2, "", "", "w", "one word; the shape is ()", attributes=("word",))
_row(
    "constant",
    3,
    "",
    "",
    "w",
    "a committed tensor: its root as eight words",
    attributes=tuple(f"root{i}" for i in range(8)),
)
_row("iota", 4, "", "", "i", "the element's coordinate along an axis", attributes=("axis",))

# --- elementwise
_MAPS: list[tuple[str, int, str, str, Recipe, str]] = [
    ("copy", 10, "w", "w", recipes.copy, "the word itself: makes a view contiguous"),
    ("add", 11, "ff", "f", primitive("add"), "a + b"),
    ("sub", 12, "ff", "f", primitive("sub"), "a - b"),
    ("mul", 13, "ff", "f", primitive("mul"), "a * b"),
    ("div", 14, "ff", "f", primitive("div"), "a / b"),
    ("fma", 15, "fff", "f", primitive("fma"), "a * b + c, rounded once"),
    ("sqrt", 16, "f", "f", primitive("sqrt"), "correctly rounded square root"),
    ("neg", 17, "f", "f", recipes.neg, "the sign bit flipped"),
    ("abs", 18, "f", "f", recipes.absolute, "the sign bit cleared"),
    ("max", 19, "ff", "f", recipes.maximum, "NaN when either is; +0 exceeds -0"),
    ("min", 20, "ff", "f", recipes.minimum, "NaN when either is; -0 is below +0"),
    ("exp", 21, "f", "f", recipes.exp, "within 0.9 ulp; +0 below -87"),
    ("log", 22, "f", "f", recipes.log, "within 0.9 ulp; -inf at 0, NaN below"),
    ("tanh", 23, "f", "f", recipes.tanh, "hyperbolic tangent, within 1.4 ulp"),
    ("erf", 24, "f", "f", recipes.erf, "error function, within 1 ulp"),
    ("sin", 25, "f", "f", recipes.sin, "sine of radians, within 1.6 ulp; NaN beyond 2^20"),
    ("cos", 26, "f", "f", recipes.cos, "cosine of radians, within 1.6 ulp; NaN beyond 2^20"),
    ("floor", 27, "f", "f", recipes.floor, "largest integer not above"),
    ("round", 28, "f", "f", recipes.round_, "nearest integer, ties to even"),
    ("lt", 30, "ff", "i", primitive("lt"), "1 when a < b, else 0"),
    ("le", 31, "ff", "i", primitive("le"), "1 when a <= b, else 0"),
    ("eq", 32, "ff", "i", primitive("eq"), "1 when a == b, else 0; NaN equals nothing"),
    ("where", 33, "iww", "w", primitive("where"), "b where a is not 0, else c"),
    ("to_float", 34, "i", "f", primitive("to_float"), "nearest float32 of a signed integer"),
    ("to_int", 35, "f", "i", primitive("to_int"), "towards zero; saturates; 0 for NaN"),
    ("bits", 36, "f", "i", recipes.bits, "the float's word, NaN as 0x7fc00000"),
    ("from_bits", 37, "i", "f", recipes.copy, "the word as a float"),
    ("iadd", 40, "ii", "i", primitive("iadd"), "a + b mod 2^32"),
    ("isub", 41, "ii", "i", primitive("isub"), "a - b mod 2^32"),
    ("imul", 42, "ii", "i", primitive("imul"), "a * b mod 2^32"),
    ("imulh", 43, "ii", "i", primitive("imulh"), "upper word of the unsigned product"),
    ("idiv", 44, "ii", "i", primitive("idiv"), "floor of a / b, signed; 0 when b is 0"),
    ("imod", 45, "ii", "i", recipes.imodulo, "a - b * floor(a / b); a when b is 0"),
    ("and", 46, "ii", "i", primitive("and"), "bitwise and"),
    ("or", 47, "ii", "i", primitive("or"), "bitwise or"),
    ("xor", 48, "ii", "i", primitive("xor"), "bitwise exclusive or"),
    ("shl", 49, "ii", "i", primitive("shl"), "a << (b mod 32)"),
    ("shr", 50, "ii", "i", primitive("shr"), "a >> (b mod 32), zeros coming in"),
    ("ieq", 51, "ii", "i", primitive("ieq"), "1 when the words are equal"),
    ("ilt", 52, "ii", "i", primitive("ilt"), "1 when a < b as signed integers"),
    ("random", 53, "iii", "i", recipes.random, "Philox2x32-10: first word of counter (a, b) under key c"),
]
for _name, _code, _operands, _result, _recipe, _about in _MAPS:
    _row(_name, _code, _operands, "s" * len(_operands), _result, _about, _recipe)

# --- reductions; K is the product of the reduced axes, terms run row-major through them
_row("sum_sequential", 60, "f", "r", "f", "((+0 + x0) + x1) + ...", primitive("add"), start=0)
_row("isum", 61, "i", "r", "i", "sum mod 2^32", primitive("iadd"), start=0)
_row("reduce_max", 62, "f", "r", "f", "`max` of all terms, from -inf", recipes.maximum, start=NEGATIVE_INFINITY)
_row("reduce_imax", 63, "i", "r", "i", "signed maximum, from -2^31", recipes.imaximum, start=SIGN)
_row(
    "sum",
    64,
    "f",
    "r",
    "f",
    "32 lanes: lane l adds terms l, l+32, ... to +0 in order; then lanes h..2h-1 are added onto 0..h-1 for h = 16, 8, 4, 2, 1",
)
_row(
    "dot",
    65,
    "ff",
    "rr",
    "f",
    "sum of a * b: blocks of 256 terms; in a block acc = fma(a, b, acc) from +0 in order; block sums added in order",
)
_row(
    "rank",
    66,
    "ff",
    "sr",
    "i",
    "how many rivals b precede a: larger, or equal at a smaller index along the axis; ordered by bits (-0 < +0 < inf < NaN)",
    attributes=("axis",),
)

# --- indexed access
_row(
    "take",
    70,
    "wi",
    "rs",
    "w",
    "a at index b along the last axis of a's domain, whose extent is the reduced axis; word 0 when b is outside",
)
_row(
    "scatter",
    71,
    "wiw",
    "srr",
    "w",
    "the last term c whose index b is the element's coordinate along the axis; a when there is none",
    attributes=("axis",),
)
_row(
    "scatter_add",
    72,
    "fif",
    "srr",
    "f",
    "a, then + c for each term whose index b is the element's coordinate along the axis, in order",
    attributes=("axis",),
)
_row(
    "concat",
    73,
    "w*",
    "c",
    "w",
    "operands side by side along an axis, with their extents there",
    attributes=("axis", "extents*"),
)

TABLE: dict[str, Operator] = {row.name: row for row in _rows}
BY_CODE: dict[int, Operator] = {row.code: row for row in _rows}
assert len(TABLE) == len(BY_CODE) == len(_rows)


def domain(node: Node, at: int) -> Shape:
    """What the view of operand `at` ranges over."""
    kind = TABLE[node.op].domains
    which = kind[min(at, len(kind) - 1)]
    if which == "c":
        axis = node.attributes[0]
        return (*node.shape[:axis], node.attributes[1 + at], *node.shape[axis + 1 :])
    return node.shape + node.reduced if which == "r" else node.shape


def terms(node: Node) -> int:
    """K: how many terms a reduction joins into one element."""
    return math.prod(node.reduced)


def steps_per_term(node: Node) -> int:
    """Scalar operations one term costs, a fused multiply-add counting two."""
    row = TABLE[node.op]
    if row.is_fold:
        assert row.recipe is not None
        return max(1, len(row.recipe.steps))
    return {"dot": 2, "scatter": 2, "scatter_add": 3, "rank": len(recipes.rank_term.steps)}.get(node.op, 1)


def flops(node: Node) -> int:
    """Scalar operations of a whole node, a fused multiply-add counting two; what merely moves words costs nothing."""
    row = TABLE[node.op]
    if node.op in ("input", "scalar", "constant", "iota", "concat", "take", "copy", "from_bits"):
        return 0
    if row.is_map:
        assert row.recipe is not None
        return node.elements * row.recipe.flops
    if node.op in ("scatter", "scatter_add"):
        # Each term is looked at once for each row it could hit, but adds to one.
        return node.elements // max(1, node.shape[node.attributes[0]]) * terms(node)
    if node.op == "dot":
        return 2 * node.elements * terms(node)
    return node.elements * terms(node) * steps_per_term(node)


def depth(node: Node) -> int:
    """Scalar operations one after another in an element, with as many processors as one likes."""
    row = TABLE[node.op]
    count = terms(node) if row.reduces and node.op != "take" else 0
    if node.op == "dot":
        return min(count, BLOCK) + -(-count // BLOCK) if count else 0
    if node.op == "sum":
        return -(-count // LANES) + 5
    if row.is_map:
        assert row.recipe is not None
        return len(row.recipe.steps)
    return count * steps_per_term(node)
