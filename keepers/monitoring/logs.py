"""Logs of an operator's processes: one line an event, as text or as JSON, in files that rotate by themselves.

A process writes to its standard error, which the daemon opened as a file. The daemon rotates it: it copies the file to `.1` and empties
it, so a process never opens its log again, and a server that is not ours is rotated too. A lock keeps a line from being written
between the copy and the emptying.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

TIME = "%Y-%m-%dT%H:%M:%S"
# A full disk leaves no room for a copy: a log that is so many times too long is emptied without one.
LOST_FACTOR = 2
_NOISY = ("urllib3", "web3", "celery.worker.strategy", "celery.app.trace")


class TextLines(logging.Formatter):
    """`2026-01-01T00:00:00Z INFO    zoo.keeper job 7: ...`, in UTC."""

    def __init__(self) -> None:
        self.converter = time.gmtime
        super().__init__("%(asctime)sZ %(levelname)-7s %(name)s %(message)s", TIME)


class JsonLines(logging.Formatter):
    """An object a line: time, level, logger, process, message; exception where there is one."""

    def __init__(self) -> None:
        self.converter = time.gmtime
        super().__init__(datefmt=TIME)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class SharedLog(logging.StreamHandler[IO[str]]):
    """Writes whole lines to a file that the daemon may rotate meanwhile."""

    def emit(self, record: logging.LogRecord) -> None:
        with _locked(self.stream):
            super().emit(record)


def configure_logging(style: str = "text") -> None:
    """Log one line an event to standard error; Celery does not change that. style: `text` or `json`. May be called again."""
    from celery.signals import setup_logging

    handler = SharedLog(sys.stderr)
    handler.setFormatter(_lines(style))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    setup_logging.connect(_leave_alone, weak=False)


@contextmanager
def daemon_log(path: Path, style: str) -> Iterator[None]:
    """Have the daemon's own messages go to a file, beside standard error, while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("zoo.daemon")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "a", buffering=1) as file:
        handlers = [SharedLog(sys.stderr), SharedLog(file)]
        for handler in handlers:
            handler.setFormatter(_lines(style))
            logger.addHandler(handler)
        try:
            yield
        finally:
            for handler in handlers:
                logger.removeHandler(handler)


def rotate(path: Path, max_bytes: int, count: int) -> bool:
    """Move what is in a log to `PATH.1`, and older files on to `.2` and so forth, if it is too long. Whether that was done.

    count: rotated files that are kept. A line that is being written puts it off to the next call.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    if size < max_bytes:
        return False
    with path.open("r+b") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _drop_beyond(path, max(0, count - 1))
        if count and not _copied(log, path, count):
            if size < LOST_FACTOR * max_bytes:
                return False
            logging.getLogger("zoo.daemon").error("%s: no room for a copy; what it said is lost", path)
        log.truncate(0)
    return True


def rotate_records(path: Path, max_bytes: int, count: int) -> bool:
    """As `rotate`, of a file that whoever writes a line opens anew: it is renamed, and no line is lost. One rotated file is kept at least."""
    try:
        if path.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    _drop_beyond(path, max(0, count - 1))
    _shift(path)
    path.replace(path.with_name(f"{path.name}.1"))
    path.touch(mode=0o600)  # a reader sees that it is another file
    return True


def rotated(path: Path) -> list[Path]:
    """The files that `rotate` made of a log, the newest first."""
    numbered = [each for each in path.parent.glob(f"{path.name}.*") if each.suffix[1:].isdigit()]
    return sorted(numbered, key=_number)


def _lines(style: str) -> logging.Formatter:
    return JsonLines() if style == "json" else TextLines()


def _number(path: Path) -> int:
    return int(path.suffix[1:])


def _drop_beyond(path: Path, count: int) -> None:
    for old in rotated(path)[count:]:
        old.unlink()


def _copied(log: IO[bytes], path: Path, count: int) -> bool:
    """Copy a log beside itself as its newest rotated file; whether there was room for it."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(log, copy)
    except OSError:
        fresh.unlink(missing_ok=True)
        return False
    _shift(path)
    fresh.replace(path.with_name(f"{path.name}.1"))
    return True


def _shift(path: Path) -> None:
    for old in reversed(rotated(path)):
        old.replace(path.with_name(f"{path.name}.{_number(old) + 1}"))


@contextmanager
def _locked(stream: IO[str]) -> Iterator[None]:
    """Share the lock of a log while a line is written; what is not a file (a terminal, the journal) is never rotated."""
    try:
        number = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
    except (OSError, ValueError, AttributeError):  # a test's stream has no number
        is_file = False
    if not is_file:
        yield
        return
    fcntl.flock(number, fcntl.LOCK_SH)
    try:
        yield
    finally:
        fcntl.flock(number, fcntl.LOCK_UN)


def _leave_alone(**_: object) -> None:
    """Celery configures no logging where a receiver of this signal does."""
