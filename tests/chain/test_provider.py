"""RPCs that hang, drip, lag, lie about the newest block, pack bombs and limit the rate (p6 of the audit of what runs off chain)."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import Web3RPCError
from web3.types import RPCEndpoint

from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain import provider, rpc_http
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.errors import Unreachable

ANSWER_S = 0.6
TICK_S = 0.05
RAW = "0x02"
SENT = "0x" + keccak(hexstr=RAW).hex()
BOMB = gzip.compress(b" " * 100_000_000)


class FakeRpc:
    """An RPC of chain 1. head: its newest block. ails: `drip`, `bomb`, `large`, `limit`, `limit in words`, `hang`; but not for eth_chainId."""

    def __init__(self, head: int, ails: str = "", *, ahead_s: int = 0) -> None:
        self.head, self.ails, self.ahead_s = head, ails, ahead_s
        self.refuses = ""  # transactions, with these words
        self.says: Any = None  # to transactions, whole
        self.waits = threading.Event()  # before it answers a transaction
        self.waits.set()
        self.asked: list[str] = []
        self.connections = 0  # that were opened
        self.stopped = threading.Event()
        rpc = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                rpc.connections += 1

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                rpc.asked.append(question["method"])
                ails = "" if question["method"] == "eth_chainId" else rpc.ails
                answer: Any = {"jsonrpc": "2.0", "id": question["id"], **rpc.answer(question["method"])}
                if question["method"] == "eth_sendRawTransaction":
                    rpc.waits.wait(HANG_S)
                    answer = answer if rpc.says is None else rpc.says
                body = json.dumps(answer).encode()
                if ails == "limit":
                    self._send(b"{}", status=429, headers={"Retry-After": "7"})
                elif ails == "bomb":
                    self._send(BOMB, headers={"Content-Encoding": "gzip"})
                elif ails == "large":
                    self._send(b" " * (rpc_http.MAX_ANSWER_BYTES + 1) + body)
                elif ails == "drip":
                    self._drip()
                elif ails == "hang":
                    rpc.stopped.wait(HANG_S)
                else:
                    self._send(body)

            def _send(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def _drip(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                while not rpc.stopped.wait(TICK_S):
                    self.wfile.write(b" ")

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None: ...

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(TICK_S,), daemon=True).start()

    def answer(self, method: str) -> dict[str, Any]:
        if self.ails == "limit in words" and method != "eth_chainId":
            return {"error": {"code": -32005, "message": "daily request limit exceeded"}}
        head = {"number": hex(self.head), "timestamp": hex(int(time.time()) + self.ahead_s)}
        if method == "eth_sendRawTransaction":
            return {"error": {"code": -32000, "message": self.refuses}} if self.refuses else {"result": SENT}
        return {
            "result": {"eth_chainId": "0x1", "eth_blockNumber": hex(self.head), "eth_getBlockByNumber": head}[method]
        }

    def stop(self) -> None:
        self.stopped.set()
        self.waits.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def rpcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeRpc]]:
    """Those appended are stopped. Nothing looks at the newest blocks but the test."""
    monkeypatch.setattr(rpc_http, "ANSWER_S", ANSWER_S)
    monkeypatch.setattr(rpc_http, "MAX_ANSWER_BYTES", 10_000_000)
    monkeypatch.setattr(FailoverProvider, "_start_looking", lambda self: None)
    started: list[FakeRpc] = []
    yield started
    for each in started:
        each.stop()


def over(rpcs: list[FakeRpc], *wanted: FakeRpc) -> FailoverProvider:
    rpcs += wanted
    return FailoverProvider([each.url for each in wanted], 1)


def block_number(over: FailoverProvider) -> int:
    return Web3(over).eth.block_number


@pytest.mark.parametrize("ails", ["drip", "hang", "bomb", "large", "limit", "limit in words"])
def test_an_rpc_that_is_ill__is_replaced_by_the_next_and_left_alone(rpcs: list[FakeRpc], ails: str) -> None:
    first, second = FakeRpc(8, ails), FakeRpc(9)
    both = over(rpcs, first, second)
    assert block_number(both) == 9
    asked = len(first.asked)
    assert block_number(both) == 9
    assert len(first.asked) == asked


@pytest.mark.parametrize("ails", ["drip", "hang", "bomb", "large"])
def test_the_only_rpc__that_is_ill__is_unreachable_and_no_more(rpcs: list[FakeRpc], ails: str) -> None:
    alone = over(rpcs, FakeRpc(8, ails))
    with pytest.raises(Unreachable):
        block_number(alone)
    rpcs[0].ails = ""
    rpcs[0].stopped.set()
    assert block_number(alone) == 8


def test_threads_that_come_and_go__leave_no_connections_behind(rpcs: list[FakeRpc]) -> None:
    chain, done = over(rpcs, FakeRpc(7)), threading.Event()

    def ask() -> None:
        block_number(chain)
        done.wait(HANG_S)  # none has the number of one that ended

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        wait_until("an answer", lambda number=number: rpcs[0].asked.count("eth_blockNumber") >= number)
    done.set()
    for thread in threads:
        thread.join()
    assert rpcs[0].connections <= 8


def test_a_bomb__is_not_unpacked(rpcs: list[FakeRpc]) -> None:
    """p6: 292 kB that unpack to 300 MB took 620 MB of memory."""
    import tracemalloc

    alone = over(rpcs, FakeRpc(8, "bomb"))
    tracemalloc.start()
    try:
        with pytest.raises(Unreachable, match="larger than 10,000,000 bytes"):
            block_number(alone)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_an_rpc_that_was_ill__is_used_again_once_it_is_well(
    rpcs: list[FakeRpc], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = FakeRpc(8, "bomb"), FakeRpc(9)
    both = over(rpcs, first, second)
    assert block_number(both) == 9
    first.ails = ""
    clock = time.monotonic()
    monkeypatch.setattr(provider.time, "monotonic", lambda: clock + provider.FIRST_REST_S + 1)
    assert block_number(both) == 8


@pytest.mark.parametrize(
    ("heads", "used"),
    [
        ((1, 409_600), 409_600),  # p6: it was believed for ever
        ((409_600 - provider.LAG_BLOCKS, 409_600), 409_600 - provider.LAG_BLOCKS),
        ((10**9, 409_600, 409_601), 409_600),  # one alone is ahead: it may lie
        ((1, 409_600, 409_601), 409_600),
    ],
)
def test_an_rpc_whose_newest_block_is_not_the_others__is_not_used(
    rpcs: list[FakeRpc], heads: tuple[int, ...], used: int
) -> None:
    several = over(rpcs, *map(FakeRpc, heads))
    several.look()
    assert block_number(several) == used


def test_an_rpc_that_shows_blocks_of_the_future__is_not_used(rpcs: list[FakeRpc]) -> None:
    both = over(rpcs, FakeRpc(10**9, ahead_s=10**6), FakeRpc(409_600))
    both.look()
    assert block_number(both) == 409_600


def test_rpcs_that_all_show_the_future__are_believed(rpcs: list[FakeRpc]) -> None:
    """A devnet's time is ahead of this machine's."""
    both = over(rpcs, FakeRpc(70, ahead_s=10**6), FakeRpc(71, ahead_s=10**6))
    both.look()
    assert block_number(both) == 70


@pytest.mark.parametrize("ails", ["limit", "limit in words"])
def test_the_only_rpc__that_limits_the_rate__is_asked_ever_more_rarely(
    rpcs: list[FakeRpc], ails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, pauses = over(rpcs, FakeRpc(8, ails)), []
    monkeypatch.setattr(provider.time, "sleep", pauses.append)
    for _ in range(20):
        with pytest.raises(Unreachable, match="limits the rate"):
            block_number(alone)
    assert rpcs[0].asked.count("eth_blockNumber") <= 4
    rpcs[0].ails = ""
    clock = time.monotonic()
    monkeypatch.setattr(provider.time, "monotonic", lambda: clock + provider.MOST_LIMITED_S)
    assert block_number(alone) == 8


def test_a_refusal_by_a_contract__is_no_limit_of_a_rate() -> None:
    answer = {"error": {"code": 3, "message": "execution reverted: auction: request limit"}}
    assert provider.answer_of(answer) is answer


def send(over: FailoverProvider) -> Any:
    return over.make_request(RPCEndpoint("eth_sendRawTransaction"), [RAW])


def sent_to(rpc: FakeRpc) -> bool:
    return "eth_sendRawTransaction" in rpc.asked


def test_a_transaction__goes_to_every_rpc_that_is_well(rpcs: list[FakeRpc]) -> None:
    """One that takes it and passes it on to nobody made a keeper miss its deadline."""
    swallows, honest, behind = FakeRpc(409_600), FakeRpc(409_600), FakeRpc(1)
    several = over(rpcs, swallows, honest, behind)
    several.look()
    assert send(several)["result"] == SENT
    wait_until("both have it", lambda: sent_to(swallows) and sent_to(honest))
    assert not sent_to(behind)


@pytest.mark.parametrize("words", ["nonce too low", "insufficient funds for gas * price + value", "already known"])
def test_what_one_rpc_takes__others_may_refuse(rpcs: list[FakeRpc], words: str) -> None:
    first, second = FakeRpc(8), FakeRpc(8)
    both = over(rpcs, first, second)
    first.refuses = words
    answer = send(both)
    assert answer.get("result") == SENT or "already known" in answer["error"]["message"]


@pytest.mark.parametrize("ails", ["hang", "bomb", "limit"])
def test_an_rpc_that_is_ill__holds_no_transaction_up(rpcs: list[FakeRpc], ails: str) -> None:
    both = over(rpcs, FakeRpc(8, ails), FakeRpc(8))
    assert send(both)["result"] == SENT


def test_what_all_rpcs_refuse__is_refused_in_the_words_of_the_first(rpcs: list[FakeRpc]) -> None:
    first, second = FakeRpc(8), FakeRpc(8)
    first.refuses, second.refuses = "nonce too low", "insufficient funds"
    assert send(over(rpcs, first, second))["error"]["message"] == "nonce too low"


MALFORMED = [
    [{}],
    {},
    "yes",
    {"jsonrpc": "2.0", "id": 0, "result": None},
    {"jsonrpc": "2.0", "id": 0, "result": "0x" + "00" * 32},
    {"jsonrpc": "2.0", "id": 0, "error": "internal"},
    {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000}},
]


@pytest.mark.parametrize("says", MALFORMED)
def test_nonsense_about_a_transaction__is_no_answer(rpcs: list[FakeRpc], says: Any) -> None:
    """It came first, and was raised: the keeper did not know that the other has taken its transaction."""
    liar, honest = FakeRpc(8), FakeRpc(8)
    liar.says = says
    both = over(rpcs, liar, honest)
    honest.waits.clear()
    threading.Thread(
        target=lambda: (wait_until("it failed", lambda: both.endpoints[0].trouble), honest.waits.set())
    ).start()
    assert Web3(both).eth.send_raw_transaction(HexBytes(RAW)).to_0x_hex() == SENT


def test_an_error_beside_a_result__is_a_refusal(rpcs: list[FakeRpc]) -> None:
    first, second = FakeRpc(8), FakeRpc(8)
    for each in (first, second):
        each.says = {"jsonrpc": "2.0", "id": 0, "result": None, "error": {"code": -32000, "message": "internal"}}
    with pytest.raises(Web3RPCError, match="internal"):
        Web3(over(rpcs, first, second)).eth.send_raw_transaction(HexBytes(RAW))


@pytest.mark.parametrize("ails", ["hang", "bomb"])
def test_what_one_rpc_refuses__another_that_does_not_answer_may_have(rpcs: list[FakeRpc], ails: str) -> None:
    silent, refuses = FakeRpc(8, ails), FakeRpc(8)
    refuses.refuses = "insufficient funds"
    with pytest.raises(Unreachable, match="may have it"):
        send(over(rpcs, silent, refuses))


def test_that_a_nonce_is_taken__is_believed_while_another_does_not_answer(rpcs: list[FakeRpc]) -> None:
    silent, refuses = FakeRpc(8, "bomb"), FakeRpc(8)
    refuses.refuses = "nonce too low"
    assert send(over(rpcs, silent, refuses))["error"]["message"] == "nonce too low"


def test_once_one_rpc_refuses__the_others_have_little_time(
    rpcs: list[FakeRpc], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hung kept the outbox locked for 20 seconds."""
    monkeypatch.setattr(rpc_http, "ANSWER_S", HANG_S)
    monkeypatch.setattr(provider, "GRACE_S", TICK_S)
    hangs, refuses = FakeRpc(8, "hang"), FakeRpc(8)
    refuses.refuses = "nonce too low"
    both = over(rpcs, hangs, refuses)
    assert send(both)["error"]["message"] == "nonce too low"
    assert both.endpoints[0].failures == 0, "it still hangs"


def set_aside(rpcs: list[FakeRpc]) -> tuple[FailoverProvider, FakeRpc]:
    """Of three RPCs, the first; and the others limit the rate."""
    liar, *others = FakeRpc(8), FakeRpc(9), FakeRpc(9)
    three = over(rpcs, liar, *others)
    three.set_aside(liar.url)
    assert block_number(three) == 9
    return three, liar


def test_an_rpc_that_was_set_aside__comes_last_while_the_others_rest(rpcs: list[FakeRpc]) -> None:
    three, _ = set_aside(rpcs)
    for each in three.endpoints[1:]:
        each.failed(rpc_http.TooOften())
    assert three.trusted() == [each.url for each in rpcs[1:]]
    assert not three.trusts_all()
    for each in three.endpoints[1:]:
        each.rests_until = time.monotonic() + HANG_S
        each.trouble = "connection failed"
    assert block_number(three) == 9, "those that rest are asked before it"


def test_an_rpc_that_was_set_aside__does_not_come_back_by_failing_or_answering(
    rpcs: list[FakeRpc], monkeypatch: pytest.MonkeyPatch
) -> None:
    three, _ = set_aside(rpcs)
    three.endpoints[0].failed(OSError())
    three.endpoints[0].answered()
    clock = time.monotonic()
    monkeypatch.setattr(provider.time, "monotonic", lambda: clock + provider.UNTRUSTED_S - 1)
    three.look()
    assert block_number(three) == 9
    monkeypatch.setattr(provider.time, "monotonic", lambda: clock + provider.UNTRUSTED_S + 1)
    three.look()
    assert block_number(three) == 8


def test_an_rpc_that_rests__is_asked_what_it_sees(rpcs: list[FakeRpc]) -> None:
    """It failed a few times, and was not asked for ten minutes, though it answers."""
    both = over(rpcs, FakeRpc(8), FakeRpc(8))
    for _ in range(5):
        both.endpoints[1].failed(OSError())
    assert both.trusted() == [each.url for each in rpcs]


@pytest.mark.parametrize("count", [2, 3])
def test_who_lags__has_nothing_to_say_where_two_others_say_so(rpcs: list[FakeRpc], count: int) -> None:
    several = over(rpcs, *map(FakeRpc, (409_600, 1, 409_600)[:count]))
    several.look()
    assert (rpcs[1].url in several.trusted()) == (count == 2)
