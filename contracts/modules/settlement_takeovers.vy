# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Operators take over vacant seats in Settlement
@license Apache-2.0
"""


from ..interfaces import IAuction
from ..interfaces import ILocks
from . import numbers
from . import settlement_seats as seats
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: turns
uses: seats


# Of the slots of a job: who takes over takes at least such a part of them too, or all of a seat.
MAX_WINNERS: constant(uint256) = 64
# A price of 1 reaches the highest there is in fewer steps.
MAX_STEPS: constant(uint256) = 600
# No turn ends without an aggregator: its seat rises so often within the time of an aggregation.
AGGREGATION_STEPS: constant(uint256) = 16


event SeatTakenOver:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    turn: uint256
    price: uint256


@external
def take_over(job: uint256, seat: uint256, operator: uint256, count: uint256, estimate_s: uint256):
    """
    @notice An operator takes the last `count` slots of a vacant seat, at the seat's price now: a tenth more for each turn in which it
            was vacant, up to the reserve of the auction that sold it. The aggregator's rises within a turn instead, unless one
            of this turn was spared.
    """
    stage: words.Stage = state._taking(job)
    is_aggregation: bool = seat >= state.AGGREGATION
    # INVARIANT escrow: no seat costs more than a lone bidder was paid, so nobody gains by giving one up and taking it back; and
    # no reserve is above the maximum, which escrow covers for every round to come. The auction refuses who could not bid.
    most: uint256 = staticcall IAuction(state.auction).takeover_reserve(
        job, convert(is_aggregation, uint256), operator, msg.sender
    )
    vacant: words.Holding = state._holding(job, seat)
    if vacant.operator != 0 or vacant.count == 0:
        state._refuse("settlement: seat not vacant")
    # INVARIANT seats: they cannot be used up without a slash. A lot has the same floor for bids.
    seats._check_count(vacant, count, min(vacant.count, (stage.slots + MAX_WINNERS - 1) // MAX_WINNERS))
    seats._check_estimate(stage, estimate_s)
    turn: words.Turn = state._turn(job)
    # INVARIANT claims: no claim is made twice, so what was convicted is not pending again.
    if state._void_before(job, operator) > turn.turn:
        state._refuse("settlement: convicted this turn")
    # A claim of the open turn covers all slots of its seat.
    if count < vacant.count and stage.state == numbers.RUNNING:
        turns._check_missing(turn, seat)
    taken: uint256 = seats._split(job, seat, vacant, count)
    steps: uint256 = turn.turn - vacant.left_turn
    if is_aggregation:
        steps = AGGREGATION_STEPS * (state._now() - vacant.left_at) // stage.aggregate_s
        # INVARIANT short: nobody is spared, and takes its seat back at a higher price.
        if state._aggregator(job).said & words.SPARED != 0:
            steps = 0
        turns._extend(job, stage)
    else:
        # It could not commit in time.
        turns._check_inputs(turn.opened_at != 0 and turns._are_held(job, stage.policy))
    price: uint256 = self._risen(vacant.price, steps, most)
    state._set_timing(job, taken, words.SeatTiming(estimate_s=estimate_s, since=turns._since(turn)))
    holding: words.Holding = state._holding(job, taken)
    holding.operator = operator
    holding.price = price
    holding.left_turn = 0
    holding.left_at = 0
    state._set_holding(job, taken, holding)
    log SeatTakenOver(job=job, operator=operator, seat=taken, turn=turn.turn, price=price)
    extcall ILocks(state.locks).take(
        job,
        operator,
        seat,
        count,
        price,
        (price - vacant.price) * count * (stage.rounds - turn.round),
        state._token(job),
    )


@internal
@pure
def _risen(price: uint256, steps: uint256, most: uint256) -> uint256:
    """
    @return The price after so many steps of a tenth, each rounded up.
    """
    risen: uint256 = price
    for step: uint256 in range(MAX_STEPS):
        if step == steps or risen >= most:
            break
        # Below 2^80.
        risen = unsafe_add(unsafe_mul(risen, 11), 9) // 10
    return min(risen, most)
