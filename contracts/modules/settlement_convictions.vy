# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Disputes and convictions in Settlement
@license Apache-2.0
@notice A claim that somebody asked about is paid when its dispute ends. One that is convicted costs its operator seat and lock,
        and what rested on it is done again.
"""


from ..interfaces import IDisputes
from ..interfaces import ILocks
from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry
from . import bits
from . import claims as claim_hashes
from . import numbers
from . import outcomes
from . import settlement_claims as claims
from . import settlement_seats as seats
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: turns
uses: claims
uses: seats


event DisputeOpened:
    job: indexed(uint256)
    turn: uint256
    seat: uint256


event ClaimConvicted:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256
    slashed: uint256
    restored: uint256
    to_finder: uint256
    to_audits: uint256


event FinderRewarded:
    job: indexed(uint256)
    finder: indexed(address)
    turn: uint256
    seat: uint256
    amount: uint256


event RolledBack:
    job: indexed(uint256)
    turn: uint256
    round: uint256


@external
def open_dispute(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice The first ask about a pending claim: from now on it is paid when its dispute ends.
    """
    state._check_sender(state.referee)
    word: uint256 = claims._known(job, claim)
    if word & claims.DISPUTED != 0:
        return
    stage: words.Stage = state._stage(job)
    # INVARIANT absence: a seat that custodians sign for has one claim in a turn.
    if claim.turn == state._newest(job) and state._has_custodians(stage.policy):
        state._refuse("settlement: turn is open")
    claims._mark(job, stage.depth, claim, word | claims.DISPUTED)
    log DisputeOpened(job=job, turn=claim.turn, seat=claim.seat)


@external
def close_dispute(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, used_s: uint256, burned: uint256):
    """
    @notice Pays, convicts or voids a disputed claim.
    @dev A disputed claim cannot be paid elsewhere: where it is not pending its data was missing, and its place may be used
         again. Then nothing is left to do, so that the referee can always end what it opened.
    @param outcome 1 final, 2 judged, 3 silent, 4 silent and exhausted, 5 void by age.
    @param used_s Seconds of its own clock that the author used: an aggregation's pay fades with them.
    @param burned Of heavy asks, where the author was exhausted.
    """
    state._check_sender(state.referee)
    if claims._word(job, claim) == 0:
        return
    if outcome == outcomes.FINAL:
        price: uint256 = claim.price
        if claim.seat >= state.AGGREGATION:
            price = self._fading_pay(price, used_s)
        claims._pay_alone(job, claim, price)
        turns._go_on(job)
    elif outcome == outcomes.AGED:
        claims._void(job, claim)
        turns._go_on(job)
    else:
        self._convict(job, claim, outcome, burned)


@external
def reward_finder(job: uint256, claim: ISettlementViews.Claim, finder: address):
    """
    @notice What was set aside of a judged claim's lock becomes owed to its finder; without one it burns.
    """
    state._check_sender(state.referee)
    amount: uint256 = extcall ILocks(state.locks).reward_finder(
        job, claim_hashes._hash(claim), finder, state._token(job)
    )
    if amount > 0:
        log FinderRewarded(job=job, finder=finder, turn=claim.turn, seat=claim.seat, amount=amount)


@external
def void(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice Convicts a pending claim whose data nobody can have.
    """
    state._check_sender(state.availability)
    claims._known(job, claim)
    self._convict(job, claim, outcomes.SILENT, 0)


@external
@view
def dispute_terms(job: uint256, claim: ISettlementViews.Claim) -> IDisputes.Terms:
    """
    @notice What a pending claim's clocks and prices follow from.
    """
    claims._known(job, claim)
    work_root: bytes32 = empty(bytes32)
    reexecute_s: uint256 = 0
    work_root, reexecute_s = staticcall ITaskRegistry(state.tasks).dispute_terms(job)
    slots: uint256 = 1
    if claim.seat < state.AGGREGATION:
        slots = max(staticcall ILocks(state.locks).slots_of(job, claim.operator), claim.scope & bits.U16)
    deadline: uint256 = state._claim_deadline(job, claim.turn)
    if deadline == max_value(uint256):
        deadline = 0
    return IDisputes.Terms(work_root=work_root, reexecute_s=reexecute_s, slots=slots, deadline=deadline)


@internal
def _convict(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, burned: uint256):
    """
    @dev The claim is never paid, its operator loses its lock and its seats in that role, and what rested on it is done again, or
         paid back where a job was abandoned.
    """
    stage: words.Stage = state._stage(job)
    turn: words.Turn = state._turn(job)
    # A turn that was rolled back already has nothing that rests on it.
    rounds: uint256 = 0
    if (
        (claim.seat >= state.AGGREGATION or stage.policy & numbers.ROLL_BACK != 0)
        and claim.turn != turn.turn
        and claim.round < turn.round
        and not state._is_rolled_back(job, claim.turn)
    ):
        # INVARIANT restitution: of the open turn, and of the one in which a job was abandoned, claims are paid too.
        has_open: bool = turn.opened_at != 0
        if stage.state == numbers.ENDED and turn.round < stage.rounds:
            has_open = not state._is_rolled_back(job, turn.turn - 1)
        rounds = turn.round - claim.round + convert(has_open, uint256)
    next_turn: uint256 = turns._next_turn(stage, turn)
    record: uint256 = state.records[job][claim.operator]
    state.records[job][claim.operator] = record & ~bits.U24 | next_turn
    taken: ILocks.Taken = extcall ILocks(state.locks).convict(
        job,
        claim.operator,
        claim.seat,
        claim.price,
        rounds,
        outcome,
        burned,
        claim_hashes._hash(claim),
        next_turn,
        state._token(job),
    )
    log ClaimConvicted(
        job=job,
        operator=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        slashed=taken.slashed,
        restored=taken.restored,
        to_finder=taken.to_finder,
        to_audits=taken.to_audits,
    )
    self._unseat(job, claim, stage.aggregators, turn.turn, taken.slashed)
    if claim.turn == turn.turn:
        claims._mark(job, stage.depth, claim, claims._hash(claim) | claims.CONVICTED)
        # The seat is missing again. Whoever holds it by now has its whole time; so has the aggregator.
        turn.missing |= 1 << claim.seat
        turn.committed -= claim.scope & bits.U16
        state._set_turn(job, turn)
        timing: words.SeatTiming = state._timing(job, claim.seat)
        timing.since = turns._since(turn)
        state._set_timing(job, claim.seat, timing)
    else:
        claims._settle(job, claim, claims.CONVICTED)
    turns._extend(job, stage)
    if rounds > 0:
        self._roll_back(job, stage, turn, claim)
    turns._go_on(job)


@internal
def _unseat(
    job: uint256, claim: ISettlementViews.Claim, aggregators: uint256, turn: uint256, slashed: uint256
):
    """
    @dev A convicted operator loses all its seats in that role: its lock covers what it claimed, and nothing it would go on to claim.
    """
    first: uint256 = 0
    last: uint256 = state._seats(job)
    if claim.seat >= state.AGGREGATION:
        first = state.AGGREGATION
        last = state.AGGREGATION + aggregators
    for seat: uint256 in range(first, last, bound=state.MAX_SEATS):
        holding: words.Holding = state._holding(job, seat)
        if holding.operator == claim.operator:
            seats._leave(job, seat, holding, turn, slashed if seat == claim.seat else 0)


@internal
def _roll_back(job: uint256, stage: words.Stage, turn: words.Turn, claim: ISettlementViews.Claim):
    """
    @dev The round of a claim is done again, from the state it started from; an abandoned job ends there. What was committed since
         stays payable.
    @param turn The newest, before.
    """
    newest: uint256 = turns._close(
        job, stage, turn, claim.round, state._start_root(job, stage.depth, claim.turn)
    ).turn
    # The bits of all turns from that one on, which are at most `depth`; what goes beyond the last place begins again at the first.
    since: uint256 = bits._full(newest - claim.turn) << claim.turn % stage.depth
    places: uint256 = (since | since >> stage.depth) & bits._full(stage.depth)
    state.stages[job] |= places << words.ROLLED_BACK_AT
    log RolledBack(job=job, turn=newest, round=claim.round)
    if stage.state == numbers.ENDED and turn.round == stage.rounds:
        state._advance(job, numbers.RUNNING)


@internal
@view
def _fading_pay(price: uint256, used_s: uint256) -> uint256:
    """
    @return What is paid of an aggregation whose author used so many seconds of its own clock.
    """
    used: uint256 = min(max(used_s, state.pay_fades_from_s), state.pay_gone_at_s)
    return price * (state.pay_gone_at_s - used) // (state.pay_gone_at_s - state.pay_fades_from_s)
