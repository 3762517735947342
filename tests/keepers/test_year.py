"""A year of a keeper's disk in compressed time: the real store, events, reports, ledger and logs under two thousand jobs, each day looked
at by the real retention. What there is after the first months is what there is after the year. The usual tests do a year of a month.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.monitoring import logs
from keepers.services import retention
from keepers.services.disk_space import DiskSpace
from keepers.services.retention import Retention
from tests.keepers.test_retention_decisions import closed, manifest
from zoo_compute.chain.connection import Head
from zoo_compute.chain.event_store import EventStore
from zoo_compute.chain.events import signatures
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.paths import DRAINING, REPORTS, TRANSACTIONS
from zoo_compute.spec.params import PRODUCTION
from zoo_compute.spec.retention import KEEP_DAYS
from zoo_compute.store import BlockStore, blocks

JOBS_A_DAY, EVENTS_A_JOB = 6, 12
DAY_S, BLOCKS_A_DAY = 86_400, 7_200
ME, OTHER = 1, 2
MB = 10**6
LOG_MB, LOG_FILES = 0.01, 2


def store_of_events(folder: Path, operator: int = ME) -> EventStore:
    contracts = {name: f"0x{number:040x}" for number, name in enumerate(sorted({e.contract for e in signatures()}), 1)}
    network = SimpleNamespace(contracts=contracts, chain_id=1, first_block=0, params=PRODUCTION)
    return EventStore(SimpleNamespace(network=network), folder / "events.sqlite3", operator)  # type: ignore[arg-type]


def log_of(store: EventStore, name: str, job: int, operator: int, block: int, at: int) -> dict[str, Any]:
    """As an RPC gives it, with the arguments that the store indexes."""
    signature = next(each for each in signatures() if each.name == name)
    topics = [signature.topic, *[bytes(32)] * sum(entry["indexed"] for entry in signature.inputs)]
    for argument, value in (("job", job), ("operator", operator)):
        if place := signature.position(argument):
            topics[place] = value.to_bytes(32, "big")
    contract = store._chain.network.contracts[signature.contract]
    hash_ = "0x" + block.to_bytes(32, "big").hex()
    return {
        "address": contract,
        "topics": ["0x" + topic.hex() for topic in topics],
        "data": "0x" + bytes(320).hex(),
        "blockNumber": hex(block),
        "logIndex": hex(at),
        "transactionHash": hash_,
        "blockHash": hash_,
    }


@dataclass
class Size:
    """bytes: of all but the events; events: bytes of their database."""

    bytes: int
    files: int
    events: int


class Year:
    """One operator's folder, and a clock. Half of the jobs are its own, of a quarter it only fetched the files, one in four it checked."""

    def __init__(self, folder: Path, keep_days: int) -> None:
        self.now, self.jobs = 10 * DAY_S, 0
        self.folder = folder / "node"
        self.store = BlockStore(self.folder / "store")
        self.events = store_of_events(self.folder)
        settings = {"keep_days": keep_days, "log_max_mb": LOG_MB, "log_files": LOG_FILES}
        self.config = from_dict({"name": "k", "network": "n", "operator": ME, **settings}, self.folder)
        (self.folder / DRAINING).touch()  # it fetches nothing for others
        chain: Any = SimpleNamespace(
            head=self._head,
            time=lambda head: head.timestamp,
            event_store=self.events,
            network=self.events._chain.network,
        )
        self.retention = Retention(self.config, chain, self.store, DiskSpace(self.config, self.store))

    def _head(self, number: int | None = None) -> Head:
        block = self.now // 12 if number is None else number
        return Head(block, block * 12, block.to_bytes(32, "big"), bytes(32))

    def live(self, days: int) -> Size:
        """The most that there was at the end of a day: a log that was just rotated is short."""
        most = Size(0, 0, 0)
        for _ in range(days):
            for _ in range(JOBS_A_DAY):
                self._job()
            self._logs()
            self.now += DAY_S
            self.retention.poll_once()
            self.events._prune(self._head().number)
            size = self.size()
            most = Size(*map(max, astuple(most), astuple(size)))
        return most

    def _job(self) -> None:
        self.jobs += 1
        job, block, is_mine = self.jobs, self.now // 12, self.jobs % 2 == 0
        for text in (b"program", b"data"):
            self.store.add(b"%s of %d" % (text, job) * 50, tag=job_tag(job))
        if job % 4 != 1:
            self.store.add(b"updates of %d" % job * 50, tag=round_tag(job, 0))
        if job % 8 == 3:
            half = self.store.add(b"half of a file of %d" % job, pin=False)
            os.utime(self.store.root / "blocks" / half[-3:-1] / half, (self.now, self.now))
        names = ["JobPosted", *["ResultsCommitted"] * EVENTS_A_JOB, "JobClosed"]
        who = ME if is_mine else OTHER
        made = [log_of(self.events, name, job, who, block, 100 * (job % 50) + at) for at, name in enumerate(names)]
        self.events._append(made, self._head())
        self.events.finish(job, block)
        cids = {number: (bytes([number]) * 32,) for number in (1, 2)}
        view = replace(closed(2), job=job, closed_block=block, checkpoint_cids=cids)
        if not is_mine:
            view = replace(view, commits=[replace(c, operator=OTHER) for c in view.commits])
        self.retention.record(view)
        if job % 4 == 3:
            with (self.folder / REPORTS).open("a") as file:
                file.write(
                    json.dumps({"name": f"verify-{job}", "job": job, "agrees": True, "states": ["0" * 64] * 60}) + "\n"
                )
        with (self.folder / TRANSACTIONS).open("a") as file:
            line = {"operation": "Settlement.commit", "tx": "0x" + "0" * 64, "block": block}
            file.write((json.dumps(line) + "\n") * 20)

    def _logs(self) -> None:
        """What the processes write, and the daemon rotates."""
        path = self.config.log_path("keeper")
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write("2026-01-01T00:00:00Z INFO    zoo.keeper job 7: Settlement.commit in 0x0000\n" * 50)
        logs.rotate(path, int(LOG_MB * MB), LOG_FILES)
        for name in (REPORTS, TRANSACTIONS):
            logs.rotate_records(self.folder / name, int(LOG_MB * MB), LOG_FILES)

    def size(self) -> Size:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        sizes = {path: path.stat().st_size for path in files}
        events = sum(size for path, size in sizes.items() if path.name.startswith("events.sqlite3"))
        return Size(sum(sizes.values()) - events, len(files), events)


@pytest.mark.parametrize(
    ("days", "keep_days"), [(40, 2), pytest.param(365, KEEP_DAYS, marks=pytest.mark.long)], ids=["month", "year"]
)
def test_after_a_year__there_is_as_much_as_when_the_first_jobs_were_let_go(
    days: int, keep_days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # thousands of files, of which none outlives the test
    year = Year(tmp_path, keep_days)
    clock: Any = SimpleNamespace(time=lambda: year.now, monotonic=lambda: year.now)
    monkeypatch.setattr(blocks, "time", clock)
    monkeypatch.setattr(retention, "time", clock)
    monkeypatch.setattr(Retention, "_manifest", lambda self, view: manifest(rounds=2))
    part = max(keep_days, 10)  # the logs are full too
    year.live(part)
    early = year.live(part)
    year.live(days - 3 * part)
    late = year.live(part)
    assert late.bytes <= 1.05 * early.bytes
    assert late.files <= 1.05 * early.files
    assert late.events <= 1.1 * early.events
    kept = keep_days * JOBS_A_DAY / 2 + 2 * JOBS_A_DAY
    assert len(year.retention._views) <= kept, "in memory too"
    assert len(year.store.tags()) <= kept
    count = {name: year.events._db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in ("logs", "heads")}
    assert count["logs"] <= (kept + 2 * JOBS_A_DAY) * (EVENTS_A_JOB + 2)
    assert count["heads"] <= 2 * days * BLOCKS_A_DAY / 4_096 + 256, "of the past one in 4,096"
    year.events.close()
