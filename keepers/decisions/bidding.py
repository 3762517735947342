"""Duties while a job is auctioned: bid, reveal, clear and award. Pure decisions, as in `duties`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keepers.decisions import reopening
from keepers.decisions.obstacles import biddable_units, is_measured_short, obstacle
from keepers.decisions.orders import (
    AskPrice,
    Duty,
    MeasureAgain,
    OpenBid,
    OperatorContext,
    Prepare,
    Progress,
    SealBid,
    Send,
)
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobState, JobView, Kind, LotPhase
from zoo_compute.spec.params import LAPSE_S
from zoo_compute.spec.pricing import RevealedBid, order_bids

BATCH = 64  # most elements of a contract's list argument


def auction_duties(view: JobView, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    if attempt_failed(view):
        yield from _after_failure(view, me, progress)
        return
    slots = view.bids.get((Kind.SLOTS, me.operator))
    if slots is not None and slots.attempt == view.lots[Kind.SLOTS].attempt:
        progress = replace(progress, can_measure_again=False)  # the bid rests on what was measured
    for kind, lot in view.lots.items():
        bid = view.bids.get((kind, me.operator))
        if lot.bidding(view.now):
            for duty in _bid(view, me, progress, kind) if kind in me.kinds else ():
                yield duty
                if isinstance(duty, SealBid):  # what it locks is not there for the other lot
                    me = replace(me, free=me.free - view.bid_lock(kind, duty.capacity))
                    progress = replace(progress, can_measure_again=progress.can_measure_again and kind != Kind.SLOTS)
        elif lot.revealing(view.now):
            if bid is not None and bid.attempt == lot.attempt and not bid.revealed:
                yield OpenBid(kind, lot.attempt, bid.capacity, me.price_for(kind))
        elif view.now >= lot.reveal_end + stagger_delay_s(view, me, kind):
            yield from _settle_lot(view, me, kind)


def reclaim_dead_bids(view: JobView, me: OperatorContext) -> Iterator[Duty]:
    """End my bids that cannot win any more. That frees their collateral and their place in the ring."""
    for (kind, operator), bid in view.bids.items():
        lot = view.lots[kind]
        stale = bid.attempt < lot.attempt or view.state == JobState.CANCELLED
        unrevealed = not bid.revealed and view.now >= lot.reveal_end
        if operator == me.operator and (stale or unrevealed):
            yield Send("auction", "reclaim", (view.job, kind, operator))


def attempt_failed(view: JobView) -> bool:
    """Whether the attempt is over and a lot has too few bids: both are then re-opened, or wait."""
    lots = view.lots.values()
    over = all(lot.phase == LotPhase.OPEN and view.now >= lot.reveal_end for lot in lots)
    return over and not all(lot.enough_bids for lot in lots)


def _after_failure(view: JobView, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Re-open what failed, where I would bid in it now, or where my collateral is bound in it.

    Both lots must be full to be cleared; re-opening is also what frees a bid of mine from a job that never fills. What nobody
    re-opened for LAPSE_S is closed.
    """
    able = [kind for kind in me.kinds if obstacle(view, me, progress, kind) is None]
    unpriced = [kind for kind in able if kind in me.unpriced]
    if able and progress.slot_s is None:
        yield Prepare()
        able = []
    elif unpriced:
        for kind in unpriced:
            yield AskPrice(kind, biddable_units(view, me, progress, kind))
        able = [kind for kind in able if kind not in unpriced]
    elif progress.can_measure_again and any(is_measured_short(view, me, progress, kind) for kind in me.kinds):
        yield MeasureAgain()
    wants = any(reopening.should_reopen(view, me, kind, biddable_units(view, me, progress, kind)) for kind in able)
    bound = any(
        bid.attempt == view.lots[k].attempt and bid.revealed for (k, op), bid in view.bids.items() if op == me.operator
    )
    short, lot = next((kind, lot) for kind, lot in view.lots.items() if not lot.enough_bids)
    delay_s = stagger_delay_s(view, me, lot.attempt)
    if (wants or bound) and view.now >= lot.reveal_end + delay_s:
        yield Send("auction", "reopen", (view.job, short))
    elif view.now >= lot.reveal_end + LAPSE_S + delay_s:  # whoever closes it keeps its posting deposit
        yield Send("tasks", "lapse", (view.job,))


def _bid(view: JobView, me: OperatorContext, progress: Progress, kind: int) -> Iterator[Duty]:
    """Bid only for a job that I fetched, checked and timed: one that cannot run never locks my collateral."""
    lot, price = view.lots[kind], me.price_for(kind)
    bid = view.bids.get((kind, me.operator))
    if price > lot.reserve or (bid is not None and bid.attempt == lot.attempt):
        return
    if obstacle(view, me, progress, kind) is not None:
        if progress.can_measure_again and is_measured_short(view, me, progress, kind):
            yield MeasureAgain()
        return
    if progress.slot_s is None:
        yield Prepare()
        return
    units = biddable_units(view, me, progress, kind)
    if kind in me.unpriced:
        yield AskPrice(kind, units)
    elif reopening.bids(view, me, kind, units):
        yield SealBid(kind, lot.attempt, units, price)


def _settle_lot(view: JobView, me: OperatorContext, kind: int) -> Iterator[Duty]:
    """After the reveal phase: clear in order and award."""
    lot = view.lots[kind]
    revealed = {
        operator: bid
        for (k, operator), bid in view.bids.items()
        if k == kind and bid.attempt == lot.attempt and bid.revealed
    }
    bids = [RevealedBid(operator, b.price, b.discount_bps, b.capacity) for operator, b in revealed.items()]
    ordered = order_bids(bids)
    order = [bid.operator for bid in ordered]
    if lot.phase in (LotPhase.OPEN, LotPhase.CLEARING):
        passed = [bid.score << 64 | bid.operator for bid in ordered[: lot.cleared]]
        if lot.cleared and (not passed or passed[-1] != lot.cursor):
            # Somebody left bids out. Send one at a time: the first one left out restarts the clearing, the rest follow it.
            batches = [[operator] for operator in order]
        else:
            rest = order[lot.cleared :]
            batches = [rest[start : start + BATCH] for start in range(0, len(rest), BATCH)]
        for batch in batches:
            yield Send("auction", "clear", (view.job, kind, batch))
    if lot.phase == LotPhase.CLEARED:
        seats = (
            view.slot_seats.values()
            if kind == Kind.SLOTS
            else [view.seats[n] for n in view.seats if n >= AGGREGATOR_SEAT]
        )
        priced = {seat.operator for seat in seats}
        due = [operator for operator in order if revealed[operator].won and operator not in priced]
        for start in range(0, len(due), BATCH):
            yield Send("auction", "award", (view.job, kind, due[start : start + BATCH]))


def stagger_delay_s(view: JobView, me: OperatorContext, salt: int) -> int:
    """Seconds I wait before a call that any operator may send: operators take turns to be first."""
    present = sorted({operator for _, operator in view.bids} | {me.operator})
    place = (present.index(me.operator) + view.job + salt) % len(present)
    return place * me.stagger_s
