"""The arithmetic of a lot: order, allocation, critical prices (docs/protocol/auction.md: Clearing, Critical prices).

Pure functions of the revealed bids. `auction` applies them to the state; keepers and `zoo quote` call them too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zoo_compute.spec.params import BPS, MAX_LOSING_RUNS, MAX_WINNERS, STANDARD_CAP_BIDDERS, UNITS_PER_STAKE


@dataclass(frozen=True, slots=True)
class RevealedBid:
    """An operator's revealed bid: smallest units per slot-round, and the discount from its reputation."""

    operator: int
    price: int
    discount_bps: int
    capacity: int

    @property
    def score(self) -> int:
        return score(self.price, self.discount_bps)


@dataclass(frozen=True, slots=True)
class LosingRun:
    """Units that an operator offered within the cap and did not win."""

    operator: int
    score: int
    units: int


@dataclass(frozen=True, slots=True)
class Win:
    """Consecutive slots from `first_slot` on."""

    operator: int
    first_slot: int
    units: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """The winners in order of the bids, and the losing runs that set their prices."""

    sold: int
    wins: tuple[Win, ...]
    losing: tuple[LosingRun, ...]


def score(price: int, discount_bps: int) -> int:
    """The sort key of bids: the price after the discount, in ten-thousandths."""
    return price * (BPS - discount_bps)


def third(units: int) -> int:
    """A third of a lot, rounded up, so that three operators can always fill it."""
    return -(-units // 3)


def cap_of(units: int, capacities: Iterable[int]) -> int:
    """The most units one operator may win, by the capacities of all revealed bids.

    From three bids on a third of the lot; where that leaves it unfilled, the least cap that fills it.
    """
    capacities = list(capacities)
    if len(capacities) < STANDARD_CAP_BIDDERS:
        return units
    caps = range(third(units), units)
    return next((cap for cap in caps if sum(min(capacity, cap) for capacity in capacities) >= units), units)


def least_capacity(units: int) -> int:
    """The least units of a bid: a 64th of the lot, rounded up, so that there are enough seats for all winners."""
    return -(-units // MAX_WINNERS)


def most_capacity(stake: int, min_stake: int) -> int:
    """The most units of a bid of an operator with at least the least stake: UNITS_PER_STAKE for each least stake."""
    return ((stake + 1) * UNITS_PER_STAKE - 1) // min_stake


def least_taken(units: int, vacant: int) -> int:
    """The least units that an operator takes of a vacant seat: as in a bid, or the whole seat. So there are always enough seats."""
    return min(vacant, least_capacity(units))


def is_enough(bids: Iterable[RevealedBid], units: int) -> bool:
    """Can these bids fill the lot? The cap rises as far as that needs."""
    return sum(min(bid.capacity, units) for bid in bids) >= units


def order_bids(bids: Iterable[RevealedBid]) -> list[RevealedBid]:
    """Ascending by `(score, operator)`: the order in which a lot is cleared."""
    return sorted(bids, key=lambda bid: (bid.score, bid.operator))


def split(usable: int, unsold: int, room: int, *, limit: int | None = None) -> tuple[int, int]:
    """One bid's share: units won, and units kept as a losing run.

    usable: what it offers within the cap. room: losing units that still fit. limit: units whose lock it still has.
    """
    won = min(usable, unsold, usable if limit is None else limit)
    return won, min(usable - won, room)


def room_left(cap: int, losing_units: int, losing_runs: int) -> int:
    """Losing units that still set prices: at most one cap, in a limited number of runs."""
    return cap - losing_units if losing_runs < MAX_LOSING_RUNS else 0


def allocate(ordered: Sequence[RevealedBid], units: int) -> Allocation:
    """Fill `units` from all bids, in clearing order."""
    cap = cap_of(units, (bid.capacity for bid in ordered))
    sold = losing_units = 0
    wins: list[Win] = []
    losing: list[LosingRun] = []
    for bid in ordered:
        won, left = split(min(bid.capacity, cap), units - sold, room_left(cap, losing_units, len(losing)))
        if won:
            wins.append(Win(bid.operator, sold, won))
            sold += won
        if left:
            losing.append(LosingRun(bid.operator, bid.score, left))
            losing_units += left
    return Allocation(sold, tuple(wins), tuple(losing))


def critical_price(operator: int, discount_bps: int, won: int, losing: Iterable[LosingRun], reserve: int) -> int:
    """The floor of the mean of the `won` thresholds that this winner's units displace."""
    total = 0
    missing = won
    for run in losing:
        if run.operator != operator and missing:
            units = min(run.units, missing)
            total += units * min(reserve, run.score // (BPS - discount_bps))
            missing -= units
    return (total + missing * reserve) // won


def critical_prices(bids: Iterable[RevealedBid], units: int, reserve: int) -> dict[int, int]:
    """Every winner's price per slot-round, by operator."""
    ordered = order_bids(bids)
    discount = {bid.operator: bid.discount_bps for bid in ordered}
    allocation = allocate(ordered, units)
    return {
        win.operator: critical_price(win.operator, discount[win.operator], win.units, allocation.losing, reserve)
        for win in allocation.wins
    }
