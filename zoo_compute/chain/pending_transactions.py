"""Transactions that an account has sent and that are not mined yet, shared by all its processes on this machine.

A file lock makes "ask for the nonce, sign, send" one step. Every hash is written before it is sent. The entries let a restarted process wait for, or replace, the
transaction its predecessor sent, instead of sending it a second time. No keys and no passphrases are written here.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zoo_compute.atomic import write_atomically
from zoo_compute.errors import ConfigError, Unreachable
from zoo_compute.subprocesses import started_at

if TYPE_CHECKING:
    from zoo_compute.chain.fence import Fence

log = logging.getLogger("zoo.keeper")


@dataclass
class PendingTransaction:
    """One sent transaction with all its hashes (each replacement adds one)."""

    nonce: int
    operation: str
    to: str
    data: str  # 0x...
    value: int
    gas: int
    max_fee: int
    priority_fee: int
    sent_block: int
    sender_pid: int | None = None  # the process that waits for it; None if it stopped waiting
    sender_started: str = ""  # when that process started: a container's next process has the same pid
    bumped_block: int = 0  # the newest block when its fee was raised last
    hashes: list[str] = field(default_factory=list)

    def take(self) -> None:
        """This process waits for it from now on."""
        self.sender_pid, self.sender_started = os.getpid(), started_at(os.getpid())

    def leave(self) -> None:
        """Nobody waits for it any more; the next sender of the same call does."""
        self.sender_pid, self.sender_started = None, ""

    @property
    def is_awaited(self) -> bool:
        """Whether a running process (or this one) waits for it."""
        return bool(self.sender_pid and self.sender_started) and self.sender_started == started_at(self.sender_pid or 0)


class PendingEntries:
    """The entries; use only under the lock. shared: as a successor on another machine would find them, by nonce."""

    def __init__(
        self, path: Path, fence: Fence | None = None, shared: dict[int, PendingTransaction] | None = None
    ) -> None:
        self._path, self._fence = path, fence
        self._shared = {} if shared is None else shared
        self.entries = self._read()
        self._written = self._document()

    def put(self, entry: PendingTransaction) -> None:
        """Saved to disk before this returns, and where a successor finds it. Raises Unreachable: then it is on disk alone."""
        self.entries[entry.nonce] = entry
        self.save()
        self.share()

    def remove(self, entry: PendingTransaction) -> None:
        if (stored := self.entries.get(entry.nonce)) and set(stored.hashes) <= set(entry.hashes):
            del self.entries[entry.nonce]

    def succeed(self, left: dict[int, PendingTransaction], mined: int) -> None:
        """Take over what another machine's sender left. Of what is here, only what may still be mined is kept, where that says nothing.

        mined: the account's next nonce on chain.
        """
        mine = {nonce: entry for nonce, entry in self.entries.items() if nonce >= mined}
        self.entries = {**mine, **left}
        for entry in self.entries.values():
            entry.leave()

    def drop(self, unwanted: Callable[[PendingTransaction], bool]) -> None:
        self.entries = {nonce: entry for nonce, entry in self.entries.items() if not unwanted(entry)}

    def save(self) -> None:
        document = self._document()
        if document != self._written:
            write_atomically(self._path, document.encode(), mode=0o600)
            self._written = document

    def share(self) -> None:
        """Let a successor find what changed. Raises Unreachable."""
        if self._fence is None:
            return
        changed = {nonce: entry for nonce, entry in self.entries.items() if self._shared.get(nonce) != entry}
        removed = self._shared.keys() - self.entries.keys()
        if changed or removed:
            self._fence.write(changed, removed)
            self._shared.clear()
            self._shared.update(deepcopy(self.entries))

    def _document(self) -> str:
        return json.dumps([asdict(entry) for entry in self.entries.values()])

    def _read(self) -> dict[int, PendingTransaction]:
        try:
            return {entry["nonce"]: PendingTransaction(**entry) for entry in json.loads(self._path.read_text())}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            hint = "delete it once no transaction is pending"
            raise ConfigError(f"{self._path}: not an outbox: {error}", hint=hint) from None


class PendingTransactions:
    """The file of one account on one chain."""

    def __init__(self, folder: Path | None, chain_id: int, address: str, fence: Fence | None = None) -> None:
        self.path = (folder or _default_folder()) / f"outbox-{chain_id}-{address.lower()}.json"
        self._fence = fence
        self._shared: dict[int, PendingTransaction] = {}

    @contextmanager
    def locked(self) -> Iterator[PendingEntries]:
        """The entries, locked against all other threads and processes of the account. Saves changes at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.path.with_suffix(".lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released on close, and by the kernel when the process dies
            box = PendingEntries(self.path, self._fence, self._shared)
            try:
                yield box
            finally:
                box.save()
                try:
                    box.share()
                except (
                    Unreachable
                ) as error:  # what is not shared yet was mined or left; the next change is shared with it
                    log.warning("%s", error)


def _default_folder() -> Path:
    """One folder for all processes of this user, which nobody else can read."""
    folder = Path(tempfile.gettempdir()) / f"zoo-compute-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise ConfigError(f"{folder} belongs to another user", hint="pass the sender a folder of its own")
    return folder
