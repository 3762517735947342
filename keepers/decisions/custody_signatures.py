"""What custodians sign of a turn, and how their signatures are put together. Pure, as `duties` (docs/protocol/custody.md).

Signatures pass between keepers off chain (keepers/services/statements.py). The aggregator sends them with its checkpoint; what that
leaves, the custodians send by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from keepers.decisions.custody_statements import Signed
from keepers.decisions.orders import Send
from zoo_compute.chain.custody import CustodyView, words_of
from zoo_compute.chain.views import Checkpoint, Commit, JobState, JobView
from zoo_compute.spec import bits
from zoo_compute.spec.custodians import Record
from zoo_compute.spec.params import MAX_SEATS

Group = list[tuple[int, int, bytes, bytes]]  # place, seats, r, vs: the signatures for inputs of one call


@dataclass(frozen=True)
class Heard:
    """The valid signatures of one turn that are known, by place of the record's committee; of what aggregators computed by seat first."""

    inputs: Mapping[int, Signed]
    checkpoints: Mapping[int, Mapping[int, Signed]]

    def checkpoint(self, seat: int) -> Mapping[int, Signed]:
        return self.checkpoints.get(seat, {})

    @property
    def seats(self) -> dict[int, int]:
        return {place: each.seats for place, each in self.inputs.items()}

    def group(self, places: Iterable[int]) -> Group:
        return [(place, self.inputs[place].seats, *self.inputs[place].words) for place in places]


# -- when I sign


def turns_to_sign(view: JobView, custody: CustodyView, operator: int) -> list[int]:
    """The turns of which my signatures may still count, from the oldest on."""
    place, run = custody.place_of(operator), view.run
    if place is None or run is None:
        return []
    newest = run.turn if view.state == JobState.RUNNING and not run.is_waiting else run.turn - 1
    first = max(custody.progress.counted, custody.committee[place].from_turn, newest - run.depth)
    return list(range(first, newest + 1))


def claims_of(view: JobView, turn: int) -> list[Commit]:
    """The newest claim of each seat in a turn; of the open one, of those that are not left out."""
    missing = view.run.missing if view.run is not None and view.run.turn == turn else 0
    by_seat = {commit.seat: commit for commit in view.committed(turn).values() if not missing >> commit.seat & 1}
    return [by_seat[seat] for seat in sorted(by_seat)]


def seats_of(view: JobView, turn: int) -> int:
    """The seats that committed in a turn, a bitmap."""
    return sum(1 << commit.seat for commit in claims_of(view, turn))


def checkpoints_of(view: JobView, turn: int) -> list[Checkpoint]:
    """What was posted in a turn, in the order of the aggregators' seats."""
    return sorted((made for made in view.checkpoints if made.turn == turn), key=lambda made: made.seat)


def is_time_for_inputs(view: JobView, turn: int, held: int, answer_s: int) -> bool:
    """Whether to sign for these seats now: no more will come, or it is late."""
    run, made = view.run, checkpoints_of(view, turn)
    assert run is not None, "a job with turns runs"
    wanted = made[0].mask if made else seats_of(view, turn)
    if not view.is_closed(turn) and not view.inputs_complete(view.now):
        return False
    return wanted & ~held == 0 or (not view.is_closed(turn) and is_late(view, answer_s))


def is_late(view: JobView, answer_s: int) -> bool:
    """Whether half of the time to sign for the open turn's inputs is over."""
    run = view.run
    return run is not None and view.now > run.inputs_close + answer_s // 2


# -- what a majority holds


def majorities(seats: Mapping[int, int], least: int, mask: int | None) -> list[list[int]]:
    """Groups of places to hand in together, so that every seat that a majority holds joins the mask. seats: by place, as signed.

    mask: None if no majority signed yet; the first may hold no seat, and then nobody is present. Each group adds what all its members
    hold and the mask lacks; the greatest first.
    """
    groups: list[list[int]] = []
    while len(seats) >= least:
        common = {group: _common(seats, group) for group in combinations(sorted(seats), least)}
        best = max(common, key=lambda group: bits.without(common[group], mask or 0).bit_count())
        if mask is not None and not bits.without(common[best], mask):
            return groups
        groups.append([place for place in sorted(seats) if bits.without(common[best], seats[place]) == 0])
        mask = (mask or 0) | common[best]
    return groups


def _common(held: Mapping[int, int], group: Iterable[int]) -> int:
    common = bits.full(MAX_SEATS)
    for place in group:
        common &= held[place]
    return common


def groups_of(custody: CustodyView, record: Record, heard: Heard) -> list[Group]:
    """What joins seats to a turn's mask, in as many calls."""
    return [heard.group(group) for group in _majorities(custody, record, heard)]


def _majorities(custody: CustodyView, record: Record, heard: Heard) -> list[list[int]]:
    return majorities(heard.seats, custody.progress.least, record.mask if record.signed_at else None)


def awaits_custodians(view: JobView, custody: CustodyView, heard: Heard) -> bool:
    """Whether a seat committed in the open turn that no majority holds, as far as is known."""
    run = view.run
    assert run is not None, "a turn is open"
    return seats_of(view, run.turn) & ~_covered(custody, custody.record_of(run.turn), heard) != 0


def leave_out_duty(view: JobView, custody: CustodyView, answer_s: int) -> Iterator[Send]:
    """Leave seats out of the open turn that no majority held in time."""
    run = view.run
    if run is None or view.state != JobState.RUNNING or run.is_waiting:
        return
    record = custody.record_of(run.turn)
    is_over = record.signed_at != 0 and view.now > record.signed_at + answer_s
    if is_over and seats_of(view, run.turn) & ~record.mask:
        yield Send("custody", "leave_out", (view.job, run.turn))


def _covered(custody: CustodyView, record: Record, heard: Heard) -> int:
    """The seats that a majority holds: of the record, and of what is known beside it."""
    mask = record.mask
    for group in _majorities(custody, record, heard):
        mask |= _common(heard.seats, group)
    return mask


# -- handing in


def hand_in(
    view: JobView, custody: CustodyView, turn: int, heard: Heard, answer_s: int, *, late: bool
) -> Iterator[Send]:
    """The calls that record what is known of a turn. late: whether it is time for those who sign after a majority."""
    record = custody.record_of(turn)
    committee, followers = custody.committees[record.version], list[int]()
    is_open_to_more = record.signed_at != 0 and late and view.now <= record.signed_at + answer_s
    if is_open_to_more:
        followers = _followers(record, heard)
    if view.is_closed(turn):
        for made in checkpoints_of(view, turn) if is_open_to_more else ():
            heard_of = heard.checkpoint(made.seat)
            signed = {place for place, each in heard_of.items() if each.value == (made.root + made.cid).hex()}
            words = [(p, *heard_of[p].words) for p in sorted(signed) if not record.checkpoint >> p & 1]
            if followers or words:
                args = (view.job, made.seat, turn, words_of(committee), heard.group(followers), words)
                yield Send("custody", "hold_turn", args)
            followers = []
        return
    # Before it is late, the aggregator's post carries the inputs; what was signed for fewer seats than committed since is out of date.
    may_join = view.now <= record.signed_at + answer_s if record.signed_at else is_late(view, answer_s)
    if not may_join:
        return
    for group in groups_of(custody, record, heard) or [heard.group(followers)]:
        if group:
            yield Send("custody", "hold_inputs", (view.job, turn, words_of(committee), group))


def _followers(record: Record, heard: Heard) -> list[int]:
    """Places that hold the whole mask, and are not on record."""
    return [
        place
        for place, each in sorted(heard.inputs.items())
        if not record.inputs >> place & 1 and bits.without(record.mask, each.seats) == 0
    ]
