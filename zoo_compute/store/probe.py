"""A peer's gateway tests for an operator whether its announced endpoint serves a block (docs/design/decisions/0022).

A gateway that fetched any URL for strangers would be a way into its own network. So it tries only endpoints that operators
registered on chain (its keeper lists them in ROOT/endpoints), only at public addresses, or at loopback ones where it listens
on loopback itself; takes one small block and no redirect; and answers with nothing but the verdict, a few times a minute.
"""

import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from zoo_compute.atomic import write_atomically
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed
from zoo_compute.timed_sockets import TimedSocket

ENDPOINTS = "endpoints"
MAX_BYTES = 1024  # of the block
PROBE_S = 5.0  # to connect and fetch
ENDPOINT_PAUSE_S = 2.0  # between two probes of one endpoint
PROBES_PER_MINUTE = 30  # probes of all endpoints
CONCURRENT_PROBES = 2
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class ProbeRefused(Exception):
    """Why the endpoint was not tested, and the HTTP status to answer with."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def save_endpoints(root: Path, endpoints: Iterable[str]) -> None:
    """The endpoints that operators announced on chain. The gateway tests no others."""
    content = json.dumps(sorted(set(endpoints))).encode()
    path = root / ENDPOINTS
    if not path.exists() or path.read_bytes() != content:
        write_atomically(path, content, mode=0o644)


class Prober:
    """Tests endpoints for other operators, within limits. local: whether loopback addresses are allowed (on a devnet)."""

    def __init__(self, root: Path, *, local: bool) -> None:
        self._path, self._local = root / ENDPOINTS, local
        self._busy = threading.BoundedSemaphore(CONCURRENT_PROBES)
        self._lock = threading.Lock()
        self._recent: deque[float] = deque(maxlen=PROBES_PER_MINUTE)
        self._last: dict[str, float] = {}

    def serves(self, endpoint: str, cid: Cid) -> bool:
        """Whether the small block `cid` can be fetched from the endpoint. Raises ProbeRefused."""
        if endpoint not in self._announced():
            raise ProbeRefused(403, "no operator announced this endpoint, as far as this gateway knows")
        self._admit(endpoint)
        if not self._busy.acquire(blocking=False):
            raise ProbeRefused(429, "other endpoints are being tested")
        try:
            return _can_fetch(endpoint, cid, local=self._local)
        finally:
            self._busy.release()

    def _announced(self) -> set[str]:
        try:
            return set(json.loads(self._path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return set()

    def _admit(self, endpoint: str) -> None:
        now = time.monotonic()
        with self._lock:
            full = len(self._recent) == PROBES_PER_MINUTE and now - self._recent[0] < 60
            if full or now - self._last.get(endpoint, -ENDPOINT_PAUSE_S) < ENDPOINT_PAUSE_S:
                raise ProbeRefused(429, "tested too often; wait a minute")
            self._recent.append(now)
            self._last[endpoint] = now
            for known in [url for url, at in self._last.items() if now - at > 60]:
                del self._last[known]


def _can_fetch(endpoint: str, cid: Cid, *, local: bool) -> bool:
    deadline = time.monotonic() + PROBE_S
    client = _Vetted(endpoint, local=local)
    headers = {"Accept": "application/vnd.ipld.raw", "Cache-Control": "only-if-cached"}
    try:
        status, body, _ = client.ask(
            HttpRequest("GET", f"/ipfs/{cid}?format=raw", headers), deadline=deadline, max_bytes=MAX_BYTES
        )
    except PeerFailed:
        return False
    finally:
        client.close()
    return status == 200 and cid.matches(body)


class _Vetted(GatewayClient):
    """Connects to exactly the address that was checked, so that a name cannot resolve to another one the second time."""

    def __init__(self, url: str, *, local: bool) -> None:
        super().__init__(url)
        self._local = local

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        host, tls = self._parts.hostname or "", self._parts.scheme == "https"
        port = self._parts.port or (443 if tls else 80)
        records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in records]
        if not addresses or not all(_may_try(address, local=self._local) for address in addresses):
            raise OSError("not a public address")
        left = max(0.01, deadline - time.monotonic())
        sock = socket.create_connection((addresses[0], port), timeout=left)
        if tls:
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        connection = http.client.HTTPConnection(host, port, timeout=left)
        connection.sock = cast(socket.socket, TimedSocket(sock))
        return connection


def _may_try(address: str, *, local: bool) -> bool:
    ip: IpAddress = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip.sixtofour or ip.teredo or ip in _NAT64:  # an embedded IPv4 address
            return False
    if ip.is_loopback:
        return local
    return ip.is_global and not ip.is_multicast


def is_loopback(host: str) -> bool:
    """Whether a gateway on `host` serves only this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
