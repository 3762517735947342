"""What a keeper owes a job right now: pure decisions over one snapshot of the chain.

Each function takes a `JobView` (every read at one block), who I am, and how far my own work is; it returns what to do, in
order. No I/O, no clock (`now` is the snapshot's block time), so the same snapshot always gives the same duties, and a keeper
that died at any line takes up where the chain says it is. Doing a duty twice is harmless: the contract refuses the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from zoo_compute.chain.views import JobState, JobView, Kind, LotPhase, Run
from zoo_compute.spec.bits import full, popcount, slots_in, without
from zoo_compute.spec.pricing import RevealedBid, order_bids

RECOVERY_S = 6  # in every estimate: a worker killed in the middle is back, and the commitment is mined
BATCH = 64  # most elements of a contract's list argument
ATTEMPTS = 6  # of an auction, before I take it that a lot will never fill


@dataclass(frozen=True)
class Me:
    """Who decides. Prices in wei per slot-round and per aggregation; `free` collateral in the job's token.

    capacity: slots I can train at once, less what other jobs of mine hold or bid for. other_s: seconds that their slots take
    on the same workers. longest_s: the longest job I bind my collateral for.
    """

    operator: int
    provides: bool
    aggregates: bool
    price: int
    aggregator_price: int
    capacity: int
    standby: bool
    free: int
    turn_s: int  # seconds between keepers that could do the same errand
    ready_window_s: int  # of the network's preset
    workers: int = 1  # that train at the same time
    other_s: float = 0.0
    longest_s: int = 30 * 86_400
    drained: bool = False

    def asks(self, kind: int) -> int:
        """My price in a lot."""
        return self.price if kind == Kind.SLOTS else self.aggregator_price


@dataclass(frozen=True)
class Progress:
    """My own work on the job.

    slot_s: timed seconds of one slot-round (None: not timed). trained, given_up: slots of this round. failed: the inputs could
    not be fetched, are not what was committed to, or do not fit this machine.
    """

    slot_s: float | None = None
    trained: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()
    aggregated: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Send:
    """A transaction anyone may simulate: `contract.function(*args)`."""

    contract: str
    function: str
    args: tuple[object, ...]


@dataclass(frozen=True)
class SealBid:
    kind: int
    attempt: int
    capacity: int
    price: int


@dataclass(frozen=True)
class OpenBid:
    kind: int
    attempt: int
    capacity: int
    price: int


@dataclass(frozen=True)
class Prepare:
    """Fetch the job's inputs and time a step."""


@dataclass(frozen=True)
class Train:
    round: int
    slot: int


@dataclass(frozen=True)
class CommitTrained:
    """Commit what is trained: one transaction for all of these slots."""

    round: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Aggregate:
    round: int
    mask: int


@dataclass(frozen=True)
class PostAggregate:
    round: int
    mask: int


Duty = Send | SealBid | OpenBid | Prepare | Train | CommitTrained | Aggregate | PostAggregate


def duties(view: JobView, me: Me, progress: Progress) -> list[Duty]:
    """Everything I should do for the job as of the snapshot's block, in order."""
    found: list[Duty] = []
    if view.state == JobState.OPEN:
        found += _while_open(view, me, progress)
    elif view.run is not None and view.state == JobState.AWARDED:
        found += _while_awarded(view, view.run, me, progress)
    elif view.run is not None and view.state == JobState.RUNNING:
        found += _while_running(view, view.run, me, progress)
    return found + list(_closing(view, me))


# -- the auction -----------------------------------------------------------------------------------------------------


def _while_open(view: JobView, me: Me, progress: Progress) -> Iterator[Duty]:
    for kind, lot in view.lots.items():
        bid = view.bids.get((kind, me.operator))
        if lot.bidding(view.now):
            if wants(view, me, kind):
                yield from _bid(view, me, progress, kind)
        elif lot.revealing(view.now):
            if bid is not None and bid.attempt == lot.attempt and not bid.revealed:
                yield OpenBid(kind, lot.attempt, bid.capacity, me.asks(kind))
        elif view.now >= lot.reveal_end + _turn(view, me, kind):
            yield from _settle_lot(view, me, kind)


def wants(view: JobView, me: Me, kind: int) -> bool:
    """Whether I would ever bid in this lot: my role, my price, and a job that ends within my patience."""
    lot, terms = view.lots[kind], view.terms
    longest_s = terms.rounds * (2 * terms.slot_s + terms.aggregate_s)
    role = me.provides if kind == Kind.SLOTS else me.aggregates
    return role and me.asks(kind) <= lot.max_reserve and longest_s <= me.longest_s and lot.attempt <= ATTEMPTS


def _bid(view: JobView, me: Me, progress: Progress, kind: int) -> Iterator[Duty]:
    """Bid for what I have fetched, checked and timed: a job that cannot be run never gets hold of my lock."""
    lot, price = view.lots[kind], me.asks(kind)
    bid = view.bids.get((kind, me.operator))
    room = me.capacity if kind == Kind.SLOTS else 1
    room = min(room, lot.units, me.free // lot.lock if lot.lock else room)
    if me.drained or room <= 0 or price > lot.reserve or (bid is not None and bid.attempt == lot.attempt):
        return
    if progress.slot_s is None:
        if not progress.failed:
            yield Prepare()
        return
    capacity = min(room, _fitting(view, me, progress.slot_s)) if kind == Kind.SLOTS else room
    if capacity > 0:
        if bid is not None and bid.attempt:
            yield Send("auction", "reclaim", (view.job, kind, me.operator))
        yield SealBid(kind, lot.attempt, capacity, price)


def _fitting(view: JobView, me: Me, slot_s: float) -> int:
    """How many slots of the job my workers can train in its slot time, beside my other jobs."""
    rounds_of_work = math.floor((view.terms.slot_s - RECOVERY_S - me.other_s) / slot_s)
    return max(0, rounds_of_work * me.workers)


def _settle_lot(view: JobView, me: Me, kind: int) -> Iterator[Duty]:
    """After the reveal phase: clear in order and award, or re-open what cannot be sold.

    Both lots must be full to be cleared; re-opening is also what frees a standing bid of mine from a job that never fills.
    """
    lot = view.lots[kind]
    revealed = {
        operator: bid
        for (k, operator), bid in view.bids.items()
        if k == kind and bid.attempt == lot.attempt and bid.revealed
    }
    if lot.phase == LotPhase.OPEN and not all(other.enough_bids for other in view.lots.values()):
        bound = any((k, me.operator) in view.bids for k in view.lots)
        if not lot.enough_bids and (bound or wants(view, me, kind)):
            yield Send("auction", "reopen", (view.job, kind))
        return
    bids = [RevealedBid(operator, b.price, b.discount_bps, b.capacity) for operator, b in revealed.items()]
    ordered = order_bids(bids)
    order = [bid.operator for bid in ordered]
    if lot.phase in (LotPhase.OPEN, LotPhase.CLEARING):
        passed = [bid.score << 64 | bid.operator for bid in ordered[: lot.cleared]]
        if lot.cleared and (not passed or passed[-1] != lot.cursor):
            # Somebody left bids out. One at a time: the first one left out starts the clearing again, the rest follow it.
            batches = [[operator] for operator in order]
        else:
            rest = order[lot.cleared :]
            batches = [rest[start : start + BATCH] for start in range(0, len(rest), BATCH)]
        for batch in batches:
            yield Send("auction", "clear", (view.job, kind, batch))
    if lot.phase == LotPhase.CLEARED:
        priced = view.seats if kind == Kind.SLOTS else view.aggregator_seats
        due = [operator for operator in order if revealed[operator].won and operator not in priced]
        for start in range(0, len(due), BATCH):
            yield Send("auction", "award", (view.job, kind, due[start : start + BATCH]))


# -- ready -----------------------------------------------------------------------------------------------------------


def _while_awarded(view: JobView, run: Run, me: Me, progress: Progress) -> Iterator[Duty]:
    seat = view.seats.get(me.operator)
    if seat is not None and seat.held & run.missing:
        if progress.failed:
            yield Send("settlement", "decline", (view.job, me.operator))
        elif progress.slot_s is None:
            yield Prepare()
        else:
            estimate = min(estimate_s(progress.slot_s, popcount(seat.held), me), run.slot_s)
            yield Send("settlement", "ready", (view.job, me.operator, estimate))
    if view.now > run.opened_at + me.ready_window_s + _turn(view, me, run.round):
        for operator, other in view.seats.items():
            if other.held & run.missing and operator != me.operator:
                yield Send("settlement", "expire", (view.job, operator))
    yield from _take_vacant(view, run, me, progress)


# -- rounds ----------------------------------------------------------------------------------------------------------


def _while_running(view: JobView, run: Run, me: Me, progress: Progress) -> Iterator[Duty]:
    yield from _train_and_commit(view, run, me, progress)
    yield from _time_out_others(view, run, me, _turn(view, me, run.round))
    yield from _take_vacant(view, run, me, progress)
    yield from _aggregate(view, run, me, progress)
    yield from _replace_aggregator(view, run, me)


def deadline_of(view: JobView, run: Run, operator: int) -> int:
    """Last second in which the operator's slots cannot be timed out."""
    seat = view.seats[operator]
    return max(run.opened_at, seat.since) + min(2 * seat.estimate_s, run.slot_s)


def _train_and_commit(view: JobView, run: Run, me: Me, progress: Progress) -> Iterator[Duty]:
    seat = view.seats.get(me.operator)
    if seat is None or view.now >= run.inputs_close:
        return
    due = [slot for slot in slots_in(seat.held & run.missing) if slot not in progress.given_up]
    for slot in due:
        if slot not in progress.trained:
            yield Train(run.round, slot)
    trained = tuple(slot for slot in due if slot in progress.trained)
    pressed = view.now >= deadline_of(view, run, me.operator) - 2 * me.turn_s
    if trained and (len(trained) == len(due) or pressed):
        yield CommitTrained(run.round, trained)


def _time_out_others(view: JobView, run: Run, me: Me, patience_s: int) -> Iterator[Duty]:
    for operator, seat in view.seats.items():
        overdue = seat.held & run.missing
        if operator != me.operator and overdue and view.now > deadline_of(view, run, operator) + patience_s:
            yield Send("settlement", "time_out", (view.job, operator, overdue))


def _take_vacant(view: JobView, run: Run, me: Me, progress: Progress) -> Iterator[Duty]:
    """As a standby: take vacant slots while there is time to train them in this round."""
    bid = view.bids.get((Kind.SLOTS, me.operator))
    if bid is None or not bid.revealed or not bid.standby or me.drained:
        return
    seat = view.seats.get(me.operator)
    held, taken = (popcount(seat.held), seat.taken) if seat else (0, 0)
    spare = min(bid.capacity - bid.won - bid.taken, me.capacity - held, me.free // run.lock)
    if not run.vacant or spare <= 0 or progress.failed:
        return
    if progress.slot_s is None:
        yield Prepare()
        return
    waiting = popcount(seat.held & run.missing) if seat else 0
    for slot in slots_in(without(run.vacant, taken)):  # one lost after a takeover cannot be taken twice
        estimate = estimate_s(progress.slot_s, held + 1, me)
        done_by = view.now + estimate_s(progress.slot_s, waiting + 1, me)
        late = view.state == JobState.RUNNING and done_by >= run.inputs_close
        if spare <= 0 or late or estimate > run.slot_s:
            return
        yield Send("settlement", "take_over", (view.job, slot, me.operator, estimate))
        spare, held, waiting = spare - 1, held + 1, waiting + 1


def estimate_s(slot_s: float, slots: int, me: Me) -> int:
    """What I tell the chain: seconds for `slots` slots on my workers, beside my other jobs; a worker may die once."""
    return math.ceil(slot_s * -(-slots // me.workers) + me.other_s) + RECOVERY_S


# -- aggregation -----------------------------------------------------------------------------------------------------


def present_mask(run: Run) -> int:
    """The slots that committed in the open round."""
    return full(run.slots) & ~run.missing


def _aggregate(view: JobView, run: Run, me: Me, progress: Progress) -> Iterator[Duty]:
    mask = present_mask(run)
    if run.aggregator != me.operator or not run.inputs_complete(view.now) or popcount(mask) < run.quorum:
        return
    yield from _time_out_others(view, run, me, 0)  # a silent holder must not escape its slash by the round's end
    yield PostAggregate(run.round, mask) if progress.aggregated else Aggregate(run.round, mask)


def _replace_aggregator(view: JobView, run: Run, me: Me) -> Iterator[Duty]:
    """End a job that cannot close its round; replace an aggregator that stays silent."""
    turn = _turn(view, me, run.round)
    if popcount(present_mask(run)) < run.quorum:
        if view.now > run.inputs_close + turn:
            yield Send("settlement", "abandon", (view.job,))
    elif run.aggregator and view.now > run.aggregator_due + turn:
        yield Send("settlement", "time_out_aggregator", (view.job,))
    elif not run.aggregator:
        bid = view.bids.get((Kind.AGGREGATOR, me.operator))
        fresh = me.operator not in view.aggregator_seats
        if bid is not None and bid.revealed and bid.standby and fresh and bid.capacity > bid.won + bid.taken:
            yield Send("settlement", "take_over_aggregator", (view.job, me.operator))
        elif view.now > run.aggregator_due + turn:
            yield Send("settlement", "abandon", (view.job,))


# -- money -----------------------------------------------------------------------------------------------------------


def _closing(view: JobView, me: Me) -> Iterator[Duty]:
    """Finalise what is due (my own first; others' when they are late), release my lock, reclaim my dead bids."""
    due = [claim for claim in view.payable if claim.operator == me.operator or _left_lying(view, me, claim.deadline)]
    for start in range(0, len(due), BATCH):
        refs = [(c.round, c.key, c.operator, c.bitmap, c.root, c.deadline) for c in due[start : start + BATCH]]
        yield Send("settlement", "finalise", (view.job, refs))
    seat, aggregator_seat = view.seats.get(me.operator), view.aggregator_seats.get(me.operator)
    locked = (seat.locked if seat else 0) + (aggregator_seat.locked if aggregator_seat else 0)
    if view.state == JobState.ENDED and view.run is not None and view.run.outstanding == 0 and locked:
        yield Send("settlement", "release", (view.job, me.operator))
    for (kind, operator), bid in view.bids.items():
        lot = view.lots[kind]
        stale = bid.attempt < lot.attempt or view.state == JobState.CANCELLED
        unrevealed = not bid.revealed and view.now >= lot.reveal_end
        if operator == me.operator and (stale or unrevealed):
            yield Send("auction", "reclaim", (view.job, kind, operator))


def _left_lying(view: JobView, me: Me, deadline: int) -> bool:
    """Another's claim, payable for so long that its operator seems gone."""
    return view.now > deadline + 3 * me.turn_s + _turn(view, me, 0)


def _turn(view: JobView, me: Me, salt: int) -> int:
    """Seconds I leave to others before an errand that anyone may do: each operator has its own place, which rotates."""
    present = sorted({operator for _, operator in view.bids} | {me.operator})
    place = (present.index(me.operator) + view.job + salt) % len(present)
    return place * me.turn_s
