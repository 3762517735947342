"""The loops of a keeper, each in a thread of its own: whether they still go on, and their restart after an error.

A loop that is stuck (an RPC or a store that never ends its answer) looks alive from outside. So each reports its progress, and the daemon
ends a keeper of which one has made none for `hung_after_s`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("zoo.keeper")

Progressed = Callable[[], None]
RESTART_S = 1.0  # before a loop that ended with an error begins again


class Lanes:
    """By name, when each loop last reported progress. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}
        self._pauses: dict[str, float] = {}  # that a loop makes anyway
        self.failures: dict[str, int] = {}

    def begin(self, name: str, *, pause_s: float = 0.0) -> Progressed:
        """Expect progress of a loop from now on. Returns what it calls with each step. pause_s: between two steps."""
        self.failures.setdefault(name, 0)
        self._pauses[name] = pause_s

        def progressed() -> None:
            self._last[name] = self._clock()

        progressed()
        return progressed

    def end(self, name: str) -> None:
        """Expect no more progress of a loop."""
        self._last.pop(name, None)

    def start(self, name: str, loop: Callable[[Progressed], object], *, pause_s: float = 0.0) -> threading.Thread:
        """Run a loop in a thread until the process ends; one that ends with an error is counted and begins again."""
        progressed = self.begin(name, pause_s=pause_s)
        thread = threading.Thread(target=self._run, args=(name, loop, progressed), name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, name: str, loop: Callable[[Progressed], object], progressed: Progressed) -> None:
        while True:
            try:
                loop(progressed)
                self.end(name)
                return
            except Exception:
                log.exception("%s ended; it begins again", name)
                self.failures[name] += 1
                time.sleep(RESTART_S)

    def idle_of(self, name: str) -> float:
        """Seconds since this loop's last progress."""
        now = self._clock()
        return now - self._last.get(name, now)

    def idle_s(self) -> dict[str, float]:
        """Seconds since each loop's last progress."""
        now = self._clock()
        return {name: now - last for name, last in list(self._last.items())}

    def hung(self, after_s: float) -> list[str]:
        """Loops without progress for longer, their pauses aside."""
        return [name for name, idle in self.idle_s().items() if idle > after_s + self._pauses[name]]
