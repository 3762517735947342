"""A serving seat's application over a small model, and the channels and clients that pay it, without a chain."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from eth_account import Account
from starlette.testclient import TestClient

from keepers.services.answered_questions import AnsweredQuestions
from keepers.serving.application import Network, ServedSeat
from keepers.serving.engine import Engine
from keepers.serving.refusals import RequestRefused
from keepers.serving.seat import ReceiptSigner
from repops import backend
from tests.support.served_model import ServedModel, served_model
from tests.support.waiting import HANG_S
from zoo_compute.chain.generated.bindings.channels import Channel
from zoo_compute.inference.books import OperatorBook
from zoo_compute.inference.seats import Seat
from zoo_compute.serving import receipts, vouchers
from zoo_compute.serving.execution import Ending, Execution
from zoo_compute.serving.questions import Question
from zoo_compute.serving.texts import ByteTexts
from zoo_compute.serving.vouchers import SignedVoucher, Voucher
from zoo_compute.spec.receipts import AnswerReceipt, Offer
from zoo_compute.store.cid import cid_of, digest_of

TOKEN, NOBODY = "0x" + 20 * "aa", "0x" + 40 * "0"
GONE = Channel(NOBODY, 0, NOBODY, NOBODY, 0, 0, 0)
NETWORK = Network(31_337, "0x" + 20 * "5e", "0x" + 20 * "c0")
CLIENT_KEY, SEAT_KEY = b"\x05" * 32, b"\x06" * 32
OPERATOR, SEAT, PRICE, NOW = 7, 5, 1_000_000, 10_000
RECHECK_S = 60.0


class Watched:
    """A seat whose offer a test changes. Stands in for SeatWatch, which reads a chain."""

    def __init__(self, seat: Seat) -> None:
        self.seat, self.price, self.closed = seat, seat.offer.price, ""

    def offer(self) -> Offer:
        if self.closed:
            raise RequestRefused(503, self.closed, "seat_closed")
        return replace(self.seat.offer, price=self.price)

    def now(self) -> int:
        return NOW


class SlowExecution(Execution):
    """Waits before its answer, or after a step, until a test lets it go on."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.may_begin, self.may_go_on = threading.Event(), threading.Event()
        self.may_begin.set()
        self.may_go_on.set()
        self.began = threading.Semaphore(0)

    def answer(self, question: Question, said: Any = lambda step, outputs: None) -> Ending:
        self.began.release()
        assert self.may_begin.wait(HANG_S)

        def paused(step: int, outputs: Any) -> None:
            said(step, outputs)
            assert self.may_go_on.wait(HANG_S)

        return super().answer(question, paused)


@dataclass
class LocalSeat:
    """answered: the questions on disk."""

    served: ServedSeat
    model: ServedModel
    watched: Watched
    execution: SlowExecution
    answered: AnsweredQuestions
    channels: dict[int, Channel] = field(default_factory=dict)

    def open_channel(self, number: int = 1, deposit: int = 10**9, **changes: Any) -> None:
        signer = Account.from_key(CLIENT_KEY).address
        self.channels[number] = Channel(NOBODY, OPERATOR, TOKEN, signer, deposit, 0, 0)._replace(**changes)

    def voucher(self, total: int, channel: int = 1, key: bytes = CLIENT_KEY) -> SignedVoucher:
        voucher = Voucher(channel, total)
        domain = vouchers.domain_of(NETWORK.chain_id, NETWORK.channels)
        return SignedVoucher(voucher, vouchers.sign(domain, voucher, key))

    def headers(self, total: int, nonce: bytes = b"n" * 32, **options: Any) -> dict[str, str]:
        return {"Zoo-Nonce": nonce.hex(), "Zoo-Voucher": json.dumps(self.voucher(total, **options).to_dict())}

    def client(self) -> TestClient:
        return TestClient(self.served.application(), base_url="http://127.0.0.1", raise_server_exceptions=False)


@contextmanager
def local_seat(folder: Path, model: ServedModel | None = None, waiting: int = 2) -> Iterator[LocalSeat]:
    """Started, with channel 1."""
    model = model or served_model()
    service = model.service
    cid = cid_of(service.to_bytes())
    signer = Account.from_key(SEAT_KEY).address
    watched = Watched(Seat(SEAT, OPERATOR, signer, 10**18, None, Offer(digest_of(cid), PRICE, TOKEN, "http://x")))
    execution = SlowExecution(service, model.graph, model.weights, backend.prepare(model.graph))
    answered = AnsweredQuestions(folder / "questions.sqlite")
    domain = receipts.domain_of(NETWORK.chain_id, NETWORK.serving)
    engine = Engine(
        {execution.root: execution}, ReceiptSigner(watched.seat, cid, SEAT_KEY, domain, answered, watched.now), waiting
    )
    channels: dict[int, Channel] = {}
    book = OperatorBook(
        folder / "vouchers.sqlite", vouchers.domain_of(NETWORK.chain_id, NETWORK.channels), OPERATOR,
        lambda number: channels.get(number, GONE), RECHECK_S,
    )  # fmt: skip
    served = ServedSeat(watched, service, ByteTexts(), engine, book, NETWORK)  # type: ignore[arg-type]
    seat = LocalSeat(served, model, watched, execution, answered, channels)
    seat.open_channel()
    engine.start()
    try:
        yield seat
    finally:
        execution.may_begin.set()
        execution.may_go_on.set()
        engine.stop(HANG_S)
        book.close()
        answered.close()


def checked(zoo: Mapping[str, Any], question: Question, model: ServedModel) -> AnswerReceipt:
    """What a client makes of an answer's `zoo`. Raises BadReceipt."""
    raw = zoo["receipt"]
    receipt = AnswerReceipt(
        **{name: bytes.fromhex(value) if isinstance(value, str) else value for name, value in raw.items()}
    )
    outputs = np.frombuffer(base64.b64decode(zoo["outputs"]), "<f4").reshape(zoo["shape"])
    ending = Ending(receipt.segments, receipt.end, outputs, tuple(map(bytes.fromhex, zoo["path"])))
    signed = receipts.SignedReceipt(receipt, bytes.fromhex(zoo["signature"][2:]))
    receipts.check(
        signed, question, model.graph, ending, seat=SEAT, signer=Account.from_key(SEAT_KEY).address,
        domain=receipts.domain_of(NETWORK.chain_id, NETWORK.serving), now=NOW, slack_s=0,
    )  # fmt: skip
    return receipt
