"""A devnet's folder: where its files are, and whether it is running. Other commands use this to find it."""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_compute.atomic import write_atomically

CHAIN_ID = 31337


@dataclass(frozen=True)
class DevnetFiles:
    """A devnet's folder. `lock` is locked (flock) while it runs; `ready.json` exists once it accepts work."""

    folder: Path

    @property
    def network_file(self) -> Path:
        return self.folder / "network.json"

    @property
    def state(self) -> Path:
        return self.folder / "anvil.json"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def nodes(self) -> Path:
        """The operators' folders."""
        return self.folder / "nodes"

    @property
    def passphrase_file(self) -> Path:
        """The passphrase of every key file in the folder."""
        return self.folder / "passphrase"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def _ready(self) -> Path:
        return self.folder / "ready.json"

    def key_file(self, name: str) -> Path:
        return self.folder / "keys" / f"{name}.json"

    def accounts(self) -> dict[str, Path]:
        """Name -> key file."""
        return {path.stem: path for path in sorted((self.folder / "keys").glob("*.json"))}

    # -- written by the process that runs the devnet, read by all others

    def mark_ready(self, account: str) -> None:
        """account: the name of the key that other commands sign with."""
        write_atomically(self._ready, json.dumps({"account": account}).encode(), mode=0o600)

    def clear_ready(self) -> None:
        self._ready.unlink(missing_ok=True)

    @property
    def exists(self) -> bool:
        return self.lock.is_file() and self.passphrase_file.is_file()

    @property
    def is_running(self) -> bool:
        """Whether a process has locked the folder; it may not be ready yet."""
        try:
            with self.lock.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def account(self) -> Path | None:
        """The key file that other commands sign with; None unless the devnet is running and ready."""
        try:
            ready: Any = json.loads(self._ready.read_text())
        except FileNotFoundError:
            return None
        return self.key_file(ready["account"]) if self.is_running else None


def devnet_of(network_file: Path) -> DevnetFiles | None:
    """The devnet that made this network file, running or not."""
    files = DevnetFiles(network_file.absolute().parent)
    return files if files.exists and network_file.name == files.network_file.name else None


def devnet_of_key(path: Path) -> DevnetFiles | None:
    """The devnet whose key file this is."""
    files = DevnetFiles(path.absolute().parent.parent)
    return files if files.exists and path.absolute() == files.key_file(path.stem) else None
