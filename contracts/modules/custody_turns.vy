# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What custodians sign of a job's turns, and their pay
@license Apache-2.0
"""


from ..interfaces import ISettlementViews
from . import bits
from . import claims
from . import custody_shares as shares
from . import custody_signatures as signatures
from . import custody_state as state
from . import custody_words as words
from . import numbers
from . import settlement_words


uses: shares
uses: state


OPEN_TURN: constant(uint256) = max_value(uint256)


event StartSigned:
    job: indexed(uint256)
    signers: uint256


event InputsSigned:
    job: indexed(uint256)
    turn: uint256
    mask: uint256
    # Who holds all of the mask; and who signed before a majority did.
    inputs: uint256
    answered: uint256


event CheckpointSigned:
    job: indexed(uint256)
    turn: uint256
    seat: uint256
    signers: uint256


event CustodiansPaid:
    job: indexed(uint256)
    turns: uint256
    fee: uint256
    signed: uint256


@external
def hold_start(
    job: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice A majority of the committee holds the job's program, data and first state: its first turn opens.
    """
    progress: words.Progress = state._progress(job)
    if progress.version == 0:
        state._refuse("custody: no committee")
    if progress.started != 0:
        state._refuse("custody: already held")
    state._check_committee(job, progress.version, committee)
    if len(signed) < state._least(progress.custodians):
        state._refuse("custody: too few signatures")
    digest: bytes32 = signatures._start_digest(signatures._domain(), job)
    signers: uint256 = self._signers(committee, signed, digest)
    progress.started = 1
    state.progress_words[job] = words._pack_progress(progress)
    log StartSigned(job=job, signers=signers)
    extcall ISettlementViews(state.settlement).start(job)


@external
def hold_inputs(
    job: uint256,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
):
    """
    @notice Custodians hold the updates of these seats in the open turn, whose inputs are complete. Of a majority: nobody commits any
            more, and the seats that all of them hold join the mask. Of fewer: they signed, and do not lapse. Once a majority did,
            those who hold the whole mask are on record.
    @param committee The present one; or, once a majority signed, that of the turn's record.
    """
    if staticcall ISettlementViews(state.settlement).pending(job, turn) != OPEN_TURN:
        state._refuse("custody: turn is closed")
    progress: words.Progress = state._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    if len(inputs) == 0:
        state._refuse("custody: too few signatures")
    is_new: bool = record.signed_at == 0
    record = self._with_inputs(job, progress, record, committee, inputs)
    self._store(job, progress, record)
    if is_new:
        if record.signed_at != 0:
            extcall ISettlementViews(state.settlement).note_custody(job, turn, settlement_words.SIGNED, state.answer_s)
        else:
            run: ISettlementViews.Run = state._run(job)
            if run.state != numbers.RUNNING or run.turn != turn or run.opened_at == 0:
                state._refuse("custody: not the open turn")


@external
def leave_out(job: uint256, turn: uint256):
    """
    @notice Custodians had their time: seats whose inputs no majority of them holds are left out of the open turn. Anyone may call it.
    """
    progress: words.Progress = state._progress(job)
    record: words.Record = state._record_at(job, progress, turn)
    if record.turn != turn or record.signed_at == 0 or state._now() <= record.signed_at + state.answer_s:
        state._refuse("custody: mask is open")
    extcall ISettlementViews(state.settlement).leave_out(job, turn, record.mask)


@external
def post_checkpoint(
    job: uint256,
    seat: uint256,
    turn: uint256,
    mask: uint256,
    root: bytes32,
    cid: bytes32,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice An aggregator posts its share of the open turn's checkpoint, and the inputs of the turn's seats, that a majority of
            custodians holds; the last one closes the turn. With fewer signatures for its share, at least one of another operator
            first, it is short of them: it may be replaced, and is not slashed.
    @param seat The aggregator's.
    @param inputs Those that are not on record yet.
    """
    aggregator: uint256 = (staticcall ISettlementViews(state.settlement).seats(job, seat)).operator
    state._check_hot(aggregator)
    progress: words.Progress = state._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    is_held: bool = record.signed_at != 0
    if len(inputs) > 0:
        record = self._with_inputs(job, progress, record, committee, inputs)
    # INVARIANT held: no seat is taken in, and no checkpoint posted, that a majority does not hold.
    if record.signed_at == 0 or mask & ~record.mask != 0:
        state._refuse("custody: inputs not held")
    message: bytes32 = signatures._checkpoint_message(job, turn, seat, root, cid)
    signers: uint256 = self._checkpoint_signers(job, turn, seat, message, committee, signed)
    if len(signed) >= state._least(progress.custodians):
        place: uint256 = state._place(progress, turn)
        is_first: bool = record.checkpoint == 0
        record.checkpoint = signers
        record.signed_at = state._now()
        state.checkpoints[job][place][seat] = message
        if extcall ISettlementViews(state.settlement).post_checkpoint(job, seat, turn, mask, root, cid):
            record.checkpoint = shares._add(job, place, seat, signers, is_first)
        self._store(job, progress, record)
    else:
        if (
            not is_held
            or len(signed) == 0
            or words._operator_of(committee[signed[0].index]) == aggregator
        ):
            state._refuse("custody: too few signatures")
        self._store(job, progress, record)
        extcall ISettlementViews(state.settlement).note_custody(job, turn, settlement_words.SHORT, 0)


@external
def hold_turn(
    job: uint256,
    seat: uint256,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice More custodians hold a turn's inputs, and what an aggregator posted in it.
    @param seat The aggregator's.
    @param committee Of the turn's record.
    """
    progress: words.Progress = state._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    place: uint256 = state._place(progress, turn)
    if shares._of(job, place, record, seat) == 0:
        state._refuse("custody: no checkpoint")
    if state._now() > record.signed_at + state.answer_s:
        state._refuse("custody: too late")
    if len(inputs) > 0:
        record = self._with_inputs(job, progress, record, committee, inputs)
    if len(signed) > 0:
        # INVARIANT pointer: a signature counts for the root and the pointer that were posted, and for no others.
        message: bytes32 = state.checkpoints[job][place][seat]
        signers: uint256 = self._checkpoint_signers(job, turn, seat, message, committee, signed)
        if shares.signers_of[job][place] == 0:
            record.checkpoint |= signers
        else:
            record.checkpoint = shares._add(job, place, seat, signers, False)
    self._store(job, progress, record)


@external
def count(job: uint256, version: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS]):
    """
    @notice Pays for turns that are final, in their order, as far as this committee signed for them. Where the escrow does not
            cover them (rounds that were done again), all get the same part.
    """
    state._check_committee(job, version, committee)
    progress: words.Progress = state._progress(job)
    signed: uint256[words.MAX_CUSTODIANS] = empty(uint256[words.MAX_CUSTODIANS])
    total: uint256 = 0
    turn: uint256 = progress.counted
    for _: uint256 in range(numbers.MAX_DEPTH):
        if staticcall ISettlementViews(state.settlement).pending(job, turn) != 0:
            break
        record: words.Record = state._record_at(job, progress, turn)
        if record.version != 0 and record.turn == turn:
            if record.version != version:
                break
            for index: uint256 in range(words.MAX_CUSTODIANS):
                count: uint256 = (record.inputs >> index & 1) + (record.checkpoint >> index & 1)
                signed[index] += count
                total += count
        turn += 1
    turns: uint256 = turn - progress.counted
    if turns == 0:
        state._refuse("custody: nothing to count")
    # INVARIANT counted: a turn is counted once, in order, before its place is used again.
    progress.counted = turn
    state.progress_words[job] = words._pack_progress(progress)
    fee: uint256 = 0
    if total > 0:
        fee = min(words._unpack_request(state.request_words[job]).fee, state.escrows[job] // total)
        state.escrows[job] -= fee * total
        token: address = state._job(job).token
        for index: uint256 in range(len(committee), bound=words.MAX_CUSTODIANS):
            if signed[index] > 0:
                state.funds[token][words._operator_of(committee[index])] += fee * signed[index]
    log CustodiansPaid(job=job, turns=turns, fee=fee, signed=total)


@external
@reentrant
@view
def signer_of(
    job: uint256,
    turn: uint256,
    seat: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    index: uint256,
) -> uint256:
    """
    @notice The operator that signed for a claim of this turn at this place: for the inputs of its seat, or for its checkpoint.
    @param committee Of the turn's record.
    """
    progress: words.Progress = state._progress(job)
    record: words.Record = state._record_at(job, progress, turn)
    signers: uint256 = record.inputs
    if seat >= claims.AGGREGATION:
        signers = shares._of(job, state._place(progress, turn), record, seat)
    elif record.mask >> seat & 1 == 0:
        signers = 0
    if record.turn != turn or signers >> index & 1 == 0:
        state._refuse("custody: it did not sign")
    state._check_committee(job, record.version, committee)
    return words._operator_of(committee[index])


@internal
@view
def _record(
    job: uint256,
    progress: words.Progress,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
) -> words.Record:
    """
    @dev The turn's record, or a new one in the place of an older turn that is counted. Until its checkpoint is posted, the present
         committee may take it over: who is not in that any more, or was drawn meanwhile, is not paid for inputs signed before.
    """
    if progress.version == 0:
        state._refuse("custody: no committee")
    if turn < progress.counted:
        state._refuse("custody: turn is counted")
    record: words.Record = state._record_at(job, progress, turn)
    if record.version == 0 or record.turn != turn:
        if record.version != 0 and record.turn >= progress.counted:
            state._refuse("custody: turn not counted")
        record = words.Record(
            turn=turn, version=progress.version, mask=0, signed_at=0, inputs=0, checkpoint=0, answered=0
        )
    if (
        record.version != progress.version
        and record.checkpoint == 0
        and state.committees[job][record.version] != keccak256(abi_encode(committee))
    ):
        record.version = progress.version
        stayed: uint256 = 0
        for index: uint256 in range(len(committee), bound=words.MAX_CUSTODIANS):
            if committee[index].word != 0 and words._from_of(committee[index]) <= turn:
                stayed |= 1 << index
        record.inputs &= stayed
        record.answered &= stayed
    state._check_committee(job, record.version, committee)
    return record


@internal
def _store(job: uint256, progress: words.Progress, record: words.Record):
    state.record_words[job][state._place(progress, record.turn)] = words._pack_record(record)


@internal
def _with_inputs(
    job: uint256,
    progress: words.Progress,
    before: words.Record,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
) -> words.Record:
    record: words.Record = before
    domain: bytes32 = signatures._domain()
    digest: bytes32 = empty(bytes32)
    last: uint256 = 0
    signers: uint256 = 0
    common: uint256 = bits.U128
    for each: signatures.InputsSignature in inputs:
        if digest == empty(bytes32) or each.seats != last:
            last = each.seats
            digest = signatures._inputs_digest(domain, job, record.turn, last)
        self._check_signer(committee, signers, each.index, digest, each.r, each.vs)
        signers |= 1 << each.index
        common &= each.seats
    is_new: bool = record.signed_at == 0
    may_grow: bool = record.checkpoint == 0 and len(inputs) >= state._least(progress.custodians)
    if is_new and not may_grow:
        record.answered |= signers
    elif is_new or state._now() <= record.signed_at + state.answer_s:
        if may_grow and (is_new or common & ~record.mask != 0):
            # INVARIANT mask: a seat joins it by the signatures of a majority, before the checkpoint, and never leaves it.
            record.mask |= common
            record.inputs = 0
            if is_new:
                record.signed_at = state._now()
        # INVARIANT inputs: whoever is on record, and paid, holds the whole mask. If it grows, the others sign again.
        for each: signatures.InputsSignature in inputs:
            if record.mask & ~each.seats == 0:
                record.inputs |= 1 << each.index
    log InputsSigned(
        job=job, turn=record.turn, mask=record.mask, inputs=record.inputs, answered=record.answered
    )
    return record


@internal
def _checkpoint_signers(
    job: uint256,
    turn: uint256,
    seat: uint256,
    message: bytes32,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
) -> uint256:
    digest: bytes32 = signatures._digest(signatures._domain(), message)
    signers: uint256 = self._signers(committee, signed, digest)
    log CheckpointSigned(job=job, turn=turn, seat=seat, signers=signers)
    return signers


@internal
@view
def _signers(
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
    digest: bytes32,
) -> uint256:
    signers: uint256 = 0
    for each: signatures.Signature in signed:
        self._check_signer(committee, signers, each.index, digest, each.r, each.vs)
        signers |= 1 << each.index
    return signers


@internal
@view
def _check_signer(
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signers: uint256,
    index: uint256,
    digest: bytes32,
    r: bytes32,
    vs: bytes32,
):
    """
    @dev Each place signs once, with its custodian's key.
    """
    if (
        index >= len(committee)
        or signers >> index & 1 == 1
        or not signatures._has_signed(committee[index].key, digest, r, vs)
    ):
        state._refuse("custody: not the custodian's signature")
