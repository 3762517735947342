"""How one element of a node is computed, derived from the operator table.

`parts` yields parts of at most MAX_STEPS scalar operations each. A part is a recipe over operand words and results of
earlier parts; the last part's word is the element. The referee executes one part, the reference executor all of them;
the kernels must give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from repops import recipes
from repops.graph import Node, Shape, coordinates
from repops.operators import BLOCK, LANES, TABLE, steps_per_term, terms
from repops.recipes import MAX_STEPS, Recipe, Value, Writer, chain, inline, recipe
from repops.words import NEGATIVE_INFINITY, SIGN, signed

LEAF = 128  # words in a leaf of a committed tensor
MAX_WORDS = 32  # words that the terms of one part read
MAX_LEAVES = 4  # leaves that these may lie in
JOINED = 8  # lanes of a sum that one part joins

Read = Callable[[int, int], int]  # (operand, linear index in its source) -> word


@dataclass(frozen=True)
class Part:
    """One part of an element. recipe: takes the results of the parts numbered `carried`, then the words at `reads`.

    reads: (operand, linear index into the operand's source).
    """

    recipe: Recipe
    carried: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]


Parts = Callable[[Node, Shape, Read], Iterator[Part]]


def terms_per_part(node: Node, operands: tuple[int, ...], step: int = 1) -> int:
    """How many consecutive terms (every `step`-th) one part takes: a power of two, bounded by scalar operations, words and leaves.

    A run of t terms along the innermost reduced axis spans at most 1 + ceil((t - 1) * |stride| / 128) leaves of an
    operand; where it runs over the end of that axis each term may lie in a leaf of its own.
    """
    most = 1
    while most * 2 * steps_per_term(node) <= MAX_STEPS and most * 2 * len(operands) <= MAX_WORDS:
        most *= 2
    if not node.reduced:
        return most
    inner = node.reduced[-1]

    def leaves(count: int) -> int:
        total = 0
        for at in operands:
            stride = abs(node.operands[at].strides[-1]) * step
            one_run = inner % (count * step) == 0 or len(node.reduced) == 1
            total += min(count, 1 + -(-(count - 1) * stride // LEAF)) if one_run else count
        return total

    while most > 1 and leaves(most) > MAX_LEAVES:
        most //= 2
    return most


def blocks_per_part(size: int) -> int:
    """How many block sums of a dot one part adds: they lie BLOCK / size parts apart."""
    return min(MAX_WORDS, MAX_LEAVES * LEAF * size // BLOCK)


@lru_cache(maxsize=1 << 16)
def _chain(name: str, count: int) -> Recipe:
    term = TABLE[name].recipe
    assert term is not None
    return chain(term, count)


def _multiply_accumulate(count: int) -> Recipe:
    @recipe(1 + 2 * count)
    def written(w: Writer, carried: Value, *factors: Value) -> Value:
        for at in range(count):
            carried = w("fma", factors[2 * at], factors[2 * at + 1], carried)
        return carried

    return written


_multiply_accumulate = lru_cache(maxsize=256)(_multiply_accumulate)


@lru_cache(maxsize=8)
def _tree(count: int) -> Recipe:
    @recipe(count)
    def written(w: Writer, *lanes: Value) -> Value:
        row = list(lanes)
        half = count // 2
        while half:
            row = [w("add", row[at], row[at + half]) for at in range(half)]
            half //= 2
        return row[0]

    return written


_START = [recipe(0)(lambda w, word_=word_: word_) for word_ in (0, NEGATIVE_INFINITY, SIGN)]
_ZERO = _START[0]


def _starting(word_: int) -> Recipe:
    return next(start for start in _START if start.constants == (word_,))


def _index(node: Node, at: int, place: Shape) -> int:
    operand = node.operands[at]
    return operand.offset + sum(s * i for s, i in zip(operand.strides, place, strict=True))


def _fold(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    row = TABLE[node.op]
    assert row.start is not None
    yield Part(_starting(row.start), (), ())
    count, size = terms(node), terms_per_part(node, (0,))
    for number, first in enumerate(range(0, count, size)):
        reads = tuple(
            (0, _index(node, 0, place + coordinates(node.reduced, k))) for k in range(first, min(first + size, count))
        )
        yield Part(_chain(node.op, len(reads)), (number,), reads)


def _sum(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    """Part 0 is +0; then lane by lane; then a tree over the lanes: first those LANES / JOINED apart, then their sums."""
    yield Part(_ZERO, (), ())
    count, size = terms(node), terms_per_part(node, (0,), LANES)
    lanes, number = [0] * LANES, 1
    for lane in range(min(LANES, count)):
        mine = range(lane, count, LANES)
        for first in range(0, len(mine), size):
            reads = tuple(
                (0, _index(node, 0, place + coordinates(node.reduced, k))) for k in mine[first : first + size]
            )
            yield Part(_chain("sum_sequential", len(reads)), (lanes[lane],), reads)
            lanes[lane], number = number, number + 1
    apart = LANES // JOINED
    for first in range(apart):
        yield Part(_tree(JOINED), tuple(lanes[first::apart]), ())
    yield Part(_tree(apart), tuple(range(number, number + apart)), ())


def _dot(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    """Part 0 is +0; then the chains of each block; then the block sums, when there are several."""
    yield Part(_ZERO, (), ())
    count, size, number, blocks = terms(node), terms_per_part(node, (0, 1)), 1, []
    for start in range(0, count, BLOCK):
        last = 0
        stop = min(start + BLOCK, count)
        for first in range(start, stop, size):
            reads: list[tuple[int, int]] = []
            for k in range(first, min(first + size, stop)):
                spot = place + coordinates(node.reduced, k)
                reads += [(0, _index(node, 0, spot)), (1, _index(node, 1, spot))]
            yield Part(_multiply_accumulate(len(reads) // 2), (last,), tuple(reads))
            last, number = number, number + 1
        blocks.append(last)
    total = blocks[0] if blocks else 0
    joined = blocks_per_part(size)
    for first in range(1, len(blocks), joined):
        group = blocks[first : first + joined]
        yield Part(_chain("sum_sequential", len(group)), (total, *group), ())
        total, number = number, number + 1


def _rank(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    yield Part(_ZERO, (), ())
    axis, size = node.attributes[0], terms_per_part(node, (1,))
    own = (0, _index(node, 0, place))
    for number, first in enumerate(range(0, terms(node), size)):
        rivals = range(first, min(first + size, terms(node)))
        reads = (own, *((1, _index(node, 1, (*place, k))) for k in rivals))
        yield Part(_rank_part(len(rivals), max(0, min(len(rivals), place[axis] - first))), (number,), reads)


@lru_cache(maxsize=4096)
def _rank_part(count: int, earlier: int) -> Recipe:
    """`count` rivals, the first `earlier` of which come before the element."""

    @recipe(2 + count)
    def written(w: Writer, carried: Value, own: Value, *rivals: Value) -> Value:
        for at, rival in enumerate(rivals):
            carried = inline(w, recipes.rank_term, (carried, own, rival, int(at < earlier)))
        return carried

    return written


def _map(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    formula = TABLE[node.op].recipe
    assert formula is not None
    yield Part(formula, (), tuple((at, _index(node, at, place)) for at in range(len(node.operands))))


def _take(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    """The index word comes first: it decides which other word is read."""
    at = (1, _index(node, 1, place))
    index = signed(read(*at))
    if not 0 <= index < node.reduced[0]:
        yield Part(recipe(1)(lambda w, index: 0), (), (at,))
        return
    yield Part(recipe(2)(lambda w, index, value: value), (), (at, (0, _index(node, 0, (*place, index)))))


def _scatter(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    axis, size = node.attributes[0], terms_per_part(node, (1, 2))
    yield Part(recipes.copy, (), ((0, _index(node, 0, place)),))
    for number, first in enumerate(range(0, terms(node), size)):
        reads: list[tuple[int, int]] = []
        for k in range(first, min(first + size, terms(node))):
            spot = place + coordinates(node.reduced, k)
            reads += [(1, _index(node, 1, spot)), (2, _index(node, 2, spot))]
        yield Part(_scatter_part(node.op == "scatter_add", len(reads) // 2, place[axis]), (number,), tuple(reads))


@lru_cache(maxsize=4096)
def _scatter_part(adds: bool, count: int, row: int) -> Recipe:
    @recipe(1 + 2 * count)
    def written(w: Writer, carried: Value, *pairs: Value) -> Value:
        for at in range(count):
            index, value = pairs[2 * at], pairs[2 * at + 1]
            hit = w("add", carried, value) if adds else value
            carried = w("where", w("ieq", index, row), hit, carried)
        return carried

    return written


def _concat(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    axis, *extents = node.attributes
    left, at = place[axis], 0
    while left >= extents[at]:
        left -= extents[at]
        at += 1
    yield Part(recipes.copy, (), ((at, _index(node, at, (*place[:axis], left, *place[axis + 1 :]))),))


def _iota(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    coordinate = place[node.attributes[0]]
    yield Part(recipe(0)(lambda w: coordinate), (), ())


def _scalar(node: Node, place: Shape, read: Read) -> Iterator[Part]:
    bits = node.attributes[0]
    yield Part(recipe(0)(lambda w: bits), (), ())


_PARTS: dict[str, Parts] = {
    "sum": _sum,
    "dot": _dot,
    "rank": _rank,
    "take": _take,
    "scatter": _scatter,
    "scatter_add": _scatter,
    "concat": _concat,
    "iota": _iota,
    "scalar": _scalar,
}


def parts(node: Node, element: int, read: Read) -> Iterator[Part]:
    """The parts of element `element` (row-major) of `node`. read: returns an operand's word; only `take` needs it."""
    row = TABLE[node.op]
    how = _map if row.is_map else _fold if row.is_fold else _PARTS.get(node.op)
    if how is None:
        raise ValueError(f"{node.op}: its words are given, not computed")
    return how(node, coordinates(node.shape, element), read)


def part_count(node: Node) -> int:
    """How many parts each of its elements has."""
    row = TABLE[node.op]
    if node.op == "sum":
        count, size = terms(node), terms_per_part(node, (0,), LANES)
        return (
            2 + LANES // JOINED + sum(-(-len(range(lane, count, LANES)) // size) for lane in range(min(LANES, count)))
        )
    if node.op == "dot":
        count, size = terms(node), terms_per_part(node, (0, 1))
        whole, rest = divmod(count, BLOCK)
        blocks = whole + (rest > 0)
        return 1 + whole * -(-BLOCK // size) + -(-rest // size) + -(-max(blocks - 1, 0) // blocks_per_part(size))
    joined = {"rank": (1,), "scatter": (1, 2), "scatter_add": (1, 2)}.get(node.op, (0,) if row.is_fold else None)
    return 1 if joined is None else 1 + -(-terms(node) // terms_per_part(node, joined))
