"""A web3 provider over all RPCs of a network file, of which none is trusted: it uses the first that answers in time and keeps up.

An RPC that fails, limits the rate or falls behind the others is left alone, and taken back once it has been well for a while.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import requests
from eth_utils.crypto import keccak
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from zoo_compute.chain import fees, rpc_http
from zoo_compute.chain.rpc_http import BadAnswer, Rpc, TooOften
from zoo_compute.chain.signer_places import LOOPBACK
from zoo_compute.errors import ConfigError, Unreachable, WrongChain

log = logging.getLogger("zoo.rpc")

PASSES = 2  # over all RPCs; the second recovers from a kept-alive connection that the server closed
PAUSE_S = 0.2
LOOK_EVERY_S = 15.0  # between looks at the newest block of every RPC
LAG_BLOCKS = 5  # behind the others: an RPC that does not keep up
FUTURE_S = 120  # a newest block so far ahead of this machine's clock is believed only if all RPCs say so
FIRST_REST_S, LONGEST_REST_S = 10.0, 600.0  # for which an RPC that failed is left to itself; doubles with each failure
LIMITED_S = 1.0  # the first pause after an RPC said that it is asked too often; doubles up to a minute
MOST_LIMITED_S = 60.0
LONGEST_WAIT_S = 2.0  # of a caller, for the only RPC there is
UNTRUSTED_S = 600.0  # for which an RPC is asked last, after most others showed another chain
GRACE_S = 3.0  # for RPCs that say nothing about a transaction, once another refuses it
_LIMITED = ("rate limit", "ratelimit", "too many requests", "request limit", "requests per second", "compute units")

T = TypeVar("T")


@dataclass
class Endpoint:
    """One RPC, as it was seen last. Times are of time.monotonic."""

    url: str
    rpc: Rpc
    is_checked: bool = False  # it serves the network's chain
    head: int = 0  # its newest block
    head_time: int = 0
    lag: int = 0  # blocks between its newest and the others'
    failures: int = 0  # in a row
    rests_until: float = 0.0
    untrusted_until: float = 0.0  # whatever it answers
    trouble: str = ""

    def is_well(self) -> bool:
        return self.is_trusted() and time.monotonic() >= self.rests_until and self.lag <= LAG_BLOCKS

    def is_trusted(self) -> bool:
        return time.monotonic() >= self.untrusted_until

    def failed(self, error: Exception) -> None:
        self.failures += 1
        first, longest = (LIMITED_S, MOST_LIMITED_S) if isinstance(error, TooOften) else (FIRST_REST_S, LONGEST_REST_S)
        rest_s = min(longest, first * 2 ** min(self.failures - 1, 20))
        if isinstance(error, TooOften):
            rest_s = max(rest_s, min(error.wait_s, MOST_LIMITED_S))
        self.rests_until = time.monotonic() + rest_s
        if cause_of(error) != self.trouble:
            log.warning("%s: %s", redacted(self.url), cause_of(error))
        self.trouble = cause_of(error)

    def answered(self) -> None:
        if self.trouble:
            log.info("%s answers again", redacted(self.url))
        self.failures, self.trouble = 0, ""


class FailoverProvider(JSONBaseProvider):
    """Checks on first use that each RPC serves `chain_id`.

    Every request is safe to repeat: reads have no effect, and a raw transaction has the same hash wherever it is sent.
    """

    def __init__(self, rpcs: Sequence[str], chain_id: int, api_key: str | None = None) -> None:
        super().__init__()
        self.rpcs = tuple(rpcs)
        self.chain_id = chain_id
        self._api_key = api_key
        self._headers = authorization(api_key, self.rpcs)
        self._answerer = threading.local()
        self._connect()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        if method == "eth_sendRawTransaction":
            digest = "0x" + keccak(hexstr=params[0]).hex()
            return self._tell_all(lambda rpc: _taken_or_refused(rpc.make_request(method, params), digest))
        return self._ask(lambda rpc: rpc.make_request(method, params))

    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        return self._ask(lambda rpc: rpc.make_batch_request(requests))

    def trusted(self) -> list[str]:
        """Those that are not set aside, the one that is asked first in front. Of three RPCs one that lags has nothing to say; of two, it
        may be the other that lies.
        """
        order = [each for each in self._order() if each.is_trusted()]
        return [each.url for each in order if each is order[0] or len(self.rpcs) < 3 or each.lag <= LAG_BLOCKS]

    def trusts_all(self) -> bool:
        """Whether none is set aside."""
        return all(each.is_trusted() for each in self.endpoints)

    def answerer(self) -> str:
        """The RPC that gave this thread's last answer; empty if there was none."""
        return str(getattr(self._answerer, "url", ""))

    def alone(self, url: str) -> FailoverProvider:
        """Over one of the RPCs."""
        return FailoverProvider([url], self.chain_id, self._api_key)

    def set_aside(self, url: str) -> None:
        """Ask an RPC last for a while, whatever it answers: most others showed something else."""
        [liar] = [each for each in self.endpoints if each.url == url]
        liar.untrusted_until, liar.trouble = time.monotonic() + UNTRUSTED_S, "most other RPCs show another chain"
        log.error("%s: %s", redacted(url), liar.trouble)

    def look(self) -> None:
        """Ask every RPC for its newest block, and see which of them lag. A thread calls it where there are several."""
        for endpoint in self.endpoints:
            if time.monotonic() < endpoint.rests_until or not endpoint.is_trusted():
                continue
            try:
                self._check(endpoint)
                answer = answer_of(endpoint.rpc.make_request(RPCEndpoint("eth_getBlockByNumber"), ["latest", False]))
                block = answer["result"]
                endpoint.head, endpoint.head_time = int(block["number"], 16), int(block["timestamp"], 16)
            except (
                requests.RequestException,
                OSError,
                ValueError,
                LookupError,
                TypeError,
                TooOften,
                WrongChain,
            ) as error:
                endpoint.failed(error)
                continue
            endpoint.answered()
        self._compare()

    def _compare(self) -> None:
        """Of three RPCs or more, what two say is the newest block; of two, what the one ahead says."""
        seen = [each for each in self.endpoints if each.head]
        soon = time.time() + FUTURE_S
        heads = sorted([each.head for each in seen if each.head_time <= soon] or [each.head for each in seen])
        if not heads:
            return
        newest = heads[-2] if len(heads) > 2 else heads[-1]
        for each in seen:
            lag = abs(newest - each.head)  # one alone that is far ahead is no better
            if (lag > LAG_BLOCKS) != (each.lag > LAG_BLOCKS):
                log.warning("%s: its newest block is %d, the others' %d", redacted(each.url), each.head, newest)
            each.lag = lag

    def _connect(self) -> None:
        # A forked child must not share sockets: it would read the parent's answers.
        self._process = os.getpid()
        self.endpoints = [Endpoint(url, Rpc(url, self._headers)) for url in self.rpcs]
        self._looks = False
        self.used: set[str] = set()  # those that answered since somebody emptied it

    def _ask(self, question: Callable[[Rpc], T]) -> T:
        if self._process != os.getpid():
            self._connect()
        self._start_looking()
        failures: dict[str, str] = {}
        for attempt in range(PASSES):
            if attempt:
                time.sleep(PAUSE_S)
            for endpoint in self._order():
                try:
                    self._wait_for(endpoint)
                    answer = self._answered(endpoint, question)
                except (requests.RequestException, OSError, ValueError, TooOften) as error:
                    if refused := _answer_in(error):
                        return refused  # type: ignore[return-value]
                    endpoint.failed(error)
                    failures[endpoint.url] = cause_of(error)
                    continue
                endpoint.answered()
                self.used.add(endpoint.url)
                self._answerer.url = endpoint.url
                return answer
        causes = "; ".join(f"{redacted(url)}: {cause}" for url, cause in failures.items())
        raise Unreachable(f"no RPC of the network answers ({causes})")

    def _tell_all(self, news: Callable[[Rpc], RPCResponse]) -> RPCResponse:
        """Send a transaction to every RPC that is well: one alone may take it and pass it on to nobody. The first that takes it, or
        has it already, answers; what others say then does not matter. Else the refusal of the one that comes first. Raises Unreachable
        where one refuses and another says nothing, which may have it; unless its nonce is taken, which is true wherever it is said.
        """
        if self._process != os.getpid():
            self._connect()
        well = [endpoint for endpoint in self.endpoints if endpoint.is_well()]
        if len(well) < 2:
            return self._ask(news)
        answers: queue.SimpleQueue[tuple[int, RPCResponse | None]] = queue.SimpleQueue()

        def tell(at: int, endpoint: Endpoint) -> None:
            answer = None
            try:
                answer = self._answered(endpoint, news)
            except (requests.RequestException, OSError, ValueError, TooOften, WrongChain) as error:
                answer = _answer_in(error)
                if answer is None:
                    endpoint.failed(error)
            finally:
                answers.put((at, answer))

        for at, endpoint in enumerate(well):
            threading.Thread(target=tell, args=(at, endpoint), name="transaction", daemon=True).start()
        refusals: dict[int, RPCResponse] = {}
        ends_at: float | None = None
        for _ in well:
            try:
                at, answer = answers.get(timeout=None if ends_at is None else max(0.0, ends_at - time.monotonic()))
            except queue.Empty:
                break
            if answer is None:
                continue
            if "result" in answer or fees.is_known(answer["error"]):
                return answer
            refusals[at] = answer
            ends_at = ends_at or time.monotonic() + GRACE_S
        if not refusals:
            return self._ask(news)
        if len(refusals) == len(well):
            return refusals[min(refusals)]
        for at in sorted(refusals):
            if fees.is_nonce_taken(refusals[at]["error"]):
                return refusals[at]
        raise Unreachable("an RPC refuses the transaction, and another, which may have it, does not answer")

    def _answered(self, endpoint: Endpoint, question: Callable[[Rpc], T]) -> T:
        self._check(endpoint)
        try:
            return answer_of(question(endpoint.rpc))
        except requests.ConnectionError as error:
            if isinstance(error, requests.Timeout):
                raise
            return answer_of(question(endpoint.rpc))  # the server had closed the connection that was kept

    def _order(self) -> list[Endpoint]:
        """Those that are well, as the network file lists them; then the others, who lags least first; then those set aside."""
        return sorted(self.endpoints, key=lambda each: (not each.is_trusted(), 0 if each.is_well() else 1 + each.lag))

    def _wait_for(self, endpoint: Endpoint) -> None:
        """An RPC that limits the rate is not asked before it may be. Raises TooOften where that takes long."""
        left = endpoint.rests_until - time.monotonic()
        if left <= 0 or "rate" not in endpoint.trouble:
            return
        if len(self.endpoints) > 1 or left > LONGEST_WAIT_S:
            raise TooOften(left)
        time.sleep(left)

    def _check(self, endpoint: Endpoint) -> None:
        if endpoint.is_checked:
            return
        answer = answer_of(endpoint.rpc.make_request(RPCEndpoint("eth_chainId"), []))
        if "result" not in answer:
            raise ValueError(f"eth_chainId failed: {answer.get('error')}")
        chain_id = int(answer["result"], 16)
        if chain_id != self.chain_id:
            raise WrongChain(f"{redacted(endpoint.url)} serves chain {chain_id}; the network file says {self.chain_id}")
        endpoint.is_checked = True

    def _start_looking(self) -> None:
        if self._looks or len(self.rpcs) < 2:
            return
        self._looks = True
        threading.Thread(target=_look_again, args=(weakref.ref(self),), name="rpc looks", daemon=True).start()


def _look_again(provider: weakref.ref[FailoverProvider]) -> None:
    """Until the provider is gone."""
    while (each := provider()) is not None:
        each.look()
        del each
        time.sleep(LOOK_EVERY_S)


def answer_of(answer: T) -> T:
    """The answer, or one error for a batch. Raises TooOften where it says so, BadAnswer where it is no JSON-RPC."""
    answers = answer if isinstance(answer, list) else [answer]
    for each in answers:
        if not isinstance(each, dict):
            raise BadAnswer("not a JSON-RPC answer")
        error = each.get("error")
        said = str(error.get("message", "")).lower() if isinstance(error, dict) else ""
        if "revert" not in said and any(words in said for words in _LIMITED):
            raise TooOften
    return answer


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
    return _refusal_in(body)


def _taken_or_refused(answer: object, digest: str) -> RPCResponse:
    """What an RPC says to the transaction with this hash. Raises BadAnswer for anything else."""
    if refusal := _refusal_in(answer):
        return refusal
    if not isinstance(answer, dict) or "error" in answer or str(answer.get("result")).lower() != digest:
        raise BadAnswer("it neither takes nor refuses a transaction")
    return cast(RPCResponse, {"jsonrpc": "2.0", "id": 0, "result": digest})


def _refusal_in(answer: object) -> RPCResponse | None:
    """An error, with all that web3 asks of one."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if (
        not isinstance(error, dict)
        or not isinstance(error.get("message"), str)
        or not isinstance(error.get("code"), int)
    ):
        return None
    return cast(RPCResponse, {"jsonrpc": "2.0", "id": 0, "error": error})


def cause_of(error: Exception) -> str:
    """A short cause without the URL, which may contain a key."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"HTTP {status}" + (" (is the API key right?)" if status in (401, 403) else "")
    if isinstance(error, (TimeoutError, requests.Timeout)) or "timed out" in str(error).lower():
        return f"no answer in {rpc_http.ANSWER_S:g} s"
    if isinstance(error, (requests.ConnectionError, OSError)):
        return "connection failed"
    if isinstance(error, (TooOften, BadAnswer, WrongChain)):
        return str(error)
    return str(error) if str(error).startswith("eth_chainId") else f"not a JSON-RPC answer ({type(error).__name__})"
