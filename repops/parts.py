"""How one element of a node is computed, derived from the operator table.

`part` gives one part, of at most MAX_STEPS scalar operations. A part is a recipe over operand words and results of
earlier parts; the last part's word is the element. The referee executes one part, the reference executor all of them;
the kernels must give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

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


PartOf = Callable[[Node, Shape, int, Read], Part]  # (node, place of the element, number of the part, read)


@lru_cache(maxsize=1024)
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
    reach: int = sum(map(mul, operand.strides, place))
    return operand.offset + reach


def _fold(node: Node, place: Shape, number: int, read: Read) -> Part:
    """Part 0 is the start; then the terms in order."""
    row = TABLE[node.op]
    assert row.start is not None
    if not number:
        return Part(_starting(row.start), (), ())
    reads = tuple((0, _index(node, 0, place + coordinates(node.reduced, k))) for k in _terms_of(node, (0,), number))
    return Part(_chain(node.op, len(reads)), (number - 1,), reads)


def _terms_of(node: Node, operands: tuple[int, ...], number: int) -> range:
    """The terms of part `number`, where parts take them in order from part 1 on."""
    size = terms_per_part(node, operands)
    return range((number - 1) * size, min(number * size, terms(node)))


@dataclass(frozen=True)
class LaneParts:
    """How the terms of a `sum` are divided: `longer` lanes of `many` parts each come first, then lanes of `few`."""

    size: int
    longer: int
    many: int
    few: int

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, node: Node) -> LaneParts:
        whole, longer = divmod(terms(node), LANES)
        size = terms_per_part(node, (0,), LANES)
        return cls(size, longer, -(-(whole + 1) // size), -(-whole // size))

    @property
    def count(self) -> int:
        return self.longer * self.many + (LANES - self.longer) * self.few

    def last(self, lane: int) -> int:
        """The number of the lane's last part; 0, which is +0, of a lane without terms."""
        mine = self.many if lane < self.longer else self.few
        return min(lane + 1, self.longer) * self.many + max(lane + 1 - self.longer, 0) * self.few if mine else 0

    def place(self, number: int) -> tuple[int, int]:
        """(lane, which of its parts) of part `number`."""
        at, of_longer = number - 1, self.longer * self.many
        if at < of_longer:
            return at // self.many, at % self.many
        return self.longer + (at - of_longer) // self.few, (at - of_longer) % self.few


def _sum(node: Node, place: Shape, number: int, read: Read) -> Part:
    """Part 0 is +0; then lane by lane; then a tree over the lanes: first those LANES / JOINED apart, then their sums."""
    if not number:
        return Part(_ZERO, (), ())
    lanes, apart = LaneParts.of(node), LANES // JOINED
    joint = number - 1 - lanes.count
    if joint == apart:
        return Part(_tree(apart), tuple(range(number - apart, number)), ())
    if joint >= 0:
        return Part(_tree(JOINED), tuple(lanes.last(lane) for lane in range(joint, LANES, apart)), ())
    lane, turn = lanes.place(number)
    mine = range(lane, terms(node), LANES)[turn * lanes.size : (turn + 1) * lanes.size]
    reads = tuple((0, _index(node, 0, place + coordinates(node.reduced, k))) for k in mine)
    return Part(_chain("sum_sequential", len(reads)), (number - 1 if turn else 0,), reads)


def _dot(node: Node, place: Shape, number: int, read: Read) -> Part:
    """Part 0 is +0; then the chains of each block; then the block sums, when there are several."""
    if not number:
        return Part(_ZERO, (), ())
    count, size = terms(node), terms_per_part(node, (0, 1))
    each, blocks, chains = -(-BLOCK // size), -(-count // BLOCK), _chains(count, size)
    if number > chains:
        joined = blocks_per_part(size)
        turn = number - 1 - chains
        group = range(1 + turn * joined, min(1 + (turn + 1) * joined, blocks))
        total = number - 1 if turn else each
        return Part(_chain("sum_sequential", len(group)), (total, *(min((at + 1) * each, chains) for at in group)), ())
    block, turn = divmod(number - 1, each)
    first = block * BLOCK + turn * size
    reads: list[tuple[int, int]] = []
    for k in range(first, min(first + size, (block + 1) * BLOCK, count)):
        spot = place + coordinates(node.reduced, k)
        reads += [(0, _index(node, 0, spot)), (1, _index(node, 1, spot))]
    return Part(_multiply_accumulate(len(reads) // 2), (number - 1 if turn else 0,), tuple(reads))


def _chains(count: int, size: int) -> int:
    """Parts of a dot that take terms: each block has parts of its own."""
    whole, rest = divmod(count, BLOCK)
    return whole * -(-BLOCK // size) + -(-rest // size)


def _rank(node: Node, place: Shape, number: int, read: Read) -> Part:
    if not number:
        return Part(_ZERO, (), ())
    rivals = _terms_of(node, (1,), number)
    reads = ((0, _index(node, 0, place)), *((1, _index(node, 1, (*place, k))) for k in rivals))
    earlier = max(0, min(len(rivals), place[node.attributes[0]] - rivals.start))
    return Part(_rank_part(len(rivals), earlier), (number - 1,), reads)


@lru_cache(maxsize=4096)
def _rank_part(count: int, earlier: int) -> Recipe:
    """`count` rivals, the first `earlier` of which come before the element."""

    @recipe(2 + count)
    def written(w: Writer, carried: Value, own: Value, *rivals: Value) -> Value:
        for at, rival in enumerate(rivals):
            carried = inline(w, recipes.rank_term, (carried, own, rival, int(at < earlier)))
        return carried

    return written


def _map(node: Node, place: Shape, number: int, read: Read) -> Part:
    formula = TABLE[node.op].recipe
    assert formula is not None
    return Part(formula, (), tuple((at, _index(node, at, place)) for at in range(len(node.operands))))


def _take(node: Node, place: Shape, number: int, read: Read) -> Part:
    """The index word comes first: it decides which other word is read."""
    at = (1, _index(node, 1, place))
    index = signed(read(*at))
    if not 0 <= index < node.reduced[0]:
        return Part(recipe(1)(lambda w, index: 0), (), (at,))
    return Part(recipe(2)(lambda w, index, value: value), (), (at, (0, _index(node, 0, (*place, index)))))


def _scatter(node: Node, place: Shape, number: int, read: Read) -> Part:
    """Part 0 is the base; then the terms in order."""
    if not number:
        return Part(recipes.copy, (), ((0, _index(node, 0, place)),))
    reads: list[tuple[int, int]] = []
    for k in _terms_of(node, (1, 2), number):
        spot = place + coordinates(node.reduced, k)
        reads += [(1, _index(node, 1, spot)), (2, _index(node, 2, spot))]
    row = place[node.attributes[0]]
    return Part(_scatter_part(node.op == "scatter_add", len(reads) // 2, row), (number - 1,), tuple(reads))


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


def _concat(node: Node, place: Shape, number: int, read: Read) -> Part:
    axis, *extents = node.attributes
    left, at = place[axis], 0
    while left >= extents[at]:
        left -= extents[at]
        at += 1
    return Part(recipes.copy, (), ((at, _index(node, at, (*place[:axis], left, *place[axis + 1 :]))),))


def _iota(node: Node, place: Shape, number: int, read: Read) -> Part:
    coordinate = place[node.attributes[0]]
    return Part(recipe(0)(lambda w: coordinate), (), ())


def _scalar(node: Node, place: Shape, number: int, read: Read) -> Part:
    bits = node.attributes[0]
    return Part(recipe(0)(lambda w: bits), (), ())


_PARTS: dict[str, PartOf] = {
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


def part(node: Node, element: int, number: int, read: Read) -> Part:
    """Part `number` of element `element` (row-major) of `node`. read: returns an operand's word; only `take` needs it.

    Takes the same time for each part of a long reduction. Raises ValueError where the node's words are not computed.
    """
    row = TABLE[node.op]
    how = _map if row.is_map else _fold if row.is_fold else _PARTS.get(node.op)
    if how is None:
        raise ValueError(f"{node.op}: its words are given, not computed")
    return how(node, coordinates(node.shape, element), number, read)


def parts(node: Node, element: int, read: Read) -> Iterator[Part]:
    """All parts of an element, in order."""
    return (part(node, element, number, read) for number in range(part_count(node)))


def part_count(node: Node) -> int:
    """How many parts each of its elements has."""
    row = TABLE[node.op]
    if node.op == "sum":
        return 2 + LANES // JOINED + LaneParts.of(node).count
    if node.op == "dot":
        count, size = terms(node), terms_per_part(node, (0, 1))
        joints = -(-max(-(-count // BLOCK) - 1, 0) // blocks_per_part(size))
        return 1 + _chains(count, size) + joints
    joined = {"rank": (1,), "scatter": (1, 2), "scatter_add": (1, 2)}.get(node.op, (0,) if row.is_fold else None)
    return 1 if joined is None else 1 + -(-terms(node) // terms_per_part(node, joined))
