"""Where this person's files lie: `~/.zoo` (or `ZOO_HOME`) with keystores, the network file, the store and the submissions."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from zoo_compute.errors import ConfigError

NETWORK_FILE = "network.json"

# In an operator's folder:
CONFIG = "operator.json"  # keepers.config reads it
DRAINING = "draining"  # while this file is there, the operator's keeper takes no new work
STATUS = "status.json"  # of a keeper's newest look, in its folder
HOT_KEY = "hot.json"
PASSPHRASE = "passphrase"


def home() -> Path:
    """The folder; made when something is first written into it."""
    return Path(os.environ.get("ZOO_HOME") or "~/.zoo").expanduser()


def keystores() -> Path:
    return home() / "keystores"


def store_location(given: str | None = None) -> str:
    """What `zoo_compute.store.open_store` takes: `given`, ZOO_STORE, or the folder's own store."""
    return given or os.environ.get("ZOO_STORE") or str(home() / "store")


def find_network_file(given: str | Path | None = None) -> Path:
    """`given`, else ZOO_NETWORK, else ./network.json, else the home's. Raises ConfigError."""
    named = given or os.environ.get("ZOO_NETWORK")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"no network file at {path}", hint="check --network and ZOO_NETWORK; `zoo devnet` makes one"
            )
        return path
    places = (Path(NETWORK_FILE), home() / NETWORK_FILE)
    for path in places:
        if path.is_file():
            return path
    raise ConfigError(
        f"no network file: looked for {places[0].resolve()} and {places[1]}",
        hint="pass --network FILE or set ZOO_NETWORK; `zoo devnet` starts a network of your own and makes one",
    )


def accounts() -> dict[str, Path]:
    """Name -> keystore file, of the home."""
    return {path.stem: path for path in sorted(keystores().glob("*.json"))}


def find_keystore(given: str | None = None) -> Path:
    """The key file of `given`, a name in the home or a path; else ZOO_ACCOUNT; else the only one there is. Raises ConfigError."""
    known = accounts()
    named = given or os.environ.get("ZOO_ACCOUNT")
    if named:
        if named in known:
            return known[named]
        path = Path(named).expanduser()
        if path.is_file():
            return path
        near = difflib.get_close_matches(named, known, 1)
        there = f"there are: {', '.join(known)}" if known else "make one with `zoo account create`"
        raise ConfigError(
            f"no account {named!r}: neither a name in {keystores()} nor a key file",
            hint=f"did you mean {near[0]!r}?" if near else there,
        )
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        raise ConfigError(
            f"no account in {keystores()}", hint="make one with `zoo account create`, or pass --account FILE"
        )
    raise ConfigError("several accounts, and none chosen", hint=f"pass --account with one of: {', '.join(known)}")


def new_keystore(name: str) -> Path:
    """Where the keystore of a new account `name` goes. Raises ConfigError for a name that is a path."""
    if not name or name != Path(name).name or name.startswith("."):
        raise ConfigError(f"an account's name is a plain word, not {name!r}", hint="letters, digits, - and _")
    return keystores() / f"{name}.json"
