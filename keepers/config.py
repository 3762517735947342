"""An operator's settings: `operator.json` in its folder. It has no keys, only their paths."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from eth_utils.address import to_checksum_address

from keepers.config_keys import KEYS
from node.hardware import TIME_MARGIN
from repops import fields
from zoo_compute.amounts import ZEN, Token, parse_amount
from zoo_compute.atomic import make_private, write_atomically
from zoo_compute.chain.addresses import is_address
from zoo_compute.chain.signer_places import check_place
from zoo_compute.config_keys import DRAFT, check_values, section_schema
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.gpus import PERIODS
from zoo_compute.operators.profit import COIN_PRICE
from zoo_compute.paths import CONFIG, HOT_KEY, PASSPHRASE
from zoo_compute.spec.retention import KEEP_DAYS
from zoo_compute.store.addresses import is_loopback

log = logging.getLogger("zoo.daemon")

EMBEDDED = "embedded"  # broker: the daemon runs a Redis of its own
REQUIRED = "required"  # of a TLS server: a certificate that a known authority signed
BROKER_URLS = ("redis://", "rediss://")
FILE = CONFIG
PRICE_KEYS = ("price", "aggregator_price", "custody_price")  # by kind of lot; and of custody
CUSTODY = 2


@dataclass(frozen=True)
class Settings:
    """The keys of operator.json, as `keepers.config_keys` says. Paths are relative to the folder, prices are whole tokens as decimal text.

    `price`, `aggregator_price` and `custody_price` are in ZEN; `prices` has those in other tokens.
    """

    name: str
    network: str
    operator: int = 0
    keystore: str = HOT_KEY
    passphrase_file: str = PASSPHRASE
    signer: str = ""
    store: str = "store"
    gateway_host: str = "127.0.0.1"
    gateway_port: int = 0
    endpoint: str = ""
    broker: str = EMBEDDED
    lease_s: float = 15
    broker_max_mb: float = 0
    roles: list[str] = field(default_factory=lambda: ["provider"])
    price: str = "1"
    aggregator_price: str = "1"
    custody_price: str = "0.01"
    prices: dict[str, Any] = field(default_factory=dict)
    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    price_script: str = ""
    power_watts: float = 0.0
    power_price: str = "0"
    capacity: int = 4
    aggregator_capacity: int = 1
    branch_networks: list[str] = field(default_factory=list)
    keep_days: float = KEEP_DAYS
    free_space_gb: float = 5
    store_max_gb: float = 0
    longest_job_days: int = 30
    standby: bool = True
    workers: int = 1
    dispute_workers: int = 2
    spares: int = 1
    threads: int = 0
    device: str = ""
    memory_gb: float = 0
    time_margin: float = TIME_MARGIN
    state_folder: str = ""
    availability_hours: list[int] = field(default_factory=list)
    sample_rate: float = 0.25
    poll_s: float = 1.0
    # A store that is restarted is back in seconds, and a demand too early costs its deposit: 30 s spare both. In short windows
    # less is waited, so that there is time left to demand in (keepers/decisions/demands.py).
    demand_after_s: float = 30
    private_peers: bool = False
    metrics_port: int = 0
    hung_after_s: float = 600
    log_format: str = "text"
    task_events: bool = False
    log_max_mb: float = 20.0
    log_files: int = 5
    coin_price: str = COIN_PRICE
    max_fee_gwei: float = 500
    max_urgent_fee_gwei: float = 2_000
    max_priority_fee_gwei: float = 50
    deposits_per_job: str = "0.05"

    def __post_init__(self) -> None:
        _check(self)


SCHEMA = {"$schema": DRAFT, "title": "An operator of Zoo Compute", **section_schema(Settings, KEYS)}


@dataclass(frozen=True, kw_only=True)
class OperatorConfig(Settings):
    """One operator's settings, and their folder."""

    folder: Path

    @property
    def store_location(self) -> str:
        """The location `zoo_compute.store.open_store` takes."""
        return self.store if self.store.startswith("kubo:") else str(self.path(self.store))

    @property
    def memory_bytes(self) -> int:
        """What each worker counts on; 0: on all memory."""
        return int(self.memory_gb * 10**9)

    @property
    def network_path(self) -> Path:
        return self.path(self.network)

    @property
    def branch_network_paths(self) -> list[Path]:
        return [self.path(each) for each in self.branch_networks]

    def path(self, relative: str) -> Path:
        """A path of the configuration, made absolute."""
        return (self.folder / relative).resolve()

    def log_path(self, process: str) -> Path:
        """Where a process of this name logs."""
        return self.folder / "logs" / f"{process}.log"

    @property
    def allowed(self) -> frozenset[str]:
        """The submitters of `allow`, checksummed."""
        return frozenset(map(to_checksum_address, self.allow))

    @property
    def denied(self) -> frozenset[str]:
        """The submitters of `deny`, checksummed."""
        return frozenset(map(to_checksum_address, self.deny))

    @property
    def priced_tokens(self) -> tuple[str, ...]:
        """The tokens other than ZEN that have a price, checksummed."""
        return tuple(to_checksum_address(address) for address in self.prices)

    def price_in(self, token: Token, kind: int) -> int | None:
        """What the operator asks, in the token's smallest unit: kind 0 per slot-round, kind 1 per aggregation, CUSTODY per GiB
        and round of custody. None: it never bids for that in this token. Raises ConfigError for a price with more decimals than the token has.
        """
        key = PRICE_KEYS[kind]
        asked: Mapping[str, str] = {k: getattr(self, k) for k in PRICE_KEYS}
        if token.symbol != ZEN.symbol:
            asked = next((v for k, v in self.prices.items() if k.lower() == token.address.lower()), {})
        text = asked.get(key)
        try:
            if text is None or (text.startswith("$") and not token.rate):  # no rate, no bid
                return None
            return token.parse(text, what=f"{FILE}: {key} in {token.symbol}")
        except UserError as error:
            raise ConfigError(str(error), hint="change it with `zoo node configure --token`") from error


def load(folder: Path) -> OperatorConfig:
    """Read `operator.json` in `folder`. Raises ConfigError with what is wrong and the nearest right key."""
    raw = read_unchecked(folder)
    if raw is None:
        raise ConfigError(
            f"no {FILE} in {folder}",
            hint="run `zoo node register` first (a verifier: `zoo node configure`), or pass --home",
        )
    if make_private(folder / FILE):  # it may have the broker's password
        log.warning("%s: other users could read it; it is 0600 now. Change a broker's password in it", folder / FILE)
    return from_dict(raw, folder)


def read_unchecked(folder: Path) -> dict[str, Any] | None:
    """What `operator.json` in `folder` holds, unchecked; None where there is none. Raises ConfigError."""
    path = folder / FILE
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint="repair it, or move it away") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: an object was expected")
    return raw


def save(config: OperatorConfig) -> Path:
    """Write the configuration into its folder, atomically."""
    config.folder.mkdir(parents=True, exist_ok=True)
    values = {key: value for key, value in dataclasses.asdict(config).items() if key != "folder"}
    path = config.folder / FILE
    write_atomically(path, (json.dumps(values, indent=2) + "\n").encode(), mode=0o600)
    return path


def from_dict(raw: dict[str, Any], folder: Path) -> OperatorConfig:
    """Validate a mapping. Raises ConfigError."""
    try:
        settings = fields.read(Settings, raw, FILE)
    except fields.BadField as error:
        raise ConfigError(str(error)) from error
    return OperatorConfig(folder=folder.resolve(), **dataclasses.asdict(settings))


def _check(settings: Settings) -> None:
    check_values(FILE, settings, KEYS)
    for key in PRICE_KEYS:
        _check_price(f"{FILE}.{key}", getattr(settings, key))
    _check_price(f"{FILE}.coin_price", settings.coin_price)
    for address, asked in settings.prices.items():
        where = f"{FILE}.prices[{address!r}]"
        if not is_address(address):
            raise fields.BadField(f"{where}: expected a token's address (the price in ZEN is {FILE}.price)")
        if not isinstance(asked, dict) or not asked:
            raise fields.BadField(f'{where}: expected {{"price": "0.8", "aggregator_price": "0.1"}}, or one of them')
        fields.check_keys(asked, PRICE_KEYS, (), where)
        for key, text in asked.items():
            _check_price(f"{where}.{key}", text.removeprefix("$") if isinstance(text, str) else text)
    if not _is_price(settings.deposits_per_job) and settings.deposits_per_job != "0":
        expected = "expected a decimal such as '0.05', or '0' to demand nothing"
        raise fields.BadField(f"{FILE}.deposits_per_job: {expected}, got {settings.deposits_per_job!r}")
    for key in ("allow", "deny"):
        for address in getattr(settings, key):
            if not is_address(address):
                raise fields.BadField(f"{FILE}.{key}: expected submitters' addresses, got {address!r}")
    if not _is_price(settings.power_price) and settings.power_price != "0":
        raise fields.BadField(
            f"{FILE}.power_price: expected ZEN per kWh such as '0.2', or '0', got {settings.power_price!r}"
        )
    for hour in settings.availability_hours:
        if isinstance(hour, bool) or not isinstance(hour, int) or not 0 <= hour < PERIODS:
            raise fields.BadField(f"{FILE}.availability_hours: expected periods 0 to {PERIODS - 1}, got {hour!r}")
    if settings.broker != EMBEDDED and not settings.broker.startswith(BROKER_URLS):
        expected = f"expected {EMBEDDED!r}, or a URL that begins with {' or '.join(BROKER_URLS)}"
        raise fields.BadField(f"{FILE}.broker: {expected}, got {settings.broker!r}")
    _check_broker(settings.broker)
    if settings.signer:
        try:
            check_place(settings.signer)
        except ConfigError as error:
            raise fields.BadField(f"{FILE}.{error}" + (f"; {error.hint}" if error.hint else "")) from None
    if "custodian" in settings.roles and settings.store.startswith("kubo:"):
        raise fields.BadField(
            f"{FILE}: a custodian publishes its signatures beside its own store; set store to a folder"
        )
    if settings.operator == 0 and set(settings.roles) != {"verifier"}:
        raise fields.BadField(f"{FILE}.operator is 0: register first (`zoo node register`) and write its number here")


def _check_broker(broker: str) -> None:
    """What leaves this machine is encrypted, and the other side proves who it is."""
    if broker == EMBEDDED:
        return
    try:
        parts = urlsplit(broker)
        is_here = is_loopback(parts.hostname or "")
        wanted = parse_qs(parts.query).get("ssl_cert_reqs", [REQUIRED])
    except ValueError as error:
        raise fields.BadField(f"{FILE}.broker: not a URL: {error}") from None
    if is_here:
        return
    if parts.scheme == "redis":
        raise fields.BadField(
            f"{FILE}.broker: redis:// sends the password and all work in clear text to {parts.hostname}; use rediss://, or an SSH "
            "tunnel or WireGuard that ends on 127.0.0.1"
        )
    if wanted != [REQUIRED]:
        raise fields.BadField(f"{FILE}.broker: ssl_cert_reqs={wanted[0]} accepts any server; expected {REQUIRED}")
    if not parts.password:
        raise fields.BadField(
            f"{FILE}.broker: {parts.hostname} must ask for a password: rediss://USER:PASSWORD@HOST:6379/0"
        )


def _check_price(where: str, text: object) -> None:
    if not isinstance(text, str) or not _is_price(text):
        raise fields.BadField(f"{where}: expected a positive decimal such as '0.9', got {text!r}")


def _is_price(text: str) -> bool:
    try:
        return parse_amount(text) > 0
    except UserError:
        return False
