"""What a custodian's keeper does in a job: offer, have the committee drawn, sign, hand signatures in. Pure, as `duties`.

docs/protocol/custody.md has the rules. Signatures pass between keepers off chain (keepers/services/statements.py); whoever has enough of
them sends them: the aggregator first, whose turn waits for them, then the custodians by place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from keepers.decisions.orders import Send
from zoo_compute.chain.custody import CustodyView, words_of
from zoo_compute.chain.custody_statements import Signed
from zoo_compute.chain.views import Checkpoint, Commit, JobState, JobView
from zoo_compute.spec import bits
from zoo_compute.spec.custodians import Committee, CustodyStatus, Record, Role
from zoo_compute.spec.custody import escrow_of, fee_of
from zoo_compute.spec.params import MAX_SEATS, STAKE_UNIT

GROWTH = 2  # stake is noted anew once it grew by so much: until then it counts as what it was, afterwards it is young for days


@dataclass(frozen=True)
class Custodian:
    """The operator that decides. asked: its price per GiB and round in the job's token; None: it offers nothing.

    stake: in ZEN's smallest unit. noted, aged: in STAKE_UNIT, what was noted of it, and what counts. funds: in the job's token.
    """

    operator: int
    asked: int | None = None
    eligible: bool = False
    keeps_offers: bool = True
    stake: int = 0
    aged: int = 0
    noted: int = 0
    funds: int = 0


# -- offers and draws


def notes_stake(me: Custodian) -> bool:
    """Whether my stake is to be noted: it never was, it fell, or it grew so much that it may be young again."""
    stake = me.stake // STAKE_UNIT
    has_changed = stake < me.noted or stake >= max(1, GROWTH * me.noted)
    return me.asked is not None and me.eligible and has_changed


def may_offer(view: JobView, custody: CustodyView, me: Custodian) -> bool:
    """Whether I can offer, whatever the job's files are."""
    is_open = view.state in (JobState.OPEN, JobState.AWARDED, JobState.RUNNING) and custody.progress.draw_block == 0
    is_able = me.asked is not None and me.eligible and me.aged > 0 and me.funds >= custody.request.reserve
    return is_open and custody.progress.vacant != 0 and me.operator not in custody.roles and is_able


def pays(custody: CustodyView, me: Custodian, round_bytes: int) -> bool:
    """Whether a signature is paid what I ask for so many bytes a round."""
    return me.asked is not None and custody.request.fee >= fee_of(me.asked, round_bytes)


def draw_duties(view: JobView, custody: CustodyView, me: Custodian) -> Iterator[Send]:
    """Have vacant places drawn; end an offer that nobody needs; note custodians' keys and seats."""
    progress, job = custody.progress, view.job
    if view.state not in (JobState.AWARDED, JobState.RUNNING):
        return
    if progress.draw_block:
        yield Send("custody", "draw", (job, words_of(custody.committee)))
    elif progress.vacant:
        needed = escrow_of(custody.request.fee, progress.custodians, view.terms.rounds)
        is_first = progress.version == 0
        is_ready = view.now >= custody.request.closes_at and custody.escrow >= needed
        if progress.offers >= (progress.custodians if is_first else 1) and (is_ready or not is_first):
            yield Send("custody", "schedule", (job,))
    for index, member in custody.holders.items():
        for seat, holder in view.slot_seats.items():
            if holder.operator == member.operator and not member.own >> seat & 1:
                yield Send("custody", "note_seat", (job, words_of(custody.committee), index, seat))
                return  # the list is another one then


# -- what I hold, and when I sign for it


def turns_to_sign(view: JobView, custody: CustodyView, operator: int) -> list[int]:
    """The turns of which my signatures may still count, from the oldest on."""
    place, run = custody.place_of(operator), view.run
    if place is None or run is None:
        return []
    newest = run.turn if view.state == JobState.RUNNING and not run.is_waiting else run.turn - 1
    first = max(custody.progress.counted, custody.committee[place].from_turn, newest - run.depth)
    return list(range(first, newest + 1))


def claims_of(view: JobView, turn: int) -> list[Commit]:
    """The newest claim of each seat in a turn."""
    by_seat = {commit.seat: commit for commit in view.committed(turn).values()}
    return [by_seat[seat] for seat in sorted(by_seat)]


def checkpoint_of(view: JobView, turn: int) -> Checkpoint | None:
    return next((made for made in reversed(view.checkpoints) if made.turn == turn), None)


def is_time_for_inputs(view: JobView, turn: int, held: int, answer_s: int) -> bool:
    """Whether to sign for these seats now: they are all there will be, or it is late."""
    run = view.run
    assert run is not None, "a job with turns runs"
    committed = sum(1 << commit.seat for commit in claims_of(view, turn))
    if view.is_closed(turn):
        made = checkpoint_of(view, turn)
        return held & (made.mask if made else committed) == (made.mask if made else committed)
    if not view.inputs_complete(view.now):
        return False
    return held == committed or view.now > run.inputs_close + answer_s // 2


# -- handing in


def majorities(seats: Mapping[int, int], committee: Committee, least: int, mask: int) -> list[list[int]]:
    """Groups of places to hand in together, so that every seat that a majority holds joins the mask. seats: by place, as signed.

    Each group adds what all its members hold and the mask lacks; the greatest first. Nobody's signature counts for its own seat.
    """
    held = {place: bits.without(signed, committee[place].own) for place, signed in seats.items()}
    groups: list[list[int]] = []
    while len(held) >= least:
        common = {group: _common(held, group) for group in combinations(sorted(held), least)}
        best = max(common, key=lambda group: bits.without(common[group], mask).bit_count())
        if not bits.without(common[best], mask) and (mask or groups):
            return groups
        groups.append([place for place in sorted(held) if bits.without(common[best], held[place]) == 0])
        mask |= common[best]
        if not common[best]:  # they hold nothing: an empty mask, in which nobody is present
            return groups
    return groups


def _common(held: Mapping[int, int], group: tuple[int, ...]) -> int:
    common = bits.full(MAX_SEATS)
    for place in group:
        common &= held[place]
    return common


@dataclass(frozen=True)
class Heard:
    """The valid signatures of one turn that are known, by place of the record's committee."""

    inputs: Mapping[int, Signed]
    checkpoint: Mapping[int, Signed]


def hand_in(
    view: JobView, custody: CustodyView, turn: int, heard: Heard, answer_s: int, *, late: bool
) -> Iterator[Send]:
    """The calls that record what is known of a turn. late: whether it is time for those who sign after a majority."""
    record = custody.record_of(turn)
    committee = custody.committees[record.version]
    made = checkpoint_of(view, turn) if view.is_closed(turn) else None
    if view.is_closed(turn) and made is None:
        return
    inputs = list(
        _inputs_to_hand_in(custody, record, committee, heard, view.now, answer_s, late=late, closed=made is not None)
    )
    if made is None:
        for group in inputs:
            yield Send("custody", "hold_inputs", (view.job, turn, words_of(committee), group))
        return
    signed = {place: each for place, each in heard.checkpoint.items() if each.value == made.root.hex()}
    checkpoint = _signers(record, record.checkpoint, signed, custody.progress.least, view.now, answer_s, late=late)
    words = [(place, *heard.checkpoint[place].words) for place in checkpoint]
    for group in inputs or [[]]:
        if group or words:
            yield Send("custody", "hold_turn", (view.job, made.fields, words_of(committee), group, words))
        words = []


def _inputs_to_hand_in(
    custody: CustodyView,
    record: Record,
    committee: Committee,
    heard: Heard,
    now: int,
    answer_s: int,
    *,
    late: bool,
    closed: bool,
) -> Iterator[list[tuple[int, int, bytes, bytes]]]:
    least, seats = custody.progress.least, {place: each.seats for place, each in heard.inputs.items()}
    groups = [] if record.inputs and closed else majorities(seats, committee, least, record.mask)
    if closed and groups:
        groups = groups[:1]  # of a closed turn only the first majority adds seats
    if record.inputs:
        covering = {
            place: each
            for place, each in heard.inputs.items()
            if bits.without(record.mask, each.seats | committee[place].own) == 0
        }
        groups = [*groups, _signers(record, record.inputs, covering, 1, now, answer_s, late=late)]
    for group in groups:
        if group:
            yield [(place, heard.inputs[place].seats, *heard.inputs[place].words) for place in group]


def _signers(
    record: Record, known: int, signed: Mapping[int, Signed], least: int, now: int, answer_s: int, *, late: bool
) -> list[int]:
    """Places whose signatures are not recorded: a majority of them first, or any while they may follow it."""
    new = sorted(place for place in signed if not known >> place & 1)
    if not known:
        return new if len(new) >= least else []
    return new if late and now <= record.signed_at + answer_s else []


def excuse_duty(view: JobView, custody: CustodyView, place: int, mine: Signed, answer_s: int) -> Iterator[Send]:
    """Record my signature alone where no majority signs in time: whoever signed for little, or nothing, does not lapse."""
    run = view.run
    if run is None or mine.turn != run.turn or view.is_closed(mine.turn):
        return
    record = custody.record_of(mine.turn)
    if record.inputs or record.answered >> place & 1 or view.now <= run.inputs_close + answer_s // 2:
        return
    signed = [(place, mine.seats, *mine.words)]
    yield Send("custody", "hold_inputs", (view.job, mine.turn, words_of(custody.committee), signed))


def lapse_duties(view: JobView, custody: CustodyView, answer_s: int) -> Iterator[Send]:
    """End a custodian that signed nothing in time, where a majority did not."""
    run = view.run
    if run is None or view.state != JobState.RUNNING or run.is_waiting or run.holds:
        return
    record = custody.record_of(run.turn)
    if record.inputs or view.now <= run.inputs_close + answer_s:
        return
    for index, member in custody.holders.items():
        if member.from_turn <= run.turn and not record.answered >> index & 1:
            yield Send("custody", "lapse", (view.job, words_of(custody.committee), index))
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
