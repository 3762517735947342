# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Offers to be a custodian
@license Apache-2.0
"""


from ..interfaces import INodeRegistry
from ..interfaces import ITaskViews
from . import bits
from . import custody_state as state
from . import custody_words as words
from . import numbers


uses: state


STAKE_UNIT: constant(uint256) = 10**12


event StakeNoted:
    operator: indexed(uint256)
    stake: uint256
    since: uint256


event CustodyOffered:
    job: indexed(uint256)
    operator: indexed(uint256)
    weight: uint256


event OfferEnded:
    job: indexed(uint256)
    operator: indexed(uint256)


@external
def note_stake(operator: uint256):
    """
    @notice Notes an operator's stake, which counts from `exit_delay_s` after that. Anyone may note that it fell; that it grew,
            which makes it young again, its hot key alone.
    """
    note: words.Note = state.notes[operator]
    stake: uint256 = staticcall INodeRegistry(state.registry).stake_of(operator) // STAKE_UNIT
    if stake == note.stake:
        state._refuse("custody: nothing changed")
    if stake > note.stake:
        state._check_hot(operator)
        note.since = state._now()
    note.stake = stake
    state.notes[operator] = note
    log StakeNoted(operator=operator, stake=stake, since=note.since)


@external
def offer(job: uint256, operator: uint256):
    """
    @notice Offers to be a custodian of a job, and puts up the reserve. Where offers are many, the one with the least stake ends.
    """
    if state.request_words[job] == 0:
        state._refuse("custody: nothing requested")
    if not staticcall INodeRegistry(state.registry).is_eligible(operator, msg.sender):
        state._refuse("custody: not eligible")
    record: ITaskViews.Job = state._job(job)
    if record.state > numbers.RUNNING:
        state._refuse("custody: job is over")
    progress: words.Progress = state._progress(job)
    if progress.draw_block != 0:
        state._refuse("custody: draw scheduled")
    if state.role_words[job][operator] != 0:
        state._refuse("custody: already offered")
    weight: uint256 = self._aged_stake(operator)
    if weight == 0:
        state._refuse("custody: stake too young")
    reserve: uint256 = words._unpack_request(state.request_words[job]).reserve
    if reserve > state.funds[record.token][operator]:
        state._refuse("custody: amount exceeds funds")
    place: uint256 = progress.offers
    if place == words.MAX_OFFERS:
        least: uint256 = weight
        for index: uint256 in range(words.MAX_OFFERS):
            other: uint256 = state.offer_words[job][index] & bits.U64
            if other < least:
                least = other
                place = index
        if place >= words.MAX_OFFERS:
            state._refuse("custody: offers full")
        self._end_offer(job, state.offer_words[job][place] >> words.WEIGHT_BITS, record.token)
    else:
        progress.offers += 1
        state.progress_words[job] = words._pack_progress(progress)
    state.funds[record.token][operator] -= reserve
    state.offer_words[job][place] = operator << words.WEIGHT_BITS | weight
    state.role_words[job][operator] = words._pack_role(
        words.Role(reserve=reserve, status=words.OFFERED, index=0)
    )
    log CustodyOffered(job=job, operator=operator, weight=weight)


@external
def retire(job: uint256, place: uint256):
    """
    @notice Ends an offer that was not drawn, unless a draw is about to read it.
    """
    progress: words.Progress = state._progress(job)
    if place >= progress.offers:
        state._refuse("custody: no offer")
    operator: uint256 = state.offer_words[job][place] >> words.WEIGHT_BITS
    state._check_hot(operator)
    if progress.draw_block != 0:
        state._refuse("custody: draw scheduled")
    progress.offers -= 1
    state.offer_words[job][place] = state.offer_words[job][progress.offers]
    state.offer_words[job][progress.offers] = 0
    state.progress_words[job] = words._pack_progress(progress)
    self._end_offer(job, operator, state._job(job).token)


@external
@reentrant
@view
def offers(job: uint256, place: uint256) -> (uint256, uint256):
    """
    @notice An offer that was not drawn: operator and weight.
    """
    word: uint256 = state.offer_words[job][place]
    return word >> words.WEIGHT_BITS, word & bits.U64


@external
@reentrant
@view
def aged_stake(operator: uint256) -> uint256:
    """
    @notice By which weight an operator would be drawn now.
    """
    return self._aged_stake(operator)


@internal
@view
def _aged_stake(operator: uint256) -> uint256:
    note: words.Note = state.notes[operator]
    if note.since == 0 or state._now() < note.since + state.exit_delay_s:
        return 0
    return min(note.stake, staticcall INodeRegistry(state.registry).stake_of(operator) // STAKE_UNIT)


@internal
def _end_offer(job: uint256, operator: uint256, token: address):
    state.funds[token][operator] += words._unpack_role(state.role_words[job][operator]).reserve
    state.role_words[job][operator] = 0
    log OfferEnded(job=job, operator=operator)
