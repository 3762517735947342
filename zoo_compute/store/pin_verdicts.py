"""Whether content is pinned and complete, for strangers who ask as often as they like: walking 10 GiB takes a second and a half of a core."""

import threading
import time

from zoo_compute.store.blockstore import BlockStore

COMPLETE_S = 3_600.0  # for which a file that was complete is taken for complete
INCOMPLETE_S = 60.0


class PinVerdicts:
    """Walks one file at a time. Threads can share it."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._complete: dict[str, tuple[bool, float]] = {}  # by CID, of pinned content; until when

    def is_pinned(self, cid: str) -> bool:
        if not self._store.has_pin(cid):
            self._complete.pop(cid, None)
            return False
        with self._lock:
            complete, until = self._complete.get(cid, (False, 0.0))
            if time.monotonic() >= until:
                complete = self._store.has(cid)
                until = time.monotonic() + (COMPLETE_S if complete else INCOMPLETE_S)
                self._complete[cid] = complete, until
            return complete
