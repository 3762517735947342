"""The keys of an operator's folder: the hot key, a file or a signer that keeps it, and the key that signs receipts of answers."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from zoo_compute.atomic import write_atomically
from zoo_compute.chain import keystore
from zoo_compute.chain.hot_signer import open_signer
from zoo_compute.errors import ConfigError
from zoo_compute.paths import CONFIG, HOT_KEY, PASSPHRASE, RECEIPT_KEY


def hot_account(folder: Path) -> Any:
    """What signs with the hot key of an operator's folder: a LocalAccount or a HotSigner. Raises KeystoreError, ConfigError, the signer's."""
    if signer := signer_in(folder):
        opened = open_signer(signer)
        opened.use("")
        return opened

    if not (folder / HOT_KEY).exists():
        raise ConfigError(f"no hot key in {folder}", hint="run this where the operator's keeper runs")
    return keystore.unlock(folder / HOT_KEY, keystore.read_passphrase(folder / PASSPHRASE))


def signer_in(folder: Path) -> str:
    """Where the hot key's signer answers; empty where its file is in the folder. Raises ConfigError."""
    try:
        return str(json.loads((folder / CONFIG).read_text()).get("signer", ""))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{folder / CONFIG} cannot be read: {error}", hint="repair it, or move it away") from None


def key_at(folder: Path, name: str) -> str:
    """The address of a key file of the folder, which is made, with mode 600, if it is not there. Raises KeystoreError, ConfigError."""
    path, secret = folder / name, folder / PASSPHRASE
    if path.exists():
        return keystore.address_of(path)
    if not secret.exists():
        write_atomically(secret, secrets.token_urlsafe(24).encode(), mode=0o600)
    # The passphrase is beside the key, so an expensive key derivation would protect nothing.
    return keystore.create(path, keystore.read_passphrase(secret), work=keystore.DEVNET_WORK)


def receipt_key(folder: Path) -> bytes:
    """The private key that signs a serving seat's receipts, 32 bytes; made if there is none. Raises KeystoreError, ConfigError."""
    key_at(folder, RECEIPT_KEY)
    account = keystore.unlock(folder / RECEIPT_KEY, keystore.read_passphrase(folder / PASSPHRASE))
    return bytes(account.key)
