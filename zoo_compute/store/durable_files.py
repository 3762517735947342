"""Atomic file writes that survive kill -9, power loss and concurrent processes.

A file is written under a temporary name, locked (flock) by its writer for as long as the writer lives, synced, then
renamed. Whoever finds a temporary file without a lock knows that its writer died, and may remove it.
"""

import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from zoo_compute.store.errors import full_disk_becomes_store_full

_SUFFIX = ".part"


@contextmanager
def replacing(destination: Path, *, via: Path | None = None) -> Iterator[BinaryIO]:
    """A stream whose content becomes `destination` if the block succeeds, and is deleted if it raises.

    via: the folder of the temporary file, on the same file system; the destination's own by default. Raises StoreFull.
    """
    folder = via or destination.parent
    with full_disk_becomes_store_full(folder):
        stream = _create_locked(folder, destination.name)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(stream.name, destination)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(stream.name)
            raise
        finally:
            with suppress(OSError):  # closing flushes again after a failed write; report the first error
                stream.close()


def _create_locked(folder: Path, name: str) -> BinaryIO:
    while True:
        stream = (folder / f".{name[:200]}.{secrets.token_hex(6)}{_SUFFIX}").open("xb")
        fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:  # else a cleaner removed it between creation and lock
            return stream
        stream.close()


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_abandoned(folder: Path, name: str = "") -> int:
    """Remove the temporary files whose writers have died, for the destination `name` or for all; return how many."""
    removed = 0
    for path in folder.glob(f".{glob.escape(name[:200])}*{_SUFFIX}"):
        with suppress(OSError), path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            removed += 1
    return removed


@contextmanager
def locked(path: Path, operation: int) -> Iterator[None]:
    """Hold a flock on `path`. operation: fcntl.LOCK_SH or LOCK_EX, with LOCK_NB raising BlockingIOError."""
    with path.open("ab") as stream:
        fcntl.flock(stream, operation)
        yield
