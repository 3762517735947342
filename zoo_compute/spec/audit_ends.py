"""How the verdicts of auditors end: paid, slashed, or lapsed (docs/protocol/audits.md)."""

from dataclasses import dataclass, replace

from zoo_compute.spec import rewards
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Role, Verdicts, has_unit, lapses_at
from zoo_compute.spec.audits import cost_of, fee_of, judge_of, owe, release
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import MOST_LEFT_S, claim_key
from zoo_compute.spec.params import AGGREGATOR_SEAT, BOUNTY_FEES, BPS, FINDER_BPS, RESERVED_FEES, bounty_of
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import status_of
from zoo_compute.spec.state import Claim, ClaimStatus, Message, World
from zoo_compute.spec.watching import NOBODY


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a claim. slot, finder: of a judged one; `finder` is None until it is known whether there is one."""

    end: End
    slot: int = 0
    is_early: bool = False  # the verdict came before the first ask
    finder: str | None = None
    is_absent: bool = False  # left out of its turn: nobody could show a lie

    def is_judged_at(self, unit: int) -> bool:
        return self.end == End.JUDGED and (unit < FIRST_SLOT_UNIT or unit == self.slot + FIRST_SLOT_UNIT)


@dataclass
class Sums:
    """What settling adds up."""

    deposit: int = 0
    budget: int = 0
    paid: int = 0
    slashed: int = 0
    burned: int = 0
    slots: int = 0


def settle_verdicts(
    w: World,
    msg: Message,
    job: int,
    turn: int,
    operator: int,
    role: int,
    verdicts: Verdicts,
    claims: tuple[Claim, ...],
    first: Verdicts,
) -> None:
    """Of claims that are decided; others are passed over. first: what the units' auditor said, for a replacement."""
    key, draw = (job, turn, operator, role), w.draw_of(job, turn)
    statement = w.statements.get(key)
    require(statement is not None and statement.left == verdicts, "audits: other verdicts")
    assert statement is not None
    require(msg.now > draw.deadline, "audits: window open")
    left, sums = verdicts, Sums()
    for claim in claims:
        outcome = outcome_of(w, job, claim, draw.deadline, statement.said_at) if claim.turn == turn else None
        if outcome is None:
            continue
        for unit in units_of(claim):
            is_wrong = has_unit(left.wrong, unit)
            if (
                not (is_wrong or has_unit(left.clean, unit))
                or judge_of(w, draw, unit, claim.operator, role) != operator
            ):
                continue
            auditor = judge_of(w, draw, unit, claim.operator, Role.AUDITOR)
            before = w.statements.get((job, turn, auditor, Role.AUDITOR)) if role == Role.REPLACEMENT else None
            if before is not None and before.verdicts != first:
                continue
            if outcome.is_judged_at(unit) and not is_wrong and outcome.finder is None:
                continue
            is_late = before is not None and unit in first.units
            bounty = bounty_of(fee_of(w, job, unit), taken_of(w, job, claim) // len(units_of(claim)))
            _end_verdict(w, job, unit, outcome, sums, bounty, is_wrong=is_wrong, is_late=is_late)
            left = left.without(unit)
    require(left != verdicts, "audits: nothing to settle")
    w.statements[key] = replace(statement, left=left)
    _book(w, job, operator, sums)
    if w.job(job).token == w.config.zen and sums.slots:
        rewards.record_verification(w, operator, job, w.terms[job].flops * sums.slots, now=msg.block_time)


def lapse_verdicts(w: World, msg: Message, job: int, turn: int, operator: int, role: int, verdicts: Verdicts) -> None:
    """What nobody settled while it could be is free again, for a fee each."""
    key = job, turn, operator, role
    statement = w.statements.get(key)
    require(statement is not None and statement.left == verdicts, "audits: other verdicts")
    assert statement is not None
    reexecute_s = w.terms[job].reexecute_s
    require(
        msg.now > lapses_at(w.draw_of(job, turn).deadline, reexecute_s, w.config.preset.clocks), "audits: time left"
    )
    require(len(verdicts.units) > 0, "audits: nothing to settle")
    cost = cost_of(w, job, verdicts)
    w.statements[key] = replace(statement, left=Verdicts())
    _book(w, job, operator, Sums(cost.fees * RESERVED_FEES, cost.budget, slashed=cost.fees, burned=cost.fees))


def units_of(claim: Claim) -> tuple[int, ...]:
    if claim.is_aggregation:
        return (claim.seat - AGGREGATOR_SEAT,)
    return tuple(slot + FIRST_SLOT_UNIT for slot in claim.slots)


def taken_of(w: World, job: int, claim: Claim) -> int:
    """What a claim's conviction took of its operator's lock: nothing where earlier ones emptied it."""
    return w.taken_of_lock.get((job, claim), 0)


def outcome_of(w: World, job: int, claim: Claim, deadline: int, said_at: int) -> Outcome | None:
    """None while it is undecided, or where the claim is not known here."""
    status, dispute = status_of(w, job, claim), w.disputes.claims.get(claim_key(job, claim))
    if dispute is None:
        if status is None:
            return None
        is_absent = status == ClaimStatus.ABSENT
        return Outcome(End.SILENT if status == ClaimStatus.CONVICTED else End.FINAL, is_absent=is_absent)
    if dispute.end is None or (status is None and dispute.deadline != deadline):
        return None
    is_early = dispute.left_s < MOST_LEFT_S and said_at < dispute.deadline - dispute.left_s
    if dispute.end == End.AGED:
        return Outcome(End.FINAL)
    if dispute.end != End.JUDGED:
        return Outcome(dispute.end, is_early=is_early)
    finder = w.disputes.finders.get(claim_key(job, claim))
    account = finder.account if finder is not None and finder.is_rewarded else None
    return Outcome(End.JUDGED, dispute.slot, is_early, account)


def _end_verdict(
    w: World, job: int, unit: int, outcome: Outcome, sums: Sums, bounty: int, *, is_wrong: bool, is_late: bool
) -> None:
    fee, is_judged, paid = fee_of(w, job, unit), outcome.is_judged_at(unit), 0
    sums.deposit += fee * RESERVED_FEES
    sums.budget += fee * (1 + BOUNTY_FEES if is_wrong else 1)
    if is_wrong and outcome.end != End.FINAL:
        has_bounty = outcome.is_early and (is_judged or outcome.end != End.JUDGED)
        paid = fee + (bounty if has_bounty else 0)
    elif not is_wrong and not is_judged:
        paid = fee
    elif not is_wrong:
        _slash(w, job, fee * RESERVED_FEES, outcome.finder or NOBODY, sums)
    if paid and not (is_late or outcome.is_absent):
        sums.paid += paid
        sums.slots += unit >= FIRST_SLOT_UNIT


def _slash(w: World, job: int, loss: int, finder: str, sums: Sums) -> None:
    share = loss * FINDER_BPS // BPS if finder != NOBODY else 0
    owe(w, w.job(job).token, finder, share)
    sums.slashed += loss
    sums.burned += loss - share


def _book(w: World, job: int, operator: int, sums: Sums) -> None:
    token, budget = w.job(job).token, w.budget_of(job)
    w.audit_budgets[job] = replace(
        budget, balance=budget.balance + sums.budget - sums.paid, reserved=budget.reserved - sums.budget
    )
    release(w, operator, token, sums.deposit, sums.slashed)
    w.audits_burned[token] = w.audits_burned.get(token, 0) + sums.burned
    owe(w, token, w.operator(operator).owner, sums.paid)
