"""What a seat answers: the receipt, and the outputs that it opens. Texts and vectors follow from the outputs, never from the seat's words."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from repops.commitments import Array
from repops.fields import BadField
from repops.graph import Graph
from zoo_compute.inference.exchange import Garbage, amount_of
from zoo_compute.serving.execution import Ending, Tokens, tokens_of
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipt_file import ReceiptFile, receipt_of_dict, signature_of_text
from zoo_compute.serving.receipts import SignedReceipt
from zoo_compute.serving.service import OUTPUTS

ROOM = 1 << 20  # bytes of an answer beside its outputs and its texts
NUMBER_ROOM = 32  # for each number of a vector, in decimal
TOKEN_ROOM = 1_024  # bytes of an answer for each new token: a stream has an object for each


@dataclass(frozen=True)
class SignedAnswer:
    """As a seat sends it, in the right form; nothing of it is checked. owed: what the seat says that the channel owes now."""

    signed: SignedReceipt
    ending: Ending
    owed: int | None


@dataclass(frozen=True)
class Served:
    """How a request was answered. cost: in smallest units of ZEN, of this answer; paid: with tries that nobody answered.

    checked: whether the answer was computed again here; is_true: unless that showed that the receipt is false: then the answer is the one
    that was computed here. receipt: whoever has it may have it judged, for a window.
    """

    seat: int
    operator: int
    cost: int
    paid: int
    checked: bool
    is_true: bool
    receipt: ReceiptFile


@dataclass(frozen=True)
class Completions(Served):
    """texts, tokens: that go on each prompt, without the end-of-text token. finish_reasons: `stop` for a text that ended, else `length`."""

    texts: tuple[str, ...]
    tokens: Tokens
    finish_reasons: tuple[str, ...]


@dataclass(frozen=True)
class Embeddings(Served):
    """vectors: (texts, width) float32."""

    vectors: Array


def most_bytes(graph: Graph, question: Question) -> int:
    """Of an answer to a question: who sends more sends something else."""
    numbers = int(np.prod(_shape(graph)))
    said = TOKEN_ROOM * question.new_tokens * len(question.prompts) if question.new_tokens else NUMBER_ROOM * numbers
    return ROOM + 8 * numbers + said


def parse_answer(body: Mapping[str, Any], graph: Graph) -> SignedAnswer:
    """The part `zoo` of an answer. Raises Garbage."""
    zoo = body.get("zoo")
    if not isinstance(zoo, dict):
        raise Garbage("it has no receipt")
    try:
        signed = SignedReceipt(receipt_of_dict(zoo.get("receipt")), signature_of_text(zoo.get("signature")))
        path = tuple(_root(each) for each in _list(zoo.get("path")))
    except BadField as error:
        raise Garbage(str(error)) from None
    shape = _shape(graph)
    try:
        data = base64.b64decode(str(zoo.get("outputs")), validate=True)
    except ValueError:
        raise Garbage("its outputs are not base64") from None
    if zoo.get("shape") != list(shape) or len(data) != int(np.prod(shape)) * 4:
        raise Garbage(f"its outputs are not of the shape {list(shape)}")
    outputs = np.frombuffer(data, "<f4").reshape(shape).astype(np.float32)
    receipt = signed.receipt
    return SignedAnswer(signed, Ending(receipt.segments, receipt.end, outputs, path), amount_of(zoo.get("owed")))


def is_an_answer(question: Question, outputs: Array) -> bool:
    """Whether outputs are of the kind that the service has: numbers, and of texts tokens that there are."""
    if not np.isfinite(outputs).all():
        return False
    if not question.new_tokens:
        return True
    return bool(((outputs >= 0) & (outputs < question.service.vocabulary) & (outputs == np.floor(outputs))).all())


def completed(question: Question, outputs: Array) -> tuple[Tokens, tuple[str, ...]]:
    """Tokens and finish reasons."""
    tokens = tokens_of(question, outputs)
    return tokens, tuple("stop" if len(each) < question.new_tokens else "length" for each in tokens)


def vectors_of(question: Question, outputs: Array) -> Array:
    """(texts, width)."""
    vectors: Array = outputs[0, : len(question.prompts)].copy()
    return vectors


def _shape(graph: Graph) -> tuple[int, ...]:
    return next(graph.nodes[entry.before].shape for entry in graph.state if entry.name == OUTPUTS)


def _list(raw: object) -> list[object]:
    if not isinstance(raw, list) or len(raw) > 64:
        raise BadField("path: expected a list of roots")
    return raw


def _root(raw: object) -> bytes:
    if not isinstance(raw, str) or len(raw) != 64 or not set(raw) <= set("0123456789abcdef"):
        raise BadField("path: expected 64 lower-case hex digits")
    return bytes.fromhex(raw)
