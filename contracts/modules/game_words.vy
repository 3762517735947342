# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The word of a dispute game, and its clocks
@license Apache-2.0
@notice The position of a game, which move is due, and how much time each side has: all that a move down a tree writes.
@dev Widths: a tree has fewer than 2^48 leaves or words, seconds since 1970 fit 40 bits. A side makes at most 34 moves, each of
     which adds at most `move_s` to the other's seconds, and that is below 2^26.3, 129 weeks: 32 bits hold what a side has left.
"""


from . import bits


# Which tree the disputed node belongs to; 0: none yet.
SEGMENTS: constant(uint256) = 1
STEPS: constant(uint256) = 2
STATE: constant(uint256) = 3
NODES: constant(uint256) = 4
ELEMENTS: constant(uint256) = 5
PARTS: constant(uint256) = 6
# The move that is due: the committer's, then, from `PICK` on, the challenger's. 0: the game is over, or never was.
REVEAL: constant(uint256) = 1
OPEN: constant(uint256) = 2
TRACE: constant(uint256) = 3
OPEN_PARTS: constant(uint256) = 4
PICK: constant(uint256) = 5
EVIDENCE: constant(uint256) = 6
# A move in the last quarter of its time gives the other side as much again.
LATE_PART: constant(uint256) = 4
WORDS_A_LEAF: constant(uint256) = 128
MAX_COUNT: constant(uint256) = 2**48
U48: constant(uint256) = MAX_COUNT - 1
MAX_HEIGHT: constant(uint256) = 48
# Levels that one move goes down at most: 64 children.
MAX_SPAN: constant(uint256) = 6


struct Game:
    committer_left: uint256
    challenger_left: uint256
    move_s: uint256
    # The last move.
    at: uint256
    index: uint256
    # What the tree is over: leaves, or words of ELEMENTS and PARTS.
    count: uint256
    height: uint256
    phase: uint256
    awaits: uint256
    is_open: bool


@internal
@pure
def _pack(game: Game) -> uint256:
    return (
        game.committer_left << 224
        | game.challenger_left << 192
        | game.move_s << 160
        | game.at << 120
        | game.index << 72
        | game.count << 24
        | game.height << 16
        | game.phase << 8
        | game.awaits << 1
        | convert(game.is_open, uint256)
    )


@internal
@pure
def _unpack(word: uint256) -> Game:
    return Game(
        committer_left=word >> 224,
        challenger_left=word >> 192 & bits.U32,
        move_s=word >> 160 & bits.U32,
        at=word >> 120 & bits.U40,
        index=word >> 72 & U48,
        count=word >> 24 & U48,
        height=word >> 16 & bits.U8,
        phase=word >> 8 & bits.U8,
        awaits=word >> 1 & 127,
        is_open=word & 1 == 1,
    )


@internal
@pure
def _due(game: Game) -> uint256:
    """
    @notice The last second of the side that owes a move.
    """
    if game.awaits >= PICK:
        return game.at + min(game.move_s, game.challenger_left)
    return game.at + min(game.move_s, game.committer_left)


@internal
@view
def _moved(game: Game) -> Game:
    """
    @notice The mover's time is spent, up to now; the move is in time.
    """
    used: uint256 = block.timestamp - game.at
    gift: uint256 = 0
    if LATE_PART * used > (LATE_PART - 1) * game.move_s:
        gift = game.move_s
    moved: Game = game
    moved.at = block.timestamp
    if game.awaits >= PICK:
        moved.challenger_left -= used
        moved.committer_left += gift
    else:
        moved.committer_left -= used
        moved.challenger_left += gift
    return moved


@internal
@pure
def _leaves(game: Game) -> uint256:
    if game.phase >= ELEMENTS:
        return (game.count + WORDS_A_LEAF - 1) // WORDS_A_LEAF
    return game.count


@internal
@pure
def _height(leaves: uint256) -> uint256:
    """
    @notice Of the tree over so many leaves, padded to a power of two.
    """
    for height: uint256 in range(MAX_HEIGHT):
        if leaves <= 1 << height:
            return height
    return MAX_HEIGHT


@internal
@pure
def _span(height: uint256) -> uint256:
    """
    @notice How many levels one move goes down from here: as few moves as six levels at most allow, and those alike.
    """
    if height == 0:
        return 0
    moves: uint256 = (height + MAX_SPAN - 1) // MAX_SPAN
    return (height + moves - 1) // moves


@internal
@pure
def _is_beyond(game: Game) -> bool:
    """
    @notice Whether the game is at a leaf that the tree has not: padding belongs there.
    """
    return game.height == 0 and game.index >= self._leaves(game)
