# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of Settlement
@license Apache-2.0
@notice What is kept of a run (three words, and bitmaps) and of a seat (one word, and bitmaps).
"""


from . import bits


# The first word of a run.
struct Stage:
    state: uint256
    round: uint256
    rounds: uint256
    slots: uint256
    quorum: uint256
    opened_at: uint256
    outstanding: uint256
    window_s: uint256
    slot_s: uint256
    aggregate_s: uint256


# The third word of a run.
struct Chair:
    lock: uint256
    aggregator: uint256
    due: uint256


# The first word of a seat.
struct Terms:
    price: uint256
    locked: uint256
    estimate_s: uint256
    since: uint256


@internal
@pure
def _pack_stage(stage: Stage) -> uint256:
    # TaskRegistry bounds rounds, slots, quorum and seconds below their widths; the rest is converted, which reverts when
    # a value does not fit.
    return (
        stage.state << 248
        | stage.round << 232
        | stage.rounds << 216
        | stage.slots << 200
        | stage.quorum << 184
        | convert(convert(stage.opened_at, uint40), uint256) << 144
        | convert(convert(stage.outstanding, uint32), uint256) << 112
        | convert(convert(stage.window_s, uint32), uint256) << 80
        | stage.slot_s << 56
        | stage.aggregate_s << 32
    )


@internal
@pure
def _unpack_stage(word: uint256) -> Stage:
    return Stage(
        state=word >> 248,
        round=word >> 232 & bits.U16,
        rounds=word >> 216 & bits.U16,
        slots=word >> 200 & bits.U16,
        quorum=word >> 184 & bits.U16,
        opened_at=word >> 144 & bits.U40,
        outstanding=word >> 112 & bits.U32,
        window_s=word >> 80 & bits.U32,
        slot_s=word >> 56 & bits.U24,
        aggregate_s=word >> 32 & bits.U24,
    )


@internal
@pure
def _pack_order(token: address, flops: uint256) -> uint256:
    return convert(token, uint256) << 96 | convert(convert(flops, uint96), uint256)


@internal
@pure
def _unpack_order(word: uint256) -> (address, uint256):
    return convert(word >> 96, address), word & bits.U96


@internal
@pure
def _pack_chair(chair: Chair) -> uint256:
    return (
        convert(convert(chair.lock, uint96), uint256) << 104
        | convert(convert(chair.aggregator, uint64), uint256) << 40
        | convert(convert(chair.due, uint40), uint256)
    )


@internal
@pure
def _unpack_chair(word: uint256) -> Chair:
    return Chair(lock=word >> 104, aggregator=word >> 40 & bits.U64, due=word & bits.U40)


@internal
@pure
def _pack_terms(terms: Terms) -> uint256:
    return (
        convert(convert(terms.price, uint80), uint256) << 160
        | convert(convert(terms.locked, uint96), uint256) << 64
        | convert(convert(terms.estimate_s, uint24), uint256) << 40
        | convert(convert(terms.since, uint40), uint256)
    )


@internal
@pure
def _unpack_terms(word: uint256) -> Terms:
    return Terms(
        price=word >> 160,
        locked=word >> 64 & bits.U96,
        estimate_s=word >> 40 & bits.U24,
        since=word & bits.U40,
    )


@internal
@pure
def _pack_pair(first: uint256, second: uint256) -> uint256:
    return convert(convert(first, uint128), uint256) << 128 | convert(convert(second, uint128), uint256)


@internal
@pure
def _unpack_pair(word: uint256) -> (uint256, uint256):
    return word >> 128, word & bits.U128
