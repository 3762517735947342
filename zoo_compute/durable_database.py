"""A SQLite file whose statements are on the disk itself once they end: what was promised to somebody must outlast a crash."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zoo_compute.errors import ConfigError

WAIT_S = 30.0  # for another process that has the file


def open_database(path: Path, schema: str, what: str) -> sqlite3.Connection:
    """Open or make it, with mode 600. Processes can share it; threads too, behind a lock of theirs.

    schema: statements that may be executed again. what: it keeps, for the error. Raises ConfigError for a file that is none of ours.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        database = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        # Written behind a log, and on the disk itself at the end of each statement or transaction.
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.executescript(schema)
    except sqlite3.Error as error:
        raise ConfigError(
            f"{path}: cannot keep {what} there: {error}", hint="restore this file, or move it away"
        ) from error
    return database
