"""The user's files: `~/.zoo` (or `ZOO_HOME`) contains keystores, the network file, the store and submissions.

Commands look for a network file in this order: the option, the environment, ./network.json, ~/.zoo/network.json, and the devnet
running in ~/.zoo/devnet. A devnet's network file implies its account, passphrase and store. A devnet's keys never sign for
another chain.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

from zoo_compute.devnet_files import CHAIN_ID, DevnetFiles, devnet_of, devnet_of_key
from zoo_compute.errors import ConfigError

NETWORK_FILE = "network.json"

# In an operator's folder:
CONFIG = "operator.json"  # keepers.config reads it
DRAINING = "draining"  # while this file is there, the operator's keeper takes no new work
STATUS = "status.json"  # the keeper's latest status, in the operator's folder
TRANSACTIONS = "transactions.jsonl"  # a line for each that was mined
REPORTS = "verified.jsonl"  # a line for each result that a verifier looked at
HOT_KEY = "hot.json"
NEW_HOT_KEY = "hot.json.new"  # that the registry may not know yet
PASSPHRASE = "passphrase"
RECEIPT_KEY = "receipts-key.json"  # signs the receipts of a serving seat
VOUCHERS = "vouchers.sqlite"  # the newest of each channel that pays it
QUESTIONS = "questions.sqlite"  # of the answers that it signed


def home() -> Path:
    """The user's folder; created on the first write."""
    return Path(os.environ.get("ZOO_HOME") or "~/.zoo").expanduser()


def keystores() -> Path:
    return home() / "keystores"


def devnet() -> DevnetFiles:
    """The default folder of `zoo devnet`."""
    return DevnetFiles(home() / "devnet")


def store_location(location: str | None = None, network: Path | None = None) -> str:
    """The location for `zoo_compute.store.open_store`: `location`, else ZOO_STORE, else the store of the running devnet that
    `network` belongs to, else the store in the user's folder.
    """
    named = location or os.environ.get("ZOO_STORE")
    if named:
        return named
    running = _running(network)
    return str(running.store if running else home() / "store")


def find_network_file(option: str | Path | None = None) -> Path:
    """`option`, else ZOO_NETWORK, else ./network.json, else ~/.zoo/network.json, else the running devnet's. Raises ConfigError."""
    named = option or os.environ.get("ZOO_NETWORK")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"no network file at {path}", hint="check --network and ZOO_NETWORK; `zoo devnet` creates one"
            )
        return _of_a_running_network(path)
    places = (Path(NETWORK_FILE), home() / NETWORK_FILE)
    for path in places:
        if path.is_file():
            return _of_a_running_network(path)
    files = devnet()
    if files.account is not None:
        return files.network_file
    if files.is_running:
        raise ConfigError(
            f"the devnet in {files.folder} is still starting", hint="wait until `zoo devnet` says that it is ready"
        )
    if files.exists:
        raise _not_running(files)
    raise ConfigError(
        f"no network file at {places[0].resolve()} or {places[1]}, and no devnet is running",
        hint="to try it on this machine, run `zoo devnet --nodes 3` in another terminal; "
        "otherwise pass --network FILE or set ZOO_NETWORK",
    )


def known_network_file(path: str | Path | None = None) -> Path | None:
    """Like `find_network_file`, but None if there is none, for commands that also work without a network."""
    try:
        return find_network_file(path)
    except ConfigError:
        return None


def _of_a_running_network(path: Path) -> Path:
    files = devnet_of(path)
    if files is not None and not files.is_running:
        raise _not_running(files)
    return path


def _running(network: Path | None) -> DevnetFiles | None:
    """The devnet that this network file belongs to, if it is running and ready."""
    files = devnet_of(network) if network else None
    return files if files is not None and files.account is not None else None


def _not_running(files: DevnetFiles) -> ConfigError:
    where = "" if files == devnet() else f" --dir {files.folder}"
    return ConfigError(
        f"the devnet in {files.folder} is not running",
        hint=f"start it again in another terminal: zoo devnet --nodes 3{where}",
    )


def accounts() -> dict[str, Path]:
    """Name -> keystore file, in the user's folder."""
    return {path.stem: path for path in sorted(keystores().glob("*.json"))}


def find_keystore(name: str | None = None, network: Path | None = None) -> Path:
    """The key file that `name` (a name or a path) means; else ZOO_ACCOUNT, the devnet's account, or your only account.

    network: the network file, if there is one; accounts of its devnet can be named too. Raises ConfigError.
    """
    running = _running(network)
    known = (running.accounts() if running else {}) | accounts()
    named = name or os.environ.get("ZOO_ACCOUNT")
    if named:
        path = known.get(named) or Path(named).expanduser()
        if path.is_file():
            return _usable_here(path, network)
        near = difflib.get_close_matches(named, known, 1)
        there = f"there are: {', '.join(known)}" if known else "create one with `zoo account create`"
        raise ConfigError(
            f"no account {named!r}: it is neither a name in {keystores()} nor a key file",
            hint=f"did you mean {near[0]!r}?" if near else there,
        )
    if running and running.account:
        return running.account
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        raise ConfigError(
            f"no account in {keystores()}", hint="create one with `zoo account create`, or pass --account FILE"
        )
    raise ConfigError(
        "there are several accounts and none is chosen", hint=f"pass --account with one of: {', '.join(known)}"
    )


def passphrase_file(key_file: Path) -> Path | None:
    """The passphrase file of a devnet's key, which is not secret. None for any other key."""
    files = devnet_of_key(key_file)
    return files.passphrase_file if files else None


def _usable_here(key_file: Path, network: Path | None) -> Path:
    """A devnet's keys are no secret: what they own on another chain is anybody's."""
    if network is None or devnet_of_key(key_file) is None:
        return key_file
    try:
        chain_id = json.loads(network.read_text()).get("chain_id")
    except (OSError, ValueError, AttributeError):  # said where the network is needed
        return key_file
    if chain_id != CHAIN_ID:
        raise ConfigError(
            f"{key_file} is a key of a devnet, chain {CHAIN_ID}, and {network} is of chain {chain_id}",
            hint="choose an account of your own with --account, or create one with `zoo account create`",
        )
    return key_file


def new_keystore(name: str) -> Path:
    """Where the keystore of a new account `name` goes. Raises ConfigError for a name that is a path."""
    if not name or name != Path(name).name or name.startswith("."):
        raise ConfigError(f"an account's name is a plain word, not {name!r}", hint="letters, digits, - and _")
    return keystores() / f"{name}.json"
