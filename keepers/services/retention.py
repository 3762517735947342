"""Deletes files that no claim needs any more, and copies checkpoints that too few stores keep.

It runs beside the keeper's ticks, since it asks other stores and downloads. It remembers nothing that matters: what is kept for a
round is in the store under the round's tag, and who keeps a checkpoint is asked anew.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from urllib.parse import urlsplit

from keepers.config import OperatorConfig
from keepers.decisions.retention import first_needed, permanent_checkpoints
from repops import encoding
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.views import JobView
from zoo_compute.client.job import confirmed
from zoo_compute.errors import ZooError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.formats.tags import parse_round_tag, round_tag
from zoo_compute.paths import DRAINING
from zoo_compute.spec.retention import repairers
from zoo_compute.store import Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.errors import BadCid
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import is_gateway
from zoo_compute.training.rounds import checkpoint_bytes

log = logging.getLogger("zoo.retaining")

LOOK_EVERY_S = 600.0  # between looks: each asks every holder, and a copy that is missed for so long is no danger
AT_ONCE = 8  # checkpoints of a job that are asked for in one look beside the newest: others at every look
SMALL_FETCH_TIMEOUT_S = 10.0  # for a manifest or a pointer
CHECKPOINT_FETCH_TIMEOUT_S = 600.0  # for a program or a checkpoint; what came in until then is kept


class CheckpointRetention:
    """Keeps and repairs the checkpoints of jobs that one operator served. endpoints: by operator, where its store serves blocks."""

    def __init__(self, config: OperatorConfig, chain: Chain, store: Store) -> None:
        self._config = config
        self._chain = chain
        self._store = store
        self._views: dict[int, JobView] = {}
        self._manifests: dict[int, Manifest] = {}
        self._short: Counter[tuple[int, int]] = Counter()  # by job and checkpoint: looks since it had too few holders
        self._looks = 0
        self.endpoints: Mapping[int, str] = {}
        self.scope = Scope.ANY  # where these may be

    def record(self, view: JobView) -> None:
        """Remember a job as the keeper read it last. A job that is over is not read again, and does not change."""
        if view.run is not None:
            self._views[view.job] = view

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            progressed()
            time.sleep(LOOK_EVERY_S)
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
        self._let_go(views, self._chain.time(head))
        if self._config.operator and not (self._config.folder / DRAINING).exists():
            for view in views.values():
                self._look_after(view, head.number)
        self._looks += 1

    # -- retention

    def _let_go(self, views: Mapping[int, JobView], now: int) -> None:
        gone: list[str] = []
        for job, tags in self._tags().items():
            try:
                if job in views:
                    gone += self._due(views[job], tags, now)
            except (ZooError, ValueError) as error:
                log.warning("job %d: nothing is let go: %s; will try again", job, error)
        for tag in gone:  # one after the other, as nobody can add to the store meanwhile
            try:
                log.info("%s is not needed any more: %d bytes are free", tag, self._store.release_tag(tag))
            except ZooError as error:
                log.warning("%s: %s; will try again", tag, error)

    def _tags(self) -> dict[int, dict[int, str]]:
        """By job and round."""
        by_job: dict[int, dict[int, str]] = {}
        for tag in self._store.tags():
            if place := parse_round_tag(tag):
                by_job.setdefault(place[0], {})[place[1]] = tag
        return by_job

    def _due(self, view: JobView, tags: Mapping[int, str], now: int) -> list[str]:
        """The tags that can go, once what outlives them is pinned for itself."""
        manifest = self._manifest(view)
        first = first_needed(view, manifest, now)
        due = {round_: tag for round_, tag in tags.items() if round_ < first}
        for number in permanent_checkpoints(view, manifest) if self._config.operator in _takers(view) else ():
            # A round's tag has the checkpoint that it starts from; of a delayed job, the one before too.
            if any(round_ - number in (0, manifest.delay) for round_ in due):
                self._keep(raw_cid(view.checkpoint_cids[number]))
        return list(due.values())

    def _keep(self, pointer: str) -> None:
        """Pin a checkpoint for good, if all of it is here."""
        files = self._files(pointer) if self._store.has(pointer) else None
        if files is not None and self._store.has(files[1]):
            self._pin(files, "")

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
                self._repair(view, manifest, number, "" if number in kept else round_tag(view.job, number), block)
            except (ZooError, ValueError) as error:
                log.warning("job %d: checkpoint %d: %s; will try again", view.job, number, error)

    def _repair(self, view: JobView, manifest: Manifest, number: int, tag: str, block: int) -> None:
        """Fetch a checkpoint that fewer stores keep than the job asks for, where that is mine to do."""
        files, place = self._files(raw_cid(view.checkpoint_cids[number])), (view.job, number)
        if files is None:
            return
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
            self._fetch(manifest, files, tag)
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

    def _fetch(self, manifest: Manifest, files: list[str], tag: str) -> None:
        program = self._store.read(
            manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S
        )
        most = checkpoint_bytes(encoding.decode(program), manifest.aggregation_spec)
        self._store.open(
            files[1], max_bytes=most, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S
        ).close()  # a pin has no such bound
        self._pin(files, tag)

    # -- files

    def _manifest(self, view: JobView) -> Manifest:
        if view.job not in self._manifests:
            cid = raw_cid(view.terms.manifest)
            data = self._store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=SMALL_FETCH_TIMEOUT_S)
            self._manifests[view.job] = Manifest.from_bytes(data)
        return self._manifests[view.job]

    def _files(self, pointer: str) -> list[str] | None:
        """A checkpoint's pointer and state; None where the chain names no pointer: then nobody can have it."""
        data = self._store.read(pointer, max_bytes=MAX_POINTER_BYTES, timeout_s=SMALL_FETCH_TIMEOUT_S)
        try:
            return [pointer, Cid.parse(Pointer.from_bytes(data).state).text]
        except (BadRecord, BadCid) as error:
            log.debug("%s: %s", pointer, error)
            return None

    def _pin(self, files: list[str], tag: str) -> None:
        for cid in files:
            if not self._store.is_pinned(cid, tag=tag):
                self._store.pin(cid, timeout_s=CHECKPOINT_FETCH_TIMEOUT_S, tag=tag)


def _takers(view: JobView) -> set[int]:
    """Operators that took part in the job, or bid for a part."""
    return {claim.operator for claim in view.claims} | view.bidders


def _number_of(host: str) -> int:
    return int.from_bytes(sha256(host.encode()).digest()[:8], "big")
