# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The clocks along a path of asks and answers
@license Apache-2.0
@notice The committer's side has so many seconds for all answers of a path, the askers' side so many after the claim's deadline.
@dev docs/design/clocks.md and zoo_compute/spec/clocks.py have the same rules. A word is `price << 152 | since << 112 |
     committer_left << 80 | asker_left << 48 | counted_left << 8 | exhausted`. Seconds stay below 2^32: heavy asks add at most
     MOST_COUNTED re-executions of at most a week to the committer's. The price, of the claim for a slot or the aggregation, is
     two of 80 bits at most; no clock follows from it: it lies here because there is room. `now` is the protocol's time.
"""


U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
PRICE_AT: constant(uint256) = 152
# Re-executions that heavy asks add along a path at most; open for each slot of an operator, above which it is exhausted.
MOST_COUNTED: constant(uint256) = 32


@internal
@pure
def _first(committer_s: uint256, asker_s: uint256, price: uint256) -> uint256:
    """
    @notice Of a path before its first ask.
    """
    return price << PRICE_AT | committer_s << 80 | asker_s << 48 | MOST_COUNTED << 8


@internal
@pure
def _since(clocks: uint256) -> uint256:
    return clocks >> 112 & U40


@internal
@pure
def _committer_left(clocks: uint256) -> uint256:
    return clocks >> 80 & U32


@internal
@pure
def _is_exhausted(clocks: uint256) -> bool:
    return clocks & 1 == 1


@internal
@pure
def _asked(
    clocks: uint256,
    now: uint256,
    deadline: uint256,
    is_heavy: bool,
    open_heavy: uint256,
    slots: uint256,
    reexecute_s: uint256,
) -> uint256:
    """
    @notice An ask below an answered node, which takes from the askers' seconds those that passed after the deadline. A heavy one
            adds the time in which one worker a slot serves all that are open.
    @param deadline Of the claim; 0 while it is unknown, because the turn is open.
    """
    asker_left: uint256 = clocks >> 48 & U32
    since: uint256 = max(self._since(clocks), deadline)
    if deadline > 0 and now > since:
        assert now - since <= asker_left, "referee: askers out of time"
        asker_left -= now - since
    counted_left: uint256 = clocks >> 8 & 255
    counted: uint256 = 0
    exhausted: uint256 = 0
    if is_heavy:
        counted = min(counted_left, (open_heavy + slots - 1) // slots)
        exhausted = convert(open_heavy > MOST_COUNTED * slots, uint256)
    committer_left: uint256 = self._committer_left(clocks) + counted * reexecute_s
    return (
        clocks >> PRICE_AT << PRICE_AT
        | now << 112
        | committer_left << 80
        | asker_left << 48
        | (counted_left - counted) << 8
        | exhausted
    )


@internal
@pure
def _answered(clocks: uint256, now: uint256) -> uint256:
    """
    @notice An answer, which takes its seconds from the committer's, whoever gives it.
    """
    used: uint256 = now - self._since(clocks)
    left: uint256 = self._committer_left(clocks)
    # INVARIANT clocks: an ask can be answered up to its last second, and expires from the next one on, never both.
    assert used <= left, "referee: out of time"
    kept: uint256 = clocks & ~((2**72 - 1) << 80 | 1)
    return kept | now << 112 | (left - used) << 80


@internal
@pure
def _is_exclusive(clocks: uint256, now: uint256, exclusive_s: uint256) -> bool:
    """
    @notice Whether the author's owner is paid for an answer yet, whoever gives it: nobody gains by copying the answer of one that
            is awake.
    """
    wait_s: uint256 = min(exclusive_s, self._committer_left(clocks) // 2)
    return now < self._since(clocks) + wait_s


@internal
@pure
def _is_expired(clocks: uint256, now: uint256) -> bool:
    return now > self._since(clocks) + self._committer_left(clocks)


@internal
@pure
def _latest(clocks: uint256) -> uint256:
    """
    @notice Up to when something can be asked below an answered node, or as long after the deadline, whichever is later.
    """
    return self._since(clocks) + (clocks >> 48 & U32)
