"""A web3 provider over all RPCs of a network file: it uses the first that answers, and switches when that one fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import requests
from eth_typing import URI
from web3 import HTTPProvider
from web3._utils.http_session_manager import HTTPSessionManager
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from zoo_compute.errors import ConfigError, Unreachable, WrongChain

CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 20.0
PASSES = 2  # over all RPCs; the second recovers from a kept-alive connection that the server closed
PAUSE_S = 0.2
LOOPBACK = ("127.0.0.1", "localhost", "::1")

T = TypeVar("T")


class _Sessions(HTTPSessionManager):
    """Of an RPC on this machine: neither proxies nor netrc, which take a fifth of the time of a request to look up."""

    def cache_and_return_session(
        self, endpoint_uri: URI, session: requests.Session | None = None, request_timeout: float | None = None
    ) -> requests.Session:
        session = super().cache_and_return_session(endpoint_uri, session, request_timeout)  # type: ignore[arg-type]
        session.trust_env = False
        return session


class _Rpc(HTTPProvider):
    def __init__(self, url: str, request_kwargs: dict[str, Any]) -> None:
        super().__init__(url, request_kwargs=request_kwargs, exception_retry_configuration=None)
        if urlsplit(url).hostname in LOOPBACK:
            self._request_session_manager = _Sessions()


class FailoverProvider(JSONBaseProvider):
    """Tries the RPCs in order and stays with the one that answered. Checks on first use that each serves `chain_id`.

    Every request is safe to repeat: reads have no effect, and a raw transaction has the same hash wherever it is sent.
    """

    def __init__(self, rpcs: Sequence[str], chain_id: int, api_key: str | None = None) -> None:
        super().__init__()
        self.rpcs = tuple(rpcs)
        self.chain_id = chain_id
        self._headers = authorization(api_key, self.rpcs)
        self._connect()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        return self._ask(lambda rpc: rpc.make_request(method, params))

    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        return self._ask(lambda rpc: rpc.make_batch_request(requests))

    def _connect(self) -> None:
        # A forked child must not share sockets: it would read the parent's answers.
        self._process = os.getpid()
        self._current = 0
        self._checked: set[str] = set()
        options = {"timeout": (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)}
        headers = {"headers": {**HTTPProvider.get_request_headers(), **self._headers}} if self._headers else {}
        self._providers = [_Rpc(url, {**options, **headers}) for url in self.rpcs]

    def _ask(self, question: Callable[[HTTPProvider], T]) -> T:
        if self._process != os.getpid():
            self._connect()
        failures: dict[str, str] = {}
        for attempt in range(PASSES):
            if attempt:
                time.sleep(PAUSE_S)
            for offset in range(len(self._providers)):
                index = (self._current + offset) % len(self._providers)
                try:
                    self._check(index)
                    answer = question(self._providers[index])
                except (requests.RequestException, OSError, ValueError) as error:
                    if refused := _answer_in(error):
                        return refused  # type: ignore[return-value]
                    failures[self.rpcs[index]] = _cause(error)
                    continue
                self._current = index
                return answer
        causes = "; ".join(f"{redacted(url)}: {cause}" for url, cause in failures.items())
        raise Unreachable(f"no RPC of the network answers ({causes})")

    def _check(self, index: int) -> None:
        url = self.rpcs[index]
        if url in self._checked:
            return
        answer = self._providers[index].make_request(RPCEndpoint("eth_chainId"), [])
        if "result" not in answer:
            raise ValueError(f"eth_chainId failed: {answer.get('error')}")
        chain_id = int(answer["result"], 16)
        if chain_id != self.chain_id:
            raise WrongChain(f"{redacted(url)} serves chain {chain_id}; the network file says {self.chain_id}")
        self._checked.add(url)


def authorization(api_key: str | None, urls: Sequence[str]) -> dict[str, str]:
    """The header for a hosted endpoint. A key is never sent in clear text to another machine."""
    if api_key is None:
        return {}
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ConfigError(
            "the API key is empty or has characters that are not allowed in a header", hint="copy it again"
        )
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            raise ConfigError(
                f"the API key would be sent in clear text to {redacted(url)}",
                hint="use an https URL in the network file, or connect without an API key",
            )
    return {"Authorization": f"Bearer {api_key}"}


def redacted(url: str) -> str:
    """Scheme, host and port only: the path of a hosted RPC may contain a key, and messages end up in logs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _answer_in(error: Exception) -> RPCResponse | None:
    """Some hosted RPCs send a JSON-RPC error (such as too many events) with an HTTP error status."""
    if not isinstance(error, requests.HTTPError) or error.response.status_code not in (400, 413, 422):
        return None
    try:
        body = error.response.json()
    except ValueError:
        return None
    return cast(RPCResponse, body) if isinstance(body, dict) and isinstance(body.get("error"), dict) else None


def _cause(error: Exception) -> str:
    """A short cause without the URL, which may contain a key."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"HTTP {status}" + (" (is the API key right?)" if status in (401, 403) else "")
    if isinstance(error, requests.Timeout):
        return f"no answer in {READ_TIMEOUT_S:g} s"
    if isinstance(error, (requests.ConnectionError, OSError)):
        return "connection failed"
    return str(error) if str(error).startswith("eth_chainId") else f"not a JSON-RPC answer ({type(error).__name__})"
