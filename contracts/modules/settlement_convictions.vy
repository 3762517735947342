# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Disputes and convictions in Settlement
@license Apache-2.0
@notice A claim that somebody asked about is paid when its dispute ends. One that is convicted costs its operator seat and lock,
        and what rested on it is done again.
"""


from ..interfaces import IDisputes
from ..interfaces import INodeRegistry
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


# What asks that exhaust burn, and what silence then slashes of a lock: twice that, and never together less than 3/5 of the lock.
BURNED_AND_SLASHED: constant(uint256) = 3
FLOOR_PARTS: constant(uint256) = 3
FLOOR_OF: constant(uint256) = 5


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
    state._check_referee()
    word: uint256 = claims._known(job, claim)
    if word & claims.DISPUTED != 0:
        return
    claims._mark(job, claim, word | claims.DISPUTED)
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
    state._check_referee()
    if claims._word(job, claim) == 0:
        return
    if outcome == outcomes.FINAL:
        price: uint256 = claim.price
        if claim.seat == state.AGGREGATION:
            price = self._fading_pay(price, used_s)
        claims._pay(job, claims._added(job, empty(claims.Batch), claim, price))
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
    state._check_referee()
    claim_hash: bytes32 = claim_hashes._hash(claim)
    amount: uint256 = state.finder_shares[job][claim_hash]
    if amount == 0:
        return
    state.finder_shares[job][claim_hash] = 0
    log FinderRewarded(job=job, finder=finder, turn=claim.turn, seat=claim.seat, amount=amount)
    state.pots[job] += amount
    if finder == empty(address):
        state._burn(job, amount)
    else:
        self._pay_out(job, 0, finder, amount)


@external
def void(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice Convicts a pending claim whose data nobody can have.
    """
    state._check_availability()
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
    if claim.seat != state.AGGREGATION:
        slots = max(state._stake(job, claim.operator).slots, claim.scope & bits.U16)
    deadline: uint256 = state._claim_deadline(job, claim.turn)
    if deadline == max_value(uint256):
        deadline = 0
    return IDisputes.Terms(work_root=work_root, reexecute_s=reexecute_s, slots=slots, deadline=deadline)


@internal
def _convict(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, burned: uint256):
    """
    @dev The claim is never paid, its operator loses seat and lock, and what rested on it is done again.
    """
    stage: words.Stage = state._stage(job)
    count: uint256 = claim.scope & bits.U16
    is_aggregation: bool = claim.seat == state.AGGREGATION
    turn: words.Turn = state._turn(job)
    cost: uint256 = 0
    most: uint256 = 0
    if is_aggregation or stage.policy & numbers.ROLL_BACK != 0:
        round_price: uint256 = state._schedule(job).round_price
        most = stage.depth * round_price
        # A turn that was rolled back already has nothing that rests on it; neither has the last one of a job that was
        # abandoned, and such a job stays ended.
        if (
            claim.turn != turn.turn
            and not state._is_rolled_back(job, claim.turn)
            and claim.round < turn.round
            and (stage.state == numbers.RUNNING or turn.round == stage.rounds)
        ):
            # INVARIANT depth: at most `depth` turns rest on a claim that is not final, so `cost <= most`.
            cost = (turn.round - claim.round + convert(turn.opened_at != 0, uint256)) * round_price
    lock: uint256 = state._lock_of(job, claim.seat, count)
    if outcome == outcomes.EXHAUSTED:
        # INVARIANT restitution: what the submitter must get back is taken whatever the outcome: no liar keeps it by exhausting itself.
        lock = max(self._exhausted_slash(lock, burned), min(lock, cost))
    slashed: uint256 = seats._unseat(job, claim.seat, stage, lock, claim.operator, True)
    turn = state._turn(job)
    if claim.turn == turn.turn:
        claims._mark(job, claim, claims._hash(claim) | claims.CONVICTED)
        # The seat is missing again. Whoever holds it by now has its whole time; so has the aggregator.
        turn.missing |= 1 << claim.seat
        turn.committed -= count
        state._set_turn(job, turn)
        timing: words.SeatTiming = state._timing(job, claim.seat)
        timing.since = turns._since(turn)
        state._set_timing(job, claim.seat, timing)
    else:
        claims._settle(job, claim, claims.CONVICTED)
    turns._extend(job, stage)
    restored: uint256 = self._divide(job, claim, slashed, cost, most, outcome == outcomes.JUDGED)
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
    # The bits of all turns from that one on, which are at most `depth`; what goes beyond the last place begins again at the first.
    since: uint256 = bits._full(newest - turn) << state._record_place(job, turn)
    places: uint256 = (since | since >> stage.depth) & bits._full(stage.depth)
    state.stages[job] |= places << words.ROLLED_BACK_AT
    log RolledBack(job=job, turn=newest, round=round)
    if stage.state == numbers.ENDED:
        state._advance(job, numbers.RUNNING)
    turns._go_on(job)


@internal
def _divide(
    job: uint256,
    claim: ISettlementViews.Claim,
    slashed: uint256,
    cost: uint256,
    most: uint256,
    is_judged: bool,
) -> uint256:
    """
    @dev What a conviction took: `cost` restores escrow; up to `most` is kept in the job's pot for what else the operator's
         lies may cost; of the rest a judgement's finder and the audits have their parts, and the last of it is burned.
    @return What of `cost` was restored.
    """
    # INVARIANT slashes: slashed + reserve before == restored + reserve after + to finder + to audits + burned.
    reserve: uint256 = state.reserves[job]
    from_slash: uint256 = min(slashed, cost)
    from_reserve: uint256 = min(reserve, cost - from_slash)
    restored: uint256 = from_slash + from_reserve
    kept: uint256 = min(slashed, most) - from_slash
    state.reserves[job] = reserve - from_reserve + kept
    rest: uint256 = slashed - from_slash - kept
    to_finder: uint256 = 0
    if is_judged:
        to_finder = rest * numbers.CHALLENGERS_BPS // numbers.BPS
        state.finder_shares[job][claim_hashes._hash(claim)] = to_finder
    to_audits: uint256 = rest * numbers.AUDITS_BPS // numbers.BPS
    # The finder's part stays in the registry's pot, but is the job's no longer: its end burns what is.
    state.pots[job] -= to_finder
    log ClaimConvicted(
        job=job,
        operator=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        slashed=slashed,
        restored=restored,
        to_finder=to_finder,
        to_audits=to_audits,
    )
    self._pay_out(job, restored, state.audit_pool, to_audits)
    state._burn(job, rest - to_finder - to_audits)
    return restored


@internal
def _pay_out(job: uint256, restored: uint256, account: address, amount: uint256):
    """
    @dev From the job's pot to its escrow, and to what an account is owed.
    """
    total: uint256 = restored + amount
    # Some tokens refuse a transfer of nothing.
    if total > 0:
        state.pots[job] -= total
        extcall INodeRegistry(state.registry).pay_out(state._token(job), total)
        extcall ITaskRegistry(state.tasks).restore(job, restored, account, amount)


@internal
@view
def _fading_pay(price: uint256, used_s: uint256) -> uint256:
    """
    @return What is paid of an aggregation whose author used so many seconds of its own clock.
    """
    used: uint256 = min(max(used_s, state.pay_fades_from_s), state.pay_gone_at_s)
    return price * (state.pay_gone_at_s - used) // (state.pay_gone_at_s - state.pay_fades_from_s)


@internal
@pure
def _exhausted_slash(lock: uint256, burned: uint256) -> uint256:
    """
    @return What silence takes of the lock of an operator that was exhausted.
    """
    return min(lock, max(BURNED_AND_SLASHED * burned, lock * FLOOR_PARTS // FLOOR_OF) - burned)
