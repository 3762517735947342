"""One HTTP request to a seat that nobody trusts: it ends in time, its answer has a size, and it goes where the seat's URL says, nowhere else."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from repops.fields import MAX_DEPTH
from zoo_compute.store.addresses import Scope, resolve
from zoo_compute.timed_sockets import TimedSocket

MAX_REFUSAL_BYTES = 64 * 1024
MAX_RETRY_S = 60.0  # that a seat's Retry-After is believed
_DONE = b"[DONE]"
_NO_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\[\]{}]')  # a text is no nesting


class Lost(Exception):
    """No answer: not connected, silent for too long, or cut off."""


class Garbage(Exception):
    """An answer, and none that the wire format has."""


class Refused(Exception):
    """The seat refuses. owed: what it says that the channel owes, None if it says nothing; retry_s: when to come again."""

    def __init__(self, status: int, message: str, owed: int | None = None, retry_s: float = 0.0) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status, self.message, self.owed, self.retry_s = status, message, owed, retry_s


@dataclass(frozen=True)
class Post:
    """path: below the seat's URL, such as /v1/completions."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]


@contextmanager
def connected(url: str, scope: Scope, *, deadline: float) -> Iterator[Connection]:
    """A connection to exactly the address that was checked. deadline: of all that follows, in time.monotonic seconds. Raises Lost."""
    try:
        parts = urlsplit(url)
        host, tls = parts.hostname or "", parts.scheme == "https"
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError(f"{url!r} is no http or https URL")
        port = parts.port or (443 if tls else 80)
        left = max(0.01, deadline - time.monotonic())
        sock = socket.create_connection((resolve(host, port, scope), port), timeout=left)
    except (OSError, ValueError) as error:
        raise Lost(f"cannot connect: {error}") from None
    try:
        if tls:
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        connection = http.client.HTTPConnection(host, port)
        timed = TimedSocket(sock)
        timed.deadline = deadline
        connection.sock = cast(socket.socket, timed)
        yield Connection(connection, parts.path.rstrip("/"))
    except (OSError, http.client.HTTPException) as error:
        raise Lost(str(error) or type(error).__name__) from None
    finally:
        sock.close()


class Connection:
    """Made by `connected`. One request."""

    def __init__(self, connection: http.client.HTTPConnection, path: str) -> None:
        self._connection, self._path = connection, path

    def send(self, post: Post, max_bytes: int) -> Response:
        """Raises Refused where the status is not 200, Garbage. The context raises Lost."""
        body = json.dumps(post.body).encode()
        headers = {"Content-Type": "application/json", "Connection": "close", **post.headers}
        self._connection.request("POST", self._path + post.path, body, headers)
        response = self._connection.getresponse()
        if response.status != 200:
            raise _refusal(response)
        return Response(response, max_bytes)


class Response:
    """Of status 200. Its methods raise Garbage; the context raises Lost."""

    def __init__(self, response: http.client.HTTPResponse, max_bytes: int) -> None:
        self._response, self._left = response, max_bytes

    def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        data = self._read(self._response.read)
        if self._response.length:
            raise http.client.IncompleteRead(data)
        return _object(data)

    def events(self) -> Iterator[dict[str, Any]]:
        """The objects of server-sent events, up to [DONE]. A stream that ends without it is lost."""
        while line := self._read(self._response.readline):
            if not line.endswith(b"\n"):
                break
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == _DONE:
                return
            yield _object(data)
        raise http.client.IncompleteRead(b"")

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        data = read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise Garbage("it is larger than any answer to this question")
        return data


def _object(data: bytes) -> dict[str, Any]:
    depth = 0
    for bracket in _NO_BRACKETS.sub(b"", data):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:  # the decoder of JSON may overflow its stack
            raise Garbage("it nests too deep")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise Garbage("it is not JSON") from None
    if not isinstance(value, dict):
        raise Garbage("it is no JSON object")
    return value


def _refusal(response: http.client.HTTPResponse) -> Refused:
    """What a seat says, as far as it says it in the wire format."""
    try:
        said = _object(response.read(MAX_REFUSAL_BYTES))
    except Garbage:
        said = {}
    error, zoo = said.get("error"), said.get("zoo")
    message = str(error.get("message", ""))[:500] if isinstance(error, dict) else ""
    owed = zoo.get("owed") if isinstance(zoo, dict) else None
    asked = response.headers.get("Retry-After", "")
    retry_s = min(MAX_RETRY_S, float(asked)) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0.0
    return Refused(response.status, message or response.reason, amount_of(owed), retry_s)


def amount_of(text: object) -> int | None:
    """Smallest units, of decimal text; None for anything else."""
    is_amount = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 78
    return int(cast(str, text)) if is_amount else None
