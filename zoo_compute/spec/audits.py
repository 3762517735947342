"""Audits: budgets, auditors' deposits and places, draws and verdicts (docs/protocol/audits.md). How verdicts end: `audit_ends`."""

from dataclasses import dataclass, replace

from eth_utils.crypto import keccak

from zoo_compute.spec import seats
from zoo_compute.spec.auditing import (
    FIRST_SLOT_UNIT,
    Budget,
    Draw,
    Funds,
    Role,
    Statement,
    Verdicts,
    assigned,
    has_unit,
)
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.params import BOUNTY_FEES, MAX_PLACES, PLACE_CHANGES_READ, RESERVED_FEES
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, JobState, Message, World

# --- money of jobs


def fund(w: World, msg: Message, job: int, amount: int) -> None:
    require(amount > 0, "audits: zero amount")
    record = w.job(job)
    require(record.state not in (JobState.NONE, JobState.CANCELLED), "audits: no such job")
    budget = w.budget_of(job)
    w.audit_budgets[job] = replace(budget, balance=budget.balance + amount)
    w.move(record.token, msg.sender, w.config.audits, amount, by="audits")


def refund(w: World, msg: Message, job: int) -> None:
    """To the submitter, whoever paid it in."""
    record, budget = w.job(job), w.budget_of(job)
    require(record.state in (JobState.ENDED, JobState.CANCELLED), "audits: job not over")
    require(budget.balance > 0, "audits: nothing left")
    w.audit_budgets[job] = replace(budget, balance=0)
    owe(w, record.token, record.submitter, budget.balance)


# --- auditors


def deposit(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    require(w.operator(operator).owner != ZERO_ADDRESS, "audits: no such operator")
    require(amount > 0, "audits: zero amount")
    funds = w.audit_funds_of(operator, token)
    w.audit_funds[operator, token] = replace(funds, balance=funds.balance + amount)
    w.move(token, msg.sender, w.config.audits, amount, by="audits")


def pay_out(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    """What is free, to the owner."""
    _require_owner(w, msg, operator)
    funds = w.audit_funds_of(operator, token)
    require(0 < amount <= funds.free, "audits: amount exceeds free deposit")
    w.audit_funds[operator, token] = replace(funds, balance=funds.balance - amount)
    w.move(token, w.config.audits, msg.sender, amount, by="audits")


def offer(w: World, msg: Message, operator: int, count: int) -> None:
    """Takes places at the end of the list, each behind a bond."""
    _require_owner(w, msg, operator)
    require(1 <= count <= MAX_PLACES, "audits: places out of range")
    record, preset = w.operator(operator), w.config.preset
    is_eligible = record.exit_at == 0 and record.stake >= preset.min_stake
    require(is_eligible, "audits: not eligible")
    reserve(w, operator, w.config.zen, count * preset.audit_bond)
    for place in range(w.place_count, w.place_count + count):
        _change(w, place, operator, msg.now)
    w.place_count += count
    w.place_counts[operator] = w.place_counts.get(operator, 0) + count


def leave(w: World, msg: Message, operator: int, places: tuple[int, ...]) -> None:
    """One after the other; the last place that there is moves to where each was."""
    _require_owner(w, msg, operator)
    require(len(places) > 0, "audits: places out of range")
    for place in places:
        is_own = place < w.place_count and _holder_now(w, place) == operator
        require(is_own, "audits: not its place")
        w.place_count -= 1
        if place != w.place_count:
            _change(w, place, _holder_now(w, w.place_count), msg.now)
        _change(w, w.place_count, 0, msg.now)
    release(w, operator, w.config.zen, len(places) * w.config.preset.audit_bond)
    w.place_counts[operator] -= len(places)


def holder(w: World, place: int, at: int) -> int:
    """Who held a place just before a second."""
    for operator, since in reversed(w.places.get(place, ())[-PLACE_CHANGES_READ:]):
        if since < at:
            return operator
    return 0


def _holder_now(w: World, place: int) -> int:
    return w.places[place][-1][0]


def _change(w: World, place: int, operator: int, now: int) -> None:
    w.places[place] = (*w.places.get(place, ()), (operator, now))


# --- draws


def draw_units(w: World, msg: Message, job: int, turn: int) -> None:
    """Names the next block; later reads its hash. One whose hash is forgotten is drawn again: waiting gains nothing."""
    draw = w.draw_of(job, turn)
    require(not draw.is_drawn, "audits: already drawn")
    if draw.block:
        require(msg.block > draw.block + w.config.preset.draw_blocks, "audits: draw block not buried")
        known = w.block_hashes.get(draw.block)
        if known is not None:
            seed = bytes(keccak(known + job.to_bytes(32, "big") + turn.to_bytes(32, "big")))
            w.draws[job, turn] = replace(draw, is_drawn=True, seed=seed)
            return
    require(w.budget_of(job) != Budget(), "audits: nothing funded")
    require(w.place_count > 0, "audits: no auditors")
    deadline = seats.claim_deadline(w, job, turn)
    require(deadline != UINT256_MAX, "audits: turn still open")
    require(msg.now < deadline, "audits: window over")
    w.draws[job, turn] = Draw(msg.block + 1, msg.now, w.place_count, deadline, w.terms[job].audit_bps)


def judge_of(w: World, draw: Draw, unit: int, author: int, role: int) -> int:
    """Whom a unit of an operator's claim falls to; 0 for nobody."""
    return assigned(draw, unit, author, lambda place: holder(w, place, draw.named_at))[0 if role == Role.AUDITOR else 1]


# --- verdicts


@dataclass(frozen=True, slots=True)
class Cost:
    """Of verdicts: their fees, and what they reserve of the job's budget."""

    fees: int
    budget: int


def fee_of(w: World, job: int, unit: int) -> int:
    """What a verdict is paid: a re-execution at the job's reserve."""
    terms = w.terms[job]
    return terms.aggregator_reserve if unit < FIRST_SLOT_UNIT else terms.reserve


def cost_of(w: World, job: int, verdicts: Verdicts) -> Cost:
    fees = [(fee_of(w, job, unit), has_unit(verdicts.wrong, unit)) for unit in verdicts.units]
    total = sum(fee for fee, _ in fees)
    return Cost(total, total + BOUNTY_FEES * sum(fee for fee, is_wrong in fees if is_wrong))


def give_verdicts(w: World, msg: Message, job: int, turn: int, operator: int, verdicts: Verdicts) -> None:
    """All of an operator's verdicts of a turn and a half. Whether the units are its own is checked when they are settled."""
    draw = w.draw_of(job, turn)
    require(draw.is_drawn, "audits: not drawn")
    require(msg.now <= draw.deadline, "audits: window over")
    require(w.operator(operator).hot == msg.sender, "audits: not the hot key")
    key = job, turn, operator, draw.role_at(msg.now)
    require(key not in w.statements, "audits: verdicts given")
    require(len(verdicts.units) > 0, "audits: no verdicts")
    is_plain = not any(clean & wrong for clean, wrong in zip(verdicts.clean, verdicts.wrong, strict=False))
    require(is_plain, "audits: two verdicts")
    cost, budget = cost_of(w, job, verdicts), w.budget_of(job)
    reserve(w, operator, w.job(job).token, cost.fees * RESERVED_FEES)
    require(cost.budget <= budget.balance, "audits: budget spent")
    w.audit_budgets[job] = Budget(budget.balance - cost.budget, budget.reserved + cost.budget)
    w.statements[key] = Statement(verdicts, msg.now, verdicts)


def withdraw(w: World, msg: Message, token: str, account: str) -> int:
    amount = w.audit_owed.get((token, account), 0)
    require(amount > 0, "audits: nothing owed")
    w.audit_owed[token, account] = 0
    w.move(token, w.config.audits, account, amount, by="audits")
    return amount


# --- what is shared


def reserve(w: World, operator: int, token: str, amount: int) -> None:
    funds = w.audit_funds_of(operator, token)
    require(amount <= funds.free, "audits: deposit too small")
    w.audit_funds[operator, token] = replace(funds, reserved=funds.reserved + amount)


def release(w: World, operator: int, token: str, amount: int, lost: int = 0) -> None:
    funds = w.audit_funds_of(operator, token)
    assert lost <= amount <= funds.reserved, "more is released than was reserved"
    w.audit_funds[operator, token] = Funds(funds.balance - lost, funds.reserved - amount)


def owe(w: World, token: str, account: str, amount: int) -> None:
    if amount:
        w.audit_owed[token, account] = w.audit_owed.get((token, account), 0) + amount


def _require_owner(w: World, msg: Message, operator: int) -> None:
    owner = w.operator(operator).owner
    require(owner == msg.sender != ZERO_ADDRESS, "audits: not the owner")
