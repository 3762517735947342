"""Events of a running network for benchmarks: JSON lines that its processes write, and the chain's as they are mined."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a worker loads nothing of the chain
    from keepers.processes.local_network import LocalOperators
    from zoo_compute.chain.events import Event

LOOK_S = 0.05
CLAIM_EVENTS = ("ResultsCommitted", "CheckpointPosted")


def event_writer(path: Path) -> Callable[..., None]:
    """A function that appends an event to a file: its name, its time (Unix seconds, by default now), and more fields."""

    def tell(event: str, at: float | None = None, **more: Any) -> None:
        with path.open("a") as log:
            log.write(json.dumps({"event": event, "at": time.time() if at is None else at, **more}) + "\n")

    return tell


class ChainWatcher(threading.Thread):
    """Calls `see` with each event of these names, in order, about LOOK_S after it is mined, until `stopped` is set."""

    names: Sequence[str] = CLAIM_EVENTS

    def __init__(self, network: LocalOperators) -> None:
        super().__init__(daemon=True)
        self.chain = network.devnet.chain
        self.stopped = threading.Event()

    def see(self, event: Event) -> None:
        raise NotImplementedError

    def run(self) -> None:
        from zoo_compute.chain.events import scan

        unseen = self.chain.head().number
        while not self.stopped.wait(LOOK_S):
            head = self.chain.head().number
            if head >= unseen:
                for event in scan(self.chain, unseen, head, names=self.names):
                    self.see(event)
                unseen = head + 1
