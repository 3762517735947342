# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage word of Locks
@license Apache-2.0
@notice What an operator has at stake in a job as a worker, or as an aggregator.
@dev Widths: Auction refuses restitution from 2^96 on, and so it does a unit's lock, of which a lot has at most 2^14; seats
     are at most 128. What takeovers add is converted, which reverts when it does not fit.
"""


from . import bits


struct Stake:
    # Of its collateral, restitution included.
    locked: uint256
    # What convictions took of its restitution.
    drawn: uint256
    # The first turn in which it has surely no claim, once it holds nothing.
    left_turn: uint256
    # Slots of the seats it holds; the aggregator's has none.
    slots: uint256
    # Seats it holds.
    held: uint256


@internal
@pure
def _pack(stake: Stake) -> uint256:
    return (
        convert(convert(stake.locked, uint112), uint256) << 144
        | stake.drawn << 48
        | stake.left_turn << 24
        | stake.slots << 8
        | stake.held
    )


@internal
@pure
def _unpack(word: uint256) -> Stake:
    return Stake(
        locked=word >> 144,
        drawn=word >> 48 & bits.U96,
        left_turn=word >> 24 & bits.U24,
        slots=word >> 8 & bits.U16,
        held=word & bits.U8,
    )
