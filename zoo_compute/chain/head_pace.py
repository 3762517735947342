"""The newest block, and how often to ask for it: several threads of a keeper share one look, and a slow chain is looked at less often."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LOOKS_PER_BLOCK = 4  # a new block is seen, on average, an eighth of a block's time late
SHORTEST_S, LONGEST_S = 0.1, 3.0
WEIGHT = 0.3  # of the last block's time in the average


@dataclass(frozen=True)
class Head:
    """A block to pin reads to. Keepers never use this machine's clock: `timestamp` is block time, `Chain.time` the protocol's."""

    number: int
    timestamp: int
    hash: bytes
    parent: bytes


class HeadPace:
    """Threads can share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: Head | None = None
        self._looked_at = 0.0
        self._changed_at = 0.0
        self._block_s = 0.0  # average time between blocks, as they came; 0: not known

    @property
    def pause_s(self) -> float:
        """For which a block that was seen is taken for the newest."""
        return min(LONGEST_S, max(SHORTEST_S, self._block_s / LOOKS_PER_BLOCK))

    def forget(self) -> None:
        with self._lock:
            self._looked_at = 0.0

    def newest(self, look: Callable[[], Head]) -> Head:
        """The block that was seen last, or the one that `look` returns now. Raises what `look` does."""
        with self._lock:
            now = time.monotonic()
            if self._known is not None and self._looked_at and now - self._looked_at < self.pause_s:
                return self._known
            head = look()
            if self._known is not None and head.number > self._known.number:
                took_s = (now - self._changed_at) / (head.number - self._known.number)
                self._block_s = WEIGHT * took_s + (1 - WEIGHT) * (self._block_s or took_s)
            if self._known is None or head.hash != self._known.hash:
                self._changed_at = now
            self._known, self._looked_at = head, now
            return head
