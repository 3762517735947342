"""The events of a job or operator, read incrementally: each tick reads only new blocks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.event_store import EventStore, StoredHistory
from zoo_compute.chain.events import Event, scan
from zoo_compute.errors import Unreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head

HEADS_KEPT = 64  # heads remembered, to find the newest block that a reorganisation did not replace


def use_store(chain: Chain, path: Path, operator: int = 0) -> EventStore:
    """Have this connection read the events of all jobs once, and keep them in a file. For processes that read many jobs, for long."""
    chain.event_store = EventStore(chain, path, operator)
    return chain.event_store


def history_of(chain: Chain, **wanted: Any) -> History | StoredHistory:
    """Events that match a filter of `scan`: from the connection's store if it has one."""
    return History(chain, **wanted) if chain.event_store is None else StoredHistory(chain.event_store, **wanted)


class History:
    """Events that match a filter of `scan`, up to a block. Drops events that a reorganisation undid.

    read_from: after `events_until`, the first block that it read from the chain. What was read at a block before it is still so.
    """

    def __init__(self, chain: Chain, *, since: int | None = None, **wanted: Any) -> None:
        self._chain = chain
        self._first = chain.network.first_block if since is None else since
        self._wanted = wanted
        self._events: list[Event] = []  # up to the newest head of
        self._heads: list[Head] = []  # ascending; each was part of the chain when it was read
        self._lock = threading.Lock()
        self.read_from = self._first

    @property
    def oldest_head(self) -> int:
        """Number of the oldest head remembered: a reorganisation of it would be read again from the beginning."""
        return self._heads[0].number if self._heads else 0

    def forget(self, events: Collection[Event]) -> None:
        """Drop these, which the caller is done with."""
        gone = {(event.block_hash, event.log_index) for event in events}
        with self._lock:
            self._events = [event for event in self._events if (event.block_hash, event.log_index) not in gone]

    def events_until(self, head: Head) -> Sequence[Event]:
        """All events up to `head`, in order. If it raises Unreachable, the log has not changed.

        INVARIANT: every returned event is in `head` or one of its ancestors   tests/integration/test_devnet_chain.py
        """
        with self._lock:
            heads = self._canonical_heads(head)
            if heads and heads[-1].hash == head.hash:
                self.read_from = head.number + 1
                return [event for event in self._events if event.block <= head.number]
            start = heads[-1].number + 1 if heads else self._first
            events = [event for event in self._events if event.block < start]
            events += scan(self._chain, start, head.number, **self._wanted)
            if self._chain.head(head.number).hash != head.hash:
                raise Unreachable(f"block {head.number} was replaced while it was read", hint="read again")
            if not self._heads or head.number >= self._heads[-1].number:  # reading an older block adds nothing
                self._events, self._heads = events, [*heads, head][-HEADS_KEPT:]
            self.read_from = start
            return list(events)

    def _canonical_heads(self, head: Head) -> list[Head]:
        """The remembered heads that are ancestors of `head` on the RPC's current chain."""
        heads = [known for known in self._heads if known.number <= head.number]
        while heads and heads[-1].hash not in (head.hash, head.parent):
            if heads[-1].number < head.number and self._chain.head(heads[-1].number).hash == heads[-1].hash:
                break
            heads.pop()
        return heads
