"""What a custodian's keeper does in a job but signing: offers, draws, lapses, pay. Pure, as `duties` (docs/protocol/custody.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keepers.decisions.custody_statements import Signed
from keepers.decisions.orders import Send
from zoo_compute.chain.custody import CustodyView, words_of
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.spec.custodians import CustodyStatus, Record, Role
from zoo_compute.spec.custody import escrow_of, fee_of

GROWTH = 2  # stake is noted anew once it grew by so much: until then it counts as what it was, afterwards it is young for days


@dataclass(frozen=True)
class Custodian:
    """The operator that decides. asked: its price per GiB and round in the job's token; None: it offers nothing.

    aged: the stake that counts, in STAKE_UNIT. funds: in the job's token.
    """

    operator: int
    asked: int | None = None
    eligible: bool = False
    keeps_offers: bool = True
    aged: int = 0
    funds: int = 0


# -- offers and draws


def notes_stake(stake: int, noted: int) -> bool:
    """Whether my stake is to be noted: it never was, it fell, or it grew so much that it may be young again. Both in STAKE_UNIT."""
    return stake < noted or stake >= max(1, GROWTH * noted)


def may_offer(view: JobView, custody: CustodyView, me: Custodian) -> bool:
    """Whether I can offer, whatever the job's files are."""
    is_open = view.state in (JobState.OPEN, JobState.AWARDED, JobState.RUNNING) and custody.progress.draw_block == 0
    is_able = me.asked is not None and me.eligible and me.aged > 0 and me.funds >= custody.request.reserve
    return is_open and custody.progress.vacant != 0 and me.operator not in custody.roles and is_able


def pays(custody: CustodyView, me: Custodian, round_bytes: int) -> bool:
    """Whether a signature is paid what I ask for so many bytes a round."""
    return me.asked is not None and custody.request.fee >= fee_of(me.asked, round_bytes)


def draw_duties(view: JobView, custody: CustodyView, answer_s: int) -> Iterator[Send]:
    """Have vacant places drawn, once offers had their time."""
    progress, job = custody.progress, view.job
    if view.state not in (JobState.AWARDED, JobState.RUNNING):
        return
    if progress.draw_block:
        yield Send("custody", "draw", (job, words_of(custody.committee)))
    elif progress.vacant:
        least, is_ready = 1, view.now >= progress.vacated_at + answer_s
        if progress.version == 0:
            needed = escrow_of(custody.request.fee, progress.custodians, view.terms.rounds)
            least, is_ready = progress.custodians, view.now >= custody.request.closes_at and custody.escrow >= needed
        if progress.offers >= least and is_ready:
            yield Send("custody", "schedule", (job,))


# -- lapses


def excuse_duty(view: JobView, custody: CustodyView, place: int, mine: Signed, answer_s: int) -> Iterator[Send]:
    """Record my signature alone where no majority signs in time: whoever signed for little, or nothing, does not lapse."""
    run = view.run
    if run is None or mine.turn != run.turn or view.is_closed(mine.turn):
        return
    record = custody.record_of(mine.turn)
    if record.signed_at or record.answered >> place & 1 or view.now <= run.inputs_close + answer_s // 2:
        return
    signed = [(place, mine.seats, *mine.words)]
    yield Send("custody", "hold_inputs", (view.job, mine.turn, words_of(custody.committee), signed))


def lapse_duties(view: JobView, custody: CustodyView, answer_s: int) -> Iterator[Send]:
    """End a custodian that signed nothing in time, where a majority did not."""
    run = view.run
    if run is None or view.state != JobState.RUNNING or run.is_waiting or run.holds or custody.progress.draw_block:
        return
    record = custody.record_of(run.turn)
    if record.signed_at or view.now <= run.inputs_close + answer_s:
        return
    for index, member in custody.holders.items():
        if member.from_turn <= run.turn and not record.answered >> index & 1:
            yield Send("custody", "lapse", (view.job, words_of(custody.committee), index))
            return  # the list is another one then


def expel_duty(view: JobView, custody: CustodyView) -> Iterator[Send]:
    """End a custodian whose reserve, or a part of it, is forfeit: it did not show what it signed for."""
    if view.state not in (JobState.AWARDED, JobState.RUNNING) or custody.progress.draw_block:
        return
    for index, member in custody.holders.items():
        if member.operator in custody.roles and custody.roles[member.operator].reserve < custody.request.reserve:
            yield Send("custody", "expel", (view.job, words_of(custody.committee), index))
            return  # the list is another one then


# -- pay, and the end


def count_duty(view: JobView, custody: CustodyView) -> Iterator[Send]:
    """Have turns paid that are final: when the ring needs their place, and at the end."""
    run, counted = view.run, custody.progress.counted
    if run is None or not custody.committees:
        return
    final = min([run.turn, *(claim.turn for claim in view.pending)])
    is_needed = counted < run.turn - run.depth or view.state == JobState.ENDED
    if final > counted and is_needed:
        due = [turn for turn in range(counted, final) if turn in custody.records]
        record = custody.records[due[0]] if due else Record(version=custody.progress.version)
        yield Send("custody", "count", (view.job, record.version, words_of(custody.committees[record.version])))


def is_over(view: JobView, custody: CustodyView) -> bool:
    """Whether reserves come back."""
    counted = not custody.committees or view.run is None or custody.progress.counted >= view.run.turn
    return view.state == JobState.CANCELLED or (view.state == JobState.ENDED and counted)


def closing_duties(view: JobView, custody: CustodyView, me: Custodian) -> Iterator[Send]:
    """Take my reserve back; end an offer that was not drawn where I do not wait as a standby."""
    role = custody.roles.get(me.operator, Role())
    if is_over(view, custody):
        if role.reserve:
            yield Send("custody", "release", (view.job, me.operator))
        return
    yield from count_duty(view, custody)


def offer_to_end(custody: CustodyView, me: Custodian) -> bool:
    """Whether I have an offer that nobody needs now, and do not wait as a standby."""
    role = custody.roles.get(me.operator, Role())
    is_idle = role.status == CustodyStatus.OFFERED and not custody.progress.vacant and not custody.progress.draw_block
    return is_idle and not me.keeps_offers
