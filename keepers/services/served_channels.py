"""The chain's side of an operator's live answers: channels are closed and redeemed, and old questions dropped.

The server of a serving seat has no key that sends. It keeps vouchers and questions in the operator's folder, and the keeper sends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from keepers.decisions.vouchers import CLOSE_GAS, REDEEM_GAS, Due, is_to_close, is_to_redeem
from keepers.services.answered_questions import QuestionsOf
from zoo_compute.amounts import parse_amount
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.inference.books import RECHECKS, OperatorBook, operator_book
from zoo_compute.operators.admitted_receipts import admitted_receipts, is_pending
from zoo_compute.paths import QUESTIONS, VOUCHERS
from zoo_compute.spec.params import ZEN, window_s

if TYPE_CHECKING:
    from keepers.config import OperatorConfig
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender

log = logging.getLogger("zoo.serving")


class ServedChannels:
    """questions: of the answers that were signed, for whoever answers for their receipts."""

    def __init__(self, config: OperatorConfig, chain: Chain, sender: Sender) -> None:
        self._chain, self._sender, self._operator = chain, sender, config.operator
        self._path, self.questions = config.folder / VOUCHERS, QuestionsOf(config.folder / QUESTIONS)
        self._coin_price = parse_amount(config.coin_price)
        self._book: OperatorBook | None = None

    @property
    def pause_s(self) -> float:
        """Between two looks: several times in a client's notice."""
        return self._chain.params.notice_s / RECHECKS

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            try:
                self.look()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            progressed()
            time.sleep(self.pause_s)

    def look(self) -> None:
        """Raises the chain's errors."""
        if self._book is None and self._path.exists():
            self._book = operator_book(self._path, self._chain, self._operator)
        if self._book is not None:
            self._pay(self._book)
        self._prune()

    def _pay(self, book: OperatorBook) -> None:
        leaving = set(book.left())  # forgets those that have been closed for long
        numbers = book.channels()
        if not numbers:
            return
        wei = next_base_fee(self._chain.w3) + self._chain.w3.eth.max_priority_fee
        gas_zen = wei * self._coin_price // ZEN
        now, notice_s = self._chain.time(), self._chain.params.notice_s
        for number in numbers:
            due = self._due(book, number)
            if number in leaving and is_to_close(due, now, notice_s, CLOSE_GAS * gas_zen):
                self._show(book, number, closes=True)
            elif is_to_redeem(due, REDEEM_GAS * gas_zen):
                self._show(book, number, closes=False)

    def _due(self, book: OperatorBook, number: int) -> Due:
        record, newest = book.look(number), book.newest(number)
        unpaid = newest.voucher.total - record.paid if newest else 0
        in_zen = record.token.lower() == self._chain.zen.address.lower()
        return Due(number, unpaid, in_zen, record.ends_at)

    def _show(self, book: OperatorBook, number: int, *, closes: bool) -> None:
        newest = book.newest(number)
        assert newest is not None, "a channel of the book has a voucher"
        channels = self._chain.channels
        try:
            sent = self._sender.send((channels.close if closes else channels.redeem)(*newest.args))
        except Refusal as refusal:
            log.warning("the voucher of channel %d is refused: %s", number, refusal.reason)
            return
        what = "closed" if closes else "redeemed"
        log.info("channel %d is %s with a total of %d in %s", number, what, newest.voucher.total, sent.transaction_hash)

    def _prune(self) -> None:
        """Drop questions that can be asked about no more: admitted a window after they were issued, asked about a window after that."""
        questions = self.questions.opened
        if questions is None:
            return
        params = self._chain.params
        before = self._chain.time() - 2 * window_s(params, params.receipt_s, 1) - 1
        if questions.oldest() < before:
            admitted = admitted_receipts(self._chain, self._operator)
            pending = {each.claim_hash for each in admitted if is_pending(self._chain, each.view)}
            questions.prune(before, pending)
