"""HTTP to one RPC that is not trusted: a request has a deadline as a whole, and an answer a size, also once it is unpacked."""

from __future__ import annotations

import time
import zlib
from http.cookiejar import DefaultCookiePolicy
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from eth_typing import URI
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, ReadTimeoutError
from web3 import HTTPProvider
from web3._utils.http_session_manager import HTTPSessionManager

from zoo_compute.chain.signer_places import LOOPBACK
from zoo_compute.timed_sockets import TimedSocket

CONNECT_TIMEOUT_S = 3.0
ANSWER_S = 20.0  # for the whole of a request, from its first byte to the answer's last
IDLE_CONNECTIONS = 8  # that are kept; more are open only while more threads ask
MAX_ANSWER_BYTES = 64 * 2**20  # of JSON
PIECE_BYTES = 2**16
_GZIP = 16 + zlib.MAX_WBITS


class BadAnswer(ValueError):
    """What an RPC sent is not an answer."""


class TooOften(Exception):
    """The RPC limits the rate. wait_s: what it asks for, 0 if it does not say."""

    def __init__(self, wait_s: float = 0.0) -> None:
        super().__init__("it limits the rate of requests")
        self.wait_s = wait_s


class Rpc(HTTPProvider):
    """One RPC. Raises requests' exceptions, OSError, TooOften, BadAnswer and what json raises."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        options = {
            "timeout": (CONNECT_TIMEOUT_S, ANSWER_S),
            "headers": {**HTTPProvider.get_request_headers(), "Accept-Encoding": "gzip", **headers},
        }
        super().__init__(url, request_kwargs=options, exception_retry_configuration=None)
        self._request_session_manager = _OneSession(url)


class _OneSession(HTTPSessionManager):
    """One for all threads, each with a connection of its own while it asks. web3 keeps a session, and its connection, for each of the
    last hundred threads, and a keeper's come and go.
    """

    def __init__(self, url: str) -> None:
        session = requests.Session()
        session.mount("http://", _Adapter(pool_connections=1, pool_maxsize=IDLE_CONNECTIONS))
        session.mount("https://", _Adapter(pool_connections=1, pool_maxsize=IDLE_CONNECTIONS))
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))  # it could send another one each time
        # Of an RPC on this machine: neither proxies nor netrc, which take a fifth of the time of a request to look up.
        session.trust_env = urlsplit(url).hostname not in LOOPBACK
        super().__init__(explicit_session=session)

    def make_post_request(self, endpoint_uri: URI, data: bytes | dict[str, Any], **kwargs: Any) -> bytes:
        with self.get_response_from_post_request(endpoint_uri, data=data, stream=True, **kwargs) as response:
            body = _body_of(response)
            response._content = body  # so that the caller of a refusal reads what came with it
            if response.status_code == 429:
                asked = response.headers.get("Retry-After", "")
                raise TooOften(float(asked) if asked.isdecimal() else 0.0)
            response.raise_for_status()
            return body


def _body_of(response: requests.Response) -> bytes:
    """The answer, unpacked. Raises BadAnswer for one that is too large, packed or not, before it is in memory."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise BadAnswer(f"its answer is packed with {encoding[:20]!r}")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body, room = bytearray(), MAX_ANSWER_BYTES
    while piece := _read(response):
        while piece:
            try:
                body += unpack.decompress(piece, room + 1) if unpack else piece
            except zlib.error:
                raise BadAnswer("its answer is not gzip") from None
            room = MAX_ANSWER_BYTES - len(body)
            if room < 0:
                raise BadAnswer(f"its answer is larger than {MAX_ANSWER_BYTES:,} bytes")
            piece = unpack.unconsumed_tail if unpack else b""
    return bytes(body)


def _read(response: requests.Response) -> bytes:
    try:
        return bytes(response.raw.read(PIECE_BYTES, decode_content=False))
    except ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from None
    except HTTPError as error:  # urllib3's
        raise BadAnswer("its answer ended early") from error


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


class _Timed:
    """A connection whose every request ends in time, however slowly the bytes come."""

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._ends_at = time.monotonic() + ANSWER_S
        if isinstance(sock := cast(Any, self).sock, TimedSocket):
            sock.deadline = self._ends_at
        super().request(*args, **kwargs)  # type: ignore[misc]

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        connection = cast(Any, self)
        connection.sock = TimedSocket(connection.sock)
        connection.sock.deadline = getattr(self, "_ends_at", time.monotonic() + ANSWER_S)


class _Connection(_Timed, HTTPConnection):
    pass


class _TlsConnection(_Timed, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection
