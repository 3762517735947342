"""Answers as OpenAI's clients read them, with the receipt beside: whole, or piece by piece."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keepers.serving.engine import Answer
from keepers.serving.requests import Asked
from repops.commitments import Array
from zoo_compute.serving.execution import Tokens, tokens_of
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import COMPLETIONS
from zoo_compute.serving.texts import BytePieces, Pieces, Texts, pieces_of

STOP, LENGTH = "stop", "length"  # a text ended by itself, or has as many new tokens as were asked for


def zoo_of(answer: Answer, owed: int) -> dict[str, Any]:
    """What a client checks, and keeps for a dispute. owed: what the channel owes now."""
    receipt, outputs = answer.signed.receipt, answer.ending.outputs
    return {
        "receipt": {
            name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(receipt).items()
        },
        "signature": "0x" + answer.signed.signature.hex(),
        "outputs": as_base64(outputs),
        "shape": list(outputs.shape),
        "path": [each.hex() for each in answer.ending.path],
        "owed": str(owed),
    }


def whole(asked: Asked, answer: Answer, texts: Texts, owed: int) -> dict[str, Any]:
    """The body of an answer that is sent at once."""
    question, zoo = asked.question, zoo_of(answer, owed)
    if question.service.kind != COMPLETIONS:
        vectors = answer.ending.outputs[0, : len(question.prompts)]
        data = [
            {"object": "embedding", "index": index, "embedding": as_base64(row) if asked.as_base64 else row.tolist()}
            for index, row in enumerate(vectors)
        ]
        return {
            "object": "list",
            "data": data,
            "model": question.service.model,
            "usage": usage_of(question),
            "zoo": zoo,
        }
    made = tokens_of(question, answer.ending.outputs)
    choices = [
        {"text": texts.decode(tokens), "index": index, "finish_reason": _reason(question, tokens), "logprobs": None}
        for index, tokens in enumerate(made)
    ]
    return {**head_of(question), "choices": choices, "usage": usage_of(question, made), "zoo": zoo}


def usage_of(question: Question, made: Tokens = ()) -> dict[str, int]:
    """completion_tokens: without the end-of-text tokens."""
    prompt, completion = sum(map(len, question.prompts)), sum(map(len, made))
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + completion}
    return {**usage, "completion_tokens": completion} if question.service.kind == COMPLETIONS else usage


@dataclass(frozen=True)
class Stream:
    """An answer in pieces, as lines of server-sent events."""

    question: Question
    texts: Texts

    @cached_property
    def _pieces(self) -> list[Pieces | BytePieces]:
        return [pieces_of(self.texts) for _ in self.question.prompts]

    @cached_property
    def _left(self) -> list[int]:
        """New tokens that each text still gets; 0 once it has ended."""
        return [self.question.new_tokens] * len(self.question.prompts)

    @cached_property
    def _head(self) -> dict[str, Any]:
        return head_of(self.question)

    def step(self, number: int, outputs: Array) -> str:
        """What a step adds; empty if that is nothing. outputs: (rows,) of the step."""
        choices = []
        for index, prompt in enumerate(self.question.prompts):
            if number < len(prompt) - 1 or not self._left[index]:
                continue
            piece = self._piece(index, int(outputs[index]))
            if piece:
                choices.append({"text": piece, "index": index, "finish_reason": None, "logprobs": None})
        return event({**self._head, "choices": choices}) if choices else ""

    def end(self, answer: Answer, owed: int) -> str:
        """The last object and the end."""
        made = tokens_of(self.question, answer.ending.outputs)
        choices = [
            {"text": "", "index": index, "finish_reason": _reason(self.question, tokens), "logprobs": None}
            for index, tokens in enumerate(made)
        ]
        usage, zoo = usage_of(self.question, made), zoo_of(answer, owed)
        return event({**self._head, "choices": choices, "usage": usage, "zoo": zoo}) + "data: [DONE]\n\n"

    def _piece(self, index: int, token: int) -> str:
        pieces = self._pieces[index]
        if token == self.question.service.end:
            self._left[index] = 0
            return pieces.end()
        self._left[index] -= 1
        piece = pieces.add(token)
        return piece + pieces.end() if not self._left[index] else piece


def event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


def head_of(question: Question) -> dict[str, Any]:
    name = f"cmpl-{question.id:064x}"[:29]
    return {"id": name, "object": "text_completion", "created": int(time.time()), "model": question.service.model}


def _reason(question: Question, tokens: tuple[int, ...]) -> str:
    return LENGTH if len(tokens) == question.new_tokens else STOP


def as_base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()
