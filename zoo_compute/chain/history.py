"""The events of one job or operator, read once: a tick asks only for the blocks since the last one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.events import Event, scan

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head


class History:
    """Events that match a filter of `scan`, up to the newest block asked for. Forgets what a reorganisation undid."""

    def __init__(self, chain: Chain, **wanted: Any) -> None:
        self._chain = chain
        self._wanted = wanted
        self._events: list[Event] = []
        self._upto: Head | None = None
        self._lock = threading.Lock()

    def upto(self, head: Head) -> Sequence[Event]:
        """All matching events of blocks up to `head`, in order."""
        with self._lock:
            known = self._upto
            if known is not None and head.number < known.number:
                return [event for event in self._events if event.block <= head.number]
            if known is not None and self._chain.head(known.number).hash != known.hash:
                known, self._events = None, []
            start = self._chain.network.first_block if known is None else known.number + 1
            self._events += scan(self._chain, start, head.number, **self._wanted)
            self._upto = head
            return list(self._events)
