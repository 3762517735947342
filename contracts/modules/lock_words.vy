# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage word of Locks
@license Apache-2.0
@notice What an operator has at stake in a job as a worker, or as an aggregator; and what is set aside for a seat that somebody left.
@dev Widths: Auction refuses restitution from 2^96 on, and so it does a unit's lock, of which a lot has at most 2^14; seats
     are at most 128. What takeovers add is converted, which reverts when it does not fit.
"""


from . import bits


U15: constant(uint256) = 2**15 - 1


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
    # Whether it took a seat over at a higher price than before: then all of a tenth is lost when it leaves one.
    is_dearer: bool


# amount (112) | operator (40) | count (16)
struct SetAside:
    # Who left the seat.
    operator: uint256
    # The slots of the seat that nobody took over yet.
    count: uint256
    # Of a tenth of their lock: at most that is needed.
    amount: uint256


@internal
@pure
def _pack(stake: Stake) -> uint256:
    return (
        convert(convert(stake.locked, uint112), uint256) << 144
        | stake.drawn << 48
        | stake.left_turn << 24
        | convert(stake.is_dearer, uint256) << 23
        # At most 2^14.
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
        slots=word >> 8 & U15,
        held=word & bits.U8,
        is_dearer=word >> 23 & 1 != 0,
    )


@internal
@pure
def _pack_set_aside(set_aside: SetAside) -> uint256:
    # An amount is a part of what was locked, below 2^112. Operators are below 2^40, and the slots of a job at most 2^14.
    return set_aside.amount << 56 | set_aside.operator << 16 | set_aside.count


@internal
@pure
def _unpack_set_aside(word: uint256) -> SetAside:
    return SetAside(operator=word >> 16 & bits.U40, count=word & bits.U16, amount=word >> 56)
