# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of Settlement
@license Apache-2.0
@notice What Settlement stores of a job (stage, turn, aggregator, closed turns), of a seat (two words), and of what became of an
        operator's claims in a job.
@dev Widths: TaskRegistry bounds rounds, slots, quorum, depth, seconds, flops and prices; there are at most 128 seats; seconds
     since 1970 fit 40 bits, operators' numbers 56; holds move a turn by less than twice `answer_s` a seat, which fits 24 bits. What an outside caller or the
     length of a job moves is converted, which reverts when it does not fit.
"""


from . import bits


# The record of a closed turn: when it closed (40) | the seats whose claims are pending (144), the aggregators' among them.
PENDING_AT: constant(uint256) = 40
# In the stage: how many aggregators there are (24), whether each of the last `depth` closed turns was rolled back (64), the state (8).
AGGREGATORS_AT: constant(uint256) = 80
ROLLED_BACK_AT: constant(uint256) = 104
STATE_AT: constant(uint256) = 248
# In an operator's record: the first turn after its last conviction (24) | its parked claims that are pending (40).
ONE_PARKED: constant(uint256) = 1 << 24
# In the aggregator's state, how many closed turns have pending claims (24).
PENDING_TURNS_AT: constant(uint256) = 48
ONE_PENDING_TURN: constant(uint256) = 1 << PENDING_TURNS_AT
# There too, what custodians said of the open turn: a majority holds inputs, and nobody commits any more; too few sign for a
# checkpoint; too few signed for one before, and the aggregator had its time anew or was replaced.
SAID_AT: constant(uint256) = 72
SIGNED: constant(uint256) = 1
SHORT: constant(uint256) = 2
SPARED: constant(uint256) = 4
# And above, which aggregators posted (16).
POSTED_AT: constant(uint256) = 80
POSTED: constant(uint256) = bits.U16 << POSTED_AT - SAID_AT
# In a holding.
OPERATOR_AT: constant(uint256) = 192
# In the turn.
ONE_HOLD: constant(uint256) = 1 << 248


# What the terms of a job fix, and its state.
struct Stage:
    state: uint256
    rounds: uint256
    slots: uint256
    quorum: uint256
    aggregators: uint256
    depth: uint256
    policy: uint256
    window_s: uint256
    slot_s: uint256
    aggregate_s: uint256


# The one word of a job that a commitment writes. `opened_at` is 0 while the turn waits for earlier claims; `held_s` is for how
# long holds that are over moved it.
struct Turn:
    round: uint256
    turn: uint256
    opened_at: uint256
    committed: uint256
    missing: uint256
    holds: uint256
    held_s: uint256


# What changes with each turn beside its own word: when the checkpoint is due, how many seats there are, how many closed turns have
# pending claims; and of the open turn what custodians said (SIGNED, SHORT, SPARED), and which aggregators posted (POSTED).
struct AggregatorState:
    due: uint256
    seats: uint256
    pending: uint256
    said: uint256


# The first word of a seat: all that a commitment reads of it.
struct Holding:
    operator: uint256
    first: uint256
    count: uint256
    price: uint256
    # Of a vacant seat: the turn, and the second, in which it fell vacant.
    left_turn: uint256
    left_at: uint256


# The second word of a seat.
struct SeatTiming:
    estimate_s: uint256
    since: uint256


@internal
@pure
def _pack_stage(stage: Stage) -> uint256:
    return (
        stage.state << STATE_AT
        | stage.rounds << 232
        | stage.slots << 216
        | stage.quorum << 200
        | stage.depth << 192
        | stage.policy << 184
        | stage.aggregators << AGGREGATORS_AT
        | stage.window_s << 48
        | stage.slot_s << 24
        | stage.aggregate_s
    )


@internal
@pure
def _unpack_stage(word: uint256) -> Stage:
    return Stage(
        state=word >> STATE_AT,
        rounds=word >> 232 & bits.U16,
        slots=word >> 216 & bits.U16,
        quorum=word >> 200 & bits.U16,
        aggregators=word >> AGGREGATORS_AT & bits.U24,
        depth=word >> 192 & bits.U8,
        policy=word >> 184 & bits.U8,
        window_s=word >> 48 & bits.U32,
        slot_s=word >> 24 & bits.U24,
        aggregate_s=word & bits.U24,
    )


@internal
@pure
def _pack_payment_terms(token: address, flops: uint256) -> uint256:
    return convert(token, uint256) << 96 | flops


@internal
@pure
def _pack_turn(turn: Turn) -> uint256:
    return (
        turn.holds << 248
        | turn.held_s << 224
        | turn.round << 208
        | convert(convert(turn.turn, uint24), uint256) << 184
        | turn.opened_at << 144
        | turn.committed << 128
        | turn.missing
    )


@internal
@pure
def _unpack_turn(word: uint256) -> Turn:
    return Turn(
        round=word >> 208 & bits.U16,
        turn=word >> 184 & bits.U24,
        opened_at=word >> 144 & bits.U40,
        committed=word >> 128 & bits.U16,
        missing=word & bits.U128,
        holds=word >> 248,
        held_s=word >> 224 & bits.U24,
    )


@internal
@pure
def _pack_aggregator(aggregator: AggregatorState) -> uint256:
    return (
        aggregator.said << SAID_AT
        | aggregator.pending << PENDING_TURNS_AT
        | convert(convert(aggregator.due, uint40), uint256) << 8
        | aggregator.seats
    )


@internal
@pure
def _unpack_aggregator(word: uint256) -> AggregatorState:
    return AggregatorState(
        due=word >> 8 & bits.U40,
        seats=word & bits.U8,
        pending=word >> PENDING_TURNS_AT & bits.U24,
        said=word >> SAID_AT,
    )


@internal
@pure
def _pack_holding(holding: Holding) -> uint256:
    return (
        holding.operator << OPERATOR_AT
        | holding.first << 176
        | holding.count << 160
        | holding.price << 80
        | holding.left_turn << 40
        | holding.left_at
    )


@internal
@pure
def _unpack_holding(word: uint256) -> Holding:
    return Holding(
        operator=word >> OPERATOR_AT,
        first=word >> 176 & bits.U16,
        count=word >> 160 & bits.U16,
        price=word >> 80 & bits.U80,
        left_turn=word >> 40 & bits.U24,
        left_at=word & bits.U40,
    )


@internal
@pure
def _pack_timing(timing: SeatTiming) -> uint256:
    return timing.estimate_s << 40 | timing.since


@internal
@pure
def _unpack_timing(word: uint256) -> SeatTiming:
    return SeatTiming(estimate_s=word >> 40, since=word & bits.U40)
