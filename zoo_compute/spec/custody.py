"""Custody: custodians sign for what they hold, are paid for it, and answer for it (docs/protocol/custody.md)."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb

from eth_utils.crypto import keccak

from zoo_compute.spec import bits, seats
from zoo_compute.spec.custodians import (
    Committee,
    CustodyStatus,
    Member,
    Note,
    Offer,
    Progress,
    Record,
    Request,
    Role,
)
from zoo_compute.spec.custody_turns import add_funds, require_committee
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    BPS,
    CUSTODY_LAPSE_BPS,
    MAX_CUSTODY_OFFERS,
    MAX_CUSTODY_SIZE,
    MAX_PRICE,
    SIGNED_BYTES,
    STAKE_UNIT,
    custodians_of,
    turns_at_risk,
)
from zoo_compute.spec.params import restitution as restitution_of
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, JobState, Message, World

# A quarter of a custodian's reserve, rounded up, for what others had to show in its place; once a job.
HELPED_PART = 4


def fee_of(price: int, size: int) -> int:
    """Of one signature: a round takes two, and the price is per GiB and round."""
    return price * size // SIGNED_BYTES


def reserve_of(cost: int, custodians: int) -> int:
    """What each puts up, so that any majority's reserves cover the cost of doing all again."""
    return -(-cost // ((custodians + 1) // 2))


def escrow_of(fee: int, custodians: int, rounds: int) -> int:
    """What pays every signature of every round."""
    return 2 * fee * custodians * rounds


def capture_chance(custodians: int, hostile: Fraction) -> Fraction:
    """The chance that a majority is drawn from this share of the stake that offers; errs upwards, as no offer is drawn twice."""
    least = (custodians + 1) // 2
    return sum(
        (comb(custodians, count) * hostile**count * (1 - hostile) ** (custodians - count))
        for count in range(least, custodians + 1)
    ) + Fraction(0)


def request(w: World, msg: Message, job: int, price: int, size: int) -> None:
    record = w.job(job)
    require(record.submitter == msg.sender, "custody: not the submitter")
    require(record.state == JobState.OPEN, "custody: job not open")
    require(job not in w.custody_requests, "custody: already requested")
    terms = w.terms[job]
    custodians = custodians_of(terms.policy)
    require(custodians > 0, "custody: no custodians")
    is_paid = price <= MAX_PRICE and size <= MAX_CUSTODY_SIZE and fee_of(price, size) >= 1
    require(is_paid, "custody: price out of range")
    reserve = reserve_of(restitution_of(terms), custodians)
    w.custody_requests[job] = Request(fee_of(price, size), reserve, msg.now + w.config.preset.bid_window_s)
    w.custody[job] = Progress(custodians, turns_at_risk(terms), vacant=bits.full(custodians))


def fund(w: World, msg: Message, job: int, amount: int) -> None:
    require(job in w.custody_requests, "custody: nothing requested")
    require(amount > 0, "custody: zero amount")
    w.custody_escrows[job] = w.custody_escrows.get(job, 0) + amount
    w.move(w.job(job).token, msg.sender, w.config.custody, amount, by="custody")


def refund(w: World, msg: Message, job: int) -> None:
    """To the submitter, whoever paid it in."""
    require(_is_over(w, job), "custody: job not over")
    amount = w.custody_escrows.get(job, 0)
    require(amount > 0, "custody: nothing left")
    w.custody_escrows[job] = 0
    w.move(w.job(job).token, w.config.custody, w.job(job).submitter, amount, by="custody")


def deposit(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    require(w.operator(operator).owner != ZERO_ADDRESS, "custody: unknown operator")
    require(amount > 0, "custody: zero amount")
    add_funds(w, token, operator, amount)
    w.move(token, msg.sender, w.config.custody, amount, by="custody")


def withdraw(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    require(w.operator(operator).owner == msg.sender, "custody: not the owner")
    require(amount > 0, "custody: zero amount")
    require(amount <= w.custody_funds.get((token, operator), 0), "custody: amount exceeds funds")
    add_funds(w, token, operator, -amount)
    w.move(token, w.config.custody, msg.sender, amount, by="custody")


def note_stake(w: World, msg: Message, operator: int) -> None:
    """Anybody may note that stake fell; only its own key that it grew, since that makes it young again."""
    note, stake = w.stake_notes.get(operator, Note()), w.operator(operator).stake // STAKE_UNIT
    require(stake != note.stake, "custody: nothing changed")
    if stake > note.stake:
        _require_hot(w, msg, operator)
        note = replace(note, since=msg.now)
    w.stake_notes[operator] = replace(note, stake=stake)


def aged_stake(w: World, operator: int, now: int) -> int:
    """In STAKE_UNIT: what was noted, and is still there, once it is old enough."""
    note = w.stake_notes.get(operator, Note())
    if note.since == 0 or now < note.since + w.config.preset.exit_delay_s:
        return 0
    return min(note.stake, w.operator(operator).stake // STAKE_UNIT)


def offer(w: World, msg: Message, job: int, operator: int) -> None:
    require(job in w.custody_requests, "custody: nothing requested")
    who = w.operator(operator)
    is_eligible = who.hot == msg.sender and who.exit_at == 0 and who.stake >= w.config.preset.min_stake
    require(is_eligible, "custody: not eligible")
    record, progress = w.job(job), w.custody[job]
    require(record.state <= JobState.RUNNING, "custody: job is over")
    require(progress.draw_block == 0, "custody: draw scheduled")
    is_new = w.custody_roles.get((job, operator), Role()) == Role()
    require(is_new, "custody: already offered")
    weight, reserve = aged_stake(w, operator, msg.now), w.custody_requests[job].reserve
    require(weight > 0, "custody: stake too young")
    require(reserve <= w.custody_funds.get((record.token, operator), 0), "custody: amount exceeds funds")
    offers = w.custody_offers.get(job, ())
    if len(offers) == MAX_CUSTODY_OFFERS:
        least = min(offers, key=lambda each: each.weight)
        require(least.weight < weight, "custody: offers full")
        _end_offer(w, job, least.operator)
        offers = tuple(Offer(operator, weight) if each == least else each for each in offers)
    else:
        offers = (*offers, Offer(operator, weight))
    _set_offers(w, job, offers)
    add_funds(w, record.token, operator, -reserve)
    w.custody_roles[job, operator] = Role(reserve, CustodyStatus.OFFERED)


def retire(w: World, msg: Message, job: int, place: int) -> None:
    offers = w.custody_offers.get(job, ())
    require(place < len(offers), "custody: no offer")
    operator = offers[place].operator
    _require_hot(w, msg, operator)
    require(w.custody[job].draw_block == 0, "custody: draw scheduled")
    left = list(offers[:-1])
    if place < len(left):
        left[place] = offers[-1]
    _set_offers(w, job, tuple(left))
    _end_offer(w, job, operator)


def schedule(w: World, msg: Message, job: int) -> None:
    require(job in w.custody_requests, "custody: nothing requested")
    wanted, progress = w.custody_requests[job], w.custody[job]
    require(progress.draw_block == 0, "custody: draw scheduled")
    is_awarded = w.job(job).state in (JobState.AWARDED, JobState.RUNNING)
    require(is_awarded, "custody: job not awarded")
    require(progress.vacant != 0, "custody: no place vacant")
    if progress.version == 0:
        require(msg.now >= wanted.closes_at, "custody: offers open")
        needed = escrow_of(wanted.fee, progress.custodians, w.terms[job].rounds)
        require(w.custody_escrows.get(job, 0) >= needed, "custody: escrow too small")
    else:
        require(msg.now >= progress.vacated_at + w.config.preset.answer_s, "custody: offers open")
    least = 1 if progress.version else progress.custodians
    require(progress.offers >= least, "custody: too few offers")
    w.custody[job] = replace(progress, draw_block=msg.block + 1)


def draw(w: World, msg: Message, job: int, committee: Committee) -> None:
    """Fills vacant places by a block that nobody knew when the offers were fixed."""
    progress = w.custody.get(job, Progress())
    require(progress.draw_block != 0, "custody: nothing scheduled")
    is_buried = msg.block > progress.draw_block + w.config.preset.draw_blocks
    require(is_buried, "custody: draw block not buried")
    if progress.version:
        require_committee(w, job, progress.version, committee)
    members = list(committee) if progress.version else [Member()] * progress.custodians
    block_hash = w.block_hashes.get(progress.draw_block)
    progress = w.custody[job] = replace(progress, draw_block=0)
    if block_hash is None:
        return
    seed, run, left = keccak(block_hash + job.to_bytes(32, "big")), w.run(job), list(w.custody_offers[job])
    from_turn = run.turn + (1 if run.is_open else 0)
    for index in bits.slots_in(progress.vacant):
        chosen = picked(w, job, left, seed, index)
        if chosen is None:
            break
        left.remove(chosen)
        _let_go(w, job, members[index].operator)
        members[index] = Member(chosen.operator, from_turn, w.operator(chosen.operator).hot)
        role = w.custody_roles[job, chosen.operator]
        w.custody_roles[job, chosen.operator] = replace(role, status=CustodyStatus.CUSTODIAN, index=index)
        progress = replace(progress, vacant=bits.without(progress.vacant, bits.bit(index)))
    w.custody[job] = progress
    _set_offers(w, job, tuple(left))
    _change(w, job, members)


def picked(w: World, job: int, offers: Sequence[Offer], seed: bytes, index: int) -> Offer | None:
    """By chance in proportion to stake; of those without a seat in the job while there are any."""
    run = w.run(job)
    of_job = (*range(run.seats), *range(AGGREGATOR_SEAT, AGGREGATOR_SEAT + run.aggregators))
    seated = {w.seat(job, seat).operator for seat in of_job}
    unseated = [each for each in offers if each.operator not in seated]
    able = unseated or offers
    if not able:
        return None
    draw = int.from_bytes(keccak(seed + index.to_bytes(32, "big")), "big")
    ticket = draw % sum(each.weight for each in able)
    for each in able:
        if ticket < each.weight:
            return each
        ticket -= each.weight
    raise AssertionError("a ticket beyond all weights")


def note_key(w: World, msg: Message, job: int, committee: Committee, index: int) -> None:
    member = _member(w, job, committee, index)
    hot = w.operator(member.operator).hot
    require(hot != member.key, "custody: nothing changed")
    _change(w, job, _with(committee, index, replace(member, key=hot)))


def resign(w: World, msg: Message, job: int, committee: Committee, index: int) -> None:
    """A wish to be replaced; until then nothing changes."""
    _require_hot(w, msg, _member(w, job, committee, index).operator)
    progress = w.custody[job]
    require(not progress.vacant & bits.bit(index), "custody: nothing changed")
    require(progress.draw_block == 0, "custody: draw scheduled")
    vacated_at = progress.vacated_at if progress.vacant else msg.now  # nobody resigns to have others wait
    w.custody[job] = replace(progress, vacant=progress.vacant | bits.bit(index), vacated_at=vacated_at)


def lapse(w: World, msg: Message, job: int, committee: Committee, index: int) -> None:
    """Too few signed for the open turn's inputs: who did not is replaced, and pays a part of its reserve."""
    run = w.run(job)
    require(run.is_open, "custody: no open turn")
    is_late = not run.holds and msg.now > run.inputs_close + w.config.preset.answer_s
    require(is_late, "custody: time left")
    member = _member(w, job, committee, index)
    require(member.from_turn <= run.turn, "custody: not on duty")
    record = w.custody_records.get((job, run.turn % (w.custody[job].depth + 1)), Record())
    if record.version and record.turn == run.turn:
        require(record.signed_at == 0, "custody: inputs are held")
        require(not record.answered & bits.bit(index), "custody: it signed")
    role = w.custody_roles[job, member.operator]
    lost = role.reserve * CUSTODY_LAPSE_BPS // BPS
    w.custody_roles[job, member.operator] = replace(role, reserve=role.reserve - lost)
    _burn(w, w.job(job).token, lost)
    _vacate(w, job, committee, index, msg.now)


def reserve_after_help(reserve: int) -> int:
    """What is left of a job's reserve to one that did not show what somebody else then showed, however often."""
    return reserve * (HELPED_PART - 1) // HELPED_PART


def forfeit(w: World, msg: Message, job: int, operator: int, kept: int) -> bool:
    """For Availability: it did not show what it signed for, and keeps so much at most. Whether that cost it anything."""
    require(msg.sender == w.config.availability, "custody: not the availability")
    role = w.custody_roles.get((job, operator), Role())
    if role.reserve <= kept:
        return False
    w.custody_roles[job, operator] = replace(role, reserve=kept)
    _burn(w, w.job(job).token, role.reserve - kept)
    return True


def expel(w: World, msg: Message, job: int, committee: Committee, index: int) -> None:
    """A custodian whose reserve, or a part of it, is forfeit loses its place."""
    operator = _member(w, job, committee, index).operator
    has_lost = w.custody_roles[job, operator].reserve < w.custody_requests[job].reserve
    require(has_lost, "custody: its reserve is here")
    require(w.job(job).state <= JobState.RUNNING, "custody: job is over")
    _vacate(w, job, committee, index, msg.now)


def release(w: World, msg: Message, job: int, operator: int) -> None:
    """At the end of all: the reserve is the operator's again."""
    role = w.custody_roles.get((job, operator), Role())
    require(role.reserve > 0, "custody: nothing reserved")
    require(_is_over(w, job), "custody: job not over")
    w.custody_roles[job, operator] = replace(role, reserve=0)
    add_funds(w, w.job(job).token, operator, role.reserve)


# --- the committee


def _member(w: World, job: int, committee: Committee, index: int) -> Member:
    require_committee(w, job, w.custody.get(job, Progress()).version, committee)
    is_there = index < len(committee) and committee[index].operator != 0
    require(is_there, "custody: no custodian")
    return committee[index]


def _with(committee: Committee, index: int, member: Member) -> Sequence[Member]:
    return [*committee[:index], member, *committee[index + 1 :]]


def _change(w: World, job: int, members: Sequence[Member]) -> None:
    progress = w.custody[job]
    w.custody[job] = replace(progress, version=progress.version + 1)
    w.committees[job, progress.version + 1] = tuple(members)


def _vacate(w: World, job: int, committee: Committee, index: int, now: int) -> None:
    """Not while a draw is scheduled: it would fill the place from offers that were fixed before."""
    progress = w.custody[job]
    require(progress.draw_block == 0, "custody: draw scheduled")
    _let_go(w, job, committee[index].operator)
    w.custody[job] = replace(progress, vacant=progress.vacant | bits.bit(index), vacated_at=now)
    _change(w, job, _with(committee, index, Member()))


def _let_go(w: World, job: int, operator: int) -> None:
    if operator:
        role = w.custody_roles[job, operator]
        w.custody_roles[job, operator] = replace(role, status=CustodyStatus.LEFT)


def _set_offers(w: World, job: int, offers: tuple[Offer, ...]) -> None:
    w.custody_offers[job] = offers
    w.custody[job] = replace(w.custody[job], offers=len(offers))


def _end_offer(w: World, job: int, operator: int) -> None:
    add_funds(w, w.job(job).token, operator, w.custody_roles[job, operator].reserve)
    w.custody_roles[job, operator] = Role()


# --- money and time


def _is_over(w: World, job: int) -> bool:
    """Nothing can be earned, or asked for, any more: also no parked claim is open."""
    state, progress = w.job(job).state, w.custody.get(job, Progress())
    is_counted = progress.version == 0 or progress.counted >= w.run(job).turn
    is_resolved = seats.pending_of(w, job) == 0 and not seats.parked_of(w, job)
    return state == JobState.CANCELLED or (state == JobState.ENDED and is_resolved and is_counted)


def _require_hot(w: World, msg: Message, operator: int) -> None:
    require(w.operator(operator).hot == msg.sender, "custody: not the hot key")


def _burn(w: World, token: str, amount: int) -> None:
    w.custody_burned[token] = w.custody_burned.get(token, 0) + amount
