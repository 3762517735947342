"""Processes that outlive the tests that started them: found by a mark in their environment, ended, and reported.

A child inherits the mark, and so do its children, whichever session they are in and whoever adopted them since.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "TESTS_STARTED_BY"
END_S = 15.0  # a process that was asked to end, or whose starter ended, has as long
POLL_S = 0.05
# Python's own helper of `multiprocessing`, which ends with the process that runs the tests.
LASTING = "from multiprocessing.resource_tracker import main"


@contextmanager
def none_outlives(what: str) -> Iterator[None]:
    """Raise AssertionError where a process that was started in the block still runs `END_S` after it. It is killed all the same."""
    outer, mark = os.environ.get(MARK), f"{os.getpid()}-{uuid.uuid4().hex}"
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if outer is not None:
            os.environ[MARK] = outer
    left = _left_of(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"{what} left running: " + "; ".join(f"{pid} {command}" for pid, command in left.items())


def _left_of(mark: str) -> dict[int, str]:
    deadline = time.monotonic() + END_S
    while True:
        left = marked(mark)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_S)


def marked(mark: str) -> dict[int, str]:
    """The command line of each process with this mark, but for zombies; nothing where there is no /proc."""
    if sys.platform != "linux":
        return {}
    wanted, own = f"{MARK}={mark}".encode(), os.getpid()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == own:
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            # A process that ended has no environment any more.
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return {pid: command for pid, command in found.items() if LASTING not in command}
