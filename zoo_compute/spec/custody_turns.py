"""What custodians sign of a job's turns, and what they are paid for it (docs/protocol/custody.md)."""

from collections.abc import Sequence
from dataclasses import replace

from zoo_compute.spec import bits
from zoo_compute.spec.custodians import (
    CheckpointSignature,
    Committee,
    InputsSignature,
    Progress,
    Record,
    StartSignature,
)
from zoo_compute.spec.params import MAX_DEPTH, MAX_SEATS
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import status_of
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, Message, World


def hold_start(w: World, msg: Message, job: int, committee: Committee, signed: tuple[StartSignature, ...]) -> None:
    """Program, data and first state."""
    progress = w.custody.get(job, Progress())
    require(progress.version != 0, "custody: no committee")
    require(not progress.started, "custody: already held")
    require_committee(w, job, progress.version, committee)
    require(len(signed) >= progress.least, "custody: too few signatures")
    _signers(committee, [(each.index, each.signer, each.job == job) for each in signed])
    w.custody[job] = replace(progress, started=True)


def hold_inputs(
    w: World, msg: Message, job: int, turn: int, committee: Committee, inputs: tuple[InputsSignature, ...]
) -> None:
    run = w.run(job)
    require(turn >= run.turn, "custody: turn is closed")
    progress = w.custody.get(job, Progress())
    record = _record(w, job, turn, committee)
    if record.signed_at == 0 and len(inputs) < progress.least:
        require(run.is_open and run.turn == turn, "custody: not the open turn")
    _store(w, job, _with_inputs(w, msg, job, record, committee, inputs, is_open=True))


def hold_turn(
    w: World,
    msg: Message,
    job: int,
    claim: Claim,
    committee: Committee,
    inputs: tuple[InputsSignature, ...],
    signed: tuple[CheckpointSignature, ...],
) -> None:
    """Of a closed turn: its checkpoint, and its inputs where they are not recorded yet."""
    require(claim.is_aggregation and status_of(w, job, claim) is not None, "custody: unknown claim")
    record = _record(w, job, claim.turn, committee)
    if inputs:
        record = _with_inputs(w, msg, job, record, committee, inputs, is_open=False)
    if signed:
        record = _with_checkpoint(w, msg, job, record, committee, signed, claim.root)
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


def _record(w: World, job: int, turn: int, committee: Committee) -> Record:
    """A turn's record, or a new one where an older turn's is not needed any more."""
    progress = w.custody.get(job, Progress())
    require(progress.version != 0, "custody: no committee")
    require(turn >= progress.counted, "custody: turn is counted")
    record = w.custody_records.get((job, turn % (progress.depth + 1)), Record())
    if record.version == 0 or record.turn != turn:
        is_free = record.version == 0 or record.turn < progress.counted
        require(is_free, "custody: turn not counted")
        record = Record(turn)
    if not record.inputs and not record.checkpoint:
        record = replace(record, version=progress.version)
    require_committee(w, job, record.version, committee)
    return record


def _store(w: World, job: int, record: Record) -> None:
    w.custody_records[job, record.turn % (w.custody[job].depth + 1)] = record


def _with_inputs(
    w: World,
    msg: Message,
    job: int,
    record: Record,
    committee: Committee,
    inputs: tuple[InputsSignature, ...],
    *,
    is_open: bool,
) -> Record:
    signers = _signers(
        committee, [(each.index, each.signer, (each.job, each.turn) == (job, record.turn)) for each in inputs]
    )
    common = bits.full(MAX_SEATS)
    for each in inputs:
        common &= bits.without(each.seats, committee[each.index].own)
    is_new, is_many = record.inputs == 0, len(inputs) >= w.custody[job].least
    adds = is_new or (is_open and bits.without(common, record.mask) != 0)
    if is_many and adds:
        signed_at = msg.now if is_new else record.signed_at
        return replace(record, mask=record.mask | common, inputs=record.inputs | signers, signed_at=signed_at)
    if is_new:
        require(is_open and bool(inputs), "custody: too few signatures")
        return replace(record, answered=record.answered | signers)
    covers = all(bits.without(record.mask, each.seats | committee[each.index].own) == 0 for each in inputs)
    require(covers, "custody: it lacks seats of the mask")
    require(msg.now <= record.signed_at + w.config.preset.answer_s, "custody: too late")
    return replace(record, inputs=record.inputs | signers)


def _with_checkpoint(
    w: World,
    msg: Message,
    job: int,
    record: Record,
    committee: Committee,
    signed: tuple[CheckpointSignature, ...],
    root: bytes,
) -> Record:
    wanted = (job, record.turn, root)
    signers = _signers(
        committee, [(each.index, each.signer, (each.job, each.turn, each.root) == wanted) for each in signed]
    )
    if record.checkpoint == 0:
        require(len(signed) >= w.custody[job].least, "custody: too few signatures")
        record = replace(record, signed_at=msg.now)
    else:
        require(msg.now <= record.signed_at + w.config.preset.answer_s, "custody: too late")
    return replace(record, checkpoint=record.checkpoint | signers)


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
