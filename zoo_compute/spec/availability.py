"""Availability: data is asked for, and shown or lost (docs/protocol/availability.md)."""

from dataclasses import replace

from zoo_compute.spec import convictions, custody, custody_turns, merkle, seats
from zoo_compute.spec.custodians import Committee
from zoo_compute.spec.params import (
    ANSWER_GAS,
    LANE_DEMANDS,
    LEAST_BASE_FEE,
    STRANGERS_LANE,
    SUBMITTER_LANE,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import known
from zoo_compute.spec.state import Claim, JobState, Message, World
from zoo_compute.spec.watching import NO_SIGNER, NOBODY, Demand, Holding, Opening, Spent

# Open at once, of one signer in a job and lane, of whatever claims: to build an answer takes time.
SIGNER_DEMANDS = 2


def least_deposit(base_fee: int) -> int:
    """What prepays an answer at twice the base fee."""
    return 2 * ANSWER_GAS * max(base_fee, LEAST_BASE_FEE)


def demand(w: World, msg: Message, job: int, claim: Claim, lane: int, slot: int, tensor: int, group: int) -> None:
    """One chunk of a pending claim's data, of its author."""
    require(not w.run(job).has_custodians, "availability: signers answer")
    _open(w, msg, job, claim, NO_SIGNER, lane, slot, tensor, group)


def demand_of_signer(
    w: World,
    msg: Message,
    job: int,
    claim: Claim,
    lane: int,
    slot: int,
    tensor: int,
    group: int,
    index: int,
    committee: Committee,
) -> None:
    """Likewise, of one that signed for it once its turn was closed."""
    require(claim.turn < w.run(job).turn, "availability: turn is open")
    signer = custody_turns.signer_of(w, job, claim.turn, claim.seat, committee, index)
    require(w.custody_roles[job, signer].reserve > 0, "availability: nothing reserved")
    _open(w, msg, job, claim, signer, lane, slot, tensor, group)


def _open(
    w: World, msg: Message, job: int, claim: Claim, signer: int, lane: int, slot: int, tensor: int, group: int
) -> None:
    answer_s, run = w.config.preset.answer_s, w.run(job)
    require(known(w, job, claim) is not None, "availability: unknown claim")
    is_its = _is_holder(w, job, lane, msg.sender, others=(claim.operator, signer))
    require(is_its, "availability: not the lane's holder")
    is_there = _has_slot(claim, slot) and tensor < 2**32 and group < 2**40
    require(is_there, "availability: nothing there")
    require(msg.now + 2 * answer_s <= seats.claim_deadline(w, job, claim.turn), "availability: too late")
    before = w.demands.get((job, claim, lane), Demand())
    require(not before.is_open, "availability: demand open")
    require(before.asked < LANE_DEMANDS, "availability: demands spent")
    of_signer = w.signer_demands.get((job, lane, signer), 0)
    require(signer == NO_SIGNER or of_signer < SIGNER_DEMANDS, "availability: signer is busy")
    require(msg.value >= least_deposit(msg.base_fee), "availability: deposit too small")
    spent = w.spent.get((job, lane), Spent())
    may_hold = spent.turn != run.turn or spent.seconds < answer_s
    holds = run.state == JobState.RUNNING and lane < SUBMITTER_LANE and may_hold
    w.coin += msg.value
    if signer:
        w.signer_demands[job, lane, signer] = of_signer + 1
    w.demands[job, claim, lane] = Demand(
        msg.sender, msg.value, before.asked + 1, msg.now, slot, tensor, group, run.turn, holds, signer
    )
    if holds:
        _hold(w, msg, job)


def answer(w: World, msg: Message, job: int, claim: Claim, lane: int, opening: Opening) -> None:
    """The bytes. Until half of the time is over whoever was asked is owed the deposit, later whoever answers. Then anybody but the
    custodian that was asked only helps: it may still answer.
    """
    asked, answer_s = _open_demand(w, job, claim, lane), w.config.preset.answer_s
    require(msg.now <= asked.opened_at + answer_s, "availability: answer too late")
    require(has_chunk(claim, asked, opening), "availability: bytes do not match")
    if msg.now <= asked.opened_at + answer_s // 2:
        _end(w, msg, job, claim, lane, w.operator(asked.signer or claim.operator).owner)
    elif asked.signer == NO_SIGNER or w.operator(asked.signer).hot == msg.sender:
        _end(w, msg, job, claim, lane, msg.sender)
    else:
        require(not asked.is_helped, "availability: already shown")
        _pay(w, msg, job, claim, lane, msg.sender)


def close(w: World, msg: Message, job: int, claim: Claim, lane: int) -> None:
    """A demand that was not answered in time ends with the claim, or with the signer's reserve, of which it keeps a part if somebody
    helped: others have what it signed for.
    """
    asked = _open_demand(w, job, claim, lane)
    require(msg.now > asked.opened_at + w.config.preset.answer_s, "availability: window open")
    _end(w, msg, job, claim, lane, asked.demander)
    here = replace(msg, sender=w.config.availability)
    if asked.signer:
        kept = custody.reserve_after_help(w.custody_requests[job].reserve) if asked.is_helped else 0
        custody.forfeit(w, here, job, asked.signer, kept)
    elif known(w, job, claim) is not None:
        convictions.void(w, here, job, claim)


def withdraw(w: World, msg: Message, account: str) -> int:
    amount = w.coin_owed.get(account, 0)
    require(amount > 0, "availability: nothing owed")
    require(not w.refuses_coin.get(account, False), "availability: transfer failed")
    w.coin_owed[account] = 0
    w.coin -= amount
    return amount


def has_chunk(claim: Claim, asked: Demand, opening: Opening) -> bool:
    """Whether an opening leads to the claim's root, at the place that was asked for."""
    state = data_root(asked, opening)
    if claim.is_aggregation:
        return state == claim.root
    result = merkle.result_root(asked.slot, claim.start_root, opening.segment_root, opening.end_root, state)
    return claim.has_result(asked.slot, result, opening.result_path)


def data_root(asked: Demand, opening: Opening) -> bytes:
    """The root of the state or the update whose chunk an opening shows."""
    leaf = merkle.PADDING
    if opening.head:
        group = merkle.group_root(opening.chunk, below=bool(opening.tensor_path))
        elements = merkle.climb(group, asked.group, opening.tensor_path)
        leaf = merkle.state_leaf(opening.name, merkle.tensor_root(opening.head, elements))
    return merkle.climb(leaf, asked.tensor, opening.state_path)


def _is_holder(w: World, job: int, lane: int, account: str, *, others: tuple[int, int]) -> bool:
    """Whether a lane is the account's; from a seat nobody demands its own data, or of itself. others: the author, and who is asked."""
    if lane in (SUBMITTER_LANE, STRANGERS_LANE):
        return lane == STRANGERS_LANE or w.job(job).submitter == account
    operator = w.seat(job, lane).operator
    return operator != 0 and operator not in others and w.operator(operator).hot == account


def _has_slot(claim: Claim, slot: int) -> bool:
    if claim.is_aggregation:
        return slot == 0
    first = claim.scope >> 16
    return first <= slot < first + claim.count


def _open_demand(w: World, job: int, claim: Claim, lane: int) -> Demand:
    asked = w.demands.get((job, claim, lane), Demand())
    require(asked.is_open, "availability: no demand")
    return asked


def _end(w: World, msg: Message, job: int, claim: Claim, lane: int, payee: str) -> None:
    holds, signer = w.demands[job, claim, lane].holds, w.demands[job, claim, lane].signer
    if signer:
        w.signer_demands[job, lane, signer] -= 1
    _pay(w, msg, job, claim, lane, payee)
    w.demands[job, claim, lane] = replace(w.demands[job, claim, lane], demander=NOBODY, holds=holds)


def _pay(w: World, msg: Message, job: int, claim: Claim, lane: int, payee: str) -> None:
    """Pays the deposit to the payee; clocks that the demand stopped run again."""
    asked = w.demands[job, claim, lane]
    w.demands[job, claim, lane] = replace(asked, deposit=0, holds=False)
    w.coin_owed[payee] = w.coin_owed.get(payee, 0) + asked.deposit
    if asked.holds:
        _spend(w, msg, job, lane, asked)
        _release(w, msg, job)


def _spend(w: World, msg: Message, job: int, lane: int, asked: Demand) -> None:
    seconds, spent = min(msg.now - asked.opened_at, w.config.preset.answer_s), w.spent.get((job, lane), Spent())
    if spent.turn == asked.turn:
        seconds += spent.seconds
    if spent.turn <= asked.turn:
        w.spent[job, lane] = Spent(asked.turn, seconds)


def _hold(w: World, msg: Message, job: int) -> None:
    holding = w.holdings.get(job, Holding())
    if not holding.open:
        convictions.hold(w, replace(msg, sender=w.config.availability), job)
        holding = Holding(since=msg.now)
    w.holdings[job] = replace(holding, open=holding.open + 1, until=msg.now + w.config.preset.answer_s)


def _release(w: World, msg: Message, job: int) -> None:
    holding = w.holdings[job]
    if holding.open > 1:
        w.holdings[job] = replace(holding, open=holding.open - 1)
        return
    w.holdings[job] = Holding()
    seconds = min(holding.until, msg.now) - max(holding.since, w.run(job).opened_at)
    convictions.resume(w, replace(msg, sender=w.config.availability), job, max(seconds, 0))
