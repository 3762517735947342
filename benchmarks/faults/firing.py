"""What all faults share: fire, hold, end, wait for the recovery, and see that it fired."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.faults.network import ChaosNetwork
from benchmarks.faults.record import Record, Row

RECOVERS_S = 120.0
TAKES_EFFECT_S = 150.0  # at most, beyond its time: nobody may have met it yet
CALM_S = 3.0  # between two faults


class NotFired(AssertionError):
    """A fault that did nothing."""


class NotRecovered(AssertionError):
    """Nothing useful came after a fault."""


@dataclass
class Firing:
    """Fires faults at a network that serves jobs."""

    network: ChaosNetwork
    record: Record
    say: Callable[[str], None]

    def wait(self, seconds: float) -> None:
        self.network.wait(seconds)

    def until(self, done: Callable[[], Any], longest_s: float) -> bool:
        """Wait for it; whether it came."""
        until = time.monotonic() + longest_s
        while not done():
            if time.monotonic() > until:
                return False
            self.wait(0.1)
        return True

    def lasting(
        self,
        fault: str,
        begin: Callable[[], Any],
        end: Callable[[], Any],
        *,
        hold_s: float,
        suffers: Iterable[tuple[str, str]],
        fired: Callable[[], int],
    ) -> Row:
        """A fault for a while. suffers: operators and processes, which must be useful again. fired: how often it did something, so far."""
        row, before = self.record.row(fault), fired()
        places = list(suffers)
        begin()
        began = time.time()
        try:
            self.wait(hold_s)
            self.until(lambda: fired() > before, TAKES_EFFECT_S)
        finally:
            end()
        did = fired() - before
        if did <= 0:
            raise NotFired(f"{fault} did nothing")
        row.fired += 1
        row.details["effects"] = row.details.get("effects", 0) + did
        self.recover(row, places, time.time())
        for name in {name for name, process in places if process == "keeper"}:
            row.blind.append(self._blind(name, began))
        self.wait(CALM_S)
        return row

    def recover(self, row: Row, places: list[tuple[str, str]], since: float) -> None:
        """Until each was useful after `since`."""
        for name, process in places:
            if not self.until(lambda: self.network.is_useful(name, process, since), RECOVERS_S):  # noqa: B023
                raise NotRecovered(f"{row.fault}: {process} of {name} is not useful {RECOVERS_S:.0f} s later")
            if process == "keeper":
                looks = [look for look in self.network.looks[name] if look > since]
                row.recovered.append(looks[0] - since)
            else:
                row.recovered.append(time.time() - since)
        self.say(f"{row.fault}: fired {row.fired}, recovered after {max(row.recovered[-len(places) :]):.1f} s")

    def _blind(self, name: str, began: float) -> float:
        """The longest time between two completed looks of a keeper from the last one before on."""
        looks = self.network.looks[name]
        times = [*[look for look in looks if look <= began][-1:], *[look for look in looks if look > began]]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
