"""When an operator bids again in an auction that failed, and when it opens the next attempt. Pure, and from the view alone.

Anyone may re-open an auction that failed, and every attempt costs each bidder two transactions and an unlock. So:

- An operator bids in its first attempt at once, and in AT_ONCE in all. After the nth in vain it rests: the reveal window times
  2^(n - AT_ONCE), a day at most. Waiting at the maximum price has no last attempt.
- It bids again at once where an operator that was not in its last attempt (or offered fewer units there) has bid since, and those
  who ever bid could fill both lots together.
- It re-opens an auction only to bid in it, or to free its own collateral from a failed attempt.

docs/design/decisions/0021-waiting-at-the-maximum.md has the arithmetic: what a day costs, and why operators that suffice always meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from keepers.decisions.orders import OperatorContext
from zoo_compute.chain.auction_attempts import Attempt
from zoo_compute.chain.views import JobView
from zoo_compute.spec.params import grown_reserve

AT_ONCE = 3
MAX_BACKOFF_S = 86_400


def bids(view: JobView, me: OperatorContext, kind: int, units: int) -> bool:
    """Whether a bid for so many units is worth its gas now."""
    mine = _mine(view, me, kind)
    if not mine:
        return True
    last = view.attempts[mine[-1]]
    if view.now >= last.reveal_end + backoff_s(view, len(mine)):
        return True
    key = (kind, me.operator)
    since = [bid for attempt in view.attempts[mine[-1] + 1 :] for bid in attempt.bids.items() if bid[0] != key]
    new = units > last.bids[key] or any(offered > last.bids.get(bidder, 0) for bidder, offered in since)
    return new and _could_fill(view, me, kind, units)


def should_reopen(view: JobView, me: OperatorContext, kind: int, units: int) -> bool:
    """Whether to open the next attempt, of an auction that failed, to bid for so many units in it or in one after it."""
    lot = view.lots[kind]
    if me.price_for(kind) > lot.reserve:  # nobody bids at this reserve whom a higher one would not bring as well
        return not lot.enough_bids and grown_reserve(lot.reserve, lot.max_reserve) > lot.reserve
    if not _mine(view, me, kind):
        return view.now >= lot.reveal_end + backoff_s(view, _idle(view.attempts))
    return bids(view, me, kind, units)


def backoff_s(view: JobView, attempts: int) -> int:
    """Seconds of rest after so many attempts in vain."""
    if attempts < AT_ONCE:
        return 0
    lot = next(iter(view.lots.values()))
    return min(MAX_BACKOFF_S, (lot.reveal_end - lot.bid_end) << min(attempts - AT_ONCE, 20))


def _mine(view: JobView, me: OperatorContext, kind: int) -> list[int]:
    """Indices of the attempts that are over in which I bid."""
    return [
        n for n, each in enumerate(view.attempts) if (kind, me.operator) in each.bids and view.now >= each.reveal_end
    ]


def _could_fill(view: JobView, me: OperatorContext, kind: int, units: int) -> bool:
    """Whether everyone who ever bid, with what it offered last, and I together fill both lots."""
    offers: dict[tuple[int, int], int] = {}
    for attempt in view.attempts:
        offers |= attempt.bids
    offers[kind, me.operator] = units
    return all(sum(offers[bid] for bid in offers if bid[0] == k) >= lot.units for k, lot in view.lots.items())


def _idle(attempts: Sequence[Attempt]) -> int:
    """The newest attempts that nobody bid in, and that raised no reserve: whoever opened them for a bid did not get it in."""
    count = 0
    for attempt, before in zip(reversed(attempts), reversed(attempts[:-1]), strict=False):
        if attempt.bids or attempt.reserves != before.reserves:
            break
        count += 1
    return count
