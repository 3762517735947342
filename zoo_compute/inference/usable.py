"""Which seats of a service a client may ask: not left, cheap enough, with a lock behind which lies do not pay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from zoo_compute.amounts import ZEN
from zoo_compute.inference.balancing import dearest, least_lock
from zoo_compute.inference.market import Market
from zoo_compute.inference.seats import Seat
from zoo_compute.serving.service import Service

LONGEST_S = 300.0  # that offers are believed
AGAIN_S = 5.0  # between two looks while there is no seat, or a seat asks for more than it offered


class UsableSeats:
    """is_dropped: whether an operator may not be paid any more. clock: seconds that only grow. Threads can share it."""

    def __init__(
        self, market: Market, service: Service, max_price: int, check: float, is_dropped: Callable[[int], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._market, self._service, self._max_price, self._check = market, service, max_price, check
        self._is_dropped, self._clock, self._lock = is_dropped, clock, threading.Lock()
        self._seen: tuple[float, list[Seat]] | None = None
        self._is_doubted = False

    def now(self) -> list[Seat]:
        """As of the last look at the chain, which is less than a receipt's window ago. Raises Unreachable."""
        with self._lock:
            usable = self._usable()
            longest_s = min(LONGEST_S, self._market.place.window_s) if usable and not self._is_doubted else AGAIN_S
            if self._seen is None or self._clock() - self._seen[0] >= longest_s:
                self._seen, self._is_doubted = (self._clock(), self._market.seats()), False
                usable = self._usable()
            return usable

    def doubt(self) -> None:
        """A seat does not do what it offered when it was looked at: look again soon."""
        self._is_doubted = True

    def why_none(self) -> str:
        """What is wrong with the seats."""
        with self._lock:
            seats = self._seen[1] if self._seen else []
        if not seats:
            return "the service has no seat"
        return "; ".join(
            f"seat {seat.number}: {self._why_not(seat) or 'it rests, since it failed or is busy'}" for seat in seats
        )

    def _usable(self) -> list[Seat]:
        return [seat for seat in (self._seen[1] if self._seen else []) if self._why_not(seat) is None]

    def _why_not(self, seat: Seat) -> str | None:
        price = seat.offer.price
        if seat.left_at is not None:
            return "it was left"
        if seat.offer.token.lower() != self._market.place.zen.lower():
            return "its price is not in ZEN, in which its lock is"
        if price > self._max_price:
            return f"its price is {ZEN.format(price)} for 1,000 tokens"
        # By what the client would pay, not by what is asked: who gives answers away needs a lock as well.
        least = max(1, least_lock(dearest(self._service, self._max_price), self._check))
        if seat.lock < least:
            return f"its lock is {ZEN.format(seat.lock)}, and should be {ZEN.format(least)}"
        if self._is_dropped(seat.operator):
            return f"operator {seat.operator} gave a bad answer before"
        return None
