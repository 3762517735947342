"""Key files: encrypted JSON keystores (scrypt), which every Ethereum wallet can read. Only their owner may read the file."""

from __future__ import annotations

import getpass
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from zoo_compute.atomic import check_private
from zoo_compute.errors import KeystoreError, KeystoreExists, NoPassphrase, WrongPassphrase

PASSPHRASE = "ZOO_PASSPHRASE"
PASSPHRASE_FILE = "ZOO_PASSPHRASE_FILE"

STANDARD_WORK = 2**18  # scrypt N, as in geth: a guess takes 256 MB and about a second
DEVNET_WORK = 2**12  # for keys without value: tests and devnets


def create(path: Path, passphrase: str, *, private_key: bytes | None = None, work: int = STANDARD_WORK) -> str:
    """Write a key file for a new key (or for `private_key`) and return its address. Raises KeystoreExists."""
    path = Path(path)
    if not passphrase:
        raise KeystoreError("an empty passphrase protects nothing", hint="choose a passphrase")
    account = Account.create() if private_key is None else Account.from_key(private_key)
    document = Account.encrypt(account.key, passphrase, kdf="scrypt", iterations=work)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_new(path, json.dumps(document).encode())
    return str(account.address)


def unlock(path: Path, passphrase: str) -> LocalAccount:
    """The account of a key file. Raises WrongPassphrase, KeystoreError; their messages reveal nothing about the key."""
    document = _read(path)
    try:
        key = Account.decrypt(document, passphrase)
    except ValueError as error:
        if "MAC mismatch" in str(error):
            raise WrongPassphrase(f"{path}: wrong passphrase") from None
        raise KeystoreError(f"{path}: not a usable key file", hint="restore it from a backup") from None
    except (KeyError, TypeError, AttributeError):
        raise KeystoreError(f"{path}: not a usable key file", hint="restore it from a backup") from None
    account: LocalAccount = Account.from_key(key)
    return account


def read_passphrase(path: Path) -> str:
    """Of a file that only its owner may read. Raises KeystoreError, ConfigError."""
    try:
        check_private(path)
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeystoreError(f"{path}: cannot be read: {error}", hint="restore it from a backup") from None


def address_of(path: Path) -> str:
    """The address of a key file, without its passphrase."""
    address = _read(path).get("address")
    if not isinstance(address, str):
        raise KeystoreError(f"{path}: has no address", hint="it is not a key file, or it lacks the address field")
    return str(to_checksum_address("0x" + address.removeprefix("0x")))


def find_passphrase(
    what: str,
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    ask: Callable[[str], str] | None = None,
) -> str:
    """The passphrase for `what`: from `file`, ZOO_PASSPHRASE_FILE, ZOO_PASSPHRASE, or a prompt in the terminal.

    Never from the command line, which other users of the machine can read.
    """
    named = file or (Path(environ[PASSPHRASE_FILE]) if environ.get(PASSPHRASE_FILE) else None)
    if named is not None:
        try:
            passphrase = named.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise NoPassphrase(f"{named}: cannot be read: {error}") from None
        if not passphrase:
            raise NoPassphrase(f"{named}: is empty")
        return passphrase
    if environ.get(PASSPHRASE):
        return environ[PASSPHRASE]
    if ask is None and sys.stdin.isatty():
        ask = getpass.getpass
    if ask is None:
        raise NoPassphrase(f"no passphrase for {what}, and no terminal to ask for it")
    return ask(f"Passphrase for {what}: ")


def _read(path: Path) -> dict[str, Any]:
    path = Path(path)
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise KeystoreError(f"{path}: no such key file", hint="check the path, or create a key first") from None
    except (OSError, ValueError) as error:
        raise KeystoreError(f"{path}: cannot be read: {error}", hint="restore it from a backup") from None
    if not isinstance(document, dict):
        raise KeystoreError(f"{path}: not a key file", hint="pass the path of an Ethereum keystore (JSON)")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise KeystoreError(f"{path}: other users can read it", hint=f"chmod 600 {path}")
    return document


def _write_new(path: Path, content: bytes) -> None:
    """Atomic, and never replaces an existing file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # fails if `path` exists, unlike a rename
    except FileExistsError:
        raise KeystoreExists(f"{path}: a key file exists already") from None
    finally:
        temporary.unlink(missing_ok=True)
