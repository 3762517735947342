"""Serving seats on this machine's loopback, over a small model: honest ones, and ones that fail or lie in every way that a client must survive."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from coincurve import PrivateKey

from repops import backend, encoding, files
from tests.support.embedding_model import embedding_model
from tests.support.seat_market import PLACE, FakeMarket
from tests.support.served_model import ServedModel, served_model
from zoo_compute.errors import VoucherRefused
from zoo_compute.inference.books import OperatorBook
from zoo_compute.inference.purse import address_of
from zoo_compute.inference.seats import Seat
from zoo_compute.serving import receipts, vouchers
from zoo_compute.serving.execution import Ending, Execution, tokens_of
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.prices import cost_of
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipt_file import receipt_to_dict
from zoo_compute.serving.service import COMPLETIONS
from zoo_compute.serving.texts import ByteTexts, pieces_of
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.receipts import Offer
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import digest_of

LOCK, PRICE = 1_000 * ZEN, 1_000_000  # a token costs 1,000
RECHECK_S = 60.0


def stored_service(folder: Path, served: ServedModel | None = None) -> StoredService:
    """A model's files in a store of their own."""
    store, served = BlockStore(folder), served or served_model()
    assert store.add(encoding.encode(served.graph)) == served.service.programs[0].cid
    service = replace(served.service, weights=store.add(files.state_bytes(served.weights)))
    return StoredService(store.add(service.to_bytes()), service, store)


@cache
def execution(lies: bool = False, model: Callable[[], ServedModel] = served_model) -> Execution:
    """One that lies has another weight than it says."""
    served, run = model(), backend.prepare(model().graph)
    made = Execution(served.service, served.graph, served.weights, run)
    if lies:
        run.state[max(served.weights, key=lambda name: served.weights[name].size)][...] *= -1.5
    return made


RUNNING = threading.Lock()


@dataclass
class Body:
    """An answer: how it goes on the wire."""

    question: Question
    signed: receipts.SignedReceipt
    ending: Ending
    owed: int

    def zoo(self) -> dict[str, Any]:
        return {
            "receipt": receipt_to_dict(self.signed.receipt),
            "signature": "0x" + self.signed.signature.hex(),
            "outputs": base64.b64encode(self.ending.outputs.astype("<f4").tobytes()).decode(),
            "shape": list(self.ending.outputs.shape),
            "path": [each.hex() for each in self.ending.path],
            "owed": str(self.owed),
        }

    def whole(self) -> dict[str, Any]:
        return {
            "object": "text_completion",
            "choices": [{"text": "never read, [" + "{" * 99, "index": 0}],
            "zoo": self.zoo(),
        }

    def events(self) -> Iterator[dict[str, Any]]:
        """Piece by piece, in the order of steps."""
        made = [pieces_of(ByteTexts()) for _ in self.question.prompts]
        tokens = tokens_of(self.question, self.ending.outputs)
        for step in range(max(map(len, tokens), default=0)):
            for index, each in enumerate(tokens):
                piece = made[index].add(each[step]) if step < len(each) else ""
                if piece:
                    yield {"choices": [{"text": piece, "index": index, "finish_reason": None}]}
        rest = [{"text": each.end(), "index": index, "finish_reason": "length"} for index, each in enumerate(made)]
        yield {"choices": rest}
        yield {"choices": [], "zoo": self.zoo()}


class FakeSeat:
    """mode: what it does; a name of `MODES` or `honest`. asked: requests that came; served: what it earned honestly, by its prices."""

    def __init__(self, number: int, market: FakeMarket, stored: StoredService, folder: Path, price: int) -> None:
        self.number, self.operator, self.market, self.stored = number, number + 100, market, stored
        self.key = PrivateKey(bytes([number]) * 32).secret
        self.domain = receipts.domain_of(PLACE.chain_id, PLACE.serving)
        domain = vouchers.domain_of(PLACE.chain_id, PLACE.channels)
        self.book = OperatorBook(folder / f"{number}.sqlite", domain, self.operator, market.read, RECHECK_S)
        self.mode, self.price, self.asked, self.served, self.delay_s = "honest", price, 0, 0, 0.0
        self.stop, self.first, self.said = threading.Event(), None, list[bytes]()
        self.accepted: list[int] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def seat(self, **changes: Any) -> Seat:
        offer = Offer(digest_of(self.stored.cid), self.price, PLACE.zen, self.url)
        return replace(Seat(self.number, self.operator, address_of(self.key), LOCK, None, offer), **changes)

    def owes(self) -> int:
        """What the client's newest voucher says."""
        return sum(newest.voucher.total for each in self.book.channels() if (newest := self.book.newest(each)))

    def die(self) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        if not self.stop.is_set():
            self.die()
        self.book.close()

    def answer(
        self, question: Question, owed: int, *, lies: bool = False, issued: int | None = None, key: bytes | None = None
    ) -> Body:
        with RUNNING:
            model = served_model if question.service.kind == COMPLETIONS else embedding_model
            ending = execution(lies, model).answer(question)
        receipt = question.receipt(
            self.number, ending.segments, ending.end, self.market.now if issued is None else issued
        )
        return Body(question, receipts.sign(receipt, self.domain, key or self.key), ending, owed)


def _handler(seat: FakeSeat) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            seat.asked += 1
            seat.said.append(self.headers["Zoo-Voucher"].encode())
            raw = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with suppress(BrokenPipeError, ConnectionResetError):
                MODES[seat.mode](Exchange(self, seat, raw))
            self.close_connection = True

    return Handler


class Exchange:
    """One request at a seat, and all that can be sent for it."""

    def __init__(self, http: BaseHTTPRequestHandler, seat: FakeSeat, raw: dict[str, Any]) -> None:
        self.http, self.seat, self.raw = http, seat, raw

    def question(self, nonce: bytes | None = None) -> Question:
        is_text = self.seat.stored.service.kind == COMPLETIONS
        prompts = tuple(map(tuple, self.raw["prompt" if is_text else "input"]))
        new = self.raw["max_tokens"] if is_text else 0
        return Question(self.seat.stored.service, prompts, new, nonce or bytes.fromhex(self.http.headers["Zoo-Nonce"]))

    def paid(self) -> int | None:
        """What the channel owes once the voucher is taken; None: it was refused, and the client got a 402."""
        signed = vouchers.SignedVoucher.of_dict(json.loads(self.http.headers["Zoo-Voucher"]))
        cost = cost_of(self.question(), self.seat.price)
        newest = self.seat.book.newest(signed.voucher.channel)
        owed = newest.voucher.total if newest else 0
        try:
            self.seat.accepted.append(self.seat.book.accept(signed, cost))
        except VoucherRefused as error:
            self.refuse(402, str(error), zoo={"owed": str(owed), "cost": str(cost)})
            return None
        return signed.voucher.total

    def refuse(self, status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        self.whole({"error": {"message": message, "type": "x", "code": None}, **more}, status, headers)

    def whole(self, body: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.begin(status, {"Content-Length": str(len(data)), **(headers or {})})
        self.http.wfile.write(data)

    def begin(self, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.http.send_response(status)
        for name, value in (headers or {}).items():
            self.http.send_header(name, value)
        self.http.end_headers()

    def event(self, value: object) -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        self.http.wfile.write(f"data: {data}\n\n".encode())
        self.http.wfile.flush()

    def send(self, body: Body, change: Callable[[dict[str, Any]], None] = lambda zoo: None) -> None:
        """change: of each object on the wire, before it goes."""
        if not self.raw.get("stream"):
            whole = body.whole()
            change(whole)
            self.whole(whole)
            return
        self.begin(headers={"Content-Type": "text/event-stream"})
        for event in body.events():
            change(event)
            self.event(event)
        self.event("[DONE]")


def honest(exchange: Exchange, **lies: Any) -> None:
    seat = exchange.seat
    time.sleep(seat.delay_s)
    owed = exchange.paid()
    if owed is None:
        return
    body = seat.answer(exchange.question(), owed, **lies)
    seat.first = seat.first or body
    seat.served += cost_of(body.question, seat.price)
    exchange.send(body)


def _changed(change: Callable[[Exchange, Body], Callable[[dict[str, Any]], None]]) -> Callable[[Exchange], None]:
    def mode(exchange: Exchange) -> None:
        owed = exchange.paid()
        if owed is not None:
            body = exchange.seat.answer(exchange.question(), owed)
            exchange.send(body, change(exchange, body))

    return mode


def garbage(exchange: Exchange, body: Body) -> Callable[[dict[str, Any]], None]:
    outputs = base64.b64encode(bytes(body.ending.outputs.nbytes)).decode()
    return lambda sent: sent["zoo"].update(outputs=outputs) if "zoo" in sent else None


def false_words(exchange: Exchange, body: Body) -> Callable[[dict[str, Any]], None]:
    def change(sent: dict[str, Any]) -> None:
        for choice in sent.get("choices", []):
            choice["text"] = choice["text"] and "?"

    return change


def false_words_and_dead(exchange: Exchange) -> None:
    if exchange.paid() is not None:
        exchange.begin()
        exchange.event({"choices": [{"text": "???", "index": 1}]})


def older(exchange: Exchange) -> None:
    """A receipt of an earlier question, and its answer."""
    owed = exchange.paid()
    if owed is not None:
        assert exchange.seat.first is not None
        exchange.send(exchange.seat.first)


def other_nonce(exchange: Exchange) -> None:
    owed = exchange.paid()
    if owed is not None:
        exchange.send(exchange.seat.answer(exchange.question(nonce=b"m" * 32), owed))


def two_receipts(exchange: Exchange) -> None:
    owed = exchange.paid()
    if owed is not None:
        body = exchange.seat.answer(exchange.question(), owed)
        exchange.begin()
        for event in [*body.events(), {"zoo": exchange.seat.answer(exchange.question(), owed, lies=True).zoo()}]:
            exchange.event(event)
        exchange.event("[DONE]")


def cut(exchange: Exchange) -> None:
    """It ends in the middle: of a stream after two pieces."""
    owed = exchange.paid()
    if owed is None:
        return
    body = exchange.seat.answer(exchange.question(), owed)
    if exchange.raw.get("stream"):
        exchange.begin()
        for _, event in zip(range(2), body.events(), strict=False):
            exchange.event(event)
        return
    data = json.dumps(body.whole()).encode()
    exchange.begin(headers={"Content-Length": str(len(data))})
    exchange.http.wfile.write(data[: len(data) // 2])


def hang(exchange: Exchange) -> None:
    """It takes the voucher, and says nothing."""
    exchange.paid()
    exchange.seat.stop.wait(20.0)


def drip(exchange: Exchange) -> None:
    """A byte now and then."""
    exchange.paid()
    exchange.begin(headers={"Content-Length": "100000"})
    while not exchange.seat.stop.wait(0.05):
        exchange.http.wfile.write(b" ")
        exchange.http.wfile.flush()


def enormous(exchange: Exchange) -> None:
    exchange.paid()
    exchange.begin()
    exchange.http.wfile.write(b"data: ")
    while not exchange.seat.stop.is_set():
        exchange.http.wfile.write(b" " * 65_536)


def payment_loop(exchange: Exchange) -> None:
    """It keeps each voucher, and always wants another."""
    total = json.loads(exchange.http.headers["Zoo-Voucher"])["total"]
    exchange.refuse(402, "more", zoo={"owed": total, "cost": "1"})


MODES: dict[str, Callable[[Exchange], None]] = {
    "honest": honest,
    "lying": lambda exchange: honest(exchange, lies=True),
    "yesterday": lambda exchange: honest(exchange, issued=exchange.seat.market.now - 86_400),
    "wrong signature": lambda exchange: honest(exchange, key=b"\x77" * 32),
    "garbage": _changed(garbage),
    "false words": _changed(false_words),
    "false words, dead": false_words_and_dead,
    "older receipt": older,
    "other nonce": other_nonce,
    "two receipts": two_receipts,
    "cut": cut,
    "hang": hang,
    "drip": drip,
    "enormous": enormous,
    "payment loop": payment_loop,
    "takes and refuses": lambda exchange: exchange.paid() and exchange.refuse(503, "stopping"),
    "busy": lambda exchange: exchange.refuse(429, "queue full", {"Retry-After": "2"}),
    "redirect": lambda exchange: exchange.begin(
        307, {"Location": exchange.seat.url + "/elsewhere", "Content-Length": "0"}
    ),
    "nested": lambda exchange: exchange.whole(b"[" * 100_000),
    "no json": lambda exchange: exchange.whole(b"<html>"),
    "no receipt": lambda exchange: exchange.whole({"choices": [{"text": "trust me", "index": 0}]}),
    "owes a fortune": lambda exchange: exchange.refuse(402, "more", zoo={"owed": str(10**30), "cost": "1"}),
}


@contextmanager
def seats(stored: StoredService, folder: Path, prices: list[int]) -> Iterator[tuple[FakeMarket, list[FakeSeat]]]:
    """A market with one seat for each price."""
    market = FakeMarket()
    made = [FakeSeat(number, market, stored, folder, price) for number, price in enumerate(prices, 1)]
    market.listed = [each.seat() for each in made]
    try:
        yield market, made
    finally:
        for each in made:
            each.close()
