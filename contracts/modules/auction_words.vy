# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of Auction
@license Apache-2.0
@notice What is kept of a lot (four words), of a bid and of a losing run (one word each).
"""


from . import bits


# A lot is four words: what stands behind a unit (token and lock), what the clock says,
struct Clock:
    phase: uint256
    attempt: uint256
    units: uint256
    bid_end: uint256
    reveal_end: uint256
    reserve: uint256
    cancelled_at: uint256


# what was revealed and sold,
struct Tally:
    max_reserve: uint256
    rounds: uint256
    revealed: uint256
    units_capped: uint256
    units_uncapped: uint256
    sold: uint256
    winners: uint256
    priced: uint256


# and how far the clearing came; `sweep` counts its starts, from 1.
struct Progress:
    cleared: uint256
    cursor: uint256
    losing_units: uint256
    sweep: uint256


# A bid is one word: with `seal` until revealed, with the others after.
struct Entry:
    attempt: uint256
    capacity: uint256
    standby: bool
    revealed: bool
    seal: uint256
    price: uint256
    discount_bps: uint256
    won: uint256
    first_slot: uint256
    taken: uint256
    priced: bool
    sweep: uint256


@internal
@pure
def _pack_clock(clock: Clock) -> uint256:
    # Each conversion to a narrower type reverts when the value does not fit.
    return (
        clock.phase << 248
        | convert(convert(clock.attempt, uint32), uint256) << 216
        | convert(convert(clock.units, uint16), uint256) << 200
        | convert(convert(clock.bid_end, uint40), uint256) << 160
        | convert(convert(clock.reveal_end, uint40), uint256) << 120
        | convert(convert(clock.reserve, uint80), uint256) << 40
        | convert(convert(clock.cancelled_at, uint40), uint256)
    )


@internal
@pure
def _unpack_clock(word: uint256) -> Clock:
    return Clock(
        phase=word >> 248,
        attempt=word >> 216 & bits.U32,
        units=word >> 200 & bits.U16,
        bid_end=word >> 160 & bits.U40,
        reveal_end=word >> 120 & bits.U40,
        reserve=word >> 40 & bits.U80,
        cancelled_at=word & bits.U40,
    )


@internal
@pure
def _pack_tally(tally: Tally) -> uint256:
    return (
        convert(convert(tally.max_reserve, uint80), uint256) << 152
        | convert(convert(tally.rounds, uint16), uint256) << 136
        | convert(convert(tally.revealed, uint24), uint256) << 112
        | convert(convert(tally.units_capped, uint32), uint256) << 80
        | convert(convert(tally.units_uncapped, uint32), uint256) << 48
        | convert(convert(tally.sold, uint16), uint256) << 32
        | convert(convert(tally.winners, uint16), uint256) << 16
        | convert(convert(tally.priced, uint16), uint256)
    )


@internal
@pure
def _unpack_tally(word: uint256) -> Tally:
    return Tally(
        max_reserve=word >> 152,
        rounds=word >> 136 & bits.U16,
        revealed=word >> 112 & bits.U24,
        units_capped=word >> 80 & bits.U32,
        units_uncapped=word >> 48 & bits.U32,
        sold=word >> 32 & bits.U16,
        winners=word >> 16 & bits.U16,
        priced=word & bits.U16,
    )


@internal
@pure
def _pack_progress(progress: Progress) -> uint256:
    return (
        convert(convert(progress.cleared, uint24), uint256) << 208
        | convert(convert(progress.cursor, uint160), uint256) << 48
        | convert(convert(progress.losing_units, uint16), uint256) << 32
        | convert(convert(progress.sweep, uint32), uint256)
    )


@internal
@pure
def _unpack_progress(word: uint256) -> Progress:
    return Progress(
        cleared=word >> 208,
        cursor=word >> 48 & bits.U160,
        losing_units=word >> 32 & bits.U16,
        sweep=word & bits.U32,
    )


@internal
@pure
def _pack_security(token: address, lock: uint256) -> uint256:
    return convert(token, uint256) << 96 | convert(convert(lock, uint96), uint256)


@internal
@pure
def _unpack_security(word: uint256) -> (address, uint256):
    return convert(word >> 96, address), word & bits.U96


@internal
@pure
def _pack_run(score: uint256, operator: uint256, units: uint256) -> uint256:
    # A score is below 2^80 * 10,000 < 2^94; units are at most 256; operators are counted one by one.
    return score << 80 | operator << 16 | units


@internal
@pure
def _unpack_run(word: uint256) -> (uint256, uint256, uint256):
    return word >> 80, word >> 16 & bits.U64, word & bits.U16


@internal
@pure
def _pack_entry(entry: Entry) -> uint256:
    # Attempt and capacity come from a clock, the price is at most the reserve, the discount at most 1,000, won and taken
    # at most the capacity, first_slot below units, and sweep from a progress word: each fits its width. A sealed entry
    # has zeros in every field of a revealed one, and the other way round.
    return (
        entry.attempt << 224
        | entry.capacity << 208
        | convert(entry.standby, uint256) << 207
        | convert(entry.revealed, uint256) << 206
        | entry.seal
        | entry.price << 97
        | entry.discount_bps << 81
        | entry.won << 65
        | entry.first_slot << 49
        | entry.taken << 33
        | convert(entry.priced, uint256) << 32
        | entry.sweep
    )


@internal
@pure
def _unpack_entry(word: uint256) -> Entry:
    entry: Entry = empty(Entry)
    entry.attempt = word >> 224
    entry.capacity = word >> 208 & bits.U16
    entry.standby = convert(word >> 207 & 1, bool)
    entry.revealed = convert(word >> 206 & 1, bool)
    if entry.revealed:
        entry.price = word >> 97 & bits.U80
        entry.discount_bps = word >> 81 & bits.U16
        entry.won = word >> 65 & bits.U16
        entry.first_slot = word >> 49 & bits.U16
        entry.taken = word >> 33 & bits.U16
        entry.priced = convert(word >> 32 & 1, bool)
        entry.sweep = word & bits.U32
    else:
        entry.seal = word & bits.U160
    return entry
