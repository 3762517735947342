"""Answers demands on chain: a demand's clock is short, and an unanswered demand costs the claim and its lock, or a custodian's reserve.

It runs beside the keeper's ticks, which wait for transactions and stores, and remembers nothing: what is open is asked of the
chain at every look, what is shown is built from the files that the operator's store keeps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

from repops.chunks import chunk_of
from repops.files import FileRefused, parse_state
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.event_log import history_of
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Checkpoint, Commit
from zoo_compute.codec import BadUpdateFile
from zoo_compute.codec.files import UpdateLayout, get, whole
from zoo_compute.disputes.openings import checkpoint_opening, update_opening
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.formats.bundles import MAX_BUNDLE_BYTES, MAX_POINTER_BYTES, BadRecord, Bundle, Pointer
from zoo_compute.spec.watching import Opening
from zoo_compute.store import Store
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.unixfs import MAX_CONTENT

log = logging.getLogger("zoo.answers")

DEMAND_EVENTS = ("ChunkDemanded", "DemandAnswered", "DemandUnanswered")
POLLS_PER_WINDOW = 6  # in the time an answer has
MAX_PAUSE_S = 10.0
AT_ONCE = 16  # answers that wait for a block
HELP_S = 10.0  # to read a file for another operator's answer: my own answers wait meanwhile
LAST_PART = 4  # of an answer's time: then whoever has the data answers for another operator, and earns the deposit


class DemandResponder:
    """Answers every demand made of one operator, the earliest deadline first; those of others that I have the data for before their
    time is over.
    """

    def __init__(self, operator: int, chain: Chain, sender: Sender, store: Store) -> None:
        self._operator = operator
        self._chain = chain
        self._sender = sender
        self._store = store
        self._answer_s = chain.params.answer_s
        self._history = history_of(chain, names=DEMAND_EVENTS)

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            try:
                self.poll_once()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            progressed()
            time.sleep(min(MAX_PAUSE_S, self._answer_s / POLLS_PER_WINDOW))

    def poll_once(self) -> None:
        head = self._chain.head()
        views = [read_job(self._chain, job, head) for job in sorted(self._asked_in(head))]
        demands = [(view, demand) for view in views for demand in view.demands if demand.is_open]
        # Files are read one after another, which bounds memory; a transaction waits for blocks, and others do not wait for it.
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="answer") as sending:
            for view, demand in sorted(
                demands, key=lambda each: (each[1].operator != self._operator, each[1].opened_at)
            ):
                left_s = demand.opened_at + self._answer_s - self._chain.time(head)
                is_mine = demand.operator == self._operator
                if left_s >= 0 and (is_mine or self._helps(demand, left_s)):
                    timeout_s = max(1.0, left_s if is_mine else min(left_s, HELP_S))
                    self._answer(sending, view.job, raw_cid(view.terms.manifest), demand, timeout_s)

    def _helps(self, demand: Demand, left_s: float) -> bool:
        """Whether to answer for another operator, which may be offline: its time is nearly over, and the data is here. Not if it is I who
        demand, or somebody did already.
        """
        claim = demand.claim
        assert isinstance(claim, Checkpoint | Commit), "a claim is on results or on an aggregation"
        digest = claim.cid if isinstance(claim, Checkpoint) else claim.bundle
        is_due = left_s * LAST_PART <= self._answer_s and not demand.help_tx
        return is_due and demand.demander != self._sender.address and self._store.has(raw_cid(digest))

    def _asked_in(self, head: Head) -> set[int]:
        """Jobs in which a demand is open."""
        open_: dict[tuple[int, ...], int] = {}
        for event in self._history.events_until(head):
            key = tuple(int(event.args[name]) for name in ("job", "turn", "seat", "author", "lane"))
            open_[key] = open_.get(key, 0) + (1 if event.name == "ChunkDemanded" else -1)
        return {key[0] for key, count in open_.items() if count > 0}

    def _answer(self, sending: Executor, job: int, manifest: str, demand: Demand, timeout_s: float) -> None:
        claim = demand.claim
        what = f"job {job}: demand of slot {demand.slot} in turn {claim.turn}, lane {demand.lane}"
        with _contained(what):
            opening = opening_of(self._store, manifest, demand, timeout_s)
            args: Any = (job, claim.fields, demand.lane, astuple(opening))
            sending.submit(self._send, what, self._chain.availability.answer(*args))

    def _send(self, what: str, call: Call) -> None:
        with _contained(what):
            receipt = self._sender.send(call)
            log.info("%s: answered in %s", what, receipt.transaction_hash)


@contextmanager
def _contained(what: str) -> Iterator[None]:
    """One demand must not keep the others waiting."""
    try:
        yield
    except (BadRecord, FileRefused, BadUpdateFile, StopIteration) as error:
        log.error("%s: what this store keeps is not what was committed: %s", what, error)
    except Refusal as refusal:  # somebody else was faster, or the time is over
        log.info("%s: refused: %s", what, refusal.reason)
    except ZooError as error:
        log.error("%s: not answered yet: %s", what, error)
    except Exception:
        log.exception("%s: unexpected", what)


def opening_of(store: Store, manifest: str, demand: Demand, timeout_s: float) -> Opening:
    """What answers a demand in the job of this manifest, from the store of the claim's author, or of whoever has its data.

    Raises the store's errors, BadRecord, FileRefused, TransportRefused.
    """
    claim = demand.claim
    if isinstance(claim, Checkpoint):
        data = store.read(raw_cid(claim.cid), max_bytes=MAX_POINTER_BYTES, timeout_s=timeout_s)
        state = store.read(Pointer.from_bytes(data).state, max_bytes=MAX_CONTENT, timeout_s=timeout_s)
        return checkpoint_opening(parse_state(state), demand.tensor, demand.group)
    assert isinstance(claim, Commit), "a claim is on results or on an aggregation"
    data = store.read(raw_cid(claim.bundle), max_bytes=MAX_BUNDLE_BYTES, timeout_s=timeout_s)
    bundle, parts = Bundle.from_bytes(data), UpdateLayout.of_job(store, manifest, timeout_s=timeout_s)
    update = get(store, bundle.result(demand.slot).update, parts, timeout_s=timeout_s)
    chunk = update.chunk(demand.tensor, demand.group)
    if chunk is None:  # of what only the author and custodians have
        chunk = chunk_of(whole(store, update, parts, timeout_s=timeout_s), demand.tensor, demand.group)
    return update_opening(bundle, demand.slot, chunk)
