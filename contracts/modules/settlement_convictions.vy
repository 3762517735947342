# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Disputes and convictions in Settlement
@license Apache-2.0
@notice A claim in dispute is not paid. One that is convicted costs its operator seat and lock, and what rested on it is done
        again.
"""


from ..interfaces import INodeRegistry
from ..interfaces import ISettlement
from ..interfaces import ITaskRegistry
from . import bits
from . import numbers
from . import settlement_claims as claims
from . import settlement_seats as seats
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: turns
uses: claims
uses: seats


MAX_CHALLENGERS: constant(uint256) = 16


event DisputeOpened:
    job: indexed(uint256)
    turn: uint256
    seat: uint256


event DisputeClosed:
    job: indexed(uint256)
    turn: uint256
    seat: uint256
    convicted: bool


event ClaimConvicted:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256
    slashed: uint256
    restored: uint256
    to_challengers: uint256
    to_audits: uint256


event RolledBack:
    job: indexed(uint256)
    turn: uint256
    round: uint256


@external
def open_dispute(job: uint256, claim: ISettlement.Claim):
    """
    @notice One more dispute of a pending claim: it is not paid while one is open.
    """
    state._check_referee()
    word: uint256 = claims._known(job, claim)
    assert block.timestamp <= state._claim_deadline(job, claim.turn), "settlement: window closed"
    assert word & claims.DISPUTES != claims.DISPUTES, "settlement: too many disputes"
    claims._mark(job, claim, word + claims.ONE_DISPUTE)
    log DisputeOpened(job=job, turn=claim.turn, seat=claim.seat)


@external
def close_dispute(
    job: uint256, claim: ISettlement.Claim, convicted: bool, challengers: DynArray[address, MAX_CHALLENGERS]
):
    """
    @notice One dispute less; convicts a claim that is still pending.
    @dev A disputed claim cannot be paid: where it is not pending it was convicted, and its place may be used again. Then
         nothing is left to do, so that the referee can always end what it opened.
    @param challengers Share in what the claim's operator loses.
    """
    state._check_referee()
    word: uint256 = claims._word(job, claim)
    if word != 0:
        assert word & claims.DISPUTES != 0, "settlement: not in dispute"
        claims._mark(job, claim, word - claims.ONE_DISPUTE)
        log DisputeClosed(job=job, turn=claim.turn, seat=claim.seat, convicted=convicted)
        if convicted:
            self._convict(job, claim, challengers)


@external
def void(job: uint256, claim: ISettlement.Claim):
    """
    @notice Convicts a pending claim whose data nobody can have.
    """
    state._check_availability()
    claims._known(job, claim)
    self._convict(job, claim, [])


@internal
def _convict(job: uint256, claim: ISettlement.Claim, challengers: DynArray[address, MAX_CHALLENGERS]):
    """
    @dev The claim is never paid, its operator loses seat and lock, and what rested on it is done again.
    """
    stage: words.Stage = state._stage(job)
    claims._mark(job, claim, claims._hash(claim) | claims.CONVICTED)
    count: uint256 = claim.scope & bits.U16
    is_aggregation: bool = claim.seat == state.AGGREGATION
    slashed: uint256 = seats._unseat(
        job, claim.seat, stage, state._lock_of(job, claim.seat, count), claim.operator, True
    )
    turn: words.Turn = state._turn(job)
    is_based_on: bool = False
    if claim.turn == turn.turn:
        # The seat is missing again. Whoever holds it by now has its whole time; so has the aggregator.
        turn.missing |= 1 << claim.seat
        turn.committed -= count
        state._set_turn(job, turn)
        timing: words.SeatTiming = state._timing(job, claim.seat)
        timing.since = turns._since(turn)
        state._set_timing(job, claim.seat, timing)
    else:
        # A turn that was rolled back already has nothing that rests on it; neither has the last one of a job that was
        # abandoned, and such a job stays ended.
        is_based_on = (
            not state._is_rolled_back(job, claim.turn)
            and claim.round < turn.round
            and (stage.state == numbers.RUNNING or turn.round == stage.rounds)
        )
        state._settle(job, claim.turn)
    turns._extend(job, stage)

    can_roll_back: bool = is_aggregation or stage.policy & numbers.ROLL_BACK != 0
    cost: uint256 = 0
    most: uint256 = 0
    if can_roll_back:
        round_price: uint256 = state._schedule(job).round_price
        most = stage.depth * round_price
        if is_based_on:
            # INVARIANT depth: at most `depth` turns rest on a claim that is not final, so `cost <= most`.
            cost = (turn.round - claim.round + convert(turn.opened_at != 0, uint256)) * round_price
    restored: uint256 = self._divide(job, claim, slashed, cost, most, challengers)
    if cost > 0 and restored == cost:
        self._roll_back(job, stage, claim.turn, claim.round)
    elif cost > 0 and stage.state == numbers.RUNNING:
        # What is left of the lock cannot pay for doing it again: the job ends, its escrow returns to the submitter.
        turns._close(job, turn.round, state._start_root(job, turn.turn), 0)
        turns._end(job)
    else:
        turns._go_on(job)


@internal
def _roll_back(job: uint256, stage: words.Stage, turn: uint256, round: uint256):
    """
    @dev The round of a turn is done again, from the state it started from. What was committed since stays payable.
    """
    turns._close(job, round, state._start_root(job, turn), 0)
    newest: uint256 = state._newest(job)
    for after: uint256 in range(turn, newest, bound=state.MAX_DEPTH):
        state.closed_turns[job][state._record_place(job, after)] |= words.ROLLED_BACK
    log RolledBack(job=job, turn=newest, round=round)
    if stage.state == numbers.ENDED:
        state._advance(job, numbers.RUNNING)
    turns._go_on(job)


@internal
def _divide(
    job: uint256,
    claim: ISettlement.Claim,
    slashed: uint256,
    cost: uint256,
    most: uint256,
    challengers: DynArray[address, MAX_CHALLENGERS],
) -> uint256:
    """
    @dev What a conviction took: `cost` restores escrow; up to `most` is kept in the job's pot for what else the operator's
         lies may cost; of the rest challengers and audits have their parts, and the last of it is burned.
    @return What of `cost` was restored.
    """
    # INVARIANT slashes: slashed + reserve before == restored + reserve after + to challengers + to audits + burned.
    reserve: uint256 = state.reserves[job]
    from_slash: uint256 = min(slashed, cost)
    from_reserve: uint256 = min(reserve, cost - from_slash)
    restored: uint256 = from_slash + from_reserve
    kept: uint256 = min(slashed, most) - from_slash
    state.reserves[job] = reserve - from_reserve + kept
    rest: uint256 = slashed - from_slash - kept
    share: uint256 = 0
    if len(challengers) > 0:
        share = rest * numbers.CHALLENGERS_BPS // numbers.BPS // len(challengers)
    to_audits: uint256 = rest * numbers.AUDITS_BPS // numbers.BPS
    to_challengers: uint256 = share * len(challengers)
    paid_out: uint256 = restored + to_challengers + to_audits
    state.pots[job] -= paid_out
    log ClaimConvicted(
        job=job,
        operator=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        slashed=slashed,
        restored=restored,
        to_challengers=to_challengers,
        to_audits=to_audits,
    )
    # Some tokens refuse a transfer of nothing.
    if paid_out > 0:
        extcall INodeRegistry(state.registry).pay_out(state._token(job), paid_out)
        extcall ITaskRegistry(state.tasks).restore(job, restored, state.audit_pool, to_audits, challengers, share)
    state._burn(job, rest - to_challengers - to_audits)
    return restored
