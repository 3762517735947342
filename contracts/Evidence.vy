# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Evidence
@license Apache-2.0
@notice Says whether evidence shows that a claim is false: here that a part of an element gives another word than the one
        committed; that two places of the claim must be equal and are not, `ConsistencyProofs` judges.
@dev docs/protocol/evidence.md. An honest committer's trees are canonical: every hash begins with a tag of its kind, so a
     path that leads to a root leads there from the place that it is said to, and its length proves the tree's height.
     A part's evidence is read from the call where it lies: to decode it would cost more than all its hashes.
"""


from .interfaces import IEvidence
from .interfaces import IOpExecutor
from .modules import element_parts
from .modules import exploration as tree
from .modules import merkle
from .modules import node_places
from .modules import openings


PART: constant(uint256) = 8
# Names the parts' results in place of an operand: operands are numbered below it.
CARRIED: constant(uint256) = 32
MAX_SOURCES: constant(uint256) = 3
# Leaves of one source, and of all: a sum so far and the block sums that are added to it lie in ten.
MAX_OPENED: constant(uint256) = 16
MAX_SHOWN: constant(uint256) = MAX_OPENED + 1
MAX_WORDS: constant(uint256) = 65
# Added to an address, `operand << 64 | word`: what is below it is of no leaf that was opened.
OPENED: constant(uint256) = 1 << 64
CANONICAL_NAN: constant(uint256) = 511 << 22
INFINITY: constant(uint256) = 255 << 23
MAGNITUDE: constant(uint256) = 2**31 - 1

# Where a part's struct begins in the call: after the selector, the arguments' 37 words, the length of `data`, an offset.
PART_AT: constant(uint256) = 4 + 39 * 32
# Its fields.
DESCRIPTOR: constant(uint256) = 0
NUMBER: constant(uint256) = 1
TRACE_HEIGHT: constant(uint256) = 2
WORD_COUNT: constant(uint256) = 3
SOURCES: constant(uint256) = 4
NUMBERS: constant(uint256) = 5
LEAVES: constant(uint256) = 6
HASHES: constant(uint256) = 7
PLACES: constant(uint256) = 8
# Bytes of a source: operand, count, height, size of the head, and the head in three words; of a leaf: its size and 512.
SOURCE_BYTES: constant(uint256) = 7 * 32
LEAF_STRIDE: constant(uint256) = 17 * 32


executor: immutable(address)
consistency: immutable(address)


# Where in the call the next number, leaf and hash are read, and how many leaves were.
struct Cursor:
    number: uint256
    leaf: uint256
    hash: uint256
    opened: uint256


@deploy
def __init__(executor_: address, consistency_: address):
    """
    @param executor_ Executes parts.
    @param consistency_ Judges the other kinds of evidence.
    """
    executor = executor_
    consistency = consistency_


@external
@view
def judge(
    evidence: uint256, frame: IEvidence.Frame, position: IEvidence.Position, data: Bytes[45056]
) -> bool:
    """
    @notice Returns when the evidence shows that the claim is false, else reverts with what does not hold.
    @param evidence Which kind.
    @param frame What the path of asks has fixed.
    @param position Where the claim is false; not beyond the last leaf of a tree.
    @param data The ABI encoding of this kind's struct.
    """
    if evidence == PART:
        self._check_part(frame, position)
        return True
    # The same call of the other contract, with the bytes that there are and not with as many as there can be.
    return abi_decode(raw_call(consistency, msg.data, max_outsize=32, is_static_call=True), bool)


@internal
@view
def _check_part(frame: IEvidence.Frame, position: IEvidence.Position):
    assert (
        position.phase >= tree.ELEMENTS and position.open_leaf != empty(bytes32)
    ), "evidence: not here"
    descriptor: Bytes[openings.MAX_DESCRIPTOR] = self._descriptor()
    assert keccak256(descriptor) == frame.descriptor, "evidence: other descriptor"
    committed: uint256 = self._shown(position)
    is_last: bool = True
    element: uint256 = self._field(NUMBER)
    part: uint256 = 0
    # Where the shown leaf begins among the parts' results; a word of an element's own tensor is none that it takes.
    start: uint256 = 0
    if position.phase == tree.PARTS:
        part = element
        element = frame.element
        is_last = part == frame.parts - 1
        start = OPENED + (CARRIED << 64 | position.index * openings.WORDS_A_LEAF)
    else:
        assert staticcall IOpExecutor(executor).part_count(descriptor, element) == 1, "evidence: several parts"
    starts: uint256[MAX_SHOWN] = self._opened(frame, descriptor, start)
    result: uint256 = self._executed(descriptor, element, part, starts)
    # Of a float32 node the element is committed with one NaN; parts before it are committed as they are.
    if is_last and node_places._word(descriptor, openings.DTYPE_AT) == 0 and result & MAGNITUDE > INFINITY:
        result = CANONICAL_NAN
    assert result != committed, "evidence: not false"


@internal
@view
def _shown(position: IEvidence.Position) -> uint256:
    """
    @return The disputed word, as it is committed in the shown leaf.
    """
    at: uint256 = self._array(LEAVES)
    assert self._leaf(at) == position.open_leaf, "evidence: bytes do not match"
    number: uint256 = self._field(NUMBER)
    word: uint256 = number % openings.WORDS_A_LEAF
    assert (
        number // openings.WORDS_A_LEAF == position.index and openings.WORD_BYTES * word < self._at(at)
    ), "evidence: no such element"
    return self._word(at, word)


@internal
@view
def _opened(
    frame: IEvidence.Frame, descriptor: Bytes[openings.MAX_DESCRIPTOR], shown: uint256
) -> uint256[MAX_SHOWN]:
    """
    @notice Opens all leaves under the tensors they are of, these under the trace, and parts under the parts' root.
    @return Of each leaf the address of its first word and OPENED; 0 of what was not opened.
    """
    starts: uint256[MAX_SHOWN] = empty(uint256[MAX_SHOWN])
    starts[0] = shown
    sources: uint256 = self._array(SOURCES)
    cursor: Cursor = Cursor(
        number=self._array(NUMBERS),
        leaf=self._array(LEAVES) + LEAF_STRIDE,
        hash=self._array(HASHES),
        opened=0,
    )
    for i: uint256 in range(self._count(sources), bound=MAX_SOURCES):
        source: uint256 = sources + i * SOURCE_BYTES
        operand: uint256 = self._at(source)
        nodes: bytes32[MAX_OPENED] = empty(bytes32[MAX_OPENED])
        places: uint256[MAX_OPENED] = empty(uint256[MAX_OPENED])
        count: uint256 = self._at(source + 32)
        for j: uint256 in range(count, bound=MAX_OPENED):
            nodes[j] = self._leaf(cursor.leaf)
            places[j] = self._at(cursor.number)
            cursor.leaf += LEAF_STRIDE
            cursor.number += 32
            cursor.opened += 1
            starts[cursor.opened] = OPENED + (operand << 64 | places[j] * openings.WORDS_A_LEAF)
        root: bytes32 = empty(bytes32)
        root, cursor.hash = self._root(nodes, places, count, self._at(source + 64), cursor.hash)
        if operand == CARRIED:
            assert root == frame.parts_root, "evidence: bytes do not match"
            continue
        node: uint256 = node_places._operand(descriptor, operand)
        root = openings._trace_leaf(node, merkle._tensor_root(self._head(source), root))
        root, cursor.hash = self._climbed(root, node, self._field(TRACE_HEIGHT), cursor.hash)
        assert root == frame.trace_root, "evidence: bytes do not match"
    assert (
        cursor.opened == self._count(self._array(NUMBERS))
        and cursor.opened + 1 == self._count(self._array(LEAVES))
        and cursor.hash == self._array(HASHES) + 32 * self._count(self._array(HASHES))
    ), "evidence: bytes do not match"
    return starts


@internal
@view
def _root(
    leaves: bytes32[MAX_OPENED], numbers: uint256[MAX_OPENED], leaf_count: uint256, height: uint256, hash: uint256
) -> (bytes32, uint256):
    """
    @notice The root above leaves in ascending order: level by level as long as there are several nodes, then along one path.
    @param hash Where the first of the siblings that are missing is read.
    @return The root, and where the next hash is read.
    """
    nodes: bytes32[MAX_OPENED] = leaves
    places: uint256[MAX_OPENED] = numbers
    count: uint256 = leaf_count
    next: uint256 = hash
    left: uint256 = height
    for _: uint256 in range(merkle.MAX_DEPTH):
        if count < 2 or left == 0:
            break
        left = unsafe_sub(left, 1)
        # Nodes are replaced by their parents: `above` counts these, and is never ahead of `below`.
        above: uint256 = 0
        below: uint256 = 0
        for i: uint256 in range(MAX_OPENED):
            if below >= count:
                break
            place: uint256 = places[below]
            node: bytes32 = nodes[below]
            below = unsafe_add(below, 1)
            if place & 1 == 1:
                node = sha256(concat(0x01, slice(msg.data, next, 32), node))
                next += 32
            elif below < count and places[below] == place | 1:
                node = sha256(concat(0x01, node, nodes[below]))
                below = unsafe_add(below, 1)
            else:
                node = sha256(concat(0x01, node, slice(msg.data, next, 32)))
                next += 32
            nodes[above] = node
            places[above] = place >> 1
            above = unsafe_add(above, 1)
        count = above
    assert count == 1, "evidence: bytes do not match"
    return self._climbed(nodes[0], places[0], left, next)


@internal
@view
def _climbed(leaf: bytes32, place: uint256, height: uint256, hash: uint256) -> (bytes32, uint256):
    """
    @notice As `_root`, of one node, which is number `place` of those so far below the root.
    """
    node: bytes32 = leaf
    next: uint256 = hash
    at: uint256 = place
    for _: uint256 in range(height, bound=merkle.MAX_DEPTH):
        if at & 1 == 1:
            node = sha256(concat(0x01, slice(msg.data, next, 32), node))
        else:
            node = sha256(concat(0x01, node, slice(msg.data, next, 32)))
        at = at >> 1
        next = unsafe_add(next, 32)
    assert at == 0, "evidence: bytes do not match"
    return node, next


@internal
@view
def _executed(
    descriptor: Bytes[openings.MAX_DESCRIPTOR], element: uint256, part: uint256, starts: uint256[MAX_SHOWN]
) -> uint256:
    """
    @notice The part's word from the opened words, which must be those that it takes.
    """
    leaves: uint256 = self._array(LEAVES)
    at: uint256 = self._array(PLACES)
    words: DynArray[uint256, MAX_WORDS] = []
    addresses: uint256[MAX_WORDS] = empty(uint256[MAX_WORDS])
    places: uint256 = 0
    for i: uint256 in range(self._field(WORD_COUNT), bound=MAX_WORDS):
        if i & 15 == 0:
            places = self._at(unsafe_add(at, 2 * i))
        place: uint256 = places >> 240
        places = places << 16
        leaf: uint256 = place >> 7
        word: uint256 = place & 127
        # No word that lies beyond the bytes of a short leaf has an address that a program reads.
        words.append(self._word(unsafe_add(leaves, unsafe_mul(leaf, LEAF_STRIDE)), word))
        addresses[i] = unsafe_add(starts[leaf], word)
    result: uint256 = 0
    carried: DynArray[uint256, element_parts.MAX_CARRIED] = []
    reads: DynArray[uint256, element_parts.MAX_READS] = []
    result, carried, reads = staticcall IOpExecutor(executor).execute(descriptor, element, part, words)
    assert len(carried) + len(reads) == len(words), "evidence: other words"
    checked: uint256 = 0
    for each: uint256 in carried:
        assert addresses[checked] == OPENED + (CARRIED << 64 | each), "evidence: other words"
        checked = unsafe_add(checked, 1)
    for each: uint256 in reads:
        assert addresses[checked] == unsafe_add(OPENED, each), "evidence: other words"
        checked = unsafe_add(checked, 1)
    return result


# --- what the call holds


@internal
@view
def _at(place: uint256) -> uint256:
    return convert(slice(msg.data, place, 32), uint256)


@internal
@view
def _field(field: uint256) -> uint256:
    return self._at(PART_AT + 32 * field)


@internal
@view
def _array(field: uint256) -> uint256:
    """
    @return Where the first entry of an array is; the word before it counts them.
    """
    return PART_AT + 32 + self._field(field)


@internal
@view
def _count(array: uint256) -> uint256:
    return self._at(array - 32)


@internal
@view
def _descriptor() -> Bytes[openings.MAX_DESCRIPTOR]:
    at: uint256 = self._array(DESCRIPTOR)
    return slice(slice(msg.data, at, openings.MAX_DESCRIPTOR), 0, self._count(at))


@internal
@view
def _head(source: uint256) -> Bytes[merkle.MAX_HEAD]:
    return slice(slice(msg.data, source + 128, merkle.MAX_HEAD), 0, self._at(source + 96))


@internal
@view
def _leaf(at: uint256) -> bytes32:
    """
    @notice The hash of a leaf.
    """
    return sha256(concat(0x00, slice(slice(msg.data, at + 32, merkle.LEAF_BYTES), 0, self._at(at))))


@internal
@view
def _word(leaf: uint256, number: uint256) -> uint256:
    """
    @notice Word `number` of a leaf, whose bytes are little-endian.
    """
    at: uint256 = unsafe_add(unsafe_add(leaf, 32), unsafe_mul(openings.WORD_BYTES, number))
    word: uint256 = convert(slice(msg.data, at, openings.WORD_BYTES), uint256)
    return (word & 255) << 24 | (word & 65_280) << 8 | word >> 8 & 65_280 | word >> 24
