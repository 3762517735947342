"""Answers demands on chain: a demand's clock is short, and an unanswered demand costs the claim and its lock, or a custodian's reserve.

It runs beside the keeper's ticks, which wait for transactions and stores: what is open is asked of the chain at every look, what is
shown is built from the files that the operator's store keeps. To read and hash a large one takes long: a look that took `LOOK_S` is
followed by the next one, which sees what was demanded meanwhile. Between looks it remembers whose turn it is, and hashes of checkpoints.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from itertools import count
from typing import Any

from keepers.services.checkpoint_trees import CheckpointTrees
from repops.chunks import chunk_of
from repops.files import FileRefused
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.event_log import history_of
from zoo_compute.chain.events import Event
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Checkpoint, Commit, JobView
from zoo_compute.codec import BadUpdateFile
from zoo_compute.codec.files import UpdateLayout, get, whole
from zoo_compute.disputes.openings import checkpoint_opening, update_opening
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.formats.bundles import MAX_BUNDLE_BYTES, MAX_POINTER_BYTES, BadRecord, Bundle, Pointer
from zoo_compute.spec.watching import Opening
from zoo_compute.store import Store
from zoo_compute.store.cid import raw_cid

log = logging.getLogger("zoo.answers")

DEMAND_EVENTS = ("ChunkDemanded", "DemandAnswered", "DemandUnanswered")
POLLS_PER_WINDOW = 6  # in the time an answer has
MAX_PAUSE_S = 10.0
LOOK_S = 10  # then what is open is asked again, before the next file is read
AT_ONCE = 16  # answers that wait for a block
HELP_S = 10.0  # to read a file for another operator's answer: my own answers wait meanwhile
HELP = 2  # the rank of what is demanded of others; 0: of my claims, 1: of what I signed for
UNDONE_BLOCKS = 256  # so many a reorganisation may undo
LAST_PART = 4  # of an answer's time: then whoever has the data answers for another operator, and earns the deposit

Key = tuple[int, tuple[Any, ...], int, int]  # job, claim, lane, and when it was opened


class DemandResponder:
    """Answers every demand made of one operator: those of its claims first, then those of what it signed for, then, before their time
    is over, those of others that it has the data for. Jobs take turns; in a job the earliest deadline is first.
    """

    def __init__(self, operator: int, chain: Chain, sender: Sender, store: Store) -> None:
        self._operator = operator
        self._chain = chain
        self._sender = sender
        self._store = store
        self._answer_s = chain.params.answer_s
        self._history = history_of(chain, names=DEMAND_EVENTS)
        self._trees = CheckpointTrees()
        self._turns = count(1)
        self._served: dict[int, int] = {}  # by job, the turn that it had last
        self._tries: Counter[Key] = Counter()

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            is_cut = False
            try:
                is_cut = self.poll_once()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            progressed()
            if not is_cut:
                time.sleep(min(MAX_PAUSE_S, self._answer_s / POLLS_PER_WINDOW))

    def poll_once(self) -> bool:
        """Whether the look was cut short: then the next one should follow at once."""
        head = self._chain.head()
        views = [read_job(self._chain, job, head) for job in sorted(self._asked_in(head))]
        built = False
        # Files are read one after another, which bounds memory; a transaction waits for blocks, and others do not wait for it.
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="answer") as sending:
            for view, demand in self._in_order(views):
                now = self._chain.time(self._chain.head())
                if built and now - self._chain.time(head) > LOOK_S:
                    return True
                left_s = demand.opened_at + self._answer_s - now
                is_mine = demand.operator == self._operator
                if left_s >= 0 and (is_mine or self._helps(demand, left_s)):
                    timeout_s = max(1.0, left_s if is_mine else min(left_s, HELP_S))
                    self._served[view.job] = next(self._turns)
                    self._tries[_key(view, demand)] += 1
                    self._answer(sending, view.job, raw_cid(view.terms.manifest), demand, timeout_s)
                    built = True
        return False

    def _in_order(self, views: Sequence[JobView]) -> list[tuple[JobView, Demand]]:
        """What was tried in vain comes after the job's others, and a claim of mine then among what I signed for: a file that cannot be
        read keeps nothing waiting twice. Who helps begins anywhere, so that helpers do not all build the same.
        """
        ranked: dict[tuple[int, int], list[Demand]] = {}  # by rank and job
        for view in views:
            for demand in view.demands:
                if demand.is_open:
                    is_tried = self._tries[_key(view, demand)] > 0
                    rank = HELP if demand.operator != self._operator else int(view.custodians > 0 or is_tried)
                    ranked.setdefault((rank, view.job), []).append(demand)
        by_job = {view.job: view for view in views}
        open_ = {_key(by_job[job], demand) for (_, job), demands in ranked.items() for demand in demands}
        self._tries = Counter({key: tries for key, tries in self._tries.items() if key in open_})
        self._served = {job: turn for job, turn in self._served.items() if job in by_job}
        order: list[tuple[tuple[float, ...], JobView, Demand]] = []
        for (rank, job), demands in ranked.items():
            view = by_job[job]
            first_due = sorted(demands, key=lambda each: (self._tries[_key(view, each)], each.opened_at))
            for place, demand in enumerate(first_due):
                turn = (random.random(),) if rank == HELP else (place, self._served.get(job, 0))
                order.append(((rank, *turn), view, demand))
        return [(view, demand) for _, view, demand in sorted(order, key=lambda each: each[0])]

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
        """Jobs in which a demand is open. What ended so long ago that nothing undoes it is forgotten: all of a network's is read."""
        by_place: dict[tuple[int, ...], list[Event]] = {}
        for event in self._history.events_until(head):
            place = tuple(int(event.args[name]) for name in ("job", "turn", "seat", "author", "lane"))
            by_place.setdefault(place, []).append(event)
        open_ = {place for place, events in by_place.items() if _is_open(events)}
        ended = [events for place, events in by_place.items() if place not in open_]
        if any(events[0].block < head.number - 2 * UNDONE_BLOCKS for events in ended):
            old = [events for events in ended if events[-1].block < head.number - UNDONE_BLOCKS]
            self._history.forget([event for events in old for event in events])
        return {place[0] for place in open_}

    def _answer(self, sending: Executor, job: int, manifest: str, demand: Demand, timeout_s: float) -> None:
        claim = demand.claim
        what = f"job {job}: demand of slot {demand.slot} in turn {claim.turn}, lane {demand.lane}"
        with _contained(what):
            opening = opening_of(self._store, manifest, demand, timeout_s, self._trees)
            args: Any = (job, claim.fields, demand.lane, astuple(opening))
            sending.submit(self._send, what, self._chain.availability.answer(*args))

    def _send(self, what: str, call: Call) -> None:
        with _contained(what):
            receipt = self._sender.send(call)
            log.info("%s: answered in %s", what, receipt.transaction_hash)


def _is_open(events: Sequence[Event]) -> bool:
    """Whether one of the demands of a claim in a lane was not ended. An end without a demand is of one that is forgotten: its block is
    read again where the store forgets what an RPC said.
    """
    open_ = 0
    for event in events:
        open_ = open_ + 1 if event.name == "ChunkDemanded" else max(0, open_ - 1)
    return open_ > 0


def _key(view: JobView, demand: Demand) -> Key:
    return view.job, demand.claim.fields, demand.lane, demand.opened_at


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


def opening_of(store: Store, manifest: str, demand: Demand, timeout_s: float, trees: CheckpointTrees) -> Opening:
    """What answers a demand in the job of this manifest, from the store of the claim's author, or of whoever has its data. trees: of
    checkpoints that were opened before.

    Raises the store's errors, BadRecord, FileRefused, TransportRefused.
    """
    claim = demand.claim
    if isinstance(claim, Checkpoint):
        data = store.read(raw_cid(claim.cid), max_bytes=MAX_POINTER_BYTES, timeout_s=timeout_s)
        cid = Pointer.from_bytes(data).state
        return checkpoint_opening(trees.chunk(store, cid, demand.tensor, demand.group, timeout_s=timeout_s))
    assert isinstance(claim, Commit), "a claim is on results or on an aggregation"
    data = store.read(raw_cid(claim.bundle), max_bytes=MAX_BUNDLE_BYTES, timeout_s=timeout_s)
    bundle, parts = Bundle.from_bytes(data), UpdateLayout.of_job(store, manifest, timeout_s=timeout_s)
    update = get(store, bundle.result(demand.slot).update, parts, timeout_s=timeout_s)
    chunk = update.chunk(demand.tensor, demand.group)
    if chunk is None:  # of what only the author and custodians have
        chunk = chunk_of(whole(store, update, parts, timeout_s=timeout_s), demand.tensor, demand.group)
    return update_opening(bundle, demand.slot, chunk)
