# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Seats of a job in Settlement
@license Apache-2.0
@notice How operators get a seat, confirm it, give it up or lose it, and get their lock back.
"""


from ..interfaces import INodeRegistry
from . import bits
from . import numbers
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
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


event LockReleased:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


@external
def seat(
    job: uint256, kind: uint256, operator: uint256, first: uint256, count: uint256, price: uint256, lock: uint256
):
    """
    @notice Records a seat that the auction awarded.
    @param lock The seat's whole lock.
    """
    state._check_auction()
    number: uint256 = state.AGGREGATION
    if kind == numbers.AGGREGATOR:
        # Awarded once.
        state.aggregator_state[job] += lock << words.AGGREGATOR_LOCK_AT
    else:
        # The auction sells at most 64 seats.
        number = self._next_seat(job)
    state._set_holding(
        job, number, words.Holding(operator=operator, first=first, count=count, price=price, pot_price=0)
    )
    self._add_seat(job, operator, number, count, lock, words.ONE_LOT)
    log SeatTaken(job=job, operator=operator, seat=number, first=first, count=count, price=price)


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
    self._vacate(job, self._split(job, seat, holding, count), stage)


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
    self._vacate(job, seat, stage)


@external
def time_out(job: uint256, seat: uint256):
    """
    @notice Vacates a seat whose holder did not commit in time, or whose checkpoint is overdue.
    """
    stage: words.Stage = state._running(job)
    if state.holdings[job][seat] >> 192 == 0:
        state._refuse("settlement: seat vacant")
    turn: words.Turn = state._turn(job)
    # INVARIANT timeouts: nobody is slashed who could not have acted: not in a turn that waits, not while the clocks are stopped.
    is_late: bool = turn.opened_at != 0 and turn.holds == 0
    if seat == state.AGGREGATION:
        # `due` is after the inputs' close: an aggregator always has `aggregate_s` with complete inputs.
        due: uint256 = state._aggregator(job).due
        is_late = is_late and state._now() > due and turn.committed >= stage.quorum
    else:
        turns._check_missing(turn, seat)
        deadline: uint256 = turns._deadline(stage, turn, state.seat_timing[job][seat])
        # A standby that took over too late to commit is spared: a deadline after the inputs' close never counts.
        is_late = is_late and state._now() > deadline and deadline <= turns._inputs_close(stage, turn)
    if not is_late:
        state._refuse("settlement: deadline not passed")
    self._vacate(job, seat, stage)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Unlocks what an operator has locked in a job, once nothing of it can be convicted any more.
    """
    stage: words.Stage = state._stage(job)
    stake: words.JobStake = state._stake(job, operator)
    if stake.lots == 0:
        state._refuse("settlement: nothing locked")
    newest: uint256 = state._newest(job)
    left_turn: uint256 = stake.left_turn
    if stake.held > 0:
        if stage.state != numbers.ENDED:
            state._refuse("settlement: seat still occupied")
        left_turn = newest
    # INVARIANT locks: a lock outlives every claim that it secures; an operator that was never convicted gets it back.
    is_settled: bool = left_turn <= newest and stake.parked == 0
    if stage.pending != 0:
        for before: uint256 in range(stage.depth, bound=numbers.MAX_DEPTH):
            if before >= left_turn:
                break
            is_settled = is_settled and state._pending(job, left_turn - before - 1) == 0
    if not is_settled:
        state._refuse("settlement: claims not final")
    amount: uint256 = stake.locked
    lots: uint256 = stake.lots
    stake.locked = 0
    stake.lots = 0
    state._set_stake(job, operator, stake)
    log LockReleased(job=job, operator=operator, amount=amount)
    token: address = state._token(job)
    for _: uint256 in range(lots, bound=2):
        extcall INodeRegistry(state.registry).unlock(operator, token, amount, True)
        amount = 0


@internal
def _next_seat(job: uint256) -> uint256:
    """
    @return The number of one more.
    """
    number: uint256 = state._seats(job)
    state.aggregator_state[job] += 1
    return number


@internal
def _add_seat(job: uint256, operator: uint256, seat: uint256, count: uint256, lock: uint256, lot: uint256):
    state.job_stakes[job][operator] += (
        lock << words.LOCKED_AT | self._slots_of(seat, count) << words.SLOTS_AT | lot | words.ONE_SEAT
    )


@internal
@pure
def _slots_of(seat: uint256, count: uint256) -> uint256:
    """
    @return The slots of a seat: the aggregator's has none.
    """
    return 0 if seat == state.AGGREGATION else count


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
    if turn.missing == 0:
        turn.opened_at = 0
        turn.missing = bits._full(state._seats(job))
        state._advance(job, numbers.RUNNING)
    state._set_turn(job, turn)
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
    timing: words.SeatTiming = state._timing(job, seat)
    pot: uint256 = timing.pot
    timing.pot = pot * count // whole.count
    state._set_timing(job, number, timing)
    timing.pot = pot - timing.pot
    state._set_timing(job, seat, timing)
    part: words.Holding = whole
    part.count = whole.count - count
    state._set_holding(job, seat, part)
    part.first += part.count
    part.count = count
    state._set_holding(job, number, part)
    if part.operator != 0:
        state.job_stakes[job][part.operator] += words.ONE_SEAT
    turn: words.Turn = state._turn(job)
    turn.missing |= (turn.missing >> seat & 1) << number
    state._set_turn(job, turn)
    log SeatSplit(
        job=job, seat=seat, kept=whole.count - count, new_seat=number, first=part.first, count=count
    )
    return number


@internal
def _vacate(job: uint256, seat: uint256, stage: words.Stage):
    """
    @dev Slashes a tenth of the seat's lock; the rest stays until `release`, since it secures earlier claims.
    """
    holding: words.Holding = state._holding(job, seat)
    amount: uint256 = state._lock_of(job, seat, holding.count) * numbers.SLASH_BPS // numbers.BPS
    slashed: uint256 = self._unseat(job, seat, stage, amount, holding.operator, False)
    if seat == state.AGGREGATION:
        state._burn(job, slashed)
        turns._extend(job, stage)
    else:
        timing: words.SeatTiming = state._timing(job, seat)
        timing.pot += slashed
        state._set_timing(job, seat, timing)
        if stage.state == numbers.AWARDED:
            self._settle_readiness(job, seat, stage)


@internal
def _unseat(
    job: uint256, seat: uint256, stage: words.Stage, amount: uint256, operator: uint256, convicted: bool
) -> uint256:
    """
    @dev Takes `amount`, or what is left, of the operator's lock in the job to the job's pot, and the seat if it still
         holds it.
    @return What was taken of the lock.
    """
    turn: words.Turn = state._turn(job)
    holding: words.Holding = state._holding(job, seat)
    stake: words.JobStake = state._stake(job, operator)
    slashed: uint256 = min(stake.locked, amount)
    stake.locked -= slashed
    is_open: bool = stage.state == numbers.RUNNING and turn.opened_at != 0
    next_turn: uint256 = turn.turn + convert(is_open, uint256)
    if convicted:
        stake.void_before = next_turn
    if holding.operator == operator:
        holding.operator = 0
        holding.pot_price = 0
        state._set_holding(job, seat, holding)
        stake.held -= 1
        stake.slots -= self._slots_of(seat, holding.count)
        stake.left_turn = next_turn
        log SeatVacated(job=job, operator=operator, seat=seat, turn=turn.turn, slashed=slashed)
    state._set_stake(job, operator, stake)
    state.pots[job] += slashed
    extcall INodeRegistry(state.registry).slash(operator, state._token(job), slashed, convicted)
    return slashed
