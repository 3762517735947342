"""Which seat gets a request: the cheapest that is good enough, free and not resting. No chain, no network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from zoo_compute.inference.seats import Seat
from zoo_compute.serving.prices import PRICED
from zoo_compute.serving.service import COMPLETIONS, Service
from zoo_compute.spec.params import BPS, FINDER_BPS

REST_S = 1.0  # after a first failure; twice as long after each further one
LONGEST_REST_S = 600.0
NEWEST = 0.3  # the weight of the newest answer in a seat's pace


def dearest(service: Service, price: int) -> int:
    """What the dearest request costs that a service can answer, in smallest units. price: for 1,000 tokens."""
    longest = service.context + (1 if service.kind == COMPLETIONS else 0)  # the last new token goes into no step
    return -(-price * service.programs[-1].rows * longest // PRICED)


def least_lock(cost: int, check: float) -> int:
    """The lock behind which a lie that pays `cost` pays nothing, where each answer is computed again with the chance `check`, above 0."""
    chance, share = Fraction(check), Fraction(BPS - FINDER_BPS, BPS)
    least = cost * (1 - chance) / (share * chance)
    return -(-least.numerator // least.denominator)


@dataclass
class _Pace:
    """Of one operator's seat. pace_s: seconds for each step of its answers, lately; None: it has not answered."""

    pace_s: float | None = None
    failures: int = 0
    rests_until: float = 0.0


class Balance:
    """What is known of each seat, for all threads. One operator gets one request at a time: then nobody loses more than one.

    clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._paces = clock, dict[int, _Pace]()
        self._busy, self._changed = set[int](), threading.Condition()

    @contextmanager
    def turn(self, seats: Iterable[Seat], *, longest_s: float) -> Iterator[Seat | None]:
        """The best of these seats, whose operator gets no other request meanwhile. Waits while all rest or their operators are busy;
        None: for longer than `longest_s`."""
        seat = self._take(list(seats), longest_s)
        try:
            yield seat
        finally:
            if seat is not None:
                with self._changed:
                    self._busy.discard(seat.operator)
                    self._changed.notify_all()

    def answered(self, seat: Seat, seconds: float, steps: int) -> None:
        """It answered."""
        with self._changed:
            known = self._of(seat)
            new = seconds / steps
            known.pace_s = new if known.pace_s is None else (1 - NEWEST) * known.pace_s + NEWEST * new
            known.failures, known.rests_until = 0, 0.0

    def failed(self, seat: Seat, least_s: float = 0.0) -> None:
        """It did not answer, or was slow: it rests, each time in a row twice as long. least_s: what it asks for."""
        with self._changed:
            known = self._of(seat)
            rest_s = REST_S * 2**known.failures
            if rest_s < LONGEST_REST_S:
                known.failures += 1
            known.rests_until = self._clock() + max(min(rest_s, LONGEST_REST_S), least_s)

    def _take(self, seats: list[Seat], longest_s: float) -> Seat | None:
        ends_at = self._clock() + longest_s
        with self._changed:
            while True:
                now = self._clock()
                rested = [seat for seat in seats if self._of(seat).rests_until <= now]
                free = [seat for seat in rested if seat.operator not in self._busy]
                if free:
                    best = min(free, key=self._order)
                    self._busy.add(best.operator)
                    return best
                # A seat that rests may have rested before one is free.
                soonest = min((self._of(seat).rests_until for seat in seats if seat not in rested), default=ends_at)
                if now >= ends_at or (not rested and soonest > ends_at):
                    return None
                self._changed.wait(min(ends_at, soonest) - now)

    def _order(self, seat: Seat) -> tuple[int, float, int]:
        """Cheapest first; of equal prices one that nobody asked yet, then the fastest."""
        return seat.offer.price, self._of(seat).pace_s or 0.0, seat.number

    def _of(self, seat: Seat) -> _Pace:
        return self._paces.setdefault(seat.number, _Pace())
