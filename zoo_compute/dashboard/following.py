"""Follows the chain into the index, in a thread of its own, and reads for pages what no event contains."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from web3 import Web3

from zoo_compute.chain.batch import RpcRequest, request_all
from zoo_compute.chain.events import scan
from zoo_compute.dashboard.event_rows import NAMES
from zoo_compute.dashboard.index import HEADS_KEPT, Block, Index
from zoo_compute.errors import Unreachable, ZooError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zoo_compute.chain.connection import Chain, Head

log = logging.getLogger("zoo.dashboard")

RANGE = 2_000  # blocks read at once
POLL_S = 1.0
RETRY_S = 5.0
LONGEST_TEXT = 200  # of an error that pages show


def catch_up(chain: Chain, index: Index, *, stopping: Callable[[], bool] = lambda: False) -> Head:
    """All events up to the newest block, which is returned. Raises Unreachable; the index is whole as of some block then, too.

    INVARIANT: every event in the index is in `index.newest` or one of its ancestors   tests/dashboard/test_following.py
    """
    head = chain.head()
    start = _undo(chain, index, head)
    while start <= head.number and not stopping():
        # Blocks that may be undone are read apart from those that are not: only their changes are journalled.
        settled = head.number - HEADS_KEPT
        end = min(start + RANGE - 1, settled if start <= settled else head.number)
        _read(chain, index, start, end, may_be_undone=end > settled)
        start = end + 1
    return head


def _undo(chain: Chain, index: Index, head: Head) -> int:
    """Go back to the newest block of the index that is in the chain. Returns the first block to read."""
    blocks = index.blocks
    if not blocks:
        return chain.network.first_block
    for known in blocks:
        if known.number <= head.number and chain.head(known.number).hash == known.hash:
            if known != blocks[0]:
                index.undo_after(known.number)
            return known.number + 1
    index.clear()
    return chain.network.first_block


def _read(chain: Chain, index: Index, start: int, end: int, *, may_be_undone: bool) -> None:
    until = chain.head(end)
    events = list(scan(chain, start, end, names=NAMES))
    numbers = sorted({event.block for event in events})
    headers = request_all(chain, [RpcRequest(f"block {n}", "eth_getBlockByNumber", [hex(n), False]) for n in numbers])
    hashes = {number: header["hash"] for number, header in zip(numbers, headers, strict=True)}
    if chain.head(end).hash != until.hash or any(
        Web3.to_hex(event.block_hash) != Web3.to_hex(hexstr=hashes[event.block]) for event in events
    ):
        raise Unreachable(f"block {end} was replaced while it was read", hint="read again")
    times = {number: int(header["timestamp"], 16) for number, header in zip(numbers, headers, strict=True)}
    index.append(events, times, Block(end, until.hash, until.timestamp), may_be_undone=may_be_undone)


class Follower:
    """The thread. work: what to do after each look at the chain, such as reading jobs that somebody looks at."""

    def __init__(self, chain: Chain, index: Index, work: Callable[[Head], None] = lambda head: None) -> None:
        self._chain, self._index, self._work = chain, index, work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboard-follower", daemon=True)
        self.trouble = ""  # why the chain was not read at the last look

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the thread has ended, which an RPC that hangs delays until its timeout."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                head = catch_up(self._chain, self._index, stopping=self._stop.is_set)
                self._work(head)
                trouble, pause = "", POLL_S
            except ZooError as error:
                trouble, pause = str(error)[:LONGEST_TEXT], RETRY_S
            except Exception as error:  # a thread that ends would leave a page that never changes again
                log.exception("the dashboard cannot follow the chain")
                trouble, pause = f"{type(error).__name__}: {error}"[:LONGEST_TEXT], RETRY_S
            if trouble != self.trouble:
                self.trouble = trouble
                self._index.changes += 1
            self._stop.wait(pause)
