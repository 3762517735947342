"""What a keeper owes a job that is being auctioned: bid, open the bid, clear and award. Pure decisions, as in `duties`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from keepers.orders import Duty, Me, OpenBid, Prepare, Progress, SealBid, Send
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobView, Kind, LotPhase
from zoo_compute.spec.params import MAX_CHALLENGERS
from zoo_compute.spec.pricing import RevealedBid, order_bids
from zoo_compute.spec.schedule import Work, Worker, periods, suits

RECOVERY_S = 6  # in every estimate: a worker killed in the middle is back, and the commitment is mined
BATCH = 64  # most elements of a contract's list argument
ATTEMPTS = 6  # of an auction, before I take it that a lot will never fill


def while_open(view: JobView, me: Me, progress: Progress) -> Iterator[Duty]:
    for kind, lot in view.lots.items():
        bid = view.bids.get((kind, me.operator))
        if lot.bidding(view.now):
            if wants(view, me, kind):
                yield from _bid(view, me, progress, kind)
        elif lot.revealing(view.now):
            if bid is not None and bid.attempt == lot.attempt and not bid.revealed:
                yield OpenBid(kind, lot.attempt, bid.capacity, me.asks(kind))
        elif view.now >= lot.reveal_end + turn_of(view, me, kind):
            yield from _settle_lot(view, me, kind)


def wants(view: JobView, me: Me, kind: int) -> bool:
    """Whether I would ever bid in this lot: my role, my class, my price, and a job that ends within my patience."""
    lot = view.lots[kind]
    role = me.provides and _is_for_me(view, me) if kind == Kind.SLOTS else me.aggregates
    return role and me.asks(kind) <= lot.max_reserve and longest_s(view) <= me.longest_s and lot.attempt <= ATTEMPTS


def longest_s(view: JobView) -> int:
    """Seconds that the job's rounds take at most, unless seats are lost."""
    return view.terms.rounds * (2 * view.terms.slot_s + view.terms.aggregate_s)


def _is_for_me(view: JobView, me: Me, hours: int = 0) -> bool:
    """Whether the job is no more than my class is for, and I am there in all these hours. What a step needs of memory,
    preparing it shows."""
    terms = view.terms
    work = Work(
        terms.slots, inner_steps=1, slot_s=terms.slot_s, update_bytes=0, vram_gb=0, flops=terms.flops, hours=hours
    )
    return suits(work, Worker(0, me.operator, me.gpu_class, vram_gb=0, step_us=1, kbps=1, hours=me.hours))


def _bid(view: JobView, me: Me, progress: Progress, kind: int) -> Iterator[Duty]:
    """Bid for what I have fetched, checked and timed: a job that cannot be run never gets hold of my lock."""
    lot, price = view.lots[kind], me.asks(kind)
    bid = view.bids.get((kind, me.operator))
    room = me.capacity if kind == Kind.SLOTS else 1
    room = min(room, lot.units, me.free // lot.lock if lot.lock else room)
    if me.drained or room <= 0 or price > lot.reserve or (bid is not None and bid.attempt == lot.attempt):
        return
    if kind == Kind.SLOTS and not _is_for_me(view, me, periods(view.now, longest_s(view), me.epoch_s)):
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
    if not defensible(view, me, slot_s):
        return 0
    room_s = view.terms.slot_s - RECOVERY_S - me.other_s
    return sum(max(0, math.floor(room_s / (slot_s * pace))) for pace in me.paces)


def defensible(view: JobView, me: Me, slot_s: float) -> bool:
    """Whether I can do a slot-round again within the clock of a dispute game, even where a claim has all the games it can have."""
    return slot_s <= view.terms.reexecute_s + me.move_s // MAX_CHALLENGERS + 2 * RECOVERY_S


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
        seats = (
            view.holders.values() if kind == Kind.SLOTS else [view.seats[n] for n in view.seats if n == AGGREGATOR_SEAT]
        )
        priced = {seat.operator for seat in seats}
        due = [operator for operator in order if revealed[operator].won and operator not in priced]
        for start in range(0, len(due), BATCH):
            yield Send("auction", "award", (view.job, kind, due[start : start + BATCH]))


def turn_of(view: JobView, me: Me, salt: int) -> int:
    """Seconds I leave to others before an errand that anyone may do: each operator has its own place, which rotates."""
    present = sorted({operator for _, operator in view.bids} | {me.operator})
    place = (present.index(me.operator) + view.job + salt) % len(present)
    return place * me.turn_s
