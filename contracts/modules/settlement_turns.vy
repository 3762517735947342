# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Turns of a job in Settlement
@license Apache-2.0
@notice How a turn opens and closes, when its inputs close, and how a job begins and ends.
@dev A turn whose `opened_at` is 0 waits until the claims of `depth` turns before it are final; nobody can be late in it.
"""


from ..interfaces import ILocks
from ..interfaces import ITaskRegistry
from . import bits
from . import numbers
from . import settlement_shares as shares
from . import settlement_state as state
from . import settlement_words as words


uses: state
uses: shares


# A turn's inputs close after a seat's time and one standby's.
SLOT_TIMES: constant(uint256) = 2
# A window is at least so many times the profiled re-execution.
REEXECUTIONS: constant(uint256) = 3


event TurnOpened:
    job: indexed(uint256)
    turn: uint256
    round: uint256
    start_root: bytes32
    inputs_close: uint256


event TurnClosed:
    job: indexed(uint256)
    turn: uint256
    # The last second at which its claims can be challenged.
    deadline: uint256


event JobEnded:
    job: indexed(uint256)
    rounds_done: uint256
    completed: bool


@external
def begin(job: uint256):
    """
    @notice Starts the ready window of a job whose seats are all awarded.
    """
    state._check_sender(state.auction)
    terms: ITaskRegistry.Schedule = state._schedule(job)
    state.stages[job] = words._pack_stage(
        words.Stage(
            state=numbers.AWARDED,
            rounds=terms.rounds,
            slots=terms.slots,
            quorum=terms.quorum,
            aggregators=terms.aggregators,
            depth=terms.depth,
            policy=terms.policy,
            window_s=terms.windows * max(state.min_window_s, REEXECUTIONS * terms.reexecute_s),
            slot_s=terms.slot_s,
            aggregate_s=terms.aggregate_s,
        ),
    )
    state.payment_terms[job] = words._pack_payment_terms(terms.token, terms.flops)
    state.start_roots[job][0] = terms.state_root
    state._set_turn(
        job,
        words.Turn(
            round=0,
            turn=0,
            opened_at=state._now(),
            committed=0,
            missing=bits._full(state._seats(job)),
            holds=0,
            held_s=0,
        ),
    )


@external
def abandon(job: uint256):
    """
    @notice Ends a job that cannot go on. What was committed in the open turn stays payable. One whose custodians never held what it
            starts from leaves its posting deposit to those who have its seats.
    """
    stage: words.Stage = state._running(job)
    turn: words.Turn = state._turn(job)
    aggregator: words.AggregatorState = state._aggregator(job)
    can_end: bool = turn.holds == 0 and state._now() > aggregator.due
    if turn.opened_at == 0:
        can_end = can_end and turn.turn == 0
    else:
        can_end = (
            can_end
            and (
                shares._lacks_aggregator(job, stage.aggregators)
                or not self._can_be_aggregated(job, stage.policy)
            )
            or turn.committed < stage.quorum
            and self._are_complete(job, stage, turn)
        )
    if not can_end:
        state._refuse("settlement: job can go on")
    if turn.opened_at == 0:
        extcall ITaskRegistry(state.tasks).forsake(job, state.registry, aggregator.seats)
    self._close(job, stage, turn, turn.round, state._start_root(job, stage.depth, turn.turn))
    self._end(job)


@external
def start(job: uint256):
    """
    @notice Opens the first turn of a job whose custodians hold what it starts from.
    """
    state._check_sender(state.custody)
    stage: words.Stage = state._running(job)
    self._go_on(job)


@external
def note_custody(job: uint256, turn: uint256, said: uint256, seconds: uint256):
    """
    @notice What custodians say of the open turn, whose inputs are complete: a majority holds inputs, and nobody commits any more; or
            too few sign for its checkpoint, and whoever aggregates may be replaced, but is not slashed.
    @param said Bits of SIGNED and SHORT.
    @param seconds After which the aggregator has `aggregate_s` more.
    """
    state._check_sender(state.custody)
    stage: words.Stage = state._running(job)
    self._check_complete(job, stage, self._open_turn(job, turn))
    aggregator: words.AggregatorState = state._aggregator(job)
    if aggregator.said & said == 0:
        aggregator.said |= said
        aggregator.due = max(aggregator.due, state._now() + seconds + stage.aggregate_s)
        state._set_aggregator(job, aggregator)


@external
def hold(job: uint256):
    """
    @notice Stops the clocks of a job: nobody is late until `resume`.
    """
    state._check_sender(state.availability)
    state.turns[job] += words.ONE_HOLD


@external
def resume(job: uint256, seconds: uint256):
    """
    @notice Ends a hold, and gives the open turn the time back.
    """
    state._check_sender(state.availability)
    turn: words.Turn = state._turn(job)
    turn.holds -= 1
    if turn.opened_at != 0:
        turn.opened_at = min(state._now(), turn.opened_at + seconds)
        turn.held_s += seconds
        aggregator: words.AggregatorState = state._aggregator(job)
        aggregator.due += seconds
        state._set_aggregator(job, aggregator)
    state._set_turn(job, turn)


@internal
@view
def _open_turn(job: uint256, turn: uint256) -> words.Turn:
    newest: words.Turn = words._unpack_turn(state.turns[job])
    if turn != newest.turn:
        state._refuse("settlement: not the current turn")
    if newest.opened_at == 0:
        state._refuse("settlement: depth reached")
    return newest


@internal
@pure
def _check_missing(turn: words.Turn, seat: uint256):
    if turn.missing >> seat & 1 == 0:
        state._refuse("settlement: already committed")


@internal
@pure
def _check_inputs(are_closed: bool):
    if are_closed:
        state._refuse("settlement: inputs closed")


@internal
@view
def _since(turn: words.Turn) -> uint256:
    """
    @return Now, less the seconds that holds moved the open turn by: a later hold moves this start as it moves the others.
    """
    return state._now() - turn.held_s


@internal
@pure
def _next_turn(stage: words.Stage, turn: words.Turn) -> uint256:
    """
    @return The first turn in which nothing is committed yet.
    """
    return turn.turn + convert(stage.state == numbers.RUNNING and turn.opened_at != 0, uint256)


@internal
@pure
def _inputs_close(stage: words.Stage, turn: words.Turn) -> uint256:
    return turn.opened_at + SLOT_TIMES * stage.slot_s


@internal
@pure
def _deadline(stage: words.Stage, turn: words.Turn, timing_word: uint256) -> uint256:
    timing: words.SeatTiming = words._unpack_timing(timing_word)
    return max(turn.opened_at, timing.since + turn.held_s) + min(2 * timing.estimate_s, stage.slot_s)


@internal
@view
def _are_closed(job: uint256, stage: words.Stage, turn: words.Turn) -> bool:
    closes: uint256 = self._inputs_close(stage, turn)
    # INVARIANT time: the protocol's is never ahead of the block's, which costs nothing to read and usually says it already.
    return (turn.holds == 0 and block.timestamp >= closes and state._now() >= closes) or self._are_held(job, stage.policy)


@internal
@view
def _are_held(job: uint256, policy: uint256) -> bool:
    """
    @return Whether custodians closed the inputs of the open turn.
    """
    return state._has_custodians(policy) and state.aggregator_state[job] >> words.SAID_AT & words.SIGNED != 0


@internal
@view
def _can_be_aggregated(job: uint256, policy: uint256) -> bool:
    """
    @return Whether whoever aggregates may be late: a majority of custodians holds inputs, and not two aggregators lacked
            signatures for a checkpoint.
    """
    said: uint256 = state.aggregator_state[job] >> words.SAID_AT & bits.U8
    return not state._has_custodians(policy) or (
        said & words.SIGNED != 0 and said != words.SIGNED | words.SHORT | words.SPARED
    )


@internal
@view
def _check_complete(job: uint256, stage: words.Stage, turn: words.Turn):
    if not self._are_complete(job, stage, turn):
        state._refuse("settlement: inputs open")


@internal
@view
def _are_complete(job: uint256, stage: words.Stage, turn: words.Turn) -> bool:
    """
    @return Whether nobody can commit any more, or nobody holds a seat that is missing and the quorum is there.
    """
    if turn.missing == 0 or self._are_closed(job, stage, turn):
        return True
    if turn.committed < stage.quorum:
        return False
    for seat: uint256 in range(state.MAX_SEATS):
        if turn.missing >> seat == 0:
            break
        if turn.missing >> seat & 1 == 1 and state._holding(job, seat).operator != 0:
            return False
    return True


@internal
@view
def _present(job: uint256, turn: words.Turn) -> uint256:
    """
    @return The seats that committed. A turn that waits has none: all are missing.
    """
    return bits._full(state._seats(job)) ^ turn.missing


@internal
@view
def _slots_root(job: uint256, stage: words.Stage, turn: words.Turn) -> bytes32:
    """
    @return What the slots of the newest turn start from: in a delayed job what the turn before it started from, so that nobody
            waits for the aggregation between them; but the first turn, and one after a rollback, have none before.
    """
    if stage.policy & numbers.DELAYED != 0 and turn.turn > 0:
        before: uint256 = unsafe_sub(turn.turn, 1)
        if not state._is_rolled_back(job, before):
            return state._start_root(job, stage.depth, before)
    return state._start_root(job, stage.depth, turn.turn)


@internal
def _extend(job: uint256, stage: words.Stage):
    """
    @dev Those who aggregate have `aggregate_s` from now on.
    """
    aggregator: words.AggregatorState = state._aggregator(job)
    aggregator.due = max(aggregator.due, state._now() + stage.aggregate_s)
    # INVARIANT short: it is spared once a turn. The bit after SHORT is SPARED.
    said: uint256 = aggregator.said
    aggregator.said = said & words.POSTED | (said | said << 1) & (words.SIGNED | words.SPARED)
    state._set_aggregator(job, aggregator)


@internal
def _go_on(job: uint256):
    """
    @dev What follows when a turn closed or claims ceased to be pending. An ended job is over when nothing is pending. What parked
         claims may still be paid stays; so it is over again after each of them.
    """
    stage: words.Stage = state._stage(job)
    if stage.state == numbers.RUNNING:
        self._open(job, stage, state._turn(job))
    elif stage.state == numbers.ENDED and state._aggregator(job).pending == 0:
        extcall ILocks(state.locks).burn(job, state._token(job))
        # INVARIANT parked: the escrow of a job that is over is what its parked claims may still be paid.
        extcall ITaskRegistry(state.tasks).close(job, state.parked_money[job])


@internal
def _open(job: uint256, stage: words.Stage, newest: words.Turn):
    """
    @dev A running job's newest turn opens, if it waits and need not any more.
    """
    # Its place has the turn `depth` before it.
    if newest.opened_at != 0 or state._closed_turn(job, stage.depth, newest.turn) > bits.U40:
        return
    turn: words.Turn = newest
    turn.opened_at = state._now()
    turn.held_s = 0
    state._set_turn(job, turn)
    inputs_close: uint256 = self._inputs_close(stage, turn)
    aggregator: words.AggregatorState = state._aggregator(job)
    aggregator.due = inputs_close + stage.aggregate_s
    if state._has_custodians(stage.policy):
        # In which those that do not sign are replaced.
        aggregator.due += state.ready_window_s
    aggregator.said = 0
    state._set_aggregator(job, aggregator)
    start_root: bytes32 = state._start_root(job, stage.depth, turn.turn)
    log TurnOpened(job=job, turn=turn.turn, round=turn.round, start_root=start_root, inputs_close=inputs_close)


@internal
def _close(
    job: uint256, stage: words.Stage, newest: words.Turn, round: uint256, start_root: bytes32
) -> words.Turn:
    """
    @dev What was committed in the open turn, if one is open, becomes pending. The turn after it waits.
    @return The turn after it.
    """
    turn: words.Turn = newest
    turn.round = round
    if turn.opened_at != 0:
        seats: uint256 = bits._full(state._seats(job))
        now: uint256 = state._now()
        # It has the place of the turn `depth` before it, of which nothing is pending.
        place: uint256 = turn.turn % stage.depth
        pending: uint256 = seats ^ turn.missing | state.aggregator_state[job] >> words.POSTED_AT << state.AGGREGATION
        state.closed_turns[job][place] = pending << words.PENDING_AT | now
        # Of a turn without claims nothing is done again, as of one that was rolled back.
        rolled_back: uint256 = 1 << (words.ROLLED_BACK_AT + place)
        stages: uint256 = state.stages[job] | rolled_back
        if pending != 0:
            stages ^= rolled_back
            state.aggregator_state[job] += words.ONE_PENDING_TURN
        state.stages[job] = stages
        log TurnClosed(job=job, turn=turn.turn, deadline=now + stage.window_s)
        turn.turn += 1
        turn.opened_at = 0
        turn.committed = 0
        turn.missing = seats
    state.start_roots[job][state._place(stage.depth, turn.turn)] = start_root
    state._set_turn(job, turn)
    return turn


@internal
def _end(job: uint256):
    """
    @dev The newest turn is one that waits, and that nothing opens unless a rollback does.
    """
    round: uint256 = state._turn(job).round
    log JobEnded(job=job, rounds_done=round, completed=round == state._stage(job).rounds)
    state._advance(job, numbers.ENDED)
    self._go_on(job)
