"""The chain's events as tables that pages are read from, in an SQLite file: applied block by block, undone where a reorganisation undid them.

Each change of a row writes the statement that undoes it into the table `undo` (triggers do), so what events do (event_rows.py) is
written once, forwards. For blocks that no reorganisation reaches any more nothing is written.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zoo_compute.chain.events import Event
from zoo_compute.dashboard.event_rows import rows_of

VERSION = 2  # of the tables: a file of another one is made anew
SAID_EVERY_S = 10  # of the chain's time: pages show the newest block, even if nothing happened in it
HEADS_KEPT = 128  # newest blocks whose changes can be undone
TABLES = {
    "jobs": """job INTEGER PRIMARY KEY, submitter TEXT NOT NULL, token TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', rounds INTEGER NOT NULL,
        slots INTEGER NOT NULL, quorum INTEGER NOT NULL, flops INTEGER NOT NULL, reexecute_s INTEGER NOT NULL, requirements TEXT NOT NULL,
        posted_block INTEGER NOT NULL, posted_at INTEGER NOT NULL, closed_at INTEGER, turn INTEGER NOT NULL DEFAULT 0,
        round INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0, escrowed TEXT NOT NULL, restored TEXT NOT NULL DEFAULT '0',
        paid TEXT NOT NULL DEFAULT '0', fee TEXT NOT NULL DEFAULT '0', refunded TEXT NOT NULL DEFAULT '0',
        convictions INTEGER NOT NULL DEFAULT 0, rollbacks INTEGER NOT NULL DEFAULT 0""",
    "turns": """job INTEGER NOT NULL, turn INTEGER NOT NULL, round INTEGER NOT NULL, opened_at INTEGER NOT NULL, inputs_close INTEGER NOT NULL,
        deadline INTEGER, PRIMARY KEY (job, turn)""",
    "claims": """id INTEGER PRIMARY KEY, job INTEGER NOT NULL, turn INTEGER NOT NULL, round INTEGER NOT NULL, seat INTEGER NOT NULL,
        operator INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, price TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'pending',
        disputed INTEGER NOT NULL DEFAULT 0, block INTEGER NOT NULL, at INTEGER NOT NULL, digest BLOB NOT NULL, root BLOB NOT NULL,
        hash BLOB NOT NULL""",
    "seats": """job INTEGER NOT NULL, seat INTEGER NOT NULL, operator INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,
        price TEXT NOT NULL, PRIMARY KEY (job, seat)""",
    "auctions": """job INTEGER NOT NULL, kind INTEGER NOT NULL, attempt INTEGER NOT NULL, reserve TEXT NOT NULL, bid_end INTEGER NOT NULL,
        reveal_end INTEGER NOT NULL, opened_at INTEGER NOT NULL, sealed INTEGER NOT NULL DEFAULT 0, revealed INTEGER NOT NULL DEFAULT 0,
        sold INTEGER, cleared_at INTEGER, price TEXT, priced_at INTEGER""",
    "operators": """operator INTEGER PRIMARY KEY, owner TEXT NOT NULL, hot TEXT NOT NULL, gpu_class INTEGER NOT NULL, vram_gb INTEGER NOT NULL,
        stake TEXT NOT NULL, endpoint TEXT NOT NULL, registered_at INTEGER NOT NULL, admitted INTEGER NOT NULL DEFAULT 0,
        exit_at INTEGER NOT NULL DEFAULT 0, tier INTEGER NOT NULL DEFAULT 0, hours INTEGER NOT NULL DEFAULT 0,
        region INTEGER NOT NULL DEFAULT 0, convictions INTEGER NOT NULL DEFAULT 0""",
    "collateral": """operator INTEGER NOT NULL, token TEXT NOT NULL, balance TEXT NOT NULL DEFAULT '0',
        PRIMARY KEY (operator, token)""",
    "payments": """id INTEGER PRIMARY KEY, operator INTEGER NOT NULL, job INTEGER NOT NULL, token TEXT NOT NULL, at INTEGER NOT NULL,
        amount TEXT NOT NULL, kind TEXT NOT NULL""",
    "disputes": """claim BLOB PRIMARY KEY, job INTEGER NOT NULL, turn INTEGER, round INTEGER, seat INTEGER, operator INTEGER,
        first_at INTEGER NOT NULL, asks INTEGER NOT NULL, outcome INTEGER, ended_at INTEGER""",
    "places": "id BLOB PRIMARY KEY, claim BLOB NOT NULL",
    "steps": """claim BLOB NOT NULL, block INTEGER NOT NULL, log_index INTEGER NOT NULL, at INTEGER NOT NULL, tx TEXT NOT NULL,
        name TEXT NOT NULL, args TEXT NOT NULL, PRIMARY KEY (block, log_index)""",
    "serving_seats": """seat INTEGER PRIMARY KEY, operator INTEGER NOT NULL, locked TEXT NOT NULL, taken_at INTEGER NOT NULL,
        service TEXT NOT NULL DEFAULT '', price TEXT NOT NULL DEFAULT '0', token TEXT NOT NULL DEFAULT '', url TEXT NOT NULL DEFAULT '',
        left_at INTEGER, convictions INTEGER NOT NULL DEFAULT 0""",
    "facts": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
}  # fmt: skip
INDEXES = (
    "jobs (state, job)", "jobs (submitter, job)", "claims (job, turn, seat)", "claims (operator, id)", "claims (hash)", "auctions (job, kind)",
    "auctions (priced_at)", "auctions (sold, reveal_end)", "payments (operator, at)", "payments (job)", "disputes (job, turn, seat)", "disputes (first_at)", "steps (claim, block, log_index)",
    "seats (operator)", "operators (gpu_class)",
)  # fmt: skip
# Not of the chain: what was read elsewhere, and stays at a reorganisation. looks: at one job, operator or dispute, as JSON (live.py).
BESIDE = """
CREATE TABLE heads (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, at INTEGER NOT NULL);
CREATE TABLE applying (block INTEGER);
CREATE TABLE undo (id INTEGER PRIMARY KEY, block INTEGER NOT NULL, statement TEXT NOT NULL);
CREATE TABLE looks (name TEXT PRIMARY KEY, look TEXT NOT NULL);
CREATE TABLE tokens (address TEXT PRIMARY KEY, symbol TEXT NOT NULL, decimals INTEGER NOT NULL);
"""


class Block(NamedTuple):
    """at: its second."""

    number: int
    hash: bytes
    at: int


class Index:
    """One writer; each thread reads over a connection of its own. chain: of what chain and deployment; the file of another one is emptied."""

    def __init__(self, path: Path, chain: str) -> None:
        self.path, self._chain = path, f"{VERSION} {chain}"
        self._threads = threading.local()
        self._writing = threading.Lock()
        self.changes = 0  # how often something a reader sees has changed, since this process started
        self._said_at = 0  # the second of the block of the newest of them
        path.parent.mkdir(parents=True, exist_ok=True)
        self._prepare()

    @property
    def db(self) -> sqlite3.Connection:
        """This thread's connection, to read."""
        if not hasattr(self._threads, "db"):
            self._threads.db = _connected(self.path)
        return self._threads.db

    @property
    def newest(self) -> Block | None:
        """Up to which block all events are here."""
        row = self.db.execute("SELECT number, hash, at FROM heads ORDER BY number DESC LIMIT 1").fetchone()
        return Block(*row) if row else None

    @property
    def blocks(self) -> list[Block]:
        """Those that the index can go back to, the newest first."""
        return [Block(*row) for row in self.db.execute("SELECT number, hash, at FROM heads ORDER BY number DESC")]

    def append(self, events: Sequence[Event], times: Mapping[int, int], until: Block, *, may_be_undone: bool) -> None:
        """All events after the newest block up to `until`, in their order. times: of their blocks, in seconds."""
        with self._write() as db:
            for event in events:
                db.execute("UPDATE applying SET block = ?", (event.block if may_be_undone else None,))
                for statement, values in rows_of(event, times[event.block]):
                    db.execute(statement, values)
            db.execute("UPDATE applying SET block = NULL")
            if not may_be_undone:  # nothing before it can be undone either
                db.execute("DELETE FROM heads")
                db.execute("DELETE FROM undo")
            db.execute("INSERT OR REPLACE INTO heads VALUES (?,?,?)", until)
            db.execute("DELETE FROM undo WHERE block < ?", (until.number - HEADS_KEPT,))
            db.execute("DELETE FROM heads WHERE number < ?", (until.number - HEADS_KEPT,))
        if events or until.at - self._said_at >= SAID_EVERY_S:
            self.changes, self._said_at = self.changes + 1, until.at

    def undo_after(self, block: int) -> None:
        """Back to a block of `blocks`."""
        with self._write() as db:
            for (statement,) in db.execute(
                "SELECT statement FROM undo WHERE block > ? ORDER BY id DESC", (block,)
            ).fetchall():
                db.execute(statement)
            db.execute("DELETE FROM undo WHERE block > ?", (block,))
            db.execute("DELETE FROM heads WHERE number > ?", (block,))
        self.changes += 1

    def clear(self) -> None:
        """Begin again: another chain, or a reorganisation below all of `blocks`."""
        with self._write() as db:
            for table in (*TABLES, "heads", "undo", "looks"):
                db.execute(f"DELETE FROM {table}" + (" WHERE name != 'chain'" if table == "facts" else ""))
            db.execute("UPDATE applying SET block = NULL")
        self.changes += 1

    def keep(self, statement: str, values: Iterable[object]) -> None:
        """Write what is not of the chain: into looks and tokens."""
        with self._write() as db:
            db.execute(statement, tuple(values))
        self.changes += 1

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self.db as db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    def _prepare(self) -> None:
        db = self.db
        db.execute("PRAGMA journal_mode = WAL")
        has = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "heads" in has:
            known = db.execute("PRAGMA user_version").fetchone()[0]
            kept = db.execute("SELECT value FROM facts WHERE name = 'chain'").fetchone() if known == VERSION else None
            if kept == (self._chain,):
                return
            for name in has:
                db.execute(f"DROP TABLE IF EXISTS {name}")
        db.executescript("".join(_creations()) + BESIDE + f"PRAGMA user_version = {VERSION};")
        db.execute("INSERT INTO applying VALUES (NULL)")
        db.execute("INSERT INTO facts VALUES ('chain', ?)", (self._chain,))


def _connected(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    db.row_factory = None
    db.execute("PRAGMA synchronous = NORMAL")
    db.create_function("plus", 2, lambda a, b: str(int(a) + int(b)), deterministic=True)
    db.create_function("largest", 2, lambda a, b: str(max(int(a), int(b))), deterministic=True)
    return db


def _creations() -> Iterator[str]:
    """Tables, their indexes, and the triggers that write how to undo each change."""
    made = sqlite3.connect(":memory:")
    for table, columns in TABLES.items():
        yield f"CREATE TABLE {table} ({columns});\n"
        made.execute(f"CREATE TABLE {table} ({columns})")
        names = [row[1] for row in made.execute(f"PRAGMA table_info({table})")]
        yield from _triggers(table, names)
    for number, columns in enumerate(INDEXES):
        yield f"CREATE INDEX index_{number} ON {columns};\n"
    made.close()


def _triggers(table: str, columns: Sequence[str]) -> Iterator[str]:
    old = " || ', ".join(f"{name} = ' || quote(old.{name})" for name in columns)
    undo = {  # no rule deletes
        "INSERT": f"'DELETE FROM {table} WHERE rowid = ' || new.rowid",
        "UPDATE": f"'UPDATE {table} SET {old} || ' WHERE rowid = ' || new.rowid",
    }
    for change, statement in undo.items():
        yield (
            f"CREATE TRIGGER undo_{change.lower()}_{table} AFTER {change} ON {table} "
            f"WHEN (SELECT block FROM applying) IS NOT NULL "
            f"BEGIN INSERT INTO undo (block, statement) VALUES ((SELECT block FROM applying), {statement}); END;\n"
        )
