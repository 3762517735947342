"""Requests and results in the broker carry a seal, so that whoever can write the broker cannot make a worker compute something else under
a name, nor make the keeper commit what no worker of its operator computed. It can still stop work, by deleting it.

The key is a file in the operator's folder. Workers on other machines need a copy of it, which goes there by hand, not through the broker.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

from zoo_compute.atomic import check_private
from zoo_compute.errors import ConfigError

FILE = "queue.key"
KEY_BYTES = 32
SEAL_DIGITS = 64  # hex digits of HMAC-SHA256


class Seals:
    """key: known to the operator's keeper and workers alone."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key

    def of(self, kind: str, name: str, value: Any) -> str:
        """The seal of a JSON value. kind: a task, or which record of the broker. name: of the work."""
        text = json.dumps(json.loads(json.dumps(value)), sort_keys=True)  # as it is after a way through JSON
        message = json.dumps([kind, name, text]).encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def is_of(self, seal: str, kind: str, name: str, value: Any) -> bool:
        return hmac.compare_digest(seal.encode(), self.of(kind, name, value).encode())

    def close(self, kind: str, name: str, value: Any) -> str:
        """A value as it lies in the broker: its seal, then its JSON."""
        return self.of(kind, name, value) + json.dumps(value)

    def open(self, kind: str, name: str, record: bytes) -> Any:
        """What was closed. Raises ValueError where the seal is not of this key, kind and name."""
        seal, text = record[:SEAL_DIGITS].decode("latin-1"), record[SEAL_DIGITS:]
        value = json.loads(text)
        if not self.is_of(seal, kind, name, value):
            raise ValueError(f"{kind} of {name}: not sealed by this operator")
        return value


def load(folder: Path) -> Seals:
    """The seals of an operator's folder; the first process that needs the key makes it. Raises ConfigError."""
    path = folder / FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return _made(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="it belongs to the user that runs the node") from None
    check_private(path)
    try:
        return Seals(bytes.fromhex(text.strip()))
    except (ValueError, AssertionError):
        raise ConfigError(
            f"{path} is no key", hint="copy it again from the keeper's folder, or delete it there and restart all parts"
        ) from None


def _made(path: Path) -> Seals:
    """Several processes start at once: one of their keys becomes the file, whole, and all read that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return load(path.parent)
