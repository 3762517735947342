"""Replaces small files atomically: settings, keys, records; and sees that private ones are private. For the store's files see store/durable_files.py."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from zoo_compute.errors import ConfigError


def write_atomically(path: Path, content: bytes, *, mode: int) -> None:
    """Replace `path` atomically; on failure the old file stays unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_private(path: Path) -> None:
    """Raises ConfigError where other users can read or write a file."""
    if others(path):
        raise ConfigError(f"{path}: other users can read it", hint=f"chmod 600 {path}")


def make_private(path: Path) -> bool:
    """Take a file from other users; whether they could read or write it before. Raises ConfigError where it is not ours."""
    if not others(path):
        return False
    try:
        path.chmod(0o600)
    except OSError:
        check_private(path)
    return True


def others(path: Path) -> int:
    """What a file's mode allows others than its owner."""
    return stat.S_IMODE(path.stat().st_mode) & 0o077
