"""The receipts that a client has, in its folder: those that nobody checked yet, for as long as they count; and evidence, for good."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

from zoo_compute.atomic import write_atomically
from zoo_compute.durable_database import open_database
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.spec.serving import question_of

MOST_UNANSWERED, ANSWERS_EACH = (
    3,
    20,
)  # paid requests that an operator may leave unanswered, and the answers that make up for each
UNCHECKED, FALSE, DROPPED = "answers.sqlite", "receipts", "dropped"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS receipts (
    seat INTEGER NOT NULL, question TEXT NOT NULL, issued INTEGER NOT NULL, file BLOB NOT NULL, PRIMARY KEY (seat, question)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_time ON receipts (issued);
CREATE TABLE IF NOT EXISTS conduct (
    operator INTEGER PRIMARY KEY, answered INTEGER NOT NULL DEFAULT 0, unanswered INTEGER NOT NULL DEFAULT 0
);
"""


class Receipts:
    """home: the client's folder for one network. window_s: for how long a receipt can be admitted. Threads and processes can share it."""

    def __init__(self, home: Path, window_s: int) -> None:
        self._home, self._window_s, self._lock = home, window_s, threading.Lock()
        self._db = open_database(home / UNCHECKED, _SCHEMA, "receipts")

    def keep(self, file: ReceiptFile, now: int) -> None:
        """Until its window is over. now: the protocol's time."""
        receipt = file.signed.receipt
        row = (receipt.seat, name_of(file), receipt.issued, file.to_bytes())
        with self._lock:
            self._db.execute("DELETE FROM receipts WHERE issued < ?", (now - self._window_s,))
            self._db.execute("INSERT OR REPLACE INTO receipts VALUES (?, ?, ?, ?)", row)

    def unchecked(self, now: int) -> Iterator[ReceiptFile]:
        """Those that can still be admitted, oldest first."""
        query = "SELECT file FROM receipts WHERE issued >= ? ORDER BY issued"
        with self._lock:
            rows = self._db.execute(query, (now - self._window_s,)).fetchall()
        return (ReceiptFile.from_bytes(data) for (data,) in rows)

    def checked(self, file: ReceiptFile) -> None:
        """Nobody will doubt it here any more: it is true, or evidence."""
        with self._lock:
            self._db.execute(
                "DELETE FROM receipts WHERE seat = ? AND question = ?", (file.signed.receipt.seat, name_of(file))
            )

    def accuse(self, file: ReceiptFile) -> Path:
        """Write a false receipt to a file of its own, which `zoo serving dispute` takes, and out of those that nobody checked."""
        path = self._home / FALSE / f"{name_of(file)}.json"
        write_atomically(path, file.to_bytes(), mode=0o600)
        self.checked(file)
        return path

    def count(self, operator: int, *, answered: bool) -> bool:
        """Count a request that was paid for. Whether the operator takes vouchers and does not answer: then it is paid no more."""
        column = "answered" if answered else "unanswered"
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO conduct (operator) VALUES (?)", (operator,))
            self._db.execute(f"UPDATE conduct SET {column} = {column} + 1 WHERE operator = ?", (operator,))
            query = "SELECT answered, unanswered FROM conduct WHERE operator = ?"
            good, bad = self._db.execute(query, (operator,)).fetchone()
        return bool(bad >= MOST_UNANSWERED and bad * ANSWERS_EACH > good)

    def drop(self, operator: int, why: str) -> None:
        """Pay an operator nothing more, in any process. Whoever deletes the file forgives."""
        write_atomically(self._dropped(operator), json.dumps({"operator": operator, "why": why}).encode(), mode=0o600)

    def is_dropped(self, operator: int) -> bool:
        return self._dropped(operator).exists()

    def close(self) -> None:
        self._db.close()

    def _dropped(self, operator: int) -> Path:
        return self._home / DROPPED / f"{operator}.json"


def name_of(file: ReceiptFile) -> str:
    """Of a receipt's evidence: SEAT-QUESTION."""
    receipt = file.signed.receipt
    return f"{receipt.seat}-{question_of(receipt):064x}"
