"""Fetches blocks from other stores over the trustless gateway protocol. Peers are not trusted: every block is hashed.

Source: https://specs.ipfs.tech/http-gateways/trustless-gateway/ (only single raw blocks are asked for).
"""

import http.client
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

from zoo_compute.store.addresses import AddressRefused, Scope, resolve
from zoo_compute.store.errors import ContentMissing, ContentTampered, StoreUnreachable
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.unixfs import MAX_BLOCK
from zoo_compute.timed_sockets import TimedSocket

PATIENCE_S = 10.0  # for one block from one peer while other peers remain
PAUSE_S = 1.0  # at most, before the next peer is asked beside a silent one
BESIDE = 64  # peers that are asked at once
GRACE_S = 0.5  # for the last answers: each knows its own deadline
REST_S = 30.0  # for how long a peer that failed is tried last
_IDLE_KEPT = 8  # connections kept open to one peer

_NOT_THERE = {404, 410, 412}
_MAX_DIGITS = 20  # of an operator's number

# The gateway's URL, the operator that it says it belongs to, and the bytes of a verified block.
Received = Callable[[str, int, int], None]


class PeerFailed(Exception):
    """Why one peer did not give one block."""


class PeerHasNoBlock(PeerFailed):
    """The peer does not have the block."""


class PeerSentWrongBytes(PeerFailed):
    """The peer sent bytes that do not match."""


Answer = tuple[bytes, int] | PeerFailed  # a block and the operator that its gateway names, or why there is none


class HttpRequest(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]


def parse_gateway(url: str) -> SplitResult:
    """The parts of a gateway's URL, lower case, without a slash at the end. Raises ValueError."""
    parts = urlsplit(url if isinstance(url, str) else "")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"not a gateway URL: {url!r}; expected something like 'http://127.0.0.1:8080'")
    _ = parts.port  # raises ValueError when out of range
    return parts._replace(netloc=parts.netloc.lower(), path=parts.path.rstrip("/"))


def is_gateway(url: str) -> bool:
    """Keep only valid gateway URLs: anyone can announce any text."""
    try:
        return bool(parse_gateway(url))
    except ValueError:
        return False


class GatewayClient:
    """Requests to one gateway, limited in size and time, over a few connections that stay open. Safe in threads and across fork.

    scope: where it may be.
    """

    def __init__(self, url: str, scope: Scope = Scope.ANY) -> None:
        self._parts = parse_gateway(url)
        self._scope = scope
        self.url = self._parts.geturl()
        self._idle: list[http.client.HTTPConnection] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def ask(self, request: HttpRequest, *, deadline: float, max_bytes: int) -> tuple[int, bytes, Mapping[str, Any]]:
        """Status, body and headers. Raises PeerFailed, PeerSentWrongBytes."""
        for connection in (self._take_idle(), None):
            fresh = connection is None
            try:
                return self._exchange(connection or self._connect(deadline), request, deadline, max_bytes)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if fresh or isinstance(error, TimeoutError):
                    raise PeerFailed(_reason(error)) from None
        raise AssertionError("unreachable")

    def block(self, cid: Cid, *, deadline: float, local_only: bool = False) -> bytes:
        """The block, verified. Raises PeerFailed, PeerHasNoBlock, PeerSentWrongBytes."""
        return self.block_of(cid, deadline=deadline, local_only=local_only)[0]

    def block_of(self, cid: Cid, *, deadline: float, local_only: bool = False) -> tuple[bytes, int]:
        """As `block`; and the operator that the gateway says it belongs to, 0 if it names none."""
        headers = {"Accept": "application/vnd.ipld.raw"} | ({"Cache-Control": "only-if-cached"} if local_only else {})
        request = HttpRequest("GET", f"/ipfs/{cid}?format=raw", headers)
        status, body, answered = self.ask(request, deadline=deadline, max_bytes=MAX_BLOCK)
        if status in _NOT_THERE:
            raise PeerHasNoBlock("does not have it")
        if status != 200:
            raise PeerFailed(f"answered HTTP {status}")
        if not cid.matches(body):
            raise PeerSentWrongBytes(f"answered {len(body)} bytes that do not hash to the CID")
        said = answered.get("X-Operator", "")
        return body, int(said) if said.isascii() and said.isdecimal() and len(said) <= _MAX_DIGITS else 0

    def close(self) -> None:
        while connection := self._take_idle():
            connection.close()

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("time is up")
        if self._scope is not Scope.ANY:
            return self._connect_in_scope(deadline)
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=left)
        connection.connect()
        connection.sock = cast(socket.socket, TimedSocket(connection.sock))
        return connection

    def _connect_in_scope(self, deadline: float) -> http.client.HTTPConnection:
        """Connects to exactly the address that was checked."""
        host, tls = self._parts.hostname or "", self._parts.scheme == "https"
        port = self._parts.port or (443 if tls else 80)
        address = resolve(host, port, self._scope)
        left = max(0.01, deadline - time.monotonic())
        sock = socket.create_connection((address, port), timeout=left)
        if tls:
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        connection = http.client.HTTPConnection(host, port, timeout=left)
        connection.sock = cast(socket.socket, TimedSocket(sock))
        return connection

    def _exchange(
        self, connection: http.client.HTTPConnection, request: HttpRequest, deadline: float, max_bytes: int
    ) -> tuple[int, bytes, Mapping[str, Any]]:
        done = False
        try:
            cast(TimedSocket, connection.sock).deadline = deadline
            connection.request(request.method, self._parts.path + request.path, headers=request.headers)
            response = connection.getresponse()
            body = response.read(max_bytes + 1)
            if len(body) > max_bytes:
                raise PeerSentWrongBytes(f"answered more than {max_bytes} bytes")
            done = response.isclosed() and connection.sock is not None
            return response.status, body, cast(Mapping[str, Any], response.headers)
        finally:
            if not done or not self._keep(connection):
                connection.close()

    def _take_idle(self) -> http.client.HTTPConnection | None:
        with self._lock:
            if self._owner != os.getpid():  # after a fork, never use the parent's connections
                self._idle, self._owner = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> bool:
        with self._lock:
            if len(self._idle) >= _IDLE_KEPT:
                return False
            self._idle.append(connection)
            return True


class Peers:
    """Tries gateways: first the one that sent the last block, last those that failed recently. One that is silent keeps nobody waiting.

    received: is called with each block that an operator's gateway sent, once it is verified.
    """

    def __init__(self, urls: Sequence[str] = (), received: Received | None = None, scope: Scope = Scope.ANY) -> None:
        self._received = received
        clients = (GatewayClient(url, scope) for url in urls)
        self._clients = list({client.url: client for client in clients}.values())
        self._rests_until: dict[str, float] = {}
        self._gave_last = ""

    def __len__(self) -> int:
        return len(self._clients)

    def fetch(self, cid: Cid, deadline: float) -> bytes:
        """The block, verified, before `deadline` (time.monotonic seconds).

        Raises ContentMissing, ContentTampered, StoreUnreachable.
        """
        if not self._clients:
            raise ContentMissing(f"{cid} is not in this store, which has no peers; add it, or set the store's peers")
        failures: dict[str, PeerFailed] = {}
        order = self._order()
        if order[0].url == self._gave_last or len(order) == 1:
            now = time.monotonic()
            limit = deadline if len(order) == 1 else min(now + PATIENCE_S, (now + deadline) / 2)
            block = self._take(order.pop(0), cid, limit, failures)
            if block is not None:
                return block
        block = self._race(order, cid, deadline, failures) if order else None
        if block is None:
            raise _no_peer_error(cid, failures)
        return block

    def _take(self, client: GatewayClient, cid: Cid, limit: float, failures: dict[str, PeerFailed]) -> bytes | None:
        """The block from one peer; None: why it did not come is in `failures`."""
        try:
            return self._taken(client, client.block_of(cid, deadline=limit))
        except PeerFailed as failure:
            self._note(client, failure, failures)
            return None

    def _race(
        self, order: list[GatewayClient], cid: Cid, deadline: float, failures: dict[str, PeerFailed]
    ) -> bytes | None:
        """The block from the first that sends it. A peer that is silent keeps nobody waiting: the next one is asked beside it.

        All are asked within half of the time, so that the last one has the other half. At most BESIDE are asked at once.
        """
        began = time.monotonic()
        pause = min(PAUSE_S, (deadline - began) / 2 / max(1, len(order) - 1))
        answers: queue.SimpleQueue[tuple[GatewayClient, Answer]] = queue.SimpleQueue()
        silent: dict[str, GatewayClient] = {}
        left = list(order)
        while left or silent:
            now = time.monotonic()
            if left and len(silent) < BESIDE:
                client = left.pop(0)
                silent[client.url] = client
                patience = PATIENCE_S if len(order) <= BESIDE else min(PATIENCE_S, BESIDE * pause)
                limit = min(deadline, now + patience) if left else deadline
                threading.Thread(target=_ask, args=(client, cid, limit, answers), daemon=True).start()
            try:
                client, answer = answers.get(timeout=pause if left else max(0.0, deadline - now) + GRACE_S)
            except queue.Empty:
                if left:
                    continue
                break
            del silent[client.url]
            if isinstance(answer, PeerFailed):
                self._note(client, answer, failures)
                continue
            for each in silent.values():
                self._rests_until[each.url] = time.monotonic() + REST_S
            return self._taken(client, answer)
        for each in silent.values():
            self._note(each, PeerFailed("did not answer in time"), failures)
        return None

    def _taken(self, client: GatewayClient, answer: tuple[bytes, int]) -> bytes:
        block, operator = answer
        self._rests_until[client.url] = 0.0
        self._gave_last = client.url
        if operator and self._received is not None:
            self._received(client.url, operator, len(block))
        return block

    def _note(self, client: GatewayClient, failure: PeerFailed, failures: dict[str, PeerFailed]) -> None:
        failures[client.url] = failure
        if not isinstance(failure, PeerHasNoBlock):
            self._rests_until[client.url] = time.monotonic() + REST_S

    def _order(self) -> list[GatewayClient]:
        now = time.monotonic()

        def rank(client: GatewayClient) -> tuple[float, bool]:
            return max(0.0, self._rests_until.get(client.url, 0.0) - now), client.url != self._gave_last

        return sorted(self._clients, key=rank)


def _ask(
    client: GatewayClient, cid: Cid, limit: float, answers: queue.SimpleQueue[tuple[GatewayClient, Answer]]
) -> None:
    try:
        answers.put((client, client.block_of(cid, deadline=limit)))
    except PeerFailed as failure:
        answers.put((client, failure))


def _no_peer_error(cid: Cid, failures: dict[str, PeerFailed]) -> Exception:
    causes = "; ".join(f"{url} {failure}" for url, failure in failures.items())
    if any(isinstance(failure, PeerSentWrongBytes) for failure in failures.values()):
        return ContentTampered(f"{cid} is not in this store, and peers sent wrong bytes: {causes}; remove those peers")
    if any(isinstance(failure, PeerHasNoBlock) for failure in failures.values()):
        return ContentMissing(
            f"{cid} is not in this store, and no peer sent it: {causes}; try later, or set other peers"
        )
    return StoreUnreachable(
        f"{cid} is not in this store, and no peer could be reached: {causes}; check the network and the peers' URLs"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, AddressRefused):
        return f"is not asked: it has {error}"
    if isinstance(error, OSError):
        return f"is unreachable ({error.strerror or error})"
    return f"broke the protocol ({type(error).__name__})"
