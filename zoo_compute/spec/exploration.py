"""A node of an exploration: where it is, what it shows, its record (docs/protocol/referee.md). `modules/exploration.vy` is its twin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import sha256

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle
from zoo_compute.spec.clocks import PathClocks
from zoo_compute.spec.frames import EMPTY, Hashes, height_of
from zoo_compute.spec.params import MAX_SPAN, WORD_BYTES, WORDS_A_LEAF
from zoo_compute.spec.revert import require
from zoo_compute.spec.watching import NOBODY

LEAF_BYTES = WORD_BYTES * WORDS_A_LEAF
WORD_LEVELS = 2  # of a tree of words: up to four leaves are shown together
UNIT_BYTES = 22  # of an id, that name a step in records, verdicts and seals
PRICE_AT = 152  # in the word of a record's clocks, above them


class Tree(IntEnum):
    """Which tree a node belongs to. The first six are the phases of evidence."""

    SEGMENTS = 1
    STEPS = 2
    STATE = 3
    NODES = 4
    ELEMENTS = 5
    PARTS = 6
    ELEMENT = 7  # one element, whose parts are asked for
    RESULT = 8  # a slot's result leaf


class Status(IntEnum):
    """Of a node."""

    ASKED = 1
    ANSWERED = 2


@dataclass(frozen=True, slots=True)
class TreePosition:
    """count: the tree's leaves; of ELEMENTS and PARTS, words. The steps are those of SEGMENTS alone."""

    tree: Tree
    height: int = 0
    index: int = 0
    count: int = 0
    inner_steps: int = 0
    segment_steps: int = 0

    @property
    def word(self) -> int:
        steps = self.inner_steps << 144 | self.segment_steps << 112
        return steps | self.count << 64 | self.index << 16 | self.height << 8 | self.tree

    @property
    def leaves(self) -> int:
        return -(-self.count // WORDS_A_LEAF) if self.tree >= Tree.ELEMENTS else self.count

    @property
    def height_of_tree(self) -> int:
        return height_of(self.leaves)

    @property
    def is_beyond(self) -> bool:
        """A leaf that the tree does not have: padding belongs there."""
        return self.height == 0 and self.index >= self.leaves

    @property
    def shows_words(self) -> bool:
        """Answered by words, not by children."""
        return self.tree in (Tree.ELEMENTS, Tree.PARTS) and self.height <= WORD_LEVELS

    @property
    def span(self) -> int:
        """Levels that one answer goes down: as few answers as MAX_SPAN allows, and those alike; a rest of words is shown."""
        left = self.height
        if self.tree >= Tree.ELEMENTS and left % MAX_SPAN <= WORD_LEVELS:
            left -= left % MAX_SPAN
        return -(-left // -(-left // MAX_SPAN)) if left else 0

    @property
    def is_heavy(self) -> bool:
        """A leaf at the end of one step: its answer takes the trace of that step."""
        if self.height or not 0 < self.index < self.count:
            return False
        if self.tree == Tree.SEGMENTS:
            first = (self.index - 1) * self.segment_steps
            return min(self.index * self.segment_steps, self.inner_steps) == first + 1
        return self.tree == Tree.STEPS

    def is_askable(self, root: bytes) -> bool:
        """Not what needs no answer: an entry of a state, the first of the steps, padding in its place.

        Anything else in the place of padding can be asked for, has no answer, and loses by silence.
        """
        if self.height:
            return True
        if self.is_beyond:
            return root != EMPTY
        return self.tree != Tree.STATE and (self.tree != Tree.STEPS or self.index > 0)

    def below(self, root: bytes, place: int, child: bytes, path: Hashes) -> TreePosition:
        """Of the child at `place`, which its siblings prove; of shown words, of a leaf."""
        depth = self.height if self.shows_words else self.span
        is_child = len(path) == depth and place < 1 << depth and merkle.climb(child, place, path) == root
        require(is_child, "referee: not that child")
        return replace(self, height=self.height - depth, index=self.index << depth | place)


def root_position(tree: Tree, count: int) -> TreePosition:
    position = TreePosition(tree, 0, 0, count)
    return replace(position, height=position.height_of_tree)


def segments_position(inner_steps: int, segment_steps: int, leaf: int | None = None) -> TreePosition:
    """The root of a slot-round's segments, or one leaf."""
    count = -(-inner_steps // segment_steps) + 1
    height, index = (height_of(count), 0) if leaf is None else (0, leaf)
    return TreePosition(Tree.SEGMENTS, height, index, count, inner_steps, segment_steps)


def require_children(position: TreePosition, root: bytes, children: Hashes) -> None:
    are_children = (
        not position.shows_words and len(children) == 1 << position.span and merkle.root_of(list(children)) == root
    )
    require(are_children, "referee: children do not match")


def require_words(position: TreePosition, root: bytes, data: bytes) -> None:
    """The bytes of the leaves under a node; padding has none, and is answered too."""
    width = 1 << position.height
    start = LEAF_BYTES * width * position.index
    size = max(0, min(LEAF_BYTES * width, WORD_BYTES * position.count - start))
    require(position.shows_words and len(data) == size, "referee: bytes do not match")
    leaves = [sha256(b"\x00" + data[at : at + LEAF_BYTES]).digest() for at in range(0, size, LEAF_BYTES)]
    leaves += [EMPTY] * (width - len(leaves))
    require(merkle.root_of(leaves) == root, "referee: bytes do not match")


# --- the record


def clocks_word(clocks: PathClocks) -> int:
    """As the contract packs it."""
    left = clocks.committer_left_s << 80 | clocks.asker_left_s << 48 | clocks.counted_left << 8
    return clocks.since << 112 | left | int(clocks.exhausted)


@dataclass(frozen=True, slots=True)
class Payment:
    """What an ask prepaid. fee: gwei; a heavy one a re-execution beside it."""

    asker: str = NOBODY
    fee: int = 0
    asked_at: int = 0
    is_heavy: bool = False
    is_of_aggregation: bool = False

    @property
    def word(self) -> int:
        flags = int(self.is_heavy) | int(self.is_of_aggregation) << 1
        return int(self.asker, 16) << 96 | self.fee << 48 | self.asked_at << 8 | flags


@dataclass(frozen=True, slots=True)
class Origin:
    """The ask for the trace of the path's step; before there is one, the path's root. When it was asked."""

    unit: bytes
    asked_at: int = 0

    @property
    def word(self) -> int:
        return int.from_bytes(self.unit, "big") << 80 | self.asked_at << 40


@dataclass(frozen=True, slots=True)
class Node:
    """What the contract keeps the hash of. claim: its key; frame: a hash; answerer: who is paid, nobody for the operator's owner.

    price: what the claim is paid for a slot, or for the aggregation.
    """

    claim: bytes
    frame: bytes
    position: TreePosition
    root: bytes
    origin: Origin
    clocks: PathClocks
    payment: Payment = Payment()
    answerer: str = NOBODY
    price: int = 0

    @property
    def record(self) -> tuple[bytes, bytes, int, bytes, int, int, str, int]:
        """As the contract takes it."""
        words = self.position.word, self.root, self.origin.word, self.payment.word
        return (self.claim, self.frame, *words, self.answerer, self.price << PRICE_AT | clocks_word(self.clocks))

    def word(self, status: Status) -> int:
        return int.from_bytes(keccak(abi_words(*self.record)), "big") >> 8 << 8 | status


def abi_words(*values: bytes | int | str) -> bytes:
    """The ABI encoding of words: hashes, numbers and addresses."""
    numbers = (int(each, 16) if isinstance(each, str) else each for each in values)
    return b"".join(each if isinstance(each, bytes) else each.to_bytes(32, "big") for each in numbers)


def path_id(claim: bytes, slot: int, kind: int) -> bytes:
    return bytes(keccak(abi_words(claim, slot, kind)))


def segment_id(unit: bytes, leaf: int) -> bytes:
    """One id, whether the bundle showed the leaf or the tree was gone down: it is asked for once. unit: of the path's root."""
    return bytes(keccak(abi_words(int.from_bytes(unit, "big") << 80, leaf)))


def child_id(above: bytes, place: int) -> bytes:
    return bytes(keccak(above + place.to_bytes(32, "big")))


def id_below(above: bytes, unit: bytes, position: TreePosition, place: int) -> bytes:
    """Of a child that lies at this position. unit: of the record of the node above."""
    is_segment = position.tree == Tree.SEGMENTS and position.height == 0
    return segment_id(unit, position.index) if is_segment else child_id(above, place)
