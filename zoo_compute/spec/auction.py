"""Auction: sealed bids, critical prices, seats (docs/protocol/auction.md).

The arithmetic is in `pricing`, re-exported here: keepers and `zoo quote` use it as `auction.critical_prices` and so on.
"""

from dataclasses import replace

from zoo_compute.spec import jobs, node_registry, seats
from zoo_compute.spec.guardian import is_paused
from zoo_compute.spec.params import (
    COIN,
    KIND_AGGREGATOR,
    KIND_SLOTS,
    LAPSE_S,
    MAX_ONCE,
    RING,
    Terms,
    grown_reserve,
    lock_of,
    lock_once,
    restitution,
)
from zoo_compute.spec.pricing import (
    Allocation,
    LosingRun,
    RevealedBid,
    Win,
    allocate,
    cap_of,
    critical_price,
    critical_prices,
    is_enough,
    least_capacity,
    most_capacity,
    order_bids,
    room_left,
    score,
    split,
    third,
)
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Bid, JobState, Lot, Message, Phase, Seal, World

__all__ = [
    "Allocation",
    "LosingRun",
    "RevealedBid",
    "Win",
    "allocate",
    "cap_of",
    "critical_price",
    "critical_prices",
    "is_enough",
    "least_capacity",
    "most_capacity",
    "order_bids",
    "score",
]

KINDS = (KIND_SLOTS, KIND_AGGREGATOR)
CURSOR_OPERATOR_BITS = 64  # of a lot's cursor, below the score


def open_lots(w: World, job: int, terms: Terms, *, now: int) -> None:
    """For TaskRegistry: both lots of a job, attempt 1."""
    slots = Lot(
        units=terms.slots,
        reserve=terms.reserve,
        max_reserve=terms.max_price,
        once=lock_once(terms),
    )
    seat = Lot(
        units=terms.aggregators,
        reserve=terms.aggregator_reserve,
        max_reserve=terms.aggregator_max_price,
        once=restitution(terms),
    )
    for kind, lot in ((KIND_SLOTS, slots), (KIND_AGGREGATOR, seat)):
        require(lot.once <= MAX_ONCE, "auction: lock out of range")
        w.lots[job, kind] = _next_attempt(w, job, replace(lot, token=terms.token), now)


def bid(w: World, msg: Message, job: int, kind: int, operator: int, seal: Seal, capacity: int) -> None:
    """A sealed bid: the capacity is public, and locked for as at the reserve; the price is secret, and at most the reserve."""
    lot = w.lot(job, kind)
    require(_is_open(w, job, lot) and msg.now < lot.bid_end, "auction: not bidding")
    require(least_capacity(lot.units) <= capacity <= lot.units, "auction: capacity out of range")
    _require_met(w, job, operator, msg.block_time)
    _take_place(w, job, kind, operator)
    w.bids[job, kind, operator] = Bid(attempt=lot.attempt, reserve=lot.reserve, capacity=capacity, seal=seal)
    amount = lot.lock * capacity + lot.once
    if not node_registry.lock_bid(w, operator, msg.sender, lot.token, amount, capacity, block_time=msg.block_time):
        require(not is_paused(w, w.config.auction, msg.block_time), "auction: intake paused")
        require(node_registry.is_eligible(w, operator, msg.sender), "auction: operator not eligible")
        raise Refused("auction: stake below the capacity")


def reveal(w: World, msg: Message, job: int, kind: int, operator: int, price: int, salt: bytes) -> None:
    """Reveals a bid, and fixes its current discount."""
    lot, sealed = w.lot(job, kind), w.bid(job, kind, operator)
    require(_is_open(w, job, lot) and lot.bid_end <= msg.now < lot.reveal_end, "auction: not revealing")
    require(sealed.attempt == lot.attempt and not sealed.revealed, "auction: no bid")
    expected = Seal(job, kind, lot.attempt, operator, price, sealed.capacity, salt)
    require(sealed.seal == expected, "auction: seal does not match")
    require(1 <= price <= lot.reserve, "auction: price out of range")
    discount = node_registry.discount_bps(w, operator, now=msg.block_time)
    w.bids[job, kind, operator] = replace(sealed, revealed=True, price=price, discount_bps=discount, seal=None)
    w.lots[job, kind] = replace(
        lot,
        revealed=lot.revealed + 1,
        units_capped=lot.units_capped + min(sealed.capacity, third(lot.units)),
        units_uncapped=lot.units_uncapped + min(sealed.capacity, lot.units),
    )


def reopen(w: World, msg: Message, job: int, kind: int) -> None:
    """Both lots start their next attempt; the reserve grows if too few units were offered."""
    lot = w.lot(job, kind)
    require(_is_open(w, job, lot) and msg.now >= lot.reveal_end, "auction: not due")
    require(not _is_filled(w, job), "auction: enough bids")
    for each in KINDS:
        old = w.lot(job, each)
        grows = not (
            _has_enough(old) or is_paused(w, w.config.auction, msg.block_time)
        )  # nobody could bid while bids are paused
        reserve = grown_reserve(old.reserve, old.max_reserve) if grows else old.reserve
        w.lots[job, each] = _next_attempt(w, job, replace(old, reserve=reserve), msg.now)


def clear(w: World, msg: Message, job: int, kind: int, operators: tuple[int, ...]) -> None:
    """Takes the next revealed bids in order; restarts if an earlier caller skipped one (section "Clearing")."""
    lot = w.lot(job, kind)
    is_due = lot.phase in (Phase.OPEN, Phase.CLEARING) and w.job(job).state == JobState.OPEN
    require(is_due and msg.now >= lot.reveal_end, "auction: not due")
    require(_is_filled(w, job), "auction: too few bids")
    require(len(operators) > 0, "auction: no operators")
    if lot.phase == Phase.OPEN:
        lot = replace(lot, phase=Phase.CLEARING, clearing_pass=1)
    for index, operator in enumerate(operators):
        revealed = w.bid(job, kind, operator)
        require(revealed.revealed and revealed.attempt == lot.attempt, "auction: no bid")
        cursor = score(revealed.price, revealed.discount_bps) << CURSOR_OPERATOR_BITS | operator
        if index == 0 and cursor < lot.cursor and revealed.cleared_pass != lot.clearing_pass:
            lot = _restarted(lot)
        require(cursor > lot.cursor, "auction: out of order")
        lot = _clear_one(w, job, kind, operator, replace(lot, cursor=cursor))
    w.lots[job, kind] = replace(lot, phase=Phase.CLEARED) if lot.cleared == lot.revealed else lot


def award(w: World, msg: Message, job: int, kind: int, operators: tuple[int, ...]) -> None:
    """Prices winners and seats them; with the last seat of both lots the job is awarded."""
    lot = w.lot(job, kind)
    require(lot.phase == Phase.CLEARED, "auction: not cleared")
    for operator in operators:
        winner = w.bid(job, kind, operator)
        is_due = winner.attempt == lot.attempt and winner.won > 0 and not winner.priced
        require(is_due, "auction: not an unpriced winner")
        w.bids[job, kind, operator] = replace(winner, priced=True)
        price = critical_price(operator, winner.discount_bps, winner.won, lot.losing, lot.reserve)
        bid_lock = lot.lock * winner.won  # at the reserve it stays, with what each unit's lock is rounded up
        seat_lock = lock_of(winner.won * price, w.terms[job].audit_bps) if price < lot.reserve else bid_lock
        seats.award(w, job, kind, operator, winner.first_slot, winner.won, price, seat_lock + lot.once)
        node_registry.unlock(w, operator, lot.token, bid_lock - seat_lock, last=False)
        lot = replace(lot, priced=lot.priced + 1)
    if lot.priced == lot.winners:
        lot = replace(lot, phase=Phase.AWARDED)
    w.lots[job, kind] = lot
    if all(w.lot(job, each).phase == Phase.AWARDED for each in KINDS):
        seats.begin(w, job, now=msg.now)


def reclaim(w: World, msg: Message, job: int, kind: int, operator: int) -> None:
    """Ends a bid that can no longer win; if it was not revealed in time, it forfeits its attempt's reserve for every unit."""
    lot, ended = w.lot(job, kind), w.bid(job, kind, operator)
    require(ended.attempt > 0, "auction: no bid")
    is_cancelled = w.job(job).state == JobState.CANCELLED
    is_earlier = ended.attempt < lot.attempt
    is_late = not ended.revealed and msg.now >= lot.reveal_end
    require(is_cancelled or is_earlier or is_late, "auction: bid still active")
    due_until = lot.cancelled_at if is_cancelled else msg.now
    has_missed = not ended.revealed and (is_earlier or due_until >= lot.reveal_end)
    forfeited = ended.reserve * ended.capacity if has_missed else 0
    del w.bids[job, kind, operator]
    if has_missed:
        node_registry.slash(w, operator, lot.token, forfeited, convicted=False)
        node_registry.burn(w, lot.token, forfeited)
    locked = lock_of(ended.reserve, w.terms[job].audit_bps) * ended.capacity + lot.once
    node_registry.unlock(w, operator, lot.token, locked - forfeited, last=True)
    if is_cancelled and ended.revealed and not is_earlier:
        jobs.owe(w, COIN, w.operator(operator).owner, w.deposits[job])


def cancelled(w: World, job: int, *, now: int) -> None:
    """For TaskRegistry: records the time of cancellation, because bids sealed by then need no reveal."""
    for kind in KINDS:
        w.lots[job, kind] = replace(w.lot(job, kind), cancelled_at=now)


def bids_due_compensation(w: World, job: int, *, now: int) -> int:
    """Revealed bids that a cancellation now would pay: none of an attempt that ended with too few."""
    if now >= w.lot(job, KIND_SLOTS).reveal_end and not _is_filled(w, job):
        return 0
    return sum(w.lot(job, kind).revealed for kind in KINDS)


def check_takeover(w: World, msg: Message, job: int, operator: int) -> None:
    """For Settlement: refuses an operator that could not bid in the job with the sender's key."""
    require(node_registry.is_eligible(w, operator, msg.sender), "auction: operator not eligible")
    _require_met(w, job, operator, msg.block_time)


def is_lapsed(w: World, job: int, *, now: int) -> bool:
    """Whether the last auction ended LAPSE_S ago, neither cleared nor opened again."""
    return all(w.lot(job, kind).phase == Phase.OPEN and now >= w.lot(job, kind).reveal_end + LAPSE_S for kind in KINDS)


def _require_met(w: World, job: int, operator: int, block_time: int) -> None:
    """What an operator is when it bids counts; what it loses later takes no seat away."""
    asks = w.terms[job].requirements
    require(node_registry.meets(w, operator, asks, block_time=block_time), "auction: requirements not met")


def _take_place(w: World, job: int, kind: int, operator: int) -> None:
    """The ring place for the bid; a spent bid of another job is removed."""
    for of, which, who in [key for key in w.bids if key[1:] == (kind, operator) and key[0] % RING == job % RING]:
        require(of != job and _is_spent(w, of, which, who), "auction: already bid")
        del w.bids[of, which, who]


def _is_spent(w: World, job: int, kind: int, operator: int) -> bool:
    """Whether the bid has nothing locked, and can no longer win anything."""
    lot, bid = w.lot(job, kind), w.bid(job, kind, operator)
    if not bid.revealed:
        return False
    if bid.won:
        return bid.priced
    return lot.phase >= Phase.CLEARED and bid.attempt == lot.attempt


def _is_open(w: World, job: int, lot: Lot) -> bool:
    return lot.phase == Phase.OPEN and w.job(job).state == JobState.OPEN


def _has_enough(lot: Lot) -> bool:
    return lot.units_uncapped >= lot.units


def _is_filled(w: World, job: int) -> bool:
    return all(_has_enough(w.lot(job, kind)) for kind in KINDS)


def _next_attempt(w: World, job: int, lot: Lot, now: int) -> Lot:
    bid_end = now + w.config.preset.bid_window_s
    return replace(
        lot,
        phase=Phase.OPEN,
        lock=lock_of(lot.reserve, w.terms[job].audit_bps),
        attempt=lot.attempt + 1,
        bid_end=bid_end,
        reveal_end=bid_end + w.config.preset.reveal_window_s,
        revealed=0,
        units_capped=0,
        units_uncapped=0,
    )


def _restarted(lot: Lot) -> Lot:
    return replace(
        lot, clearing_pass=lot.clearing_pass + 1, cleared=0, sold=0, winners=0, cursor=0, losing_units=0, losing=()
    )


def _revealed_capacities(w: World, job: int, kind: int, attempt: int) -> list[int]:
    of_lot = (bid for key, bid in w.bids.items() if key[:2] == (job, kind))
    return [bid.capacity for bid in of_lot if bid.revealed and bid.attempt == attempt]


def _clear_one(w: World, job: int, kind: int, operator: int, lot: Lot) -> Lot:
    """Clears one bid, and unlocks the collateral of units that it did not win."""
    bid = w.bid(job, kind, operator)
    cap = cap_of(lot.units, _revealed_capacities(w, job, kind, lot.attempt))
    room = room_left(cap, lot.losing_units, len(lot.losing))
    locked_units = bid.won if bid.cleared_pass else bid.capacity
    won, left = split(min(bid.capacity, cap), lot.units - lot.sold, room, limit=locked_units)
    w.bids[job, kind, operator] = replace(bid, won=won, first_slot=lot.sold, cleared_pass=lot.clearing_pass)
    if locked_units > won:
        unlocked = lot.lock * (locked_units - won) + (0 if won else lot.once)
        node_registry.unlock(w, operator, lot.token, unlocked, last=won == 0)
    run = (LosingRun(operator, score(bid.price, bid.discount_bps), left),) if left else ()
    return replace(
        lot,
        cleared=lot.cleared + 1,
        sold=lot.sold + won,
        winners=lot.winners + (won > 0),
        losing_units=lot.losing_units + left,
        losing=lot.losing + run,
    )
