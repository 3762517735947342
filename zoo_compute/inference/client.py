"""A client of one service: asks its seats, pays them by vouchers, checks every receipt, and computes some answers again."""

from __future__ import annotations

import operator
import secrets
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo_compute import paths
from zoo_compute.errors import UserError, VoucherRefused
from zoo_compute.inference import answers
from zoo_compute.inference.answers import Completions, Embeddings, Served, SignedAnswer
from zoo_compute.inference.asking import Piece, Said, ask
from zoo_compute.inference.balancing import Balance
from zoo_compute.inference.checking import Checker, is_true
from zoo_compute.inference.exchange import Garbage, Lost, Refused
from zoo_compute.inference.market import ChainMarket, Market
from zoo_compute.inference.purse import Purse
from zoo_compute.inference.receipts import Receipts
from zoo_compute.inference.seats import Seat
from zoo_compute.inference.usable import UsableSeats
from zoo_compute.serving import receipts
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.files import StoredService, plain
from zoo_compute.serving.prices import cost_of
from zoo_compute.serving.questions import NONCE_BYTES, Question
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.serving.receipts import BadReceipt
from zoo_compute.serving.service import COMPLETIONS, EMBEDDINGS
from zoo_compute.serving.texts import Texts, open_texts
from zoo_compute.store.addresses import Scope

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.network import Network
    from zoo_compute.chain.sender import Sender
    from zoo_compute.store.interface import Store

Prompts = str | Sequence[str] | Sequence[Sequence[int]]
Say = Callable[[str], None]
DEVNET = "devnet"  # the preset's name
CLOCKS_S = 300  # between an operator's clock and the client's, with an answer's way
_draw = secrets.SystemRandom().random


class NotAnswered(UserError):
    """No seat answered; the message says why of each that was asked."""


class FalseStream(UserError):
    """What was streamed is not the answer. answer: the right one."""

    def __init__(self, answer: Completions) -> None:
        super().__init__("the pieces that were streamed are not the answer", hint="take `answer` of this error")
        self.answer = answer


@dataclass(frozen=True)
class Terms:
    """max_price: for 1,000 tokens; deposit: of each channel; both in smallest units of ZEN.

    check: the chance with which an answer is computed again, above 0. timeout_s: of one try; tries: at most, each at another seat.
    at_once: requests in flight. scope: where seats' URLs may lead.
    """

    max_price: int
    deposit: int
    check: float = 0.01
    timeout_s: float = 120.0
    tries: int = 3
    at_once: int = 8
    scope: Scope = Scope.PUBLIC

    def __post_init__(self) -> None:
        if not 0 < self.check <= 1:
            raise UserError(
                f"check is {self.check}; expected a chance above 0, up to 1",
                hint="0.01 computes one answer in a hundred again: if nobody did, lies would cost nothing",
            )
        for name, least in (("max_price", 0), ("deposit", 1), ("tries", 1), ("at_once", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; expected {least} or more")
        if not self.timeout_s > 0:
            raise UserError(f"timeout_s is {self.timeout_s}; expected a number above 0")


@dataclass(frozen=True)
class _Outcome:
    """ending: the right one, as far as it was checked."""

    seat: int
    operator: int
    cost: int
    paid: int
    checked: bool
    is_true: bool
    receipt: ReceiptFile
    ending: Ending

    @property
    def served(self) -> Served:
        return Served(self.seat, self.operator, self.cost, self.paid, self.checked, self.is_true, self.receipt)


@dataclass
class _Request:
    """One request over its tries. why: of each seat that did not answer it; paid: what vouchers for it add, in smallest units."""

    question: Question
    said: Said | None
    why: list[str] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)
    paid: int = 0


class Inference:
    """`Client.inference` makes it. Threads can share it. home: a folder of the client's for this network.

    draw: uniform in [0, 1), which no operator may foresee. say: what happens beside the answers.
    """

    def __init__(
        self,
        market: Market,
        stored: StoredService,
        home: Path,
        terms: Terms,
        *,
        draw: Callable[[], float] = _draw,
        say: Say,
    ) -> None:
        self.service, self.terms = stored.service, terms
        self._market, self._stored, self._draw, self._say = market, stored, draw, say
        self._receipts = Receipts(home, market.place.window_s)
        self._purse = Purse(market, home, terms.deposit, say)
        self._balance, self._checker = Balance(), Checker(stored)
        self._seats = UsableSeats(market, stored.service, terms.max_price, terms.check, self._receipts.is_dropped)
        self._domain = receipts.domain_of(market.place.chain_id, market.place.serving)
        self._in_flight = threading.BoundedSemaphore(terms.at_once)
        self._texts: Texts | None = None

    def complete(self, prompts: Prompts, max_tokens: int = 16) -> Completions:
        """What goes on each prompt. Raises BadField for what the service cannot answer, NotAnswered, NotFunded, Refusal, Unreachable.

        prompts: a text, texts, or lists of tokens; at most as many as the service's largest program takes.
        """
        return self.answer_completions(self.question(COMPLETIONS, prompts, max_tokens))

    def answer_completions(self, question: Question) -> Completions:
        """As `complete`."""
        return self._completions(question, _end_of(self._request(_Request(question, None))))

    def stream(self, prompts: Prompts, max_tokens: int = 16) -> Generator[Piece, None, Completions]:
        """As `complete`, piece by piece as the seat says them; the generator's value is the checked answer.

        A seat that dies on the way is followed by another, which goes on where it ended. Raises FalseStream at the end where the pieces
        were not the answer.
        """
        return self.stream_completions(self.question(COMPLETIONS, prompts, max_tokens))

    def stream_completions(self, question: Question) -> Generator[Piece, None, Completions]:
        """As `stream`."""
        said = Said([""] * len(question.prompts))
        outcome = yield from self._request(_Request(question, said))
        answer = self._completions(question, outcome)
        for index, text in enumerate(answer.texts):
            piece = said.reach(index, text)
            if piece is not None:
                yield piece
        if said.texts != list(answer.texts):
            for number, words in said.by.items():
                if not all(text.startswith(each) for text, each in zip(answer.texts, words, strict=True)):
                    self._drop(number, "it streamed a text that is not the answer")
            raise FalseStream(answer)
        return answer

    def embed(self, texts: Prompts) -> Embeddings:
        """A vector for each text. Raises what `complete` raises."""
        return self.answer_embeddings(self.question(EMBEDDINGS, texts, 0))

    def answer_embeddings(self, question: Question) -> Embeddings:
        """As `embed`."""
        outcome = _end_of(self._request(_Request(question, None)))
        vectors = answers.vectors_of(question, outcome.ending.outputs)
        return Embeddings(**vars(outcome.served), vectors=vectors)

    def unchecked(self) -> list[ReceiptFile]:
        """Receipts of answers that nobody computed again, as long as they count."""
        return list(self._receipts.unchecked(self._market.time()))

    def signed(self, operator: int) -> int:
        """All that was signed for to an operator, in wei."""
        return self._purse.signed(operator)

    def leave(self) -> list[int]:
        """Give notice for all channels to operators; their numbers. What no voucher was shown for comes back: `zoo channel refund`."""
        return self._purse.leave()

    def close(self) -> None:
        """Close the files. Channels stay open, for the next time."""
        self._purse.close()
        self._receipts.close()

    def question(self, kind: str, prompts: Prompts, new_tokens: int) -> Question:
        """With a nonce of its own. Raises BadField for what the service cannot answer, UserError."""
        if self.service.kind != kind:
            raise UserError(f"{self.service.model} is a service of {self.service.kind}, not of {kind}")
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        return Question(self.service, tuple(map(self._tokens, texts)), new_tokens, secrets.token_bytes(NONCE_BYTES))

    def _tokens(self, prompt: object) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return self.texts.encode(prompt)
        try:
            return tuple(operator.index(token) for token in cast("Sequence[int]", prompt))
        except TypeError:
            raise UserError(f"expected a prompt as text or as a list of tokens, got {prompt!r}") from None

    @property
    def texts(self) -> Texts:
        """The service's tokenizer. Raises UserError and the store's errors."""
        if self._texts is None:
            self._texts = open_texts(self.service, self._stored.store)
        return self._texts

    def _completions(self, question: Question, outcome: _Outcome) -> Completions:
        tokens, reasons = answers.completed(question, outcome.ending.outputs)
        texts = tuple(self.texts.decode(each) for each in tokens)
        return Completions(**vars(outcome.served), texts=texts, tokens=tokens, finish_reasons=reasons)

    def _request(self, request: _Request) -> Generator[Piece, None, _Outcome]:
        """Try one seat after the other."""
        with self._in_flight:
            for _ in range(self.terms.tries):
                seats = [seat for seat in self._seats.now() if seat.number not in request.asked]
                if not seats:
                    break
                with self._balance.turn(seats, longest_s=self.terms.timeout_s) as seat:
                    if seat is None:
                        break
                    request.asked.add(seat.number)
                    outcome = yield from self._try(seat, request)
                    if outcome is not None:
                        return outcome
        raise NotAnswered(
            "no seat answered: " + ("; ".join(request.why) or self._seats.why_none()),
            hint="try again later, with a higher max_price or a higher check (which asks for smaller locks)",
        )

    def _try(self, seat: Seat, request: _Request) -> Generator[Piece, None, _Outcome | None]:
        """None: it did not answer, and `request.why` says why. A voucher for nothing is none: what costs nothing is paid 1 wei."""
        question, began = request.question, time.monotonic()
        cost, graph = max(1, cost_of(question, seat.offer.price)), self._checker.graph(question)
        self._purse.prepare(seat.operator, cost)
        signed, owed = self._purse.signed(seat.operator), self._purse.owed(seat.operator)
        scope, timeout_s = self.terms.scope, self.terms.timeout_s
        try:
            answer = yield from ask(
                seat, question, graph, self._purse, cost, request.said, scope=scope, timeout_s=timeout_s
            )
            receipts.check(
                answer.signed, question, graph, answer.ending, seat=seat.number, signer=seat.signer, domain=self._domain,
                now=self._market.time(), slack_s=min(self._market.place.window_s // 2, CLOCKS_S),
            )  # fmt: skip
        except (Lost, Refused, VoucherRefused) as error:
            self._balance.failed(seat, getattr(error, "retry_s", 0.0))
            if isinstance(error, Refused):
                self._seats.doubt()
            if self._purse.owed(seat.operator) > owed and self._receipts.count(seat.operator, answered=False):
                self._drop(seat.operator, "it takes vouchers and does not answer")
            request.why.append(f"seat {seat.number}: {error}")
            return None
        except (Garbage, BadReceipt) as error:
            self._drop(seat.operator, str(error))
            request.why.append(f"seat {seat.number}: {error}")
            return None
        finally:
            request.paid += max(0, self._purse.signed(seat.operator) - signed)  # 0 of a channel that is gone
        self._receipts.count(seat.operator, answered=True)
        seconds = time.monotonic() - began
        if seconds > timeout_s / 2:
            self._balance.failed(seat)
        else:
            self._balance.answered(seat, seconds, question.steps)
        return self._look_at(seat, request, answer, cost)

    def _look_at(self, seat: Seat, request: _Request, answer: SignedAnswer, cost: int) -> _Outcome:
        """Keep its receipt, and compute the answer again, by chance or since something is wrong with it."""
        question, place = request.question, self._market.place
        file = ReceiptFile(answer.signed, plain(self._stored.cid, question), place.chain_id, place.serving)
        self._receipts.keep(file, self._market.time())
        ending, checked = answer.ending, self._draw() < self.terms.check or self._is_odd(request, answer.ending)
        true = True
        if checked:
            ending = self._checker.answer(question)
            true = is_true(answer.signed.receipt, ending)
            if not true:
                path = self._receipts.accuse(file)
                self._drop(seat.operator, f"its receipt is false; evidence: {path}")
            elif not answers.is_an_answer(question, ending.outputs):
                raise UserError(f"{self.service.model} has no answer to this: its outputs are no numbers, or no tokens")
            else:
                self._receipts.checked(file)
        return _Outcome(seat.number, seat.operator, cost, request.paid, checked, true, file, ending)

    def _is_odd(self, request: _Request, ending: Ending) -> bool:
        """Whether outputs are no answer, or a stream had other words."""
        question, said = request.question, request.said
        if not answers.is_an_answer(question, ending.outputs):
            return True
        if said is None:
            return False
        tokens, _ = answers.completed(question, ending.outputs)
        texts = [self.texts.decode(each) for each in tokens]
        return not all(text.startswith(each) for text, each in zip(texts, said.texts, strict=True))

    def _drop(self, number: int, why: str) -> None:
        self._receipts.drop(number, why)
        self._say(f"operator {number} is paid nothing more: {why}")


def _end_of(request: Generator[Piece, None, _Outcome]) -> _Outcome:
    """Of a request that is not streamed."""
    while True:
        try:
            next(request)
        except StopIteration as end:
            outcome: _Outcome = end.value
            return outcome


def inference(
    chain: Chain, sender: Sender, store: Store, service: str, *, terms: Terms, say: Say, home: Path | None = None
) -> Inference:
    """service: its CID. home: by default the user's folder for this network. Raises BadService, the store's errors, ConfigError."""
    stored = StoredService.fetch(store, service)
    return Inference(ChainMarket(chain, sender, service, say), stored, home or home_of(chain.network), terms, say=say)


def home_of(network: Network) -> Path:
    """Where the user's vouchers and receipts of a network lie. Development chains have equal ids; contracts tell them apart."""
    deployed = sha256("".join(network.contracts.values()).encode()).hexdigest()[:16]
    return paths.home() / "inference" / f"{network.chain_id}-{deployed}"


def scope_of(preset: str) -> Scope:
    """Where seats' URLs may lead: on a devnet also to this machine."""
    return Scope.PRIVATE if preset == DEVNET else Scope.PUBLIC
