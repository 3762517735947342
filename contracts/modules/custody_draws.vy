# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Draws of custodians from offers, by stake
@license Apache-2.0
"""


from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry
from . import bits
from . import chance
from . import claims
from . import custody_state as state
from . import custody_words as words
from . import numbers


uses: state


NO_OFFER: constant(uint256) = words.MAX_OFFERS


event CommitteeScheduled:
    job: indexed(uint256)
    block: uint256


event DrawLost:
    job: indexed(uint256)


@external
def schedule(job: uint256):
    """
    @notice Names the block whose hash will fill a committee's vacant places: the next one. Offers are fixed until it is read.
    """
    request: words.Request = words._unpack_request(state.request_words[job])
    if request.closes_at == 0:
        state._refuse("custody: nothing requested")
    progress: words.Progress = state._progress(job)
    if progress.draw_block != 0:
        state._refuse("custody: draw scheduled")
    job_state: uint256 = state._job(job).state
    if job_state != numbers.AWARDED and job_state != numbers.RUNNING:
        state._refuse("custody: job not awarded")
    if progress.vacant == 0:
        state._refuse("custody: no place vacant")
    least: uint256 = 1
    if progress.version == 0:
        if state._now() < request.closes_at:
            state._refuse("custody: offers open")
        rounds: uint256 = (staticcall ITaskRegistry(state.tasks).schedules(job)).rounds
        # INVARIANT pay: what every signature of every round costs is here before anybody holds anything.
        if state.escrows[job] < 2 * request.fee * progress.custodians * rounds:
            state._refuse("custody: escrow too small")
        least = progress.custodians
    elif state._now() < progress.vacated_at + state.answer_s:
        # INVARIANT replacements: whoever offers first is not alone.
        state._refuse("custody: offers open")
    if progress.offers < least:
        state._refuse("custody: too few offers")
    progress.draw_block = block.number + 1
    state.progress_words[job] = words._pack_progress(progress)
    log CommitteeScheduled(job=job, block=progress.draw_block)


@external
def draw(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS]):
    """
    @notice Fills vacant places from the offers, by stake: first from operators without a seat in the job.
    @param committee The present one; empty before the first draw.
    """
    progress: words.Progress = state._progress(job)
    if progress.draw_block == 0:
        state._refuse("custody: nothing scheduled")
    if block.number <= progress.draw_block + state.draw_blocks:
        state._refuse("custody: draw block not buried")
    members: DynArray[words.Member, words.MAX_CUSTODIANS] = committee
    if progress.version == 0:
        members = []
        for _: uint256 in range(progress.custodians, bound=words.MAX_CUSTODIANS):
            members.append(empty(words.Member))
    else:
        state._check_committee(job, progress.version, committee)
    found: bytes32 = chance._hash_of(progress.draw_block)
    progress.draw_block = 0
    if found == empty(bytes32):
        state.progress_words[job] = words._pack_progress(progress)
        log DrawLost(job=job)
        return
    offers: DynArray[uint256, words.MAX_OFFERS] = []
    for place: uint256 in range(progress.offers, bound=words.MAX_OFFERS):
        offers.append(state.offer_words[job][place])
    run: ISettlementViews.Run = state._run(job)
    seated: uint256 = self._seated(job, run, offers)
    from_turn: uint256 = run.turn
    if run.state == numbers.RUNNING and run.opened_at != 0:
        from_turn += 1
    seed: bytes32 = keccak256(abi_encode(found, job))
    taken: uint256 = 0
    for index: uint256 in range(progress.custodians, bound=words.MAX_CUSTODIANS):
        if progress.vacant >> index & 1 == 0:
            continue
        place: uint256 = self._picked(offers, seated, taken, seed, index)
        if place == NO_OFFER:
            break
        taken |= 1 << place
        operator: uint256 = offers[place] >> words.WEIGHT_BITS
        state._let_go(job, words._operator_of(members[index]))
        members[index] = words.Member(
            word=operator << words.OPERATOR_AT | from_turn,
            key=state._key(operator),
        )
        role: words.Role = words._unpack_role(state.role_words[job][operator])
        role.status = words.CUSTODIAN
        role.index = index
        state.role_words[job][operator] = words._pack_role(role)
        progress.vacant ^= 1 << index
    progress.offers = 0
    for place: uint256 in range(len(offers), bound=words.MAX_OFFERS):
        state.offer_words[job][place] = 0
        if taken >> place & 1 == 0:
            state.offer_words[job][progress.offers] = offers[place]
            progress.offers += 1
    state._change(job, progress, members)


@internal
@view
def _seated(job: uint256, run: ISettlementViews.Run, offers: DynArray[uint256, words.MAX_OFFERS]) -> uint256:
    """
    @return The places of the offers whose operators have a seat in the job.
    """
    seated: uint256 = 0
    for index: uint256 in range(run.seats + run.aggregators, bound=claims.AGGREGATION + numbers.MAX_AGGREGATORS):
        seat: uint256 = index
        if index >= run.seats:
            seat = claims.AGGREGATION + index - run.seats
        holder: uint256 = (staticcall ISettlementViews(state.settlement).seats(job, seat)).operator
        for place: uint256 in range(len(offers), bound=words.MAX_OFFERS):
            if offers[place] >> words.WEIGHT_BITS == holder:
                seated |= 1 << place
    return seated


@internal
@pure
def _picked(
    offers: DynArray[uint256, words.MAX_OFFERS], seated: uint256, taken: uint256, seed: bytes32, index: uint256
) -> uint256:
    """
    @return The place of the offer that is drawn, with a chance in proportion to its weight; one with a seat if no other is left.
    """
    for has_seat: uint256 in range(2):
        total: uint256 = 0
        for place: uint256 in range(len(offers), bound=words.MAX_OFFERS):
            if taken >> place & 1 == 0 and seated >> place & 1 == has_seat:
                total += offers[place] & bits.U64
        if total == 0:
            continue
        ticket: uint256 = convert(keccak256(abi_encode(seed, index)), uint256) % total
        for place: uint256 in range(len(offers), bound=words.MAX_OFFERS):
            if taken >> place & 1 == 0 and seated >> place & 1 == has_seat:
                weight: uint256 = offers[place] & bits.U64
                if ticket < weight:
                    return place
                ticket -= weight
    return NO_OFFER
