"""The seat that a server answers for: what it offers now, and its signature on an answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from keepers.services.answered_questions import AnsweredQuestions
from keepers.serving.refusals import RequestRefused
from zoo_compute.chain.events import scan
from zoo_compute.errors import ZooError
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.files import plain
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipts import SignedReceipt, sign
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.receipts import Offer
from zoo_compute.spec.serving import claim_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.inference.seats import Seat

log = logging.getLogger("zoo.serving")
LOOK_S = 10.0  # between looks at the seat


class ReceiptSigner:
    """Signs answers. The question of each is on disk before its receipt is made: a keeper must be able to answer for it.

    service: the CID. now: the protocol's time.
    """

    def __init__(
        self, seat: Seat, service: str, key: bytes, domain: bytes, questions: AnsweredQuestions, now: Callable[[], int]
    ) -> None:
        self._seat, self._service, self._key, self._domain = seat, service, key, domain
        self._questions, self._now = questions, now

    def __call__(self, question: Question, ending: Ending) -> SignedReceipt:
        receipt = question.receipt(self._seat.number, ending.segments, ending.end, self._now())
        claim = claim_hash(claim_of(self._seat.operator, receipt))
        self._questions.add(claim, plain(self._service, question), receipt.issued)
        return sign(receipt, self._domain, self._key)


class SeatWatch:
    """A seat as the chain has it: its offer may change, and it may be left or lose its lock while the server runs."""

    def __init__(self, chain: Chain, seat: Seat, seen: int) -> None:
        """seen: the number of the block that the seat was read at."""
        self._chain, self.seat, self._seen = chain, seat, seen
        self._offer, self._closed = seat.offer, ""
        self._time = chain.time()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def offer(self) -> Offer:
        """The newest. Raises RequestRefused where the seat answers no more."""
        if self._closed:
            raise RequestRefused(503, self._closed, "seat_closed")
        return self._offer

    def now(self) -> int:
        """The protocol's time; while no RPC answers, the last that is known."""
        try:
            self._time = self._chain.time()
        except (ZooError, OSError) as error:
            log.warning("%s; receipts are dated %d", error, self._time)
        return self._time

    def look(self) -> None:
        """Raises the chain's errors."""
        head, number = self._chain.head().number, self.seat.number
        for event in scan(self._chain, self._seen + 1, head, names=("Offered",)):
            if event.args["seat"] == number:
                self._offer = Offer(**event.args["offer"])
                log.info("the seat's offer is %s", self._offer)
        self._seen = head
        record = self._chain.serving.seats(number)
        if record.left_at:
            self._closed = f"seat {number} was left"
        elif not record.lock:
            self._closed = f"nothing is locked behind the receipts of seat {number}"
        elif self._offer.service != self.seat.offer.service:
            self._closed = f"seat {number} offers another service now, and this server was not started again"
        else:
            self._closed = ""

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                self.look()
            except (ZooError, OSError) as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
