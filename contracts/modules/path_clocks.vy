# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The clocks along a path of asks and answers
@license Apache-2.0
@notice The committer's side has so many seconds for all answers of a path, the askers' side so many after the claim's deadline.
@dev zoo_compute/spec/clocks.py has the same rules. A word is `at << 112 | committer_left << 80 | asker_left << 48 | used << 16 |
     flags`: when the other side's time began, what both have left, what the committer has used. What is below 2^32 stays so: a
     path has one heavy ask, which adds at most MOST_COUNTED re-executions of at most a week.
"""


U32: constant(uint256) = 2**32 - 1
# Re-executions that a heavy ask adds at most.
MOST_COUNTED: constant(uint256) = 32
# A flag: the path's heavy ask was one of too many at once.
EXCESS: constant(uint256) = 1


@internal
@pure
def _at(clocks: uint256) -> uint256:
    return clocks >> 112


@internal
@pure
def _used(clocks: uint256) -> uint256:
    return clocks >> 16 & U32


@internal
@pure
def _is_excess(clocks: uint256) -> bool:
    return clocks & EXCESS == EXCESS


@internal
@pure
def _pack(at: uint256, committer_left: uint256, asker_left: uint256, used: uint256, flags: uint256) -> uint256:
    return at << 112 | committer_left << 80 | asker_left << 48 | used << 16 | flags


@internal
@view
def _asked(clocks: uint256, deadline: uint256, added_s: uint256) -> uint256:
    """
    @notice An ask below a node with these clocks, which takes from the askers' seconds those that passed after the deadline.
    @param deadline Of the claim; 0 while it is unknown, because the turn is open.
    @param added_s Seconds that a heavy ask gives to the committer.
    """
    asker_left: uint256 = clocks >> 48 & U32
    since: uint256 = max(self._at(clocks), deadline)
    if deadline > 0 and block.timestamp > since:
        assert block.timestamp - since <= asker_left, "openings: askers out of time"
        asker_left -= block.timestamp - since
    return self._pack(
        block.timestamp, (clocks >> 80 & U32) + added_s, asker_left, self._used(clocks), clocks & 255
    )


@internal
@view
def _answered(clocks: uint256) -> uint256:
    """
    @notice An answer, which takes its seconds from the committer's, whoever gives it.
    """
    used: uint256 = block.timestamp - self._at(clocks)
    left: uint256 = clocks >> 80 & U32
    # INVARIANT clocks: an ask can be answered up to its last second, and expires from the next one on, never both.
    assert used <= left, "openings: out of time"
    return self._pack(block.timestamp, left - used, clocks >> 48 & U32, self._used(clocks) + used, clocks & 255)


@internal
@view
def _is_expired(clocks: uint256) -> bool:
    return block.timestamp > self._at(clocks) + (clocks >> 80 & U32)


@internal
@pure
def _latest(clocks: uint256) -> uint256:
    """
    @notice Up to when something can be asked below an answered node, whatever the deadline is; at least so long after it.
    """
    return self._at(clocks) + (clocks >> 48 & U32)
