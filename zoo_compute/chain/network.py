"""The network file describes one deployment of the protocol. It is a JSON file, and all that a client needs to connect.

{"version": 1, "name": "devnet", "preset": "devnet", "chain_id": 31337, "first_block": 1,
 "rpcs": ["http://127.0.0.1:8545"], "storage": ["http://127.0.0.1:8600"], "signer": null,
 "contracts":   {"zen": "0x...", "timelock": "0x...", ...},     addresses, one for each name of CONTRACTS
 "code_hashes": {"zen": "0x...", "timelock": "0x...", ...}}     keccak-256 of the code at these addresses
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from eth_utils.address import is_address, is_checksum_address, is_checksum_formatted_address, to_checksum_address

from zoo_compute.atomic import write_atomically as write_atomically
from zoo_compute.errors import ConfigError

if TYPE_CHECKING:
    from zoo_compute.spec.params import Preset

VERSION = 1

# Name in files and attribute of `Chain` -> contract, in order of deployment.
CONTRACTS = {
    "zen": "ZenToken",
    "timelock": "Timelock",
    "guardian": "Guardian",
    "treasury": "Treasury",
    "audit_pool": "AuditPool",
    "credits": "Credits",
    "registry": "NodeRegistry",
    "tasks": "TaskRegistry",
    "rewards": "Rewards",
    "datasets": "Datasets",
    "channels": "Channels",
    "auction": "Auction",
    "locks": "Locks",
    "settlement": "Settlement",
    "audits": "Audits",
    "availability": "Availability",
    "custody": "Custody",
    "admissions": "Admissions",
    "serving": "Serving",
    "executor": "OpExecutor",
    "consistency": "ConsistencyProofs",
    "evidence": "Evidence",
    "descent": "Descent",
    "referee": "Referee",
}


@dataclass(frozen=True)
class Network:
    """One deployment. Use `load` or `deployment.describe` to construct it; `parse` checks the values."""

    name: str
    preset: str
    chain_id: int
    rpcs: Sequence[str]
    contracts: Mapping[str, str]
    code_hashes: Mapping[str, str]
    first_block: int = 0
    storage: Sequence[str] = field(default_factory=tuple)
    signer: str | None = None

    @property
    def params(self) -> Preset:
        """The windows and amounts of this deployment."""
        from zoo_compute.spec.params import PRESETS

        return PRESETS[self.preset]

    def is_same(self, other: Network) -> bool:
        """Whether both files describe one deployment. Development chains have equal ids and addresses; presets tell them apart."""
        return (self.chain_id, self.preset, self.contracts["registry"]) == (
            other.chain_id, other.preset, other.contracts["registry"],
        )  # fmt: skip

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old file or the new one."""
        text = json.dumps({"version": VERSION, **asdict(self)}, indent=2) + "\n"
        write_atomically(Path(path), text.encode(), mode=0o644)


def load(path: Path) -> Network:
    """Read a network file. Raises ConfigError, which names the file, the fault and what to do."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such network file",
            hint="get it from whoever runs the network, or start a local network: `zoo devnet`",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", hint="pass the path of a network file (JSON)") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON: {error}", hint="download the file again; it may be incomplete") from None
    try:
        return parse(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", hint=error.hint) from None


def parse(document: Any) -> Network:
    """Check a document and return its Network. Unknown keys raise ConfigError, which suggests the nearest known key."""
    values = _table(document, "the network file", _REQUIRED, _OPTIONAL)
    if values.pop("version") != VERSION:
        raise ConfigError(f"version {document['version']!r}, expected {VERSION}", hint="upgrade zoo-compute")
    network = Network(
        name=_name(values["name"]),
        preset=_preset(values["preset"]),
        chain_id=_natural(values["chain_id"], "chain_id", least=1),
        rpcs=_urls(values["rpcs"], "rpcs", least=1),
        contracts=_contracts(values["contracts"]),
        code_hashes=_code_hashes(values["code_hashes"]),
        first_block=_natural(values.get("first_block", 0), "first_block", least=0),
        storage=_urls(values.get("storage", []), "storage", least=0),
        signer=None if values.get("signer") is None else _url(values["signer"], "signer"),
    )
    return network


_REQUIRED = {"version", "name", "preset", "chain_id", "rpcs", "contracts", "code_hashes"}
_OPTIONAL = {"first_block", "storage", "signer"}


def _table(value: Any, what: str, required: set[str], optional: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {_kind(value)}, expected an object of {', '.join(sorted(required))}")
    known = required | optional
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(
                f"unknown key {key!r} in {what}",
                hint=f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}",
            )
    missing = sorted(required - value.keys())
    if missing:
        raise ConfigError(
            f"{what} lacks {', '.join(missing)}", hint="get the complete file from whoever runs the network"
        )
    return dict(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        raise ConfigError(f"name is {value!r}, expected 1 to 64 letters, digits, '.', '_' or '-'")
    return value


def _preset(value: Any) -> str:
    from zoo_compute.spec.params import PRESETS

    if not isinstance(value, str) or value not in PRESETS:
        near = difflib.get_close_matches(str(value), PRESETS, n=1)
        raise ConfigError(
            f"preset is {value!r}, expected one of {', '.join(PRESETS)}",
            hint=f"did you mean {near[0]!r}?" if near else "",
        )
    return value


def _natural(value: Any, what: str, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{what} is {value!r}, expected an integer of at least {least}")
    return value


def _url(value: Any, what: str) -> str:
    if isinstance(value, str):
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") and parts.hostname:
            if parts.username or parts.password:
                raise ConfigError(
                    f"{what} contains a user name or password",
                    hint="pass it as the API key (api_key, ZOO_API_KEY), never in a shared file",
                )
            return value
    raise ConfigError(f"{what} is {value!r}, expected an http(s) URL")


def _urls(value: Any, what: str, *, least: int) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or len(value) < least:
        raise ConfigError(f"{what} is {value!r}, expected a list of at least {least} URLs")
    return tuple(_url(item, f"{what}[{index}]") for index, item in enumerate(value))


def _contracts(value: Any) -> dict[str, str]:
    table = _table(value, "contracts", set(CONTRACTS))
    for name, address in table.items():
        if not isinstance(address, str) or not is_address(address) or int(address, 16) == 0:
            raise ConfigError(f"contracts.{name} is {address!r}, expected an address (0x and 40 hex digits)")
        if is_checksum_formatted_address(address) and not is_checksum_address(address):
            raise ConfigError(f"contracts.{name}: the checksum of {address} is wrong", hint="check its digits")
    return {name: to_checksum_address(table[name]) for name in CONTRACTS}


def _code_hashes(value: Any) -> dict[str, str]:
    table = _table(value, "code_hashes", set(CONTRACTS))
    for name, digest in table.items():
        if not isinstance(digest, str) or not re.fullmatch(r"0x[0-9a-fA-F]{64}", digest):
            raise ConfigError(f"code_hashes.{name} is {digest!r}, expected 0x and 64 hex digits")
    return {name: str(table[name]).lower() for name in CONTRACTS}


def _kind(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), type(value).__name__)
