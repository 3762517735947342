# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of Auction
@license Apache-2.0
@notice What is kept of a lot (four words, one for each attempt that is over, and one of a job that asks for something), of a bid and of a losing run (one word each).
@dev A bid's word names its job, since a place of the ring serves one job in 256 after another.
"""


from . import bits


# Masks of a bid's fields.
U10: constant(uint256) = 2**10 - 1
U15: constant(uint256) = 2**15 - 1
U30: constant(uint256) = 2**30 - 1

# In a clock's word: whether the job asks anything of its operators.
ASKS_AT: constant(uint256) = 152

# A spent place of the ring: of no job, and not zero, so that the next bid there writes no fresh storage.
SPENT: constant(uint256) = 1


# A lot is four words: what secures a bid (token, and what it locks besides its units), what the clock says,
struct Clock:
    phase: uint256
    attempt: uint256
    units: uint256
    bid_end: uint256
    # The job's; with the reserve it makes the lock of a unit.
    audit_bps: uint256
    # Whether it asks anything of its operators: a word of its own says what.
    asks: bool
    reserve: uint256
    cancelled_at: uint256


# what was revealed and sold,
struct Tally:
    max_reserve: uint256
    revealed: uint256
    units_capped: uint256
    units_uncapped: uint256
    # By what the bid with the second largest capacity exceeds a third of the lot, while the bids capped there do not fill it.
    second_excess: uint256
    sold: uint256
    winners: uint256
    priced: uint256


# and how far the clearing came; `sweep` counts its starts, from 1.
struct Progress:
    cleared: uint256
    cursor: uint256
    losing_units: uint256
    runs: uint256
    sweep: uint256


# A bid is one word: with `seal` until revealed, with the others after.
struct Entry:
    job: uint256
    attempt: uint256
    capacity: uint256
    revealed: bool
    seal: uint256
    price: uint256
    discount_bps: uint256
    won: uint256
    first_slot: uint256
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
        | convert(clock.asks, uint256) << ASKS_AT
        | convert(convert(clock.audit_bps, uint32), uint256) << 120
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
        audit_bps=word >> 120 & bits.U32,
        asks=word >> ASKS_AT & 1 != 0,
        reserve=word >> 40 & bits.U80,
        cancelled_at=word & bits.U40,
    )


@internal
@pure
def _pack_tally(tally: Tally) -> uint256:
    return (
        convert(convert(tally.second_excess, uint16), uint256) << 216
        | convert(convert(tally.max_reserve, uint80), uint256) << 136
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
        max_reserve=word >> 136 & bits.U80,
        revealed=word >> 112 & bits.U24,
        units_capped=word >> 80 & bits.U32,
        units_uncapped=word >> 48 & bits.U32,
        second_excess=word >> 216,
        sold=word >> 32 & bits.U16,
        winners=word >> 16 & bits.U16,
        priced=word & bits.U16,
    )


@internal
@pure
def _pack_progress(progress: Progress) -> uint256:
    return (
        convert(convert(progress.cleared, uint24), uint256) << 216
        | convert(convert(progress.cursor, uint160), uint256) << 56
        | convert(convert(progress.losing_units, uint16), uint256) << 40
        | convert(convert(progress.runs, uint8), uint256) << 32
        | convert(convert(progress.sweep, uint32), uint256)
    )


@internal
@pure
def _unpack_progress(word: uint256) -> Progress:
    return Progress(
        cleared=word >> 216,
        cursor=word >> 56 & bits.U160,
        losing_units=word >> 40 & bits.U16,
        runs=word >> 32 & bits.U8,
        sweep=word & bits.U32,
    )


@internal
@pure
def _pack_security(token: address, once: uint256) -> uint256:
    return convert(token, uint256) << 96 | convert(convert(once, uint96), uint256)


@internal
@pure
def _unpack_security(word: uint256) -> (address, uint256):
    return convert(word >> 96, address), word & bits.U96


@internal
@pure
def _pack_run(score: uint256, operator: uint256, units: uint256) -> uint256:
    # A score is below 2^80 * 10,000 < 2^94; units are at most 16,384; operators are counted one by one.
    return score << 80 | operator << 16 | units


@internal
@pure
def _unpack_run(word: uint256) -> (uint256, uint256, uint256):
    return word >> 80, word >> 16 & bits.U64, word & bits.U16


@internal
@pure
def _job(entry: uint256) -> uint256:
    return entry >> 216


@internal
@pure
def _pack_entry(entry: Entry) -> uint256:
    """
    @notice The word of a revealed bid.
    """
    # The price is at most the reserve, the discount at most 1,000, won at most the capacity, and first_slot
    # below units, at most 16,384: 15 bits hold each. A clearing starts again at the cost of a transaction each time: 30
    # bits hold more starts than a chain has room for.
    return (
        entry.job << 216
        | entry.attempt << 184
        | entry.capacity << 168
        | 1 << 167
        | convert(entry.priced, uint256) << 166
        | entry.price << 70
        | entry.discount_bps << 60
        | entry.won << 45
        | entry.first_slot << 30
        | entry.sweep
    )


@internal
@pure
def _unpack_entry(word: uint256) -> Entry:
    entry: Entry = empty(Entry)
    entry.job = word >> 216
    entry.attempt = word >> 184 & bits.U32
    entry.capacity = word >> 168 & bits.U16
    entry.revealed = word >> 167 & 1 != 0
    if entry.revealed:
        entry.priced = word >> 166 & 1 != 0
        entry.price = word >> 70 & bits.U80
        entry.discount_bps = word >> 60 & U10
        entry.won = word >> 45 & U15
        entry.first_slot = word >> 30 & U15
        entry.sweep = word & U30
    else:
        entry.seal = word & bits.U160
    return entry
