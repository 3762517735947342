"""Deletes files that no claim needs any more, those of a job a while after it is closed, and copies checkpoints that too few stores keep.

It runs beside the keeper's ticks, since it asks other stores and downloads. It remembers nothing that matters: what is kept for a
job or a round is in the store under its tag, who keeps a checkpoint is asked anew, and when a job was closed is on chain.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from urllib.parse import urlsplit

from keepers.config import OperatorConfig
from keepers.decisions.retention import first_needed, is_done_with, permanent_checkpoints
from keepers.services.disk_space import DiskSpace
from repops import encoding
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.client.copies import confirmed
from zoo_compute.errors import ZooError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.formats.tags import job_tag, parse_tag, round_tag
from zoo_compute.paths import DRAINING
from zoo_compute.spec.retention import repairers
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.errors import BadCid
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import is_gateway
from zoo_compute.training.rounds import checkpoint_bytes

log = logging.getLogger("zoo.retaining")

LOOK_EVERY_S = 600.0  # between looks: each asks every holder, and a copy that is missed for so long is no danger
LOOK_WINDOWS = 6  # of the least length, or that many, where windows are so short that this is less
DAY_S = 86_400
FETCHING_S = 600.0  # in which a file is fetched, if it is at all
GARBAGE_WINDOWS = 12  # after which what nobody pinned goes, at most a day: until then it may still be being fetched
AT_ONCE = 8  # checkpoints of a job that are asked for in one look beside the newest: others at every look
SMALL_FETCH_TIMEOUT_S = 10.0  # for a manifest or a pointer
CHECKPOINT_FETCH_TIMEOUT_S = 600.0  # for a program or a checkpoint; what came in until then is kept


class Retention:
    """Keeps and repairs the files of jobs that one operator served. endpoints: by operator, where its store serves blocks."""

    def __init__(self, config: OperatorConfig, chain: Chain, store: Store, space: DiskSpace) -> None:
        self._config = config
        self._chain = chain
        self._store = store
        self._space = space
        self._views: dict[int, JobView] = {}
        self._manifests: dict[int, Manifest] = {}
        self._closed_at: dict[int, int] = {}  # by job: the block's time
        self._short: Counter[tuple[int, int]] = Counter()  # by job and checkpoint: looks since it had too few holders
        self._looks = 0
        self._collected_at: float | None = None  # when garbage was collected last
        self.endpoints: Mapping[int, str] = {}
        self.scope = Scope.ANY  # where these may be

    @property
    def pause_s(self) -> float:
        """Between looks."""
        return min(LOOK_EVERY_S, LOOK_WINDOWS * self._chain.network.params.min_window_s)

    def record(self, view: JobView) -> None:
        """Remember a job as the keeper read it last. A job that is over is not read again, and does not change."""
        self._views[view.job] = view

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            progressed()
            time.sleep(self.pause_s)
            try:
                self.poll_once()
            except Exception:
                log.exception("unexpected")

    def poll_once(self) -> None:
        try:
            head = self._chain.head()
        except ZooError as error:
            log.warning("%s; will try again", error)
            return
        views = dict(self._views)  # the ticks go on meanwhile
        self._let_go(views, head)
        self._collect_garbage()
        self._space.measure_store()
        self._space.look()
        if self._space.is_near:
            self._drop_unneeded()
        if self._config.operator and not self._space.short and not (self._config.folder / DRAINING).exists():
            for view in dict(self._views).values():
                self._look_after(view, head.number)
        self._looks += 1

    # -- retention

    def _let_go(self, views: Mapping[int, JobView], head: Head) -> None:
        every, gone, over = self._tags(), list[str](), list[int]()
        for job in sorted({*every, *views}):
            tags = every.get(job, {})
            try:
                if self._is_past(job, views.get(job), head):
                    gone += tags.values()
                    over.append(job)
                elif job in views and any(round_ is not None for round_ in tags):
                    gone += self._due(views[job], tags, self._chain.time(head))
            except (ZooError, ValueError) as error:
                log.warning("job %d: nothing is let go: %s; will try again", job, error)
        try:
            freed = self._store.release_tags(*gone) if gone else 0
        except ZooError as error:
            log.warning("%s: %s; will try again", ", ".join(gone), error)
            return
        if gone:
            log.info("not needed any more: %s: %d bytes are free", ", ".join(gone), freed)
        for job in over:
            self._forget(job)

    def _tags(self) -> dict[int, dict[int | None, str]]:
        """By job and round; None for the job's own."""
        by_job: dict[int, dict[int | None, str]] = {}
        for tag in self._store.tags():
            if place := parse_tag(tag):
                by_job.setdefault(place[0], {})[place[1]] = tag
        return by_job

    def _is_past(self, job: int, view: JobView | None, head: Head) -> bool:
        """Whether nothing of a job is kept any more: the keeper has finished it, no claim can need a file, and if the operator took part in
        it, it was closed `keep_days` ago.
        """
        assert self._chain.event_store is not None, "a keeper reads all jobs: event_log.use_store"
        if view is None:  # finished before this process started, or never a concern of this operator
            return self._chain.event_store.is_forgotten(job)
        if not is_done_with(view, self._chain.time(head)) or not self._chain.event_store.is_finished(job):
            return False
        if self._config.operator not in _takers(view):
            return True
        if job not in self._closed_at:
            self._closed_at[job] = self._chain.head(view.closed_block).timestamp
        self._views[job] = _without_work(view)  # for so many days
        keep_s = self._config.keep_days * DAY_S
        return bool(keep_s) and head.timestamp > self._closed_at[job] + keep_s

    def _forget(self, job: int) -> None:
        assert self._chain.event_store is not None, "a keeper reads all jobs: event_log.use_store"
        self._chain.event_store.release(job)
        for known in (self._views, self._manifests, self._closed_at):
            known.pop(job, None)
        for place in [place for place in self._short if place[0] == job]:
            del self._short[place]

    def _due(self, view: JobView, tags: Mapping[int | None, str], now: int) -> list[str]:
        """The tags of rounds that can go, once what outlives them is pinned for the job. A map's updates are its results: they stay with it."""
        manifest, took_part = self._manifest(view), self._config.operator in _takers(view)
        if manifest.is_map and took_part:
            return []
        first = first_needed(view, manifest, now)
        due = {round_: tag for round_, tag in tags.items() if round_ is not None and round_ < first}
        for number in permanent_checkpoints(view, manifest) if took_part else ():
            # A round's tag has the checkpoint that it starts from; of a delayed job, the one before too.
            if any(round_ - number in (0, manifest.delay) for round_ in due):
                self._keep(view.job, _pointers(view, number))
        return list(due.values())

    def _drop_unneeded(self) -> None:
        """What was fetched for jobs in which this operator has no part, and what is nobody's: it can be fetched again."""
        assert self._chain.event_store is not None, "a keeper reads all jobs: event_log.use_store"
        try:
            mine = self._chain.event_store.is_mine
            others = {job: tags for job, tags in self._tags().items() if not mine(job) and self._is_unconcerned(job)}
            freed = (
                self._store.release_tags(*(tag for tags in others.values() for tag in tags.values())) if others else 0
            )
            if isinstance(self._store, BlockStore):
                self._store.collect_garbage(older_s=FETCHING_S)
        except ZooError as error:
            log.warning("%s; will try again", error)
            return
        log.warning("the disk is nearly full: %d bytes of %d jobs of others are deleted", freed, len(others))
        self._space.measure_store()
        self._space.look()

    def _is_unconcerned(self, job: int) -> bool:
        """Whether nothing was begun in a job that leaves no event with this operator's number: a dispute of others', an offer to hold."""
        view = self._views.get(job)
        return view is None or (view.state == JobState.OPEN and "custodian" not in self._config.roles)

    def _collect_garbage(self) -> None:
        """Once in a while: what was fetched and is nobody's, such as a part of a file that nobody served to its end."""
        every_s = min(DAY_S, GARBAGE_WINDOWS * self._chain.network.params.min_window_s)
        now = time.monotonic()
        if not isinstance(self._store, BlockStore) or now - (self._collected_at or 0.0) < every_s:
            return
        first, self._collected_at = self._collected_at is None, now
        if first:
            return  # a keeper that starts has other things to do
        try:
            if removed := self._store.collect_garbage(older_s=every_s):
                log.info("%d blocks that nothing protects are deleted", removed)
        except ZooError as error:
            log.warning("%s; will try again", error)

    def _keep(self, job: int, pointers: Sequence[str]) -> None:
        """Pin a checkpoint with the job, if all of it is here."""
        states = self._states(pointers) if all(map(self._store.has, pointers)) else None
        if states is not None and all(map(self._store.has, states)):
            self._pin([*pointers, *states], job_tag(job))

    # -- repair

    def _look_after(self, view: JobView, block: int) -> None:
        """See that enough stores keep the job's checkpoints, of a job that I took part in."""
        if self._config.operator not in _takers(view):
            return
        try:
            manifest = self._manifest(view)
            kept = permanent_checkpoints(view, manifest)
        except (ZooError, ValueError) as error:
            log.warning("job %d: its manifest cannot be had: %s", view.job, error)
            return
        for number in self._asked(view, kept):
            try:
                self._repair(
                    view, manifest, number, job_tag(view.job) if number in kept else round_tag(view.job, number), block
                )
            except (ZooError, ValueError) as error:
                log.warning("job %d: checkpoint %d: %s; will try again", view.job, number, error)

    def _repair(self, view: JobView, manifest: Manifest, number: int, tag: str, block: int) -> None:
        """Fetch a checkpoint that fewer stores keep than the job asks for, where that is mine to do."""
        pointers, place = _pointers(view, number), (view.job, number)
        states = self._states(pointers)
        if states is None:
            return
        files = [*pointers, *states]
        serving = {operator: url for operator, url in self.endpoints.items() if is_gateway(url)}
        urls = confirmed(files, serving.values(), self.scope)
        missing = manifest.redundancy - len(urls)
        if missing <= 0:
            self._short.pop(place, None)
            return
        before, self._short[place] = self._short[place], self._short[place] + 1
        if not before:  # a store that is started again is back at the next look
            return
        # One more at every look, as who was chosen first may be gone too.
        keeping = {operator for operator, url in serving.items() if url in urls}
        chosen = repairers(view.job, missing + before - 1, self._domains(view, serving, block), keeping)
        if self._config.operator in chosen and not all(self._store.is_pinned(cid) for cid in files):
            self._fetch(manifest, states)
            self._pin(files, tag)
            kept = f"{len(urls)} of {manifest.redundancy}"
            log.info("job %d: checkpoint %d, which %s stores kept, is here now", *place, kept)

    def _asked(self, view: JobView, kept: list[int]) -> Iterator[int]:
        """The newest final checkpoint, and some of those that are kept, others at every look."""
        newest = view.final_rounds
        if newest:
            yield newest
        others = [number for number in kept if number != newest]
        first = self._looks * AT_ONCE
        yield from dict.fromkeys(others[(first + i) % len(others)] for i in range(AT_ONCE) if others)

    def _domains(self, view: JobView, serving: Mapping[int, str], block: int) -> dict[int, int]:
        """By operator that took part and stays: its failure domain, which is the host of its store."""
        known = sorted(_takers(view) & set(serving))
        records = read_all(self._chain, block, [Read("registry", "operators", (operator,)) for operator in known])
        staying = [n for n, record in zip(known, records, strict=True) if record["stake"] and not record["exit_at"]]
        return {n: _number_of(urlsplit(serving[n]).hostname or "") for n in staying}

    def _fetch(self, manifest: Manifest, states: Sequence[str]) -> None:
        """Bounded by what the program allows, as a pin is not."""
        program = self._store.read(
            manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S
        )
        most = checkpoint_bytes(encoding.decode(program), manifest.aggregation_spec)
        for state in states:
            self._store.open(state, max_bytes=most, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S).close()

    # -- files

    def _manifest(self, view: JobView) -> Manifest:
        if view.job not in self._manifests:
            cid = raw_cid(view.terms.manifest)
            data = self._store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=SMALL_FETCH_TIMEOUT_S)
            self._manifests[view.job] = Manifest.from_bytes(data)
        return self._manifests[view.job]

    def _states(self, pointers: Sequence[str]) -> list[str] | None:
        """The state files of a checkpoint; None where the chain names something else than a pointer: then nobody can have it."""
        states = []
        for pointer in pointers:
            data = self._store.read(pointer, max_bytes=MAX_POINTER_BYTES, timeout_s=SMALL_FETCH_TIMEOUT_S)
            try:
                states.append(Cid.parse(Pointer.from_bytes(data).state).text)
            except (BadRecord, BadCid) as error:
                log.debug("%s: %s", pointer, error)
                return None
        return states

    def _pin(self, files: list[str], tag: str) -> None:
        for cid in files:
            if not self._store.is_pinned(cid, tag=tag):
                self._store.pin(cid, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S, tag=tag)


def _pointers(view: JobView, number: int) -> list[str]:
    """Of a checkpoint, one an aggregator."""
    return [raw_cid(cid) for cid in view.checkpoint_cids[number]]


def _takers(view: JobView) -> set[int]:
    """Operators that took part in the job, or bid for a part."""
    return {claim.operator for claim in view.claims} | view.bidders


def _without_work(view: JobView) -> JobView:
    """What is asked of a view that no claim needs: its checkpoints, and who took part."""
    return replace(
        view, commits=(), bidders=frozenset(_takers(view)), bids={}, seats={}, stakes={}, attempts=(), demands=()
    )


def _number_of(host: str) -> int:
    return int.from_bytes(sha256(host.encode()).digest()[:8], "big")
