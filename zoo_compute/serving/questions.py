"""A question to a service: all that its answer follows from (docs/protocol/serving.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repops.commitments import Array, tensor_root
from repops.fields import BadField
from zoo_compute.models.decoding_inputs import inputs_of
from zoo_compute.serving.service import COMPLETIONS, ServedProgram, Service
from zoo_compute.spec.receipts import AnswerReceipt
from zoo_compute.spec.serving import question_of

NONCE_BYTES = 32
SEED_BYTES = 4  # of a question, that the state's `seed` is
Prompts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Question:
    """prompts: the tokens of each text, at least one; new_tokens: that go on each, 0 of embeddings. nonce: the client's, 32 bytes.

    Raises BadField for what the service cannot answer.
    """

    service: Service
    prompts: Prompts
    new_tokens: int
    nonce: bytes

    def __post_init__(self) -> None:
        service, longest = self.service, max(map(len, self.prompts), default=0)
        if not self.prompts or not all(self.prompts):
            raise BadField("prompt: a text goes on from at least one token, and one is empty")
        if len(self.nonce) != NONCE_BYTES:
            raise BadField(f"nonce: expected {NONCE_BYTES} bytes, got {len(self.nonce)}")
        largest = max(token for prompt in self.prompts for token in prompt)
        if min(token for prompt in self.prompts for token in prompt) < 0 or largest >= service.vocabulary:
            raise BadField(f"prompt: {service.model} has the tokens 0 to {service.vocabulary - 1:,}")
        if (self.new_tokens > 0) != (service.kind == COMPLETIONS):
            raise BadField(
                f"max_tokens: expected {'1 or more' if service.kind == COMPLETIONS else 'none'}, got {self.new_tokens}"
            )
        if self.positions > service.context:
            raise BadField(
                f"prompt: {longest:,} tokens and {self.new_tokens:,} new ones need {self.positions:,} positions, and {service.model} "
                f"has {service.context:,}; shorten it, or lower max_tokens"
            )
        self.program  # noqa: B018 - raises for too many texts

    @property
    def positions(self) -> int:
        """The last token of a text goes into no step."""
        return max(map(len, self.prompts)) + max(self.new_tokens - 1, 0)

    @cached_property
    def program(self) -> ServedProgram:
        return self.service.program_for(len(self.prompts))

    @property
    def steps(self) -> int:
        return self.positions if self.service.kind == COMPLETIONS else 1

    @cached_property
    def asked(self) -> Array:
        """The entry of the state: what each step is given for each row. Rows without a text repeat the first one."""
        rows = [*self.prompts, *[self.prompts[0]] * (self.program.rows - len(self.prompts))]
        context = self.service.context
        if self.service.kind == COMPLETIONS:
            return inputs_of(rows, context)
        tokens = np.zeros((1, len(rows), context), np.int32)
        for row, prompt in zip(tokens[0], rows, strict=True):
            row[: len(prompt)] = prompt
        return tokens

    @cached_property
    def start_root(self) -> bytes:
        return self.service.start_root(tensor_root(self.asked))

    @cached_property
    def id(self) -> int:
        """The round of the claim that a receipt of it becomes."""
        return question_of(self.receipt())

    @property
    def seed(self) -> int:
        """Of random draws: as a trial's."""
        return int.from_bytes(self.id.to_bytes(32, "big")[:SEED_BYTES], "little", signed=True)

    def receipt(
        self, seat: int = 0, segments: bytes = bytes(32), end: bytes = bytes(32), issued: int = 0
    ) -> AnswerReceipt:
        """What a seat signs for an answer."""
        program = bytes.fromhex(self.program.root)
        return AnswerReceipt(seat, program, self.steps, self.start_root, self.nonce, segments, end, issued)
