# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Standbys take over vacant seats in Settlement
@license Apache-2.0
"""


from ..interfaces import IAuction
from ..interfaces import INodeRegistry
from . import numbers
from . import settlement_seats as seats
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: turns
uses: seats


# Of the slots of a job: a standby takes at least such a part of them too, or all of a seat.
MAX_WINNERS: constant(uint256) = 64


event SeatTakenOver:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    turn: uint256
    price: uint256
    pot_price: uint256
    burned: uint256


@external
def take_over(job: uint256, seat: uint256, operator: uint256, count: uint256, estimate_s: uint256):
    """
    @notice A standby takes the last `count` slots of a vacant seat at its own bid, or at what escrow paid before and the
            seat's part of the pot adds, where that is less.
    """
    stage: words.Stage = state._taking(job)
    state._check_hot(operator)
    vacant: words.Holding = state._holding(job, seat)
    if vacant.operator != 0 or vacant.count == 0:
        state._refuse("settlement: seat not vacant")
    # INVARIANT seats: they cannot be used up without a slash. A lot has the same floor for bids.
    seats._check_count(vacant, count, min(vacant.count, (stage.slots + MAX_WINNERS - 1) // MAX_WINNERS))
    seats._check_estimate(stage, estimate_s)
    turn: words.Turn = state._turn(job)
    stake: words.JobStake = state._stake(job, operator)
    # INVARIANT claims: no claim is made twice, so what was convicted is not pending again.
    if stake.void_before > turn.turn:
        state._refuse("settlement: convicted this turn")
    # A claim of the open turn covers all slots of its seat.
    if count < vacant.count and stage.state == numbers.RUNNING:
        turns._check_missing(turn, seat)
    taken: uint256 = seats._split(job, seat, vacant, count)
    lock: uint256 = state._lock_of(job, seat, count)
    kind: uint256 = numbers.SLOTS
    if seat == state.AGGREGATION:
        kind = numbers.AGGREGATOR
        turns._extend(job, stage)
    offer: uint256 = extcall IAuction(state.auction).take(job, kind, operator, count)

    timing: words.SeatTiming = state._timing(job, taken)
    slot_rounds: uint256 = count * (stage.rounds - turn.round)
    # INVARIANT prices: what escrow pays for a seat never rises.
    price: uint256 = min(offer, vacant.price)
    pot_price: uint256 = min(timing.pot // slot_rounds, offer - price)
    burned: uint256 = timing.pot - pot_price * slot_rounds
    timing.pot -= burned
    timing.estimate_s = estimate_s
    timing.since = turns._since(turn)
    state._set_timing(job, taken, timing)
    holding: words.Holding = state._holding(job, taken)
    holding.operator = operator
    holding.price = price
    holding.pot_price = pot_price
    state._set_holding(job, taken, holding)
    is_new: bool = stake.lots == 0
    seats._add_seat(job, operator, seat, count, lock, words.ONE_LOT if is_new else 0)
    log SeatTakenOver(
        job=job,
        operator=operator,
        seat=taken,
        turn=turn.turn,
        price=price,
        pot_price=pot_price,
        burned=burned,
    )
    extcall INodeRegistry(state.registry).lock(operator, state._token(job), lock, is_new)
    state._burn(job, burned)
