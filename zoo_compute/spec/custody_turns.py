"""What custodians sign of a job's turns, and what they are paid for it (docs/protocol/custody.md)."""

from collections.abc import Sequence
from dataclasses import replace

from zoo_compute.spec import bits, settlement
from zoo_compute.spec.custodians import (
    CheckpointSignature,
    Committee,
    InputsSignature,
    Progress,
    Record,
    StartSignature,
)
from zoo_compute.spec.params import AGGREGATOR_SEAT, MAX_AGGREGATORS, MAX_CUSTODIANS, MAX_DEPTH, MAX_SEATS
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, Message, World


def hold_start(w: World, msg: Message, job: int, committee: Committee, signed: tuple[StartSignature, ...]) -> None:
    """Program, data and first state."""
    progress = w.custody.get(job, Progress())
    require(progress.version != 0, "custody: no committee")
    require(not progress.started, "custody: already held")
    require_committee(w, job, progress.version, committee)
    require(len(signed) >= progress.least, "custody: too few signatures")
    _signers(committee, [(each.index, each.signer, each.job == job) for each in signed])
    w.custody[job] = replace(progress, started=True)
    settlement.start(w, msg, job)


def hold_inputs(
    w: World, msg: Message, job: int, turn: int, committee: Committee, inputs: tuple[InputsSignature, ...]
) -> None:
    """The first of a majority end the turn's inputs."""
    run = w.run(job)
    require(turn >= run.turn, "custody: turn is closed")
    record = _record(w, job, turn, committee)
    require(len(inputs) > 0, "custody: too few signatures")
    is_new = record.signed_at == 0
    record = _with_inputs(w, msg, job, record, committee, inputs)
    _store(w, job, record)
    if is_new and record.signed_at:
        settlement.note_inputs(w, msg, job, turn)
    elif is_new:
        require(run.is_open and run.turn == turn, "custody: not the open turn")


def leave_out(w: World, msg: Message, job: int, turn: int) -> None:
    """Once custodians had their time: committed seats whose inputs no majority holds are absent."""
    progress = w.custody.get(job, Progress())
    record = w.custody_records.get((job, turn % (progress.depth + 1)), Record())
    is_over = record.turn == turn and record.signed_at != 0 and msg.now > record.signed_at + w.config.preset.answer_s
    require(is_over, "custody: mask is open")
    settlement.leave_out(w, msg, job, turn, record.mask)


def post_checkpoint(
    w: World,
    msg: Message,
    job: int,
    seat: int,
    turn: int,
    mask: int,
    root: bytes,
    cid: bytes,
    committee: Committee,
    inputs: tuple[InputsSignature, ...],
    signed: tuple[CheckpointSignature, ...],
) -> None:
    """For an aggregator: of what a majority holds. With fewer signatures it is known to be short of them."""
    aggregator = w.seat(job, seat).operator
    require(w.operator(aggregator).hot == msg.sender, "custody: not the hot key")
    record = _record(w, job, turn, committee)
    is_on_record = record.signed_at != 0
    if inputs:
        record = _with_inputs(w, msg, job, record, committee, inputs)
    is_signed = record.signed_at != 0 and bits.without(mask, record.mask) == 0
    require(is_signed, "custody: inputs not held")
    signers = _checkpoint_signers((job, turn, seat, root, cid), committee, signed)
    if len(signed) >= w.custody[job].least:
        _store(w, job, _with_signers(w, job, replace(record, signed_at=msg.now), seat, signers))
        w.custody_checkpoints[job, turn % (w.custody[job].depth + 1), seat] = turn, seat, root, cid
        settlement.post_checkpoint(w, replace(msg, sender=w.config.custody), job, seat, turn, mask, root, cid)
        return
    is_short = is_on_record and len(signed) > 0 and committee[signed[0].index].operator != aggregator
    require(is_short, "custody: too few signatures")
    _store(w, job, record)
    settlement.note_short(w, msg, job, turn)


def hold_turn(
    w: World,
    msg: Message,
    job: int,
    seat: int,
    turn: int,
    committee: Committee,
    inputs: tuple[InputsSignature, ...],
    signed: tuple[CheckpointSignature, ...],
) -> None:
    """More signatures for a turn: of what an aggregator posted, for its root and its pointer."""
    record = _record(w, job, turn, committee)
    require(_share_signers(record, seat) > 0, "custody: no checkpoint")
    require(msg.now <= record.signed_at + w.config.preset.answer_s, "custody: too late")
    if inputs:
        record = _with_inputs(w, msg, job, record, committee, inputs)
    if signed:
        posted = w.custody_checkpoints[job, turn % (w.custody[job].depth + 1), seat]
        record = _with_signers(w, job, record, seat, _checkpoint_signers((job, *posted), committee, signed))
    _store(w, job, record)


def count(w: World, msg: Message, job: int, version: int, committee: Committee) -> None:
    """Pays what this committee signed in the turns that are final and not counted yet."""
    require_committee(w, job, version, committee)
    progress, run = w.custody[job], w.run(job)
    turn, signed = progress.counted, [0] * len(committee)
    while turn < min(progress.counted + MAX_DEPTH, run.turn) and w.closed_turn(job, turn).pending == 0:
        record = w.custody_records.get((job, turn % (progress.depth + 1)), Record())
        if record.version and record.turn == turn:
            if record.version != version:
                break
            for index in range(len(committee)):
                signed[index] += (record.inputs >> index & 1) + (record.checkpoint >> index & 1)
        turn += 1
    require(turn > progress.counted, "custody: nothing to count")
    w.custody[job] = replace(progress, counted=turn)
    if sum(signed):
        fee = min(w.custody_requests[job].fee, w.custody_escrows[job] // sum(signed))
        w.custody_escrows[job] -= fee * sum(signed)
        for member, times in zip(committee, signed, strict=True):
            if times:
                add_funds(w, w.job(job).token, member.operator, fee * times)


def signer_of(w: World, job: int, turn: int, seat: int, committee: Committee, index: int) -> int:
    """The operator that signed at this place for a claim of a turn: for its seat's inputs, or for its checkpoint."""
    record = w.custody_records.get((job, turn % (w.custody.get(job, Progress()).depth + 1)), Record())
    signers = record.inputs if record.mask >> seat & 1 else 0
    if seat >= AGGREGATOR_SEAT:
        signers = _share_signers(record, seat)
    has_signed = record.turn == turn and signers >> index & 1 == 1
    require(has_signed, "custody: it did not sign")
    require_committee(w, job, record.version, committee)
    return committee[index].operator


def _record(w: World, job: int, turn: int, committee: Committee) -> Record:
    """A turn's record, or a new one where an older turn's is not needed any more."""
    progress = w.custody.get(job, Progress())
    require(progress.version != 0, "custody: no committee")
    require(turn >= progress.counted, "custody: turn is counted")
    record = w.custody_records.get((job, turn % (progress.depth + 1)), Record())
    if record.version == 0 or record.turn != turn:
        is_free = record.version == 0 or record.turn < progress.counted
        require(is_free, "custody: turn not counted")
        record = Record(turn, progress.version)
    if not record.shares and w.committees.get((job, record.version)) != committee:
        record = _taken_over(record, progress.version, committee)
    require_committee(w, job, record.version, committee)
    return record


def _taken_over(record: Record, version: int, committee: Committee) -> Record:
    """By the present committee: what others signed before is not paid."""
    stayed = bits.full(MAX_CUSTODIANS)
    for index, member in enumerate(committee):
        if member.operator == 0 or member.from_turn > record.turn:
            stayed = bits.without(stayed, bits.bit(index))
    return replace(record, version=version, inputs=record.inputs & stayed, answered=record.answered & stayed)


def _share_signers(record: Record, seat: int) -> int:
    """Who holds what an aggregator posted."""
    share = seat - AGGREGATOR_SEAT
    return record.shares[share] if 0 <= share < len(record.shares) else 0


def _with_signers(w: World, job: int, record: Record, seat: int, signers: int) -> Record:
    """Of what an aggregator posted. Whoever signed for all that was posted is paid for the checkpoint."""
    shares, share = [*record.shares, *[0] * (MAX_AGGREGATORS - len(record.shares))], seat - AGGREGATOR_SEAT
    shares[share] |= signers
    common = bits.full(MAX_CUSTODIANS)
    for each in shares:
        common &= each or common
    posted = bits.bit(MAX_CUSTODIANS) if w.run(job).aggregators > 1 else 0  # even if nobody signed for all
    return replace(record, checkpoint=common | posted, shares=tuple(shares))


def _store(w: World, job: int, record: Record) -> None:
    w.custody_records[job, record.turn % (w.custody[job].depth + 1)] = record


def _with_inputs(
    w: World, msg: Message, job: int, record: Record, committee: Committee, inputs: tuple[InputsSignature, ...]
) -> Record:
    """Before the checkpoint, seats that all of a majority hold join the mask. Whoever is on record holds the whole mask: if it grows, the
    others sign again. Late signatures change nothing.
    """
    signers = _signers(
        committee, [(each.index, each.signer, (each.job, each.turn) == (job, record.turn)) for each in inputs]
    )
    common = bits.full(MAX_SEATS)
    for each in inputs:
        common &= each.seats
    is_new = record.signed_at == 0
    may_grow = not record.shares and len(inputs) >= w.custody[job].least
    if is_new and not may_grow:
        return replace(record, answered=record.answered | signers)
    if not is_new and msg.now > record.signed_at + w.config.preset.answer_s:
        return record
    if may_grow and (is_new or bits.without(common, record.mask)):
        signed_at = msg.now if is_new else record.signed_at
        record = replace(record, mask=record.mask | common, inputs=0, signed_at=signed_at)
    covering = sum(bits.bit(each.index) for each in inputs if not bits.without(record.mask, each.seats))
    return replace(record, inputs=record.inputs | covering)


def _checkpoint_signers(
    wanted: tuple[int, int, int, bytes, bytes], committee: Committee, signed: tuple[CheckpointSignature, ...]
) -> int:
    """wanted: job, turn, seat, root and cid."""
    said = [
        (each.index, each.signer, (each.job, each.turn, each.seat, each.root, each.cid) == wanted) for each in signed
    ]
    return _signers(committee, said)


def _signers(committee: Committee, signed: Sequence[tuple[int, str, bool]]) -> int:
    """The places that signed, each once. signed: (place, who signed, whether it says what it must)."""
    signers = 0
    for index, signer, says_it in signed:
        is_first = index < len(committee) and not signers & bits.bit(index)
        is_its = is_first and committee[index].key == signer and signer != ZERO_ADDRESS and says_it
        require(is_its, "custody: not the custodian's signature")
        signers |= bits.bit(index)
    return signers


def require_committee(w: World, job: int, version: int, committee: Committee) -> None:
    require(w.committees.get((job, version)) == committee, "custody: committee differs")


def add_funds(w: World, token: str, operator: int, amount: int) -> None:
    w.custody_funds[token, operator] = w.custody_funds.get((token, operator), 0) + amount
