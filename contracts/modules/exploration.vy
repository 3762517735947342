# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Positions in the tree of a claim, and what is shown of them
@license Apache-2.0
@notice Where a node of an exploration is, which children it has, and whether an answer shows them.
@dev A position is `count << 64 | index << 16 | height << 8 | phase`: the tree's leaves (words, in ELEMENTS and PARTS), the node's
     place among those of its height, and which tree. In SEGMENTS `inner_steps << 144 | segment_steps << 112` is added.
"""


from . import merkle
from . import openings


# Which tree a node belongs to. The first six are those of the evidence's positions.
SEGMENTS: constant(uint256) = 1
STEPS: constant(uint256) = 2
STATE: constant(uint256) = 3
NODES: constant(uint256) = 4
ELEMENTS: constant(uint256) = 5
PARTS: constant(uint256) = 6
# Of one node each: an element whose parts are asked for, and a slot's result.
ELEMENT: constant(uint256) = 7
RESULT: constant(uint256) = 8
# Levels that one answer goes down at most: 64 children.
MAX_SPAN: constant(uint256) = openings.MAX_SPAN
# Of words, up to four leaves are shown together: two levels.
SHOWN_LEVELS: constant(uint256) = 2
SHOWN_LEAVES: constant(uint256) = 4
MAX_WORDS: constant(uint256) = 2_048
MAX_COUNT: constant(uint256) = 2**48
U48: constant(uint256) = MAX_COUNT - 1
U32: constant(uint256) = 2**32 - 1


@internal
@pure
def _position(phase: uint256, height: uint256, index: uint256, count: uint256) -> uint256:
    return count << 64 | index << 16 | height << 8 | phase


@internal
@pure
def _phase(position: uint256) -> uint256:
    return position & 255


@internal
@pure
def _height(position: uint256) -> uint256:
    return position >> 8 & 255


@internal
@pure
def _index(position: uint256) -> uint256:
    return position >> 16 & U48


@internal
@pure
def _count(position: uint256) -> uint256:
    return position >> 64 & U48


@internal
@pure
def _leaves(position: uint256) -> uint256:
    """
    @notice Of the tree that the position is in.
    """
    count: uint256 = self._count(position)
    if self._phase(position) >= ELEMENTS:
        return (count + openings.WORDS_A_LEAF - 1) // openings.WORDS_A_LEAF
    return count


@internal
@pure
def _root_position(phase: uint256, count: uint256) -> uint256:
    """
    @notice The root of a tree over so many leaves or words.
    """
    position: uint256 = self._position(phase, 0, 0, count)
    return position | merkle._height_over(self._leaves(position)) << 8


@internal
@pure
def _segments_position(height: uint256, index: uint256, inner_steps: uint256, segment_steps: uint256) -> uint256:
    count: uint256 = (inner_steps + segment_steps - 1) // segment_steps + 1
    return inner_steps << 144 | segment_steps << 112 | self._position(SEGMENTS, height, index, count)


@internal
@pure
def _is_heavy(position: uint256) -> bool:
    """
    @notice Whether to open this leaf takes the trace of a step: it is the end of one step, not of several.
    """
    index: uint256 = self._index(position)
    if self._height(position) > 0 or index == 0:
        return False
    if self._phase(position) == SEGMENTS:
        inner: uint256 = position >> 144
        steps: uint256 = position >> 112 & U32
        return index < self._count(position) and min(index * steps, inner) == (index - 1) * steps + 1
    return self._phase(position) == STEPS and index < self._count(position)


@internal
@pure
def _is_shown(position: uint256) -> bool:
    """
    @notice Whether an answer shows the words below, not children.
    """
    phase: uint256 = self._phase(position)
    return (phase == ELEMENTS or phase == PARTS) and self._height(position) <= SHOWN_LEVELS


@internal
@pure
def _is_askable(position: uint256, root: bytes32) -> bool:
    """
    @notice Whether a child can be asked for. Entries of a state, the first of the steps and padding in its place have no answer
            and need none; anything else in the place of padding has none, and loses by silence.
    """
    if self._height(position) > 0:
        return True
    if self._index(position) >= self._leaves(position):
        return root != empty(bytes32)
    phase: uint256 = self._phase(position)
    return phase != STATE and (phase != STEPS or self._index(position) > 0)


@internal
@pure
def _span(position: uint256) -> uint256:
    """
    @notice How many levels one answer goes down: as few answers as six levels at most allow, and those alike. Of words a rest
            of one or two levels is left, whose leaves are shown together.
    """
    left: uint256 = self._height(position)
    if self._phase(position) >= ELEMENTS:
        rest: uint256 = left % MAX_SPAN
        if rest <= SHOWN_LEVELS:
            left -= rest
    if left == 0:
        return 0
    answers: uint256 = (left + MAX_SPAN - 1) // MAX_SPAN
    return (left + answers - 1) // answers


@internal
@pure
def _below(
    position: uint256, root: bytes32, place: uint256, child: bytes32, path: DynArray[bytes32, MAX_SPAN]
) -> uint256:
    """
    @notice The position of the child at `place`, which its siblings prove; of shown words, of a leaf.
    """
    depth: uint256 = self._height(position) if self._is_shown(position) else self._span(position)
    assert (
        len(path) == depth and place < 1 << depth and merkle._climb(child, place, path) == root
    ), "referee: not that child"
    upper: uint256 = position >> 64 << 64
    return (
        upper
        | (self._index(position) << depth | place) << 16
        | (self._height(position) - depth) << 8
        | self._phase(position)
    )


@internal
@pure
def _check_children(position: uint256, root: bytes32, children: DynArray[bytes32, openings.CHILDREN]):
    assert (
        not self._is_shown(position)
        and len(children) == 1 << self._span(position)
        and openings._root(children) == root
    ), "referee: children do not match"


@internal
@pure
def _check_words(position: uint256, root: bytes32, data: Bytes[MAX_WORDS]):
    """
    @notice The bytes of the leaves under a node of words, as many as there are: padding has none, and is answered too.
    """
    height: uint256 = self._height(position)
    start: uint256 = (self._index(position) << height) * openings.WORDS_A_LEAF
    count: uint256 = self._count(position)
    size: uint256 = min(merkle.LEAF_BYTES << height, openings.WORD_BYTES * (count - min(count, start)))
    assert self._is_shown(position) and len(data) == size, "referee: bytes do not match"
    nodes: bytes32[SHOWN_LEAVES] = empty(bytes32[SHOWN_LEAVES])
    for i: uint256 in range(SHOWN_LEAVES):
        at: uint256 = i * merkle.LEAF_BYTES
        if at >= size:
            break
        nodes[i] = merkle._leaf(slice(data, at, min(merkle.LEAF_BYTES, size - at)))
    width: uint256 = 1 << height
    for _: uint256 in range(SHOWN_LEVELS):
        width = width >> 1
        for i: uint256 in range(width, bound=2):
            nodes[i] = merkle._parent(nodes[2 * i], nodes[2 * i + 1])
    assert nodes[0] == root, "referee: bytes do not match"
