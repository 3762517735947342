"""Starts the next round before its checkpoint is posted: once a turn's inputs are complete, anyone can compute the result.

A holder of a seat fetches the turn's claims as they are committed, has its worker combine them as the aggregator does, and trains
the next round from the result. The chain still decides: work is named by the root that it starts from, so nothing is committed
from another root than the chain's, and training from one is abandoned (keepers/queue/work_queue.py). What cannot be made here is downloaded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from keepers.decisions.orders import NEWEST_CHECKPOINT, Progress
from keepers.decisions.requests import aggregate_name, precompute_name, present_claims, present_mask
from keepers.queue.work_queue import WorkQueue
from keepers.services.progress import missing_share, trained
from node.errors import BadInputs
from node.inputs import bundles
from zoo_compute import codec
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Commit, JobState, JobView, checkpoint_root
from zoo_compute.codec.files import UpdateLayout, cids_of
from zoo_compute.errors import ZooError
from zoo_compute.formats.tags import round_tag
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.cid import digest_of, raw_cid

log = logging.getLogger("zoo.keeper")

TIMEOUT_S = 30.0  # for one file
RETRY_AFTER_S = 2.0
ATTEMPTS = 5
MAX_CONCURRENT_FETCHES = 8
FALLBACK_PEERS = 8  # that are asked with a claim's author at first
LAST_CLAIMS_WAIT_S = 0.5  # for the last claims of a turn, in one look at the chain: another look would take longer
POLL_S = 0.01


class MadeShare(NamedTuple):
    """An aggregator's share of a checkpoint. pointer: the CID that it has of an honest aggregator."""

    root: bytes
    pointer: str


class ProvisionalCheckpoint(NamedTuple):
    """A checkpoint that my worker computed from the open turn."""

    shares: tuple[MadeShare, ...]

    @property
    def root(self) -> bytes:
        return root_of_shares([share.root for share in self.shares])


def provisional_checkpoint(work: WorkQueue, view: JobView, operator: int) -> ProvisionalCheckpoint | None:
    """The checkpoint that my worker computed from the open turn; None if it has not."""
    assert view.run is not None, "a turn is open"
    is_whole = view.terms.aggregators == 1 and view.aggregates(operator)
    result = work.status(aggregate_name(view) if is_whole else precompute_name(view)).result
    if not result or not result["root"]:
        return None
    made = [result] if is_whole else result["shares"]
    return ProvisionalCheckpoint(tuple(MadeShare(bytes.fromhex(each["root"]), each["pointer"]) for each in made))


# Nothing here is asked for again when its round is over.
CLAIMS_KNOWN, JOBS_KNOWN = 10_000, 64
# Of a delayed job: its next slots do not start from what the open turn makes.
UNKNOWN_SHARE = MadeShare(bytes(32), raw_cid(bytes(32)))


def unknown_checkpoint(view: JobView) -> ProvisionalCheckpoint:
    return ProvisionalCheckpoint((UNKNOWN_SHARE,) * view.terms.aggregators)


def with_checkpoint(view: JobView, made: ProvisionalCheckpoint) -> JobView:
    """The job as it will be when the open turn's aggregator posts this checkpoint: enough of it to name and ask for training."""
    run = view.run
    assert run is not None, "a turn is open"
    posted = [
        Checkpoint(
            turn=run.turn,
            round=run.round,
            seat=AGGREGATOR_SEAT + share,
            operator=view.seats[AGGREGATOR_SEAT + share].operator,
            scope=present_mask(view, run),
            price=0,
            start_root=run.start_root,
            root=each.root,
            deadline=view.now + run.window_s,
            made_at=view.now,
            cid=digest_of(each.pointer),
        )
        for share, each in enumerate(made.shares)
    ]
    root = checkpoint_root(posted)
    missing = sum(1 << number for number in view.slot_seats)
    follows = replace(
        run, turn=run.turn + 1, round=run.round + 1, opened_at=0, missing=missing, committed=0, start_root=root
    )
    return replace(
        view,
        run=follows,
        checkpoints=[*view.checkpoints, *posted],
        checkpoint_roots={**view.checkpoint_roots, follows.round: root},
        checkpoint_cids={**view.checkpoint_cids, follows.round: tuple(each.cid for each in posted)},
    )


class Prefetcher:
    """Brings the files of claims into the store as they are committed, each from its author first. Safe in threads.

    wake: called when a claim is here whole. Files are bounded by what the job's program and compression allow.
    """

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT_FETCHES, thread_name_prefix="prefetch")
        self._lock = threading.Lock()
        self._here: dict[bytes, bool] = {}  # by bundle: whether it is here whole; False while it is being fetched
        self._tried: dict[bytes, tuple[int, float]] = {}  # by bundle: attempts that failed, and when the next may begin
        self._parts: dict[str, UpdateLayout] = {}  # by manifest
        self._by_author: dict[int, BlockStore] = {}  # of those who committed: a network has far more operators
        self._peers: list[str] = []
        self._scope = Scope.ANY
        self._endpoints: dict[int, str] = {}

    def set_peers(self, peers: Sequence[str], endpoints: Mapping[int, str], scope: Scope = Scope.ANY) -> None:
        """peers: whom to ask; endpoints: by operator, of those among them that are its own. scope: where they may be."""
        with self._lock:
            self._scope = scope
            if (list(peers), endpoints) != (self._peers, self._endpoints):
                self._peers, self._endpoints, self._by_author = list(peers), dict(endpoints), {}

    def observe(self, view: JobView) -> frozenset[int]:
        """Start to fetch new claims of the open turn. Returns the seats whose claims are here completely."""
        seats = set()
        for commit in present_claims(view):
            with self._lock:
                known = self._here.get(commit.bundle)
                failed, again_at = self._tried.get(commit.bundle, (0, 0.0))
                if known:
                    seats.add(commit.seat)
                if known is not None or failed >= ATTEMPTS or time.monotonic() < again_at:
                    continue
                self._here[commit.bundle] = False
                _drop_oldest(self._here, CLAIMS_KNOWN)
            source = self._store if failed else self._of(commit.operator)
            self._pool.submit(self._fetch, raw_cid(view.terms.manifest), view.job, commit, source)
        return frozenset(seats)

    def wait(self, view: JobView, wait_s: float) -> frozenset[int]:
        """As `observe`, after downloads ended or failed, at most `wait_s` later."""
        deadline = time.monotonic() + wait_s
        seats = self.observe(view)
        while time.monotonic() < deadline and any(
            self._here.get(each.bundle) is False for each in present_claims(view)
        ):
            time.sleep(POLL_S)
            seats = self.observe(view)
        return seats

    def _fetch(self, manifest: str, job: int, commit: Commit, source: Store) -> None:
        try:
            updates = self._bring(manifest, commit, source)
        except (ZooError, OSError, ValueError) as error:
            with self._lock:
                failed = self._tried.get(commit.bundle, (0, 0.0))[0] + 1
                self._tried[commit.bundle] = (failed, time.monotonic() + RETRY_AFTER_S)
                _drop_oldest(self._tried, CLAIMS_KNOWN)
                self._here.pop(commit.bundle, None)
            log.warning("job %d: what operator %d committed is not here: %s", job, commit.operator, error)
        else:
            with self._lock:
                self._here[commit.bundle] = True
            self._wake()
            self._keep(updates, round_tag(job, commit.round))

    def _keep(self, updates: Sequence[str], tag: str) -> None:
        """For as long as the round's other files. Nobody waits for that, and what is not kept can be fetched again."""
        try:
            for cid in updates if isinstance(self._store, BlockStore) else ():
                self._store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)
        except (ZooError, OSError) as error:
            log.warning("an update is not kept: %s", error)

    def _bring(self, manifest: str, commit: Commit, source: Store) -> list[str]:
        parts = self._parts.get(manifest)
        if parts is None:
            parts = UpdateLayout.of_job(self._store, manifest, timeout_s=TIMEOUT_S)
            with self._lock:
                self._parts[manifest] = parts
                _drop_oldest(self._parts, JOBS_KNOWN)
        data = source.read(raw_cid(commit.bundle), max_bytes=bundles.MAX_BUNDLE_BYTES, timeout_s=TIMEOUT_S)
        results = bundles.parse_bundle(data).results
        if len(results) != commit.count:
            raise BadInputs(f"a bundle of {len(results)} results, committed were {commit.count}")
        brought = []
        for result in results:
            cids = cids_of(source, result.update, parts, timeout_s=TIMEOUT_S)[1]
            for file in parts.files(cids):
                most = codec.max_file_bytes(file.shapes, file.hashes)
                source.open(file.cid, max_bytes=most, timeout_s=TIMEOUT_S).close()
            brought += [result.update, *cids]
        return list(dict.fromkeys(brought))

    def _of(self, author: int) -> Store:
        """The store, asking an author that serves blocks before all others, and of these only some: a network has thousands."""
        with self._lock:
            url = self._endpoints.get(author)
            if url not in self._peers or not isinstance(self._store, BlockStore):
                return self._store
            if author not in self._by_author:
                others = [peer for peer in self._peers if peer != url][:FALLBACK_PEERS]
                self._by_author[author] = BlockStore(self._store.root, [url, *others], self._scope)
            return self._by_author[author]


def _drop_oldest(known: dict[Any, Any], most: int) -> None:
    """What was added first; it is fetched again if somebody asks."""
    while len(known) > most:
        del known[next(iter(known))]


class Speculation:
    """What a keeper does before the open turn's checkpoint is posted. Remembers only what it will compare with the chain."""

    def __init__(self, work: WorkQueue, store: Store) -> None:
        self.work = work
        self.files = Prefetcher(store, work.wake)
        # job -> the round that was begun from a root that was not posted yet, and the root
        self._begun: dict[int, tuple[int, bytes]] = {}

    def observe(self, view: JobView, operator: int, progress: Progress) -> Progress:
        """Announce the turn to the workers, fetch new claims, and return the progress with what is here."""
        run = view.run
        if run is None or view.state != JobState.RUNNING:
            return progress
        self.work.announce_turn(view.job, run.round, view.slots_root)
        begun = self._begun.get(view.job)
        if begun is not None and run.round >= begun[0]:
            del self._begun[view.job]
            if run.round == begun[0] and run.start_root != begun[1]:
                posted, computed = run.start_root.hex(), begun[1].hex()
                log.error(
                    "job %d: checkpoint %d is %s on chain, %s as made here", view.job, run.round, posted, computed
                )
        if view.delay and not run.is_waiting:
            progress = self._with_missing(view, operator, progress)
        if not progress.should_precompute or not view.seats_of(operator):
            return progress
        made = provisional_checkpoint(self.work, view, operator) is not None
        waits_s = 0.0 if made or not view.inputs_complete(view.now) else LAST_CLAIMS_WAIT_S
        return replace(progress, local_seats=self.files.wait(view, waits_s), precomputed=made)

    def _with_missing(self, view: JobView, operator: int, progress: Progress) -> Progress:
        """With what the next turn of a delayed job lacks of the checkpoint that it starts from."""
        follows, mine = with_checkpoint(view, unknown_checkpoint(view)), view.seats_of(operator).values()
        for status in (trained(self.work, follows, slot) for seat in mine for slot in seat.slots):
            if missing := missing_share(status, NEWEST_CHECKPOINT):
                return replace(progress, missing={**progress.missing, **missing})
        return progress

    def begin(self, view: JobView, operator: int) -> JobView:
        """The job with the checkpoint that was computed here, to train from."""
        if view.delay:
            return with_checkpoint(view, unknown_checkpoint(view))
        made = provisional_checkpoint(self.work, view, operator)
        assert made is not None, "a round is begun ahead from what was made"
        follows = with_checkpoint(view, made)
        assert follows.run is not None, "it follows an open turn"
        self._begun[view.job] = (follows.run.round, made.root)
        return follows
