# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The protocol's time in NodeRegistry
@license Apache-2.0
@notice Block time less the gaps without any beat: the chain stood still, and no clock that slashes counts them.
"""


from . import bits
from . import registry_state as state


uses: state


# Epochs of one gap that nobody is judged for, at most: bounds the gas of the beat that ends it.
MAX_STOPPED: constant(uint256) = 64


# Seconds without any beat after which the protocol's time stops.
outage_s: public(immutable(uint256))


# seconds for which the protocol's time stood still (40) | block time of the last beat (40)
clock: uint256
# epoch -> whether the protocol's time stood still in it: then nobody missed a period by its own fault
is_stopped: public(HashMap[uint256, bool])


event TimeStopped:
    # Seconds that no clock counted, of the gap that this beat ended.
    seconds: uint256
    # The sum over all gaps: block time less the protocol's.
    stopped_s: uint256


@deploy
def __init__(outage_s_: uint256):
    outage_s = outage_s_
    self.clock = block.timestamp


@external
def beat():
    """
    @notice A beat: the chain takes transactions. Anybody may, at any time.
    """
    self._beat()


@external
@view
def time() -> uint256:
    """
    @notice The protocol's time: seconds in which the chain ran. Of a gap without any beat it counts `outage_s` at most.
    """
    return self._time()


@external
@view
def last_beat() -> uint256:
    """
    @notice Block time of the last beat.
    """
    return self.clock & bits.U40


@external
@view
def stopped_s() -> uint256:
    """
    @notice Seconds for which the protocol's time stood still, up to the last beat.
    """
    return self.clock >> 40


@internal
@view
def _time() -> uint256:
    clock: uint256 = self.clock
    # INVARIANT time: it never runs backwards, and no faster than block time. A beat does not change it: the running gap becomes a
    # recorded one. tests/differential/test_halts.py
    return block.timestamp - (clock >> 40) - self._uncounted(clock)


@internal
@view
def _uncounted(clock: uint256) -> uint256:
    """
    @return Seconds by which the running gap is longer than `outage_s`.
    """
    counted_until: uint256 = (clock & bits.U40) + outage_s
    return block.timestamp - counted_until if block.timestamp > counted_until else 0


@internal
def _beat():
    clock: uint256 = self.clock
    uncounted: uint256 = self._uncounted(clock)
    stopped_s: uint256 = (clock >> 40) + uncounted
    self.clock = stopped_s << 40 | block.timestamp
    if uncounted == 0:
        return
    since: uint256 = (clock & bits.U40) // state.epoch_s
    end: uint256 = block.timestamp // state.epoch_s + 1
    # INVARIANT beats: a beat is never refused: of a gap that is longer, the first epochs are marked.
    for epoch: uint256 in range(since, min(end, since + MAX_STOPPED), bound=MAX_STOPPED):
        self.is_stopped[epoch] = True
    log TimeStopped(seconds=uncounted, stopped_s=stopped_s)
