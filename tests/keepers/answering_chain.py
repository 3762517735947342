"""A chain, as much of it as the lane that answers demands asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def answering_chain(clock: Any, answer_s: int) -> Any:
    """clock.now: the chain's time, also the protocol's. A call to answer has its arguments."""
    return SimpleNamespace(
        head=lambda: SimpleNamespace(number=5, timestamp=clock.now),
        time=lambda head: head.timestamp,
        network=SimpleNamespace(first_block=0),
        event_store=None,
        params=SimpleNamespace(answer_s=answer_s),
        availability=SimpleNamespace(answer=lambda *args: SimpleNamespace(args=args)),
    )
