"""The questions whose answers an operator signed, on disk: what it needs to answer for a receipt when somebody asks about it.

One SQLite file, which the server writes and the keeper reads. A question is on disk before its receipt leaves the server.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from zoo_compute.durable_database import open_database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS questions (
    claim BLOB NOT NULL PRIMARY KEY, issued INTEGER NOT NULL, question TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_age ON questions (issued)
"""


class AnsweredQuestions:
    """Threads and processes can share it. Raises ConfigError for a file that is none of ours."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = open_database(path, _SCHEMA, "questions")

    def add(self, claim_hash: bytes, question: Mapping[str, Any], issued: int) -> None:
        """claim_hash: of the claim that the receipt becomes. question: as `zoo_compute.serving.files.plain` has it.

        issued: of the receipt. Of two receipts that become the same claim the later one counts.
        """
        row = (claim_hash, issued, json.dumps(question))
        with self._lock:
            self._db.execute(
                "INSERT INTO questions VALUES (?, ?, ?) ON CONFLICT (claim) DO UPDATE SET issued = max(issued, excluded.issued)",
                row,
            )

    def get(self, claim_hash: bytes) -> Mapping[str, Any] | None:
        """The question of a receipt, by the hash of its claim; None if it is not here."""
        with self._lock:
            row = self._db.execute("SELECT question FROM questions WHERE claim = ?", (claim_hash,)).fetchone()
        return json.loads(row[0]) if row else None

    def prune(self, before: int, pending: Collection[bytes]) -> int:
        """Drop what was issued before a second, but for the claims that are pending on chain. Returns how many."""
        with self._lock:
            old = self._db.execute("SELECT claim FROM questions WHERE issued < ?", (before,)).fetchall()
            gone = [row for row in old if bytes(row[0]) not in pending]
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("DELETE FROM questions WHERE claim = ?", gone)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        return len(gone)

    def oldest(self) -> float:
        """When the oldest was issued; infinity without any."""
        with self._lock:
            (issued,) = self._db.execute("SELECT min(issued) FROM questions").fetchone()
        return float("inf") if issued is None else float(issued)

    def close(self) -> None:
        self._db.close()


class QuestionsOf:
    """Looks questions up in an operator's file, from when there is one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: AnsweredQuestions | None = None

    def __call__(self, claim_hash: bytes) -> Mapping[str, Any] | None:
        return self.opened.get(claim_hash) if self.opened else None

    @property
    def opened(self) -> AnsweredQuestions | None:
        if self._opened is None and self._path.exists():
            self._opened = AnsweredQuestions(self._path)
        return self._opened
