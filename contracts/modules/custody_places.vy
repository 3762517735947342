# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Custodians that change a key or leave their place, and what that costs them
@license Apache-2.0
"""


from ..interfaces import ISettlementViews
from . import custody_state as state
from . import custody_words as words
from . import numbers


uses: state


# Of the reserve, for a turn in which too few signed, of each who did not.
LAPSE_BPS: constant(uint256) = 100
SLOT_TIMES: constant(uint256) = 2


event CustodianLapsed:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    burned: uint256


event CustodianResigned:
    job: indexed(uint256)
    operator: indexed(uint256)


event ReserveForfeited:
    job: indexed(uint256)
    operator: indexed(uint256)
    burned: uint256


event CustodianExpelled:
    job: indexed(uint256)
    operator: indexed(uint256)


@external
def note_key(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian's hot key changed: from now on the new one signs. Anyone may say so.
    """
    progress: words.Progress = state._progress(job)
    member: words.Member = state._member(job, progress.version, committee, index)
    key: uint256 = state._key(words._operator_of(member))
    if key == member.key:
        state._refuse("custody: nothing changed")
    members: DynArray[words.Member, words.MAX_CUSTODIANS] = committee
    members[index].key = key
    state._change(job, progress, members)


@external
def resign(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian asks to be replaced. Until a draw does so it has its place, and keeps what it signed for till the end.
    """
    progress: words.Progress = state._progress(job)
    operator: uint256 = words._operator_of(state._member(job, progress.version, committee, index))
    state._check_hot(operator)
    if progress.vacant >> index & 1 != 0:
        state._refuse("custody: nothing changed")
    if progress.draw_block != 0:
        state._refuse("custody: draw scheduled")
    if progress.vacant == 0:
        # Nobody resigns to have others wait.
        progress.vacated_at = state._now()
    progress.vacant |= 1 << index
    state.progress_words[job] = words._pack_progress(progress)
    log CustodianResigned(job=job, operator=operator)


@external
def lapse(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice Too few signed for the open turn's inputs in time: a custodian that did not loses its place and a part of its reserve.
            A custodian that lacks an update signs for the seats it holds, or for none, and is excused.
    """
    run: ISettlementViews.Run = state._run(job)
    if run.state != numbers.RUNNING or run.opened_at == 0:
        state._refuse("custody: no open turn")
    if run.holds > 0 or state._now() <= run.opened_at + SLOT_TIMES * run.slot_s + state.answer_s:
        state._refuse("custody: time left")
    progress: words.Progress = state._progress(job)
    member: words.Member = state._member(job, progress.version, committee, index)
    # INVARIANT duty: nobody lapses in a turn that was open when it was drawn, or for its predecessor.
    if words._from_of(member) > run.turn:
        state._refuse("custody: not on duty")
    record: words.Record = state._record_at(job, progress, run.turn)
    if record.version != 0 and record.turn == run.turn:
        if record.signed_at != 0:
            state._refuse("custody: inputs are held")
        if record.answered >> index & 1 != 0:
            state._refuse("custody: it signed")
    operator: uint256 = words._operator_of(member)
    role: words.Role = words._unpack_role(state.role_words[job][operator])
    lost: uint256 = role.reserve * LAPSE_BPS // numbers.BPS
    role.reserve -= lost
    state.role_words[job][operator] = words._pack_role(role)
    state.burned[state._job(job).token] += lost
    log CustodianLapsed(job=job, operator=operator, turn=run.turn, burned=lost)
    state._vacate(job, progress, committee, index)


@external
def forfeit(job: uint256, operator: uint256, kept: uint256) -> bool:
    """
    @notice A custodian did not show what it signed for: its reserve burns, so that nobody preys on outages.
    @param kept What it keeps: nothing, unless somebody else showed it.
    @return Whether it had more than that. Several demands may end one after the other: the first takes it.
    """
    if msg.sender != state.availability:
        state._refuse("custody: not the availability")
    role: words.Role = words._unpack_role(state.role_words[job][operator])
    if role.reserve <= kept:
        return False
    lost: uint256 = unsafe_sub(role.reserve, kept)
    role.reserve = kept
    state.role_words[job][operator] = words._pack_role(role)
    state.burned[state._job(job).token] += lost
    log ReserveForfeited(job=job, operator=operator, burned=lost)
    return True


@external
def expel(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian whose reserve, or a part of it, is forfeit loses its place. Anyone may call it, once no draw is scheduled.
    """
    progress: words.Progress = state._progress(job)
    operator: uint256 = words._operator_of(state._member(job, progress.version, committee, index))
    reserve: uint256 = words._unpack_request(state.request_words[job]).reserve
    # Whoever has a place has all of it, unless it is forfeit.
    if words._unpack_role(state.role_words[job][operator]).reserve == reserve:
        state._refuse("custody: its reserve is here")
    if state._job(job).state > numbers.RUNNING:
        # Reserves go back then.
        state._refuse("custody: job is over")
    log CustodianExpelled(job=job, operator=operator)
    state._vacate(job, progress, committee, index)
