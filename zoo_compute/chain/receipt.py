"""What a sender returns: the receipt of a mined transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoo_compute.chain.events import Event


@dataclass(frozen=True)
class Receipt:
    """A mined, successful transaction. `result` is what the simulation returned; take ids from events instead."""

    transaction_hash: str
    block: int
    gas_used: int
    operation: str  # "Settlement.commit"
    events: Sequence[Event]
    result: Any = None

    def event(self, name: str) -> Event:
        """The one event of this name."""
        (match,) = [event for event in self.events if event.name == name]
        return match
