"""A request at one seat: paid by a voucher, sent, and read, all at once or piece by piece."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from repops.graph import Graph
from zoo_compute.inference.answers import SignedAnswer, most_bytes, parse_answer
from zoo_compute.inference.exchange import Garbage, Lost, Post, Refused, Response, connected
from zoo_compute.inference.purse import Purse
from zoo_compute.inference.seats import Seat
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import COMPLETIONS
from zoo_compute.store.addresses import Scope

PAYMENT_REQUIRED = 402


@dataclass(frozen=True)
class Piece:
    """More of a text. index: of the prompt that it goes on."""

    index: int
    text: str


@dataclass
class Said:
    """What was streamed of each text, over all tries; a question leads every honest seat to the same one.

    by: what each operator said. Where one contradicts another nothing more is new: then `texts` is not the answer in the end.
    """

    texts: list[str]
    by: dict[int, list[str]] = field(default_factory=dict)

    def add(self, operator: int, index: int, text: str) -> Piece | None:
        """What is new in a piece of an operator's."""
        words = self.by.setdefault(operator, [""] * len(self.texts))
        words[index] += text
        return self.reach(index, words[index])

    def reach(self, index: int, text: str) -> Piece | None:
        """A text from its beginning: what was not said of it yet."""
        so_far = self.texts[index]
        if len(text) <= len(so_far) or not text.startswith(so_far):
            return None
        self.texts[index] = text
        return Piece(index, text[len(so_far) :])


def ask(
    seat: Seat,
    question: Question,
    graph: Graph,
    purse: Purse,
    cost: int,
    said: Said | None,
    *,
    scope: Scope,
    timeout_s: float,
) -> Generator[Piece, None, SignedAnswer]:
    """The answer, of which nothing is checked. said: of a stream, whose new pieces it yields.

    A voucher is signed once there is a connection. What was signed for grows by `cost` at most. Raises Lost, Refused, Garbage,
    VoucherRefused.
    """
    deadline = time.monotonic() + timeout_s
    before, signed = purse.owed(seat.operator), purse.signed(seat.operator)
    for again in (True, False):
        try:
            with connected(seat.offer.url, scope, deadline=deadline) as connection:
                voucher = purse.pay(seat.operator, cost)
                headers = {"Zoo-Nonce": question.nonce.hex(), "Zoo-Voucher": json.dumps(voucher.to_dict())}
                response = connection.send(_post(question, headers, said is not None), most_bytes(graph, question))
                answer = yield from _read(response, seat.operator, graph, question, said)
        except Refused as refused:
            if refused.status != PAYMENT_REQUIRED:
                purse.heard(seat.operator, before)  # it refuses before it takes a voucher
            elif refused.owed is None:
                purse.look(seat.operator)
            # An earlier voucher, whose answer was lost, had come after all.
            elif purse.heard(seat.operator, refused.owed) and refused.owed <= signed and again:
                continue
            raise
        purse.heard(seat.operator, voucher.voucher.total)
        purse.heard(seat.operator, answer.owed)
        return answer
    raise AssertionError("unreachable")


def _post(question: Question, headers: dict[str, str], streams: bool) -> Post:
    prompts, model = [list(prompt) for prompt in question.prompts], question.service.model
    if question.service.kind != COMPLETIONS:
        return Post("/v1/embeddings", {"model": model, "input": prompts}, headers)
    body = {"model": model, "prompt": prompts, "max_tokens": question.new_tokens, "stream": streams}
    return Post("/v1/completions", body, headers)


def _read(
    response: Response, operator: int, graph: Graph, question: Question, said: Said | None
) -> Generator[Piece, None, SignedAnswer]:
    if said is None:
        return parse_answer(response.whole(), graph)
    answer = None
    for event in response.events():
        if isinstance(event.get("error"), dict):
            raise Lost(f"it ends in the middle: {str(event['error'].get('message'))[:500]}")
        if "zoo" in event:
            if answer is not None:
                raise Garbage("it has two receipts")
            answer = parse_answer(event, graph)
        for choice in _choices(event):
            index, text = choice.get("index"), choice.get("text")
            if not isinstance(index, int) or not 0 <= index < len(question.prompts) or not isinstance(text, str):
                raise Garbage("it has a piece of no text that was asked for")
            piece = said.add(operator, index, text)
            if piece is not None:
                yield piece
    if answer is None:
        raise Garbage("it has no receipt")
    return answer


def _choices(event: dict[str, Any]) -> list[dict[str, Any]]:
    choices = event.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        raise Garbage("it is no stream of choices")
    return choices
