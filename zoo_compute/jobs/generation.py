"""A map that generates: how prompts become a step's items, and outputs become texts. No torch.

A slot's round generates `batch_size` texts from their first token to their last; each of its steps takes one token of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from repops.commitments import Array
from repops.fields import BadField
from zoo_compute.errors import UserError
from zoo_compute.huggingface import models as pretrained
from zoo_compute.huggingface import tokens
from zoo_compute.huggingface.places import Place
from zoo_compute.jobs.model_source import ModelSource
from zoo_compute.jobs.sections import DataSection, MapSection, TrainingSection
from zoo_compute.jobs.stored_data import lines_of, tokenizer_place
from zoo_compute.models.decoding_inputs import inputs_of
from zoo_compute.spec.params import MAX_ROUNDS
from zoo_compute.training.examples import Examples


@dataclass(frozen=True)
class Text:
    """What was generated from a prompt. tokens: up to the end-of-text token, without it. prompt: empty if it came as tokens alone.

    text: empty if tokens without a tokenizer are no bytes.
    """

    prompt: str
    text: str
    tokens: list[int]


@dataclass(frozen=True)
class Generation:
    """prompts: each one's tokens. said: as text, empty if they came as tokens. end: the end-of-text token; None: no such token."""

    section: MapSection
    prompts: tuple[tuple[int, ...], ...]
    said: tuple[str, ...] = ()
    end: int | None = None
    tokenizer: Place | None = None

    @property
    def new_tokens(self) -> int:
        assert self.section.new_tokens is not None
        return self.section.new_tokens

    @property
    def steps(self) -> int:
        """Of a slot's round, and positions of the cache: the last token of a text goes into no step."""
        return max(map(len, self.prompts)) + self.new_tokens - 1

    @property
    def training(self) -> TrainingSection:
        """As few rounds as possible; the last one begins with the first prompts again where these do not fill it. Raises BadField."""
        section = self.section
        rounds = -(-len(self.prompts) // (section.slots * section.batch_size))
        if rounds > MAX_ROUNDS:
            raise BadField(
                f"map: {len(self.prompts):,} prompts make {rounds:,} rounds, at most {MAX_ROUNDS:,}; raise batch_size or slots"
            )
        segment = section.segment_steps or -(-self.steps // 4)
        return TrainingSection(
            section.batch_size, self.steps, rounds, section.slots,
            quorum=section.slots, segment_steps=min(segment, self.steps), seed=section.seed,
        )  # fmt: skip

    @cached_property
    def items(self) -> Array:
        """The inputs of all steps, in the order of rounds, slots and steps: (items,) int32."""
        size = self.section.batch_size
        places = np.arange(self.training.rounds * self.section.slots * size) % len(self.prompts)
        groups = places.reshape(-1, size)
        return np.concatenate([inputs_of([self.prompts[at] for at in group], self.steps).ravel() for group in groups])

    def tokens_of(self, outputs: Array) -> list[list[int]]:
        """The new tokens of each prompt. outputs: of all items. Raises UserError for a text with a token that its model lacks."""
        made = outputs.reshape(-1, self.steps, self.section.batch_size).swapaxes(1, 2).reshape(-1, self.steps)
        out = []
        for number, (prompt, row) in enumerate(zip(self.prompts, made, strict=False), 1):
            new = row[len(prompt) - 1 :][: self.new_tokens]
            if not np.isfinite(new).all():
                raise UserError(
                    f"prompt {number}: the model has no output for it", hint="a token is beyond its vocabulary"
                )
            tokens_ = [int(token) for token in new]
            out.append(tokens_[: tokens_.index(self.end)] if self.end in tokens_ else tokens_)
        return out

    def texts(self, outputs: Array) -> list[Text]:
        """What was generated, in the order of the prompts. outputs: of all items."""
        made = self.tokens_of(outputs)
        if self.tokenizer is None:
            texts = [bytes(each).decode(errors="replace") if max(each, default=0) < 256 else "" for each in made]
        else:
            texts = tokens.load_tokenizer(self.tokenizer).batch_decode(made, skip_special_tokens=True)
        said = self.said or ("",) * len(made)
        return [Text(*each) for each in zip(said, texts, made, strict=True)]


def generation_of(
    section: MapSection, data: DataSection, arrays: Examples | None, model: ModelSource, directory: Path
) -> Generation:
    """The prompts of a job, as the model's tokens. arrays: the data's, if it is no file of text. Raises BadField, UserError."""
    if model.program:
        raise BadField("map.new_tokens: generation takes a model, whose step it makes itself, and no program file")
    place = _tokenizer(data, model, directory, needed=arrays is None or _has_texts(arrays))
    said, rows = _prompts(data, arrays, place, model, directory)
    generation = Generation(section, rows, said, end_of(model, place), place)
    _check(generation, model)
    return generation


def _has_texts(arrays: Examples) -> bool:
    return any(array.dtype.kind == "U" for array in arrays.values())


def _tokenizer(data: DataSection, model: ModelSource, directory: Path, *, needed: bool) -> Place | None:
    if needed or data.tokenizer:
        return tokenizer_place(data, model, directory)
    source = model.source
    return source if isinstance(source, Place) and tokens.has_tokenizer(source) else None


def _prompts(
    data: DataSection, arrays: Examples | None, place: Place | None, model: ModelSource, directory: Path
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """As text, if they are, and as tokens."""
    if arrays is not None and len(arrays) != 1:
        raise BadField(f"data: expected one array of prompts, got {', '.join(map(repr, arrays)) or 'none'}")
    if arrays is not None and not _has_texts(arrays):
        return (), _rows(next(iter(arrays.values())))
    texts = lines_of(data, directory) if arrays is None else [str(each) for each in next(iter(arrays.values())).ravel()]
    if place is None:
        return tuple(texts), tuple(tuple(text.encode()) for text in texts)
    tokenizer = tokens.load_tokenizer(place)
    tokens.check_vocabulary(tokenizer, place, model.vocabulary)
    return tuple(texts), tuple(map(tuple, tokens.prompts_of(texts, tokenizer)))


def _rows(array: Array) -> tuple[tuple[int, ...], ...]:
    """The tokens of each row before its first negative number."""
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise BadField(
            "data: expected prompts as texts, or as integers (prompts, tokens) with -1 after each one's last token, got "
            f"{array.dtype} {array.shape}"
        )
    rows = []
    for row in array:
        ends = np.flatnonzero(row < 0)
        rows.append(tuple(int(token) for token in (row[: ends[0]] if len(ends) else row)))
    return tuple(rows)


def end_of(model: ModelSource, place: Place | None) -> int | None:
    """The tokenizer's end-of-text token, else that of a model of `transformers`."""
    known: Any = None
    if place is not None:
        known = tokens.load_tokenizer(place).eos_token_id
    elif model.source is not None:
        known = getattr(pretrained.config_of(model.source), "eos_token_id", None)
    return known if isinstance(known, int) else None


def _check(generation: Generation, model: ModelSource) -> None:
    if not generation.prompts:
        raise BadField("data: there is no prompt; give at least one")
    vocabulary, context = model.vocabulary, model.context
    for number, prompt in enumerate(generation.prompts, 1):
        if not prompt:
            raise BadField(f"data: prompt {number} is empty; a text goes on from at least one token")
        if vocabulary is not None and max(prompt) >= vocabulary:
            raise BadField(
                f"data: prompt {number} has token {max(prompt)}, and the model has {vocabulary:,} tokens; bytes need 256"
            )
        size = len(prompt) + generation.new_tokens - 1
        if context is not None and size > context:
            raise BadField(
                f"data: prompt {number} has {len(prompt):,} tokens: with {generation.new_tokens:,} new ones it needs {size:,} "
                f"positions, and the model has {context:,}; shorten it, or lower map.new_tokens"
            )


def prompts_array(prompts: Sequence[str] | Sequence[Sequence[int]]) -> Array:
    """Prompts as one array: texts, or tokens with -1 after each one's last. Raises UserError for a mixture."""
    every = list(prompts)
    if all(isinstance(each, str) for each in every):
        return np.array(every, dtype=np.str_)
    if any(isinstance(each, str) for each in every):
        raise UserError("prompts: expected texts, or lists of tokens, got both")
    rows = np.full((len(every), max((len(each) for each in every), default=0)), -1, np.int64)
    for row, each in zip(rows, every, strict=True):
        row[: len(each)] = list(each)
    return rows
