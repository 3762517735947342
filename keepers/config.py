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

from repops import fields
from zoo_compute.amounts import ZEN, Token, parse_amount
from zoo_compute.atomic import make_private, write_atomically
from zoo_compute.chain.addresses import is_address
from zoo_compute.chain.signer_places import check_place
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.gpus import PERIODS
from zoo_compute.operators.profit import COIN_PRICE
from zoo_compute.paths import CONFIG, HOT_KEY, PASSPHRASE
from zoo_compute.spec.retention import KEEP_DAYS
from zoo_compute.store.addresses import is_loopback

log = logging.getLogger("zoo.daemon")

MAX_SLOTS = 512  # of a seat: their results must fit a bundle of one block
EMBEDDED = "embedded"  # broker: the daemon runs a Redis of its own
REQUIRED = "required"  # of a TLS server: a certificate that a known authority signed
BROKER_URLS = ("redis://", "rediss://")
ROLES = ("provider", "aggregator", "verifier", "custodian")
FILE = CONFIG
LOG_FORMATS = ("text", "json")
PRICE_KEYS = ("price", "aggregator_price", "custody_price")  # by kind of lot; and of custody
CUSTODY = 2


@dataclass(frozen=True)
class Settings:
    """The keys of operator.json. Paths are relative to the folder, prices are whole tokens as decimal strings.

    `price`, `aggregator_price` and `custody_price` are in ZEN; `prices` has those in other tokens.
    """

    name: str
    network: str  # the network file
    operator: int = 0  # its number in NodeRegistry; 0 for a verifier that is not registered
    keystore: str = HOT_KEY
    passphrase_file: str = PASSPHRASE
    signer: str = ""  # instead of that key file: where web3signer or clef answers, which has the hot key
    store: str = "store"  # a folder, or kubo:URL
    gateway_host: str = "127.0.0.1"
    gateway_port: int = 0
    endpoint: str = ""  # URL at which others reach the gateway, announced on chain; empty: nothing is announced
    broker: str = "embedded"
    lease_s: float = 15  # of keepers that share a broker, how long the one that sends may be silent; less than twice that, and the next one sends
    broker_max_mb: float = 0  # of the embedded one; 0: a sixteenth of the memory, at most 1 GiB
    roles: list[str] = field(default_factory=lambda: ["provider"])
    price: str = "1"  # asked per slot-round; the least the operator accepts
    aggregator_price: str = "1"  # asked per aggregated round
    custody_price: str = "0.01"  # asked of a custodian's signatures, per GiB and round
    prices: dict[str, Any] = field(
        default_factory=dict
    )  # by token's address {price, aggregator_price, custody_price}; without one: no bid
    allow: list[str] = field(
        default_factory=list
    )  # submitters' addresses: jobs of others are left alone; empty: anybody's are served
    deny: list[str] = field(default_factory=list)  # submitters' addresses whose jobs are left alone
    price_script: str = ""  # a program that is asked for the price of each job; empty: the prices above
    power_watts: float = 0.0  # of a worker that computes; 0: measured, where the GPU's driver says it
    power_price: str = "0"  # in ZEN per kWh
    capacity: int = 4  # slots of one job it can hold at once
    keep_days: float = KEEP_DAYS  # for which files of a job stay after it is closed; 0: for good
    free_space_gb: float = 5  # of the disk; with less, no new work is taken
    store_max_gb: float = 0  # of the store, beyond which no new work is taken; 0: no limit
    longest_job_days: int = 30  # jobs that could bind collateral for longer are left alone
    standby: bool = True
    workers: int = 1  # worker processes on this machine
    dispute_workers: int = 2  # processes for disputes; one job's never take the last one
    spares: int = 1  # processes with a worker's imports behind them, to replace a worker that died
    threads: int = 0  # of each worker; 0: as many as torch takes. Bits do not depend on it
    device: str = ""  # of the workers, such as cuda:1; empty takes the best there is
    availability_hours: list[int] = field(default_factory=list)  # periods of an epoch in which a heartbeat is sent
    sample_rate: float = 0.25  # share of slot-rounds a verifier re-executes
    poll_s: float = 1.0
    # A store that is restarted is back in seconds, and a demand too early costs its deposit: 30 s spare both. In short windows
    # less is waited, so that there is time left to demand in (keepers/decisions/demands.py).
    demand_after_s: float = 30
    private_peers: bool = (
        False  # peers in private networks and on this machine are asked too; on a devnet they always are
    )
    metrics_port: int = 0  # where the daemon serves /metrics and /health on loopback; 0: nowhere
    hung_after_s: float = 600  # without progress, after which a keeper is ended and started again; 0: never
    log_format: str = "text"  # or json: an object a line
    task_events: bool = False  # workers tell the broker what they do, for Flower
    log_max_mb: float = 20.0  # of each process's log, which is then rotated
    log_files: int = 5  # rotated logs of each process that are kept
    coin_price: str = COIN_PRICE  # in ZEN, of the chain's coin: what pays is done where it brings more than its gas
    max_fee_gwei: float = 500  # per gas, for what can wait: withdrawals, heartbeats, announcements
    max_urgent_fee_gwei: float = 2_000  # per gas, for what has a deadline
    max_priority_fee_gwei: float = 50  # per gas: of the tip, which an RPC proposes and a lying one could make dear
    deposits_per_job: str = "0.05"  # most of the chain's coin that demands of one job may cost: about eight at 10 gwei

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, kw_only=True)
class OperatorConfig(Settings):
    """One operator's settings, and their folder."""

    folder: Path

    @property
    def store_location(self) -> str:
        """The location `zoo_compute.store.open_store` takes."""
        return self.store if self.store.startswith("kubo:") else str(self.path(self.store))

    @property
    def network_path(self) -> Path:
        return self.path(self.network)

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
            return None if text is None else token.parse(text, what=f"{FILE}: {key} in {token.symbol}")
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
    for role in settings.roles:
        if role not in ROLES:
            raise fields.BadField(f"{FILE}: unknown role {role!r}; {fields.nearest(role, ROLES)}")
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
            _check_price(f"{where}.{key}", text)
    for key, low, high in _BOUNDS:
        fields.between(f"{FILE}.{key}", getattr(settings, key), low, high)
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
    if settings.log_format not in LOG_FORMATS:
        raise fields.BadField(f"{FILE}.log_format: {fields.nearest(settings.log_format, LOG_FORMATS)}")
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


_BOUNDS = (
    ("operator", 0, 2**63),
    ("gateway_port", 0, 65535),
    ("power_watts", 0, 1e6),
    ("capacity", 1, MAX_SLOTS),
    ("longest_job_days", 1, 3650),
    ("keep_days", 0, 36_500),
    ("free_space_gb", 0, 1_000_000),
    ("store_max_gb", 0, 1_000_000),
    ("workers", 1, 256),
    ("dispute_workers", 1, 64),
    ("spares", 0, 16),
    ("threads", 0, 1024),
    ("poll_s", 0.1, 3600),
    ("sample_rate", 0, 1),
    ("demand_after_s", 0, 86_400),
    ("metrics_port", 0, 65535),
    ("hung_after_s", 0, 86_400),
    ("lease_s", 1, 300),
    ("broker_max_mb", 0, 1_000_000),
    ("log_max_mb", 0.01, 100_000),
    ("log_files", 0, 1_000),
    ("max_fee_gwei", 1e-9, 1e6),
    ("max_urgent_fee_gwei", 1e-9, 1e6),
    ("max_priority_fee_gwei", 0, 1e6),
)


def _check_price(where: str, text: object) -> None:
    if not isinstance(text, str) or not _is_price(text):
        raise fields.BadField(f"{where}: expected a positive decimal such as '0.9', got {text!r}")


def _is_price(text: str) -> bool:
    try:
        return parse_amount(text) > 0
    except UserError:
        return False
