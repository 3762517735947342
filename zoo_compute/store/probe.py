"""A peer's gateway tests for an operator whether its announced endpoint serves a block (docs/design/decisions/0022).

A gateway that fetched any URL for strangers would be a way into its own network. So it tries only endpoints that operators
registered on chain (its keeper lists them in ROOT/endpoints), only at public addresses, or at loopback ones where it listens
on loopback itself; takes one small block and no redirect; and answers with nothing but the verdict, a few times a minute.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from zoo_compute.atomic import write_atomically
from zoo_compute.store.addresses import Scope
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed

ENDPOINTS = "endpoints"
MAX_BYTES = 1024  # of the block
PROBE_S = 5.0  # to connect and fetch
ENDPOINT_PAUSE_S = 2.0  # between two probes of one endpoint
PROBES_PER_MINUTE = 30  # probes of all endpoints
CONCURRENT_PROBES = 2


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
    client = GatewayClient(endpoint, Scope.LOOPBACK if local else Scope.PUBLIC)
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
