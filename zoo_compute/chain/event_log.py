"""The events of one job or operator, read once: a tick asks only for the blocks since the last one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.events import Event, scan
from zoo_compute.errors import Unreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head

HEADS_KEPT = 64  # read heads remembered, to find the newest block that a reorganisation left standing


class History:
    """Events that match a filter of `scan`, up to the block asked for. Forgets what a reorganisation undid."""

    def __init__(self, chain: Chain, **wanted: Any) -> None:
        self._chain = chain
        self._wanted = wanted
        self._events: list[Event] = []  # of blocks up to the newest of
        self._heads: list[Head] = []  # ascending: each was read, and was then part of the chain
        self._lock = threading.Lock()

    def events_until(self, head: Head) -> Sequence[Event]:
        """All events of blocks up to `head`, in order. Raises Unreachable, and then nothing has changed.

        INVARIANT: no event told is of a block that is no ancestor of `head`   tests/integration/test_devnet_chain.py
        """
        with self._lock:
            heads = self._canonical_heads(head)
            if heads and heads[-1].hash == head.hash:
                return [event for event in self._events if event.block <= head.number]
            start = heads[-1].number + 1 if heads else self._chain.network.first_block
            events = [event for event in self._events if event.block < start]
            events += scan(self._chain, start, head.number, **self._wanted)
            if self._chain.head(head.number).hash != head.hash:
                raise Unreachable(f"block {head.number} was replaced while it was read", hint="read again")
            if not self._heads or head.number >= self._heads[-1].number:  # a look at the past adds nothing
                self._events, self._heads = events, [*heads, head][-HEADS_KEPT:]
            return list(events)

    def _canonical_heads(self, head: Head) -> list[Head]:
        """The remembered heads from which `head` descends, as the RPC has the chain now."""
        heads = [known for known in self._heads if known.number <= head.number]
        while heads and heads[-1].hash not in (head.hash, head.parent):
            if heads[-1].number < head.number and self._chain.head(heads[-1].number).hash == heads[-1].hash:
                break
            heads.pop()
        return heads
