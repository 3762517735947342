# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Seats of a job in Settlement
@license Apache-2.0
@notice How operators get a seat, confirm it, give it up or lose it, and get their lock back.
"""


from ..interfaces import ILocks
from . import bits
from . import numbers
from . import settlement_shares as shares
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: shares
uses: turns


event SeatTaken:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    first: uint256
    count: uint256
    price: uint256


event SeatReady:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    estimate_s: uint256


event SeatSplit:
    job: indexed(uint256)
    seat: uint256
    kept: uint256
    new_seat: uint256
    first: uint256
    count: uint256


event SeatVacated:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    turn: uint256
    slashed: uint256


@external
def seat(
    job: uint256, kind: uint256, operator: uint256, first: uint256, count: uint256, price: uint256, locked: uint256
):
    """
    @notice Records a seat that the auction awarded.
    @param locked What of its bid's lock stays behind the seat.
    """
    state._check_sender(state.auction)
    number: uint256 = state.AGGREGATION + first
    if kind == numbers.SLOTS:
        # The auction sells at most 64 seats.
        number = self._next_seat(job)
    state._set_holding(
        job,
        number,
        words.Holding(operator=operator, first=first, count=count, price=price, left_turn=0, left_at=0),
    )
    log SeatTaken(job=job, operator=operator, seat=number, first=first, count=count, price=price)
    extcall ILocks(state.locks).award(job, operator, number, count, locked)


@external
def ready(job: uint256, seat: uint256, estimate_s: uint256):
    """
    @notice Confirms that the holder of a seat has the inputs and timed a step.
    @param estimate_s Seconds that the seat's slots take a round.
    """
    stage: words.Stage = state._awarded(job)
    operator: uint256 = state._holding(job, seat).operator
    state._check_hot(operator)
    turn: words.Turn = state._turn(job)
    self._check_unready(turn, seat)
    self._check_estimate(stage, estimate_s)
    timing: words.SeatTiming = state._timing(job, seat)
    timing.estimate_s = estimate_s
    state._set_timing(job, seat, timing)
    log SeatReady(job=job, operator=operator, seat=seat, estimate_s=estimate_s)
    self._settle_readiness(job, seat, stage)


@external
def decline(job: uint256, seat: uint256, count: uint256):
    """
    @notice Gives up the last `count` slots of a seat that is still missing, at the price of a timeout.
    """
    stage: words.Stage = state._taking(job)
    holding: words.Holding = state._holding(job, seat)
    state._check_hot(holding.operator)
    turns._check_missing(state._turn(job), seat)
    self._check_count(holding, count, 1)
    is_whole: uint256 = convert(count == holding.count, uint256)
    self._vacate(job, self._split(job, seat, holding, count), stage, is_whole)


@external
def expire(job: uint256, seat: uint256):
    """
    @notice Vacates a seat whose holder was silent in the ready window.
    """
    stage: words.Stage = state._awarded(job)
    turn: words.Turn = state._turn(job)
    if state._now() <= turn.opened_at + state.ready_window_s:
        state._refuse("settlement: ready window open")
    self._check_unready(turn, seat)
    self._vacate(job, seat, stage, 1)


@external
def time_out(job: uint256, seat: uint256):
    """
    @notice Vacates a seat whose holder did not commit in time, or whose checkpoint is overdue.
    """
    stage: words.Stage = state._running(job)
    if state._holding(job, seat).operator == 0:
        state._refuse("settlement: seat vacant")
    turn: words.Turn = state._turn(job)
    # INVARIANT timeouts: nobody is slashed who could not have acted: not in a turn that waits, not while the clocks are stopped.
    is_late: bool = turn.opened_at != 0 and turn.holds == 0
    if seat >= state.AGGREGATION:
        # `due` is after the inputs' close: an aggregator always has `aggregate_s` with complete inputs.
        is_late = (
            is_late
            and state._now() > state._aggregator(job).due
            and not shares._has_posted(job, seat)
            and turn.committed >= stage.quorum
            and turns._can_be_aggregated(job, stage.policy)
        )
    else:
        turns._check_missing(turn, seat)
        deadline: uint256 = turns._deadline(stage, turn, state.seat_timing[job][seat])
        # A standby that took over too late to commit is spared: a deadline after the inputs' close never counts.
        # INVARIANT timeouts: what custodians left out was committed in time. Once they hold the inputs nobody is late.
        is_late = (
            is_late
            and state._now() > deadline
            and deadline <= turns._inputs_close(stage, turn)
            and not turns._are_held(job, stage.policy)
        )
    if not is_late:
        state._refuse("settlement: deadline not passed")
    self._vacate(job, seat, stage, 1)


@external
@view
def check_free(job: uint256, operator: uint256, is_held: bool, left_turn: uint256) -> address:
    """
    @notice For `Locks.release`: reverts unless nothing of an operator can be convicted any more.
    @param is_held Whether it holds a seat.
    @param left_turn Otherwise the first turn in which it has surely no claim.
    @return What its locks are in.
    """
    stage: words.Stage = state._stage(job)
    newest: uint256 = state._newest(job)
    before: uint256 = left_turn
    if is_held:
        if stage.state != numbers.ENDED:
            state._refuse("settlement: seat still occupied")
        before = newest
    is_settled: bool = before <= newest and state.records[job][operator] < words.ONE_PARKED
    if state._aggregator(job).pending != 0:
        for ago: uint256 in range(1, stage.depth + 1, bound=numbers.MAX_DEPTH):
            if ago > before:
                break
            is_settled = is_settled and state._pending(job, before - ago) == 0
    if not is_settled:
        state._refuse("settlement: claims not final")
    return state._token(job)


@internal
def _next_seat(job: uint256) -> uint256:
    """
    @return The number of one more.
    """
    number: uint256 = state._seats(job)
    state.aggregator_state[job] += 1
    return number


@internal
@pure
def _check_unready(turn: words.Turn, seat: uint256):
    if turn.missing >> seat & 1 == 0:
        state._refuse("settlement: nothing to ready")


@internal
@pure
def _check_count(holding: words.Holding, count: uint256, least: uint256):
    if count < least or count > holding.count:
        state._refuse("settlement: count out of range")


@internal
@pure
def _check_estimate(stage: words.Stage, estimate_s: uint256):
    if estimate_s == 0 or estimate_s > stage.slot_s:
        state._refuse("settlement: estimate out of range")


@internal
def _settle_readiness(job: uint256, seat: uint256, stage: words.Stage):
    """
    @dev The seat is no longer missing; when none is, the first turn opens.
    """
    turn: words.Turn = state._turn(job)
    turn.missing = turn.missing & ~(1 << seat)
    is_first: bool = turn.missing == 0
    if is_first:
        turn.opened_at = 0
        turn.missing = bits._full(state._seats(job))
        state._advance(job, numbers.RUNNING)
    state._set_turn(job, turn)
    if is_first:
        if state._has_custodians(stage.policy):
            # Custody starts it.
            aggregator: words.AggregatorState = state._aggregator(job)
            aggregator.due = state._now() + state.ready_window_s
            state._set_aggregator(job, aggregator)
        else:
            turns._go_on(job)


@internal
def _split(job: uint256, seat: uint256, whole: words.Holding, count: uint256) -> uint256:
    """
    @dev Makes the last `count` slots of a seat a seat of their own, unless they are all of it.
    @return The number of the seat that has them.
    """
    if count == whole.count:
        return seat
    number: uint256 = self._next_seat(job)
    if number >= state.MAX_SEATS:
        state._refuse("settlement: too many seats")
    state.seat_timing[job][number] = state.seat_timing[job][seat]
    part: words.Holding = whole
    part.count = whole.count - count
    state._set_holding(job, seat, part)
    part.first += part.count
    part.count = count
    state._set_holding(job, number, part)
    turn: words.Turn = state._turn(job)
    turn.missing |= (turn.missing >> seat & 1) << number
    state._set_turn(job, turn)
    log SeatSplit(
        job=job, seat=seat, kept=whole.count - count, new_seat=number, first=part.first, count=count
    )
    return number


@internal
def _vacate(job: uint256, seat: uint256, stage: words.Stage, seats: uint256):
    """
    @dev Slashes a tenth of the seat's lock; the rest stays until `release`, since it secures earlier claims.
    """
    holding: words.Holding = state._holding(job, seat)
    turn: words.Turn = state._turn(job)
    price: uint256 = holding.price
    # INVARIANT short: whoever lacks custodians' signatures for its checkpoint is replaced, and not slashed.
    if seat >= state.AGGREGATION and state._aggregator(job).said & words.SHORT != 0:
        price = 0
    slashed: uint256 = extcall ILocks(state.locks).vacate(
        job,
        holding.operator,
        seat,
        holding.count,
        price,
        seats,
        turns._next_turn(stage, turn),
        state._token(job),
    )
    self._leave(job, seat, holding, turn.turn, slashed)
    if seat >= state.AGGREGATION:
        turns._extend(job, stage)
    elif stage.state == numbers.AWARDED:
        self._settle_readiness(job, seat, stage)


@internal
def _leave(job: uint256, seat: uint256, holding: words.Holding, turn: uint256, slashed: uint256):
    """
    @dev The seat is vacant from now on, and dearer the longer it is.
    """
    log SeatVacated(job=job, operator=holding.operator, seat=seat, turn=turn, slashed=slashed)
    left: words.Holding = holding
    left.operator = 0
    left.left_turn = turn
    left.left_at = state._now()
    state._set_holding(job, seat, left)
