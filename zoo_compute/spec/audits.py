"""Audits: chance picks what is re-executed, and who is paid for it (docs/protocol/audits.md)."""

from dataclasses import replace

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle, rewards
from zoo_compute.spec.params import (
    AUDIT_PLACES,
    BPS,
    FALSE_ATTESTATION_BPS,
    MAX_AUDIT_FEE,
    MAX_SEGMENTS,
    OPENER_BPS,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import is_parked, known, status_of
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, ClaimStatus, JobState, Message, World
from zoo_compute.spec.watching import (
    NOBODY,
    Attestation,
    Auditor,
    Draw,
    Plan,
    Seal,
    SegmentOpening,
    Status,
    Unit,
)


def chance(seed: bytes, *numbers: int) -> int:
    """keccak256(abi_encode(seed, ...)) as a number."""
    return int.from_bytes(keccak(seed + b"".join(number.to_bytes(32, "big") for number in numbers)), "big")


def is_drawn(draw: Draw, plan: Plan, unit: int) -> bool:
    return draw.stale or chance(draw.seed, unit) % BPS < plan.rate_bps


def is_selected(draw: Draw, unit: int, operator: int, bond: int) -> bool:
    """With probability AUDIT_PLACES * bond / bonded."""
    ticket = chance(draw.seed, unit, operator) >> 128
    return draw.stale or ticket * draw.bonded < (AUDIT_PLACES * bond) << 128


def offer(w: World, msg: Message, job: int, fee: int, rate_bps: int, segments: int) -> None:
    require(w.job(job).submitter == msg.sender, "audits: not the submitter")
    require(job not in w.plans, "audits: already offered")
    require(1 <= fee <= MAX_AUDIT_FEE, "audits: fee out of range")
    require(1 <= rate_bps <= BPS, "audits: rate out of range")
    require(1 <= segments <= MAX_SEGMENTS, "audits: segments out of range")
    w.plans[job] = Plan(fee, rate_bps, segments)


def fund(w: World, msg: Message, job: int, amount: int) -> None:
    require(job in w.plans, "audits: nothing offered")
    require(amount > 0, "audits: zero amount")
    w.plans[job] = replace(w.plans[job], balance=w.plans[job].balance + amount)
    w.move(w.job(job).token, msg.sender, w.config.audits, amount, by="audits")


def refund(w: World, msg: Message, job: int) -> None:
    """To the submitter, whoever paid it in."""
    record, plan = w.job(job), w.plans.get(job, Plan())
    require(record.state in (JobState.ENDED, JobState.CANCELLED), "audits: job not over")
    require(plan.balance > 0, "audits: nothing left")
    w.plans[job] = replace(plan, balance=0)
    _owe(w, record.token, record.submitter, plan.balance)


def enlist(w: World, msg: Message, operator: int, amount: int) -> None:
    _require_owner(w, msg, operator)
    bond = _auditor(w, operator).bond + amount
    require(amount > 0 and bond >= w.config.preset.audit_bond, "audits: bond below the minimum")
    w.auditors[operator] = replace(_auditor(w, operator), bond=bond, since=msg.now)
    w.bonded += amount
    w.move(w.config.zen, msg.sender, w.config.audits, amount, by="audits")


def resign(w: World, msg: Message, operator: int) -> None:
    _require_owner(w, msg, operator)
    auditor = _auditor(w, operator)
    require(auditor.bond > 0, "audits: not enlisted")
    require(auditor.open == 0, "audits: attestations open")
    w.auditors[operator] = Auditor()
    w.bonded -= auditor.bond
    _owe(w, w.config.zen, msg.sender, auditor.bond)


def schedule(w: World, msg: Message, job: int, turn: int) -> None:
    require(job in w.plans, "audits: nothing offered")
    require((job, turn) not in w.draws, "audits: already scheduled")
    require(turn < w.run(job).turn, "audits: turn still open")
    require(not _is_final(w, job, turn), "audits: turn is final")
    w.draws[job, turn] = Draw(msg.now, msg.block + 1, window_s=w.run(job).window_s, bonded=w.bonded)


def draw(w: World, msg: Message, job: int, turn: int) -> None:
    draw = _draw(w, job, turn)
    require(draw.block != 0, "audits: not scheduled")
    require(draw.drawn_at == 0, "audits: already drawn")
    require(msg.block > draw.block + w.config.preset.draw_blocks, "audits: draw block not buried")
    known_hash = w.block_hashes.get(draw.block)
    seed = keccak((known_hash or bytes(32)) + job.to_bytes(32, "big") + turn.to_bytes(32, "big"))
    w.draws[job, turn] = replace(draw, drawn_at=msg.now, stale=known_hash is None, seed=seed)


def attest(w: World, msg: Message, job: int, claim: Claim, unit: int, operator: int, seal: Seal) -> None:
    """A place of a drawn unit, and the fee for it."""
    turn, record, auditor = claim.turn, _draw(w, job, claim.turn), _auditor(w, operator)
    require(record.drawn_at != 0, "audits: not drawn")
    require(msg.now <= record.attest_until, "audits: attesting is over")
    require(w.operator(operator).hot == msg.sender, "audits: not the hot key")
    in_time = auditor.bond > 0 and auditor.since < record.scheduled_at
    require(in_time, "audits: not enlisted in time")
    require(known(w, job, claim) is not None, "audits: unknown claim")
    plan, first = w.plans[job], claim.scope >> 16
    slot = unit // plan.segments
    has_slot = not claim.is_aggregation and first <= slot < first + claim.count
    require(has_slot, "audits: no such unit")
    require(operator != claim.operator, "audits: own work")
    require(is_drawn(record, plan, unit), "audits: unit not drawn")
    anybody = msg.now > record.attest_until - record.phase_s // 2
    require(anybody or is_selected(record, unit, operator, auditor.bond), "audits: not selected")
    key, place = (job, turn, unit), w.units.get((job, turn, unit), Unit())
    require((*key, operator) not in w.attestations, "audits: already attested")
    require(place.attested < AUDIT_PLACES, "audits: places taken")
    require(plan.balance >= plan.fee, "audits: budget spent")
    w.plans[job] = replace(plan, balance=plan.balance - plan.fee, reserved=plan.reserved + plan.fee)
    w.auditors[operator] = replace(auditor, open=auditor.open + 1)
    w.units[key] = replace(place, claim=claim, attested=place.attested + 1)
    w.attestations[(*key, operator)] = Attestation(Status.SEALED, seal)


def reveal(w: World, msg: Message, job: int, turn: int, unit: int, operator: int, root: bytes, salt: bytes) -> None:
    record = _draw(w, job, turn)
    in_phase = record.attest_until < msg.now <= record.attest_until + record.phase_s
    require(record.drawn_at != 0 and in_phase, "audits: not revealing")
    attestation = w.attestations.get((job, turn, unit, operator), Attestation())
    require(attestation.status == Status.SEALED, "audits: no attestation")
    seal = Seal(job, turn, unit, operator, w.operator(operator).hot, root, salt)
    require(attestation.seal == seal, "audits: seal does not match")
    w.attestations[job, turn, unit, operator] = Attestation(Status.REVEALED, root=root)


def open(w: World, msg: Message, job: int, claim: Claim, unit: int, root: bytes, opening: SegmentOpening) -> None:
    """Which root the claim has at the end of an attested unit."""
    record, key = _draw(w, job, claim.turn), (job, claim.turn, unit)
    require(record.drawn_at != 0 and msg.now > record.attest_until, "audits: attesting runs")
    entry = w.units.get(key, Unit())
    require(entry.claim == claim, "audits: no attestation")
    require(entry.opener == NOBODY, "audits: already opened")
    require(_has_unit(claim, unit, w.plans[job].segments, root, opening), "audits: root does not match")
    w.units[key] = replace(entry, opener=msg.sender, root=root)


def falsify(w: World, msg: Message, job: int, claim: Claim, slot: int, leaf: int) -> None:
    """For the referee: the first false leaf of a slot of a claim it convicted."""
    require(msg.sender == w.config.referee, "audits: not the referee")
    w.convicted[job, claim] = True
    key = (job, claim.turn, slot)
    w.falsified[key] = min(leaf, w.falsified.get(key, leaf))


def record_conviction(w: World, msg: Message, job: int, claim: Claim) -> None:
    require(status_of(w, job, claim) == ClaimStatus.CONVICTED, "audits: not convicted")
    w.convicted[job, claim] = True


def settle(w: World, msg: Message, job: int, turn: int, unit: int, operator: int) -> None:
    """An attestation ends: paid, slashed, or neither."""
    key = (job, turn, unit, operator)
    attestation, record = w.attestations.get(key, Attestation()), _draw(w, job, turn)
    require(attestation.status in (Status.SEALED, Status.REVEALED), "audits: no attestation")
    is_over = msg.now > record.drawn_at + 3 * record.phase_s and _is_final(w, job, turn)
    plan, auditor, place = w.plans[job], w.auditors[operator], w.units[job, turn, unit]
    is_open = place.claim is not None and is_parked(w, job, place.claim)
    require(is_over and not is_open, "audits: not final")
    is_paid, is_slashed = verdict(w, job, turn, unit, attestation)
    slashed = auditor.bond * FALSE_ATTESTATION_BPS // BPS if is_slashed else 0
    paid = plan.fee if is_paid else 0
    w.plans[job] = replace(plan, balance=plan.balance + plan.fee - paid, reserved=plan.reserved - plan.fee)
    w.auditors[operator] = replace(auditor, bond=auditor.bond - slashed, open=auditor.open - 1)
    w.attestations[key] = replace(attestation, status=Status.SETTLED)
    reward = slashed * OPENER_BPS // BPS
    w.bonded -= slashed
    w.bonds_burned += slashed - reward
    _owe(w, w.config.zen, place.opener, reward)
    if not is_paid:
        return
    token = w.job(job).token
    _owe(w, token, w.operator(operator).owner, paid)
    if token == w.config.zen:
        weight = w.run(job).flops * (unit % plan.segments + 1) // plan.segments
        rewards.record_verification(w, operator, job, weight, now=msg.block_time)


def verdict(w: World, job: int, turn: int, unit: int, attestation: Attestation) -> tuple[bool, bool]:
    """(paid, slashed), as the table of docs/protocol/ has it."""
    if attestation.status != Status.REVEALED:
        return False, False
    place, segments = w.units[job, turn, unit], w.plans[job].segments
    first_false, leaf = w.falsified.get((job, turn, unit // segments)), unit % segments + 1
    is_opened = place.opener != NOBODY
    if is_opened and place.root != attestation.root:
        assert place.claim is not None, "an attested unit without its claim"
        was_convicted = w.convicted.get((job, place.claim), False)
        was_convicted |= w.parked.get((job, place.claim)) == ClaimStatus.CONVICTED
        return was_convicted, not was_convicted
    if first_false is None or leaf < first_false:
        return True, False
    return False, is_opened and leaf == first_false


def withdraw(w: World, msg: Message, token: str, account: str) -> int:
    amount = w.audit_owed.get((token, account), 0)
    require(amount > 0, "audits: nothing owed")
    w.audit_owed[token, account] = 0
    w.move(token, w.config.audits, account, amount, by="audits")
    return amount


def _has_unit(claim: Claim, unit: int, segments: int, root: bytes, opening: SegmentOpening) -> bool:
    slot, leaf = unit // segments, unit % segments + 1
    segment = merkle.climb(merkle.segment_leaf(opening.step, root), leaf, opening.segment_path)
    result = merkle.result_root(slot, claim.start_root, segment, opening.end_root, opening.update_root)
    return claim.has_result(slot, result, opening.result_path)


def _draw(w: World, job: int, turn: int) -> Draw:
    return w.draws.get((job, turn), Draw())


def _auditor(w: World, operator: int) -> Auditor:
    return w.auditors.get(operator, Auditor())


def _is_final(w: World, job: int, turn: int) -> bool:
    return turn < w.run(job).turn and w.closed_turn(job, turn).pending == 0


def _require_owner(w: World, msg: Message, operator: int) -> None:
    owner = w.operator(operator).owner
    require(owner == msg.sender != ZERO_ADDRESS, "audits: not the owner")


def _owe(w: World, token: str, account: str, amount: int) -> None:
    if amount:
        w.audit_owed[token, account] = w.audit_owed.get((token, account), 0) + amount
