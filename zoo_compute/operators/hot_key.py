"""The hot key of an operator's folder: a key file, or a signer that keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo_compute.chain import keystore
from zoo_compute.chain.hot_signer import open_signer
from zoo_compute.errors import ConfigError
from zoo_compute.paths import CONFIG, HOT_KEY, PASSPHRASE


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
