"""The contracts' events on disk, read from the chain once for all jobs: a keeper that restarts goes on where it was.

One cursor follows the chain in ranges as large as the RPC takes, and undoes what a reorganisation undid. Events are kept as the RPC gave
them and decoded when somebody reads them. Jobs that are over and are no concern of the keeper's leave nothing but their number: of those
that were over before the store was made, only that is read.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hexbytes import HexBytes
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint

from zoo_compute.chain import log_filters
from zoo_compute.chain.connection import Head
from zoo_compute.chain.events import Event, decode, signatures
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

log = logging.getLogger("zoo.keeper")

VERSION = 3
FIRST_RANGE = 2_000  # blocks of the first request; then twice as many, or half where the RPC refuses
LARGEST_RANGE = 1_000_000
JOBS_AT_ONCE = 200  # whose events are asked for in one request
SKIMMED_FROM = 10_000  # blocks: fewer are read whole, which takes fewer requests
SAID_EVERY_S = 10.0  # how far a long reading is
WANTED_LOGS = 5_000  # in one answer: a range that gave more does not grow
DEEP = 64  # blocks under the newest: what is asked for below needs no second look
HEADS_KEPT = 256  # newest blocks remembered one by one; of older ones the first of each AGE_KEPT
AGE_KEPT = 4_096
PRUNE_EVERY = 256  # blocks
JOURNAL_BYTES = 4 << 20
_BESIDE = ("-wal", "-shm")  # files that SQLite keeps beside one
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE heads (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, parent BLOB NOT NULL);
CREATE TABLE jobs (
    job INTEGER PRIMARY KEY, posted INTEGER NOT NULL, over INTEGER, is_mine INTEGER NOT NULL DEFAULT 0,
    finished INTEGER, is_pruned INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE sources (rpc TEXT PRIMARY KEY, first INTEGER NOT NULL);
CREATE TABLE logs (
    block INTEGER NOT NULL, at INTEGER NOT NULL, job INTEGER, operator INTEGER, topic BLOB NOT NULL, contract INTEGER NOT NULL,
    topics BLOB NOT NULL, data BLOB NOT NULL, tx BLOB NOT NULL, block_hash BLOB NOT NULL, PRIMARY KEY (block, at)
) WITHOUT ROWID;
CREATE INDEX logs_of_job ON logs (job, block, at) WHERE job IS NOT NULL;
CREATE INDEX logs_of_operator ON logs (operator, topic, block, at) WHERE operator IS NOT NULL;
CREATE INDEX logs_of_topic ON logs (topic, block, at);
"""


class EventStore:
    """Of one deployment. operator: whose jobs are never pruned before they are finished; 0: nobody's. Threads can share it."""

    def __init__(self, chain: Chain, path: Path, operator: int = 0) -> None:
        self._chain, self._operator = chain, operator
        self._lock = threading.RLock()
        self._range = FIRST_RANGE
        self._undone: list[int] = []  # by reorganisation, the first block whose events were dropped
        self._contracts = [name for name in chain.network.contracts if name not in log_filters.NOT_KEPT]
        self._kinds = {
            (self._contracts.index(name), topic): kind for (name, topic), kind in log_filters.kinds().items()
        }
        self._numbers = {chain.network.contracts[name].lower(): at for at, name in enumerate(self._contracts)}
        self._path = path
        self._newest: list[Head] = []
        self._opened: sqlite3.Connection | None = self._open()

    @contextmanager
    def at(self, head: Head) -> Iterator[sqlite3.Connection]:
        """The database with all events up to `head`, perhaps also later ones. Raises Unreachable; the store is as it was then.

        INVARIANT: every event up to `head.number` is in `head` or one of its ancestors   tests/integration/test_event_store.py
        """
        with self._database() as db:
            self._follow(head)
            yield db

    @property
    def _db(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Raises Unreachable where the file turns out to be damaged: then it is moved aside, and all is read again at the next use."""
        with self._lock:
            try:
                yield self._db
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                if self._opened is not None:
                    self._opened.close()
                self._opened, self._newest = None, []
                self._undone.append(0)
                _move_aside(self._path, error)
                raise Unreachable(
                    f"{self._path} was damaged", hint="its events are read from the chain again"
                ) from error

    def events(self, rows: Sequence[tuple[Any, ...]]) -> list[Event]:
        """Decoded. rows: of `COLUMNS`."""
        return decode(self._chain, map(self._log, rows))  # type: ignore[arg-type]

    def jobs_to_read(self, head: Head) -> list[int]:
        """Jobs that are not finished. Those that were over before the store was made, without the operator, are nobody's concern."""
        with self.at(head) as db:
            born = int(_fact(db, "born") or head.number)
            query = """SELECT job FROM jobs WHERE posted <= ? AND finished IS NULL AND (over IS NULL OR over > ? OR is_mine) ORDER BY job"""
            return [job for (job,) in db.execute(query, (head.number, born))]

    def finished_jobs(self) -> list[int]:
        """Finished jobs of the operator, whose events are still here. The newest first."""
        with self._database() as db:
            query = "SELECT job FROM jobs WHERE finished IS NOT NULL AND is_mine AND NOT is_pruned ORDER BY job DESC"
            return [job for (job,) in db.execute(query)]

    def is_finished(self, job: int) -> bool:
        """Whether nothing is left to do in the job."""
        with self._database() as db:
            return bool(db.execute("SELECT 1 FROM jobs WHERE job = ? AND finished IS NOT NULL", (job,)).fetchone())

    def is_mine(self, job: int) -> bool:
        """Whether the operator has, or had until `release`, a part in the job."""
        with self._database() as db:
            return bool(db.execute("SELECT 1 FROM jobs WHERE job = ? AND is_mine", (job,)).fetchone())

    def is_forgotten(self, job: int) -> bool:
        """Whether the job is over and no concern of the operator's, or not any more (`release`)."""
        with self._database() as db:
            born = int(_fact(db, "born") or 0)
            query = "SELECT 1 FROM jobs WHERE job = ? AND NOT is_mine AND (finished IS NOT NULL OR over <= ?)"
            return bool(db.execute(query, (job, born)).fetchone())

    def release(self, job: int) -> None:
        """The job, which is finished, is no concern of the operator's any more: its events go."""
        with self._database() as db, db:
            db.execute("UPDATE jobs SET is_mine = 0 WHERE job = ? AND finished IS NOT NULL", (job,))

    def drop(self, events: Iterable[Event]) -> None:
        """Delete these, where they are of no job: nobody reads them again. Those of a job go with it."""
        rows = [(event.block, event.log_index) for event in events]
        with self._database() as db, db:
            db.executemany("DELETE FROM logs WHERE block = ? AND at = ? AND job IS NULL", rows)

    def last_block_of(self, names: Iterable[str], head: Head) -> int:
        """The newest block up to `head` with one of these events; 0: there is none. Raises Unreachable."""
        topics = topics_of(names)
        with self.at(head) as db:
            query = f"SELECT MAX(block) FROM logs WHERE topic IN ({','.join('?' * len(topics))}) AND block <= ?"
            return int(db.execute(query, [*topics, head.number]).fetchone()[0] or 0)

    def finish(self, job: int, block: int) -> None:
        """There is nothing more to do in the job, as of a block."""
        with self._database() as db, db:
            db.execute("UPDATE jobs SET finished = ? WHERE job = ?", (block, job))

    def forget(self, first: int) -> None:
        """Read this block and all later ones again."""
        with self._database() as db:
            self._drop(first)
            self._newest = _heads(db)[-1:]

    def forget_what_came_from(self, rpc: str) -> None:
        """Read all blocks again from the first one on whose events an RPC gave, also before a restart. rpc: its URL."""
        with self._database() as db:
            first = db.execute("SELECT first FROM sources WHERE rpc = ?", (_source(rpc),)).fetchone()
            if first is not None:
                self.forget(first[0])

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    def dropped_since(self, count: int) -> int | None:
        """The first block that reorganisations undid after the first `count` of them; None: there was none."""
        with self._lock:
            return min(self._undone[count:], default=None)

    @property
    def reorganisations(self) -> int:
        """How many there were since this process started."""
        return len(self._undone)

    @property
    def oldest_head(self) -> int:
        """No reorganisation reaches what is older."""
        return max(0, self._newest[-1].number - HEADS_KEPT) if self._newest else 0

    # -- following the chain

    def _follow(self, head: Head) -> None:
        newest = self._newest[-1] if self._newest else None
        if newest is not None and newest.hash == head.hash:
            return
        if newest is not None and newest.number >= head.number and self._has(newest, head):
            return
        start = self._undo(head)
        first, last, pruned = start, head.number, start - 1
        if first > last:
            return
        with self._db as db:  # the newest block when the store was made
            db.execute("INSERT OR IGNORE INTO facts VALUES ('born', ?)", (str(head.number),))
        born = min(int(_fact(self._db, "born") or 0), last - DEEP)
        if born - first >= SKIMMED_FROM:
            self._skim(first, born)
            first = pruned = born + 1
        for logs, until in self._ranges(first, last - DEEP):
            self._append(logs, until)
            if until.number - pruned >= AGE_KEPT:
                self._prune(until.number)
                pruned = until.number
            first = until.number + 1
        if newest is not None and first == last and newest.number == last - 1 and newest.hash == head.parent:
            part = self._logs({"blockHash": "0x" + head.hash.hex()}, head.number, 1, log_filters.ALL)
            assert part is not None, "a request that cannot be halved raises"
            logs, _ = part
        else:
            logs = self._all_logs(first, head)
        self._append(logs, head)
        if head.number // PRUNE_EVERY != pruned // PRUNE_EVERY:
            self._prune(head.number)

    def _skim(self, first: int, last: int) -> None:
        """Read blocks from when the store was not made yet: which jobs there were, then all events of those that concern somebody. If it
        is interrupted, all of it is read again.
        """
        with self._db as db:
            _delete(db, first)
        heads = []
        for logs, until in self._ranges(first, last, log_filters.outline(self._operator)):
            with self._db as db:
                self._keep(db, logs)
            heads.append(until)
        query = "SELECT job, posted FROM jobs WHERE over IS NULL OR over > ? OR is_mine ORDER BY posted"
        jobs = self._db.execute(query, (last,)).fetchall()
        for at in range(0, len(jobs), JOBS_AT_ONCE):
            some = jobs[at : at + JOBS_AT_ONCE]
            for logs, _ in self._ranges(max(first, some[0][1]), last, log_filters.of_jobs([job for job, _ in some])):
                with self._db as db:
                    self._keep(db, logs)
        with self._db as db:
            db.executemany("INSERT OR REPLACE INTO heads VALUES (?,?,?)", ((h.number, h.hash, h.parent) for h in heads))
        self._newest, self._range = heads[-1:], FIRST_RANGE

    def _ranges(
        self, first: int, last: int, topics: Sequence[Any] = log_filters.ALL
    ) -> Iterator[tuple[list[dict[str, Any]], Head]]:
        """Logs by range of blocks, with its last one. Raises Unreachable."""
        said_at = time.monotonic()
        while first <= last:
            end = min(first + self._range - 1, last)
            part = self._logs({"fromBlock": hex(first), "toBlock": hex(end)}, first, end - first + 1, topics)
            if part is None:
                continue
            logs, until = part
            assert until is not None, "of a range"
            yield logs, until
            first = end + 1
            if time.monotonic() - said_at > SAID_EVERY_S:
                said_at = time.monotonic()
                log.info("reading the chain's events: block %d of %d", end, last)

    def _has(self, newest: Head, head: Head) -> bool:
        """Whether `head`, which is not after the newest block here, is in its chain. Raises Unreachable where that cannot be said."""
        known = next((each for each in reversed(_heads(self._db)) if each.number <= head.number), None)
        if known is not None and known.hash == head.hash:
            return True
        try:
            if not self._is_canonical(newest):
                return False
        except Unreachable:
            if known is None or not self._is_canonical(known):
                return False  # another chain: a devnet that was started anew
            raise  # the RPC is behind another one
        if self._chain.head(head.number).hash != head.hash:
            raise Unreachable(f"block {head.number} is not on the RPC's chain", hint="read again")
        return True

    def _is_canonical(self, known: Head) -> bool:
        return self._chain.head(known.number).hash == known.hash

    def _undo(self, head: Head) -> int:
        """Drop what is not in `head` or its ancestors. Returns the first block to read."""
        heads = _heads(self._db)
        while heads and not self._is_ancestor(heads[-1], head):
            heads.pop()
        start = heads[-1].number + 1 if heads else self._chain.network.first_block
        if self._newest and self._newest[-1].number >= start:
            start = self._drop(start)
            self._newest = _heads(self._db)[-1:]
        return start

    def _drop(self, start: int) -> int:
        """What was read of this block and later ones, and what followed from it. Returns the first block that is to be read again."""
        with self._db as db:
            start = _reading_from(db, start)
            _delete(db, start)
        self._undone.append(start)
        return start

    def _is_ancestor(self, known: Head, head: Head) -> bool:
        if known.number >= head.number:
            return known.hash == head.hash
        return known.hash == head.parent or self._is_canonical(known)

    def _all_logs(self, first: int, head: Head) -> list[dict[str, Any]]:
        """Of the blocks from `first` to `head`, in as many requests as the RPC needs. Raises Unreachable."""
        parts = list(self._ranges(first, head.number))
        if not parts or parts[-1][1].hash != head.hash:
            raise Unreachable(f"block {head.number} was replaced while it was read", hint="read again")
        return [log for logs, _ in parts for log in logs]

    def _logs(
        self, blocks: dict[str, str], first: int, count: int, topics: Sequence[Any]
    ) -> tuple[list[dict[str, Any]], Head | None] | None:
        """And the last block, of a range. first, count: the blocks that are asked for. topics: of one filter or several. None: the range was
        too large for the RPC, and is smaller now. Raises Unreachable.
        """
        addresses = [self._chain.network.contracts[name] for name in self._contracts]
        asks: list[tuple[RPCEndpoint, Any]] = [
            (RPCEndpoint("eth_getLogs"), [{**blocks, "address": addresses, "topics": each}]) for each in topics
        ]
        # With the last block in the same request: an RPC that is behind says "no events" of blocks that it does not have.
        if "toBlock" in blocks:
            asks.append((RPCEndpoint("eth_getBlockByNumber"), [blocks["toBlock"], False]))
        parts: list[Any]
        try:
            answers = cast(JSONBaseProvider, self._chain.w3.provider).make_batch_request(asks)
            parts = [*answers] if isinstance(answers, list) else [answers]  # one: it refuses all of them
            if len(parts) < len(asks) and (not parts or "result" in parts[0]):
                raise Unreachable("the RPC answered a part of what it was asked", hint="read again")
        except Unreachable as error:
            if count == 1 or "larger than" not in str(error):
                # It may have been too much for the time that an answer has.
                self._range = min(self._range, max(DEEP, count // 2))
                raise
            parts = [{"error": str(error)}]
        answered, until = parts[: len(topics)], parts[len(topics) :]
        refused = next((each for each in answered if "result" not in each), None)
        if refused is not None:
            if count == 1:
                raise Unreachable(f"the RPC refuses the events of {blocks}: {refused.get('error')}")
            self._range = max(1, count // 2)
            return None
        if until and not until[0].get("result"):
            raise Unreachable(f"the RPC does not have block {blocks['toBlock']} yet", hint="read again")
        logs: list[dict[str, Any]] = [log for each in answered for log in each["result"]]
        self._note_source(first)
        if count == self._range and len(logs) < WANTED_LOGS:
            self._range = min(LARGEST_RANGE, 2 * self._range)
        return logs, _head_of(until[0]["result"]) if until else None

    def _note_source(self, first: int) -> None:
        """The RPC that just answered gave the events of blocks from `first` on."""
        rpc = _source(cast(FailoverProvider, self._chain.w3.provider).answerer())
        known = self._db.execute("SELECT first FROM sources WHERE rpc = ?", (rpc,)).fetchone()
        if known is None or first < known[0]:
            with self._db as db:
                db.execute("INSERT OR REPLACE INTO sources VALUES (?,?)", (rpc, first))

    def _append(self, logs: Sequence[dict[str, Any]], head: Head) -> None:
        """Save the events, and that all up to `head` are here: both or neither."""
        with self._db as db:
            self._keep(db, logs)
            db.execute("INSERT OR REPLACE INTO heads VALUES (?,?,?)", (head.number, head.hash, head.parent))
        self._newest = [head]

    def _keep(self, db: sqlite3.Connection, logs: Sequence[dict[str, Any]]) -> None:
        rows, posted, over, mine = [], [], [], []
        for log in logs:
            row = self._row(log)
            if row is None:
                continue
            rows.append(row)
            block, job, name = row[0], row[2], self._kinds[row[5], row[4]].name
            if name == "JobPosted":
                posted.append((job, block))
            elif name in ("JobClosed", "JobCancelled"):
                over.append((block, job))
            if job is not None and row[3] == self._operator and self._operator:
                mine.append((job,))
        db.executemany("INSERT OR REPLACE INTO logs VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
        db.executemany("INSERT OR IGNORE INTO jobs (job, posted) VALUES (?,?)", posted)
        db.executemany("UPDATE jobs SET over = ? WHERE job = ?", over)
        db.executemany("UPDATE jobs SET is_mine = 1 WHERE job = ?", mine)

    def _prune(self, newest: int) -> None:
        """Drop what nobody needs again, where no reorganisation can reach it."""
        deep, born = newest - HEADS_KEPT, int(_fact(self._db, "born") or 0)
        with self._db as db:
            done = "(finished < :deep OR (over < :deep AND over <= :born)) AND NOT is_mine AND NOT is_pruned"
            known = {"deep": deep, "born": born}
            db.execute(f"DELETE FROM logs WHERE job IN (SELECT job FROM jobs WHERE {done})", known)
            db.execute(f"UPDATE jobs SET is_pruned = 1 WHERE {done}", known)
            of_age = "SELECT MIN(number) FROM heads GROUP BY number / :age"
            db.execute(
                f"DELETE FROM heads WHERE number < :deep AND number NOT IN ({of_age})", {"deep": deep, "age": AGE_KEPT}
            )

    # -- rows

    def _row(self, log: dict[str, Any]) -> tuple[Any, ...] | None:
        topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
        number = self._numbers.get(log["address"].lower())
        kind = self._kinds.get((number, topics[0])) if topics and number is not None else None
        if kind is None:
            return None
        job, operator = _number(topics, kind.job), _number(topics, kind.operator)
        block, at = int(log["blockNumber"], 16), int(log["logIndex"], 16)
        data, tx, hash_ = (bytes.fromhex(log[name][2:]) for name in ("data", "transactionHash", "blockHash"))
        return block, at, job, operator, topics[0], number, b"".join(topics), data, tx, hash_

    def _log(self, row: tuple[Any, ...]) -> dict[str, Any]:
        """As web3 has it, for decoding."""
        block, at, number, topics, data, tx, hash_ = row
        return {
            "address": self._chain.network.contracts[self._contracts[number]],
            "topics": [HexBytes(topics[start : start + 32]) for start in range(0, len(topics), 32)],
            "data": HexBytes(data),
            "blockNumber": block,
            "logIndex": at,
            "transactionIndex": 0,
            "transactionHash": HexBytes(tx),
            "blockHash": HexBytes(hash_),
        }

    def _open(self) -> sqlite3.Connection:
        network, path = self._chain.network, self._path
        of = f"{VERSION} {network.chain_id} {network.contracts['registry']} {self._operator}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            db = _connected(path)
            if _fact(db, "of") != of:  # of another network, operator or release: read again
                db.close()
                for end in ("", *_BESIDE):
                    path.with_name(path.name + end).unlink(missing_ok=True)
                db = _connected(path)
                with db:
                    db.execute("INSERT INTO facts VALUES ('of', ?)", (of,))
            self._newest = _heads(db)[-1:]
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise ConfigError(f"{path}: {error}", hint="check its disk and who may write it") from error
            _move_aside(path, error)
            return self._open()
        return db


class StoredHistory:
    """Events that match a filter, from a store. As `event_log.History`, with the same filters: a job, or an operator and names, or names."""

    def __init__(
        self, store: EventStore, *, job: int | None = None, operator: int | None = None, names: Iterable[str] = ()
    ) -> None:
        self._store = store
        self._events: list[Event] = []
        self._next = 0  # the first block whose events are not here
        self._reorganisations = store.reorganisations
        self._lock = threading.Lock()
        self.read_from = 0
        names = frozenset(names)
        if unkept := names - {kind.name for kind in log_filters.kinds().values()}:
            raise ValueError(f"a store does not keep {', '.join(sorted(unkept))}: see log_filters.JOBLESS")
        topics = topics_of(names)
        where = {"job": job, "operator": operator}
        self._where = " AND ".join([
            *(f"{name} = ?" for name, value in where.items() if value is not None),
            *([f"topic IN ({','.join('?' * len(topics))})"] if topics else []),
        ])  # fmt: skip
        self._values = [*(value for value in where.values() if value is not None), *topics]

    @property
    def oldest_head(self) -> int:
        return self._store.oldest_head

    def forget(self, events: Collection[Event]) -> None:
        """Drop these, which the caller is done with."""
        gone = {(event.block_hash, event.log_index) for event in events}
        with self._lock:
            self._events = [event for event in self._events if (event.block_hash, event.log_index) not in gone]
        self._store.drop(events)

    def events_until(self, head: Head) -> Sequence[Event]:
        """All events up to `head`, in order. Raises Unreachable."""
        with self._lock, self._store.at(head) as db:
            dropped = self._store.dropped_since(self._reorganisations)
            self._reorganisations = self._store.reorganisations
            if dropped is not None and dropped < self._next:
                self._events = [event for event in self._events if event.block < dropped]
                self._next = dropped
            self.read_from = self._next
            if self._next <= head.number:
                query = f"SELECT {COLUMNS} FROM logs WHERE {self._where} AND block BETWEEN ? AND ? ORDER BY block, at"
                rows = db.execute(query, [*self._values, self._next, head.number]).fetchall()
                self._events = self._events + self._store.events(rows)
                self._next = head.number + 1
            return [event for event in self._events if event.block <= head.number]


def topics_of(names: Iterable[str]) -> list[bytes]:
    wanted = frozenset(names)
    return sorted({each.topic for each in signatures() if each.name in wanted})


COLUMNS = "block, at, contract, topics, data, tx, block_hash"


def _connected(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, timeout=30.0)
    path.chmod(0o600)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")  # else it stays as large as the first reading made it
    db.execute("PRAGMA synchronous = NORMAL")  # after a power cut it is a little older, and reads on
    if not db.execute("SELECT name FROM sqlite_master WHERE name = 'facts'").fetchone():
        db.executescript(_SCHEMA)
    return db


def _head_of(block: dict[str, Any]) -> Head:
    hash_, parent = (bytes.fromhex(block[name][2:]) for name in ("hash", "parentHash"))
    return Head(int(block["number"], 16), int(block["timestamp"], 16), hash_, parent)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Of the file itself. A full disk, a lock and a missing permission are OperationalErrors."""
    return type(error) is sqlite3.DatabaseError


def _move_aside(path: Path, error: sqlite3.DatabaseError) -> None:
    """In the place of what was moved there earlier."""
    aside = path.with_name(f"{path.name}.damaged")
    log.error("%s: %s; it is now %s, and its events are read from the chain again", path, error, aside.name)
    path.replace(aside)
    for end in _BESIDE:
        path.with_name(path.name + end).unlink(missing_ok=True)


def _heads(db: sqlite3.Connection) -> list[Head]:
    """Ascending. Their times are not kept, and not needed."""
    rows = db.execute("SELECT number, hash, parent FROM heads ORDER BY number").fetchall()
    return [Head(number, 0, hash_, parent) for number, hash_, parent in rows]


def _reading_from(db: sqlite3.Connection, start: int) -> int:
    """`start`, or earlier: of a job that did not end after all, and whose events were pruned, all are read again."""
    query = "SELECT MIN(posted) FROM jobs WHERE is_pruned AND (over >= ? OR finished >= ?)"
    while (posted := db.execute(query, (start, start)).fetchone()[0]) is not None and posted < start:
        start = posted
    return start


def _delete(db: sqlite3.Connection, start: int) -> None:
    """What is known of this block and later ones."""
    db.execute("DELETE FROM logs WHERE block >= ?", (start,))
    db.execute("DELETE FROM heads WHERE number >= ?", (start,))
    db.execute("DELETE FROM sources WHERE first >= ?", (start,))
    db.execute("DELETE FROM jobs WHERE posted >= ?", (start,))
    db.execute("UPDATE jobs SET over = NULL WHERE over >= ?", (start,))
    db.execute("UPDATE jobs SET finished = NULL WHERE finished >= ?", (start,))


def _source(rpc: str) -> str:
    """A URL may contain a key, which is not written down."""
    return sha256(rpc.encode()).hexdigest()


def _fact(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else None


def _number(topics: Sequence[bytes], at: int | None) -> int | None:
    number = int.from_bytes(topics[at], "big") if at is not None and at < len(topics) else None
    return number if number is not None and number < 2**63 else None
