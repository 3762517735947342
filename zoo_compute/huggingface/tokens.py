"""Texts to one row of tokens: documents without special tokens, with the end-of-text token in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repops.commitments import Array
from zoo_compute.errors import UserError
from zoo_compute.huggingface import library, reason
from zoo_compute.huggingface.places import Place

KEY = "data.tokenizer"
AT_ONCE = 1_000  # documents
PIECE = 1 << 20  # characters of a long document that are tokenized together
MAX_TOKENS = 2**29
# What a job's model is trained on. A tokenizer of no particular model adds token types, which GPT-2 would take for tokens.
INPUTS = ("input_ids", "attention_mask")
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model")


def has_tokenizer(place: Place) -> bool:
    """Whether a folder of a model has a tokenizer too. A name of the hub is expected to."""
    return not place.is_local or any((Path(place.location) / name).exists() for name in FILES)


def load_tokenizer(place: Place) -> Any:
    """A fast tokenizer of `transformers`: of a folder, a `tokenizer.json`, or the hub. Raises UserError."""
    transformers, options = library("transformers", KEY), {"model_input_names": list(INPUTS)}
    try:
        if place.is_local and Path(place.location).is_file():
            return transformers.PreTrainedTokenizerFast(tokenizer_file=place.location, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place.location, **options, **place.options)
    except Exception as error:  # the library raises what its parsers raise, also bare Exception
        raise UserError(
            f"{KEY}: {place.said} {_fault(place, error)}",
            hint="give a folder that `tokenizer.save_pretrained` wrote, or a tokenizer.json",
        ) from error
    if not tokenizer.is_fast:
        raise UserError(
            f"{KEY}: {place.said} has no tokenizer.json", hint="convert it to a fast tokenizer, and save it"
        )
    return tokenizer


def _fault(place: Place, error: Exception) -> str:
    path = Path(place.location)
    if place.is_local and path.is_dir() and not (path / "tokenizer.json").exists():
        return "has no tokenizer.json"
    return f"cannot be read: {reason(error)}"


def check_vocabulary(tokenizer: Any, place: Place, vocabulary: int | None) -> None:
    """Refuse a tokenizer with more tokens than the model, if the model's vocabulary is known. Raises UserError."""
    if vocabulary is not None and len(tokenizer) > vocabulary:
        raise UserError(
            f"{KEY}: {place.said} has {len(tokenizer):,} tokens, the model {vocabulary:,}",
            hint="take the model's own tokenizer, or a model with a vocabulary as large",
        )


def tokens_of(texts: Sequence[str], tokenizer: Any, say: Callable[[str], None]) -> Array:
    """The tokens of all texts as int32 (tokens,). Raises UserError for more than MAX_TOKENS."""
    backend, end = tokenizer.backend_tokenizer, tokenizer.eos_token_id
    backend.no_truncation()  # which a tokenizer.json can ask for
    backend.no_padding()
    parts: list[Array] = []
    total = reported = 0
    for first in range(0, len(texts), AT_ONCE):
        chosen = [list(_pieces(text)) for text in texts[first : first + AT_ONCE]]
        encodings = iter(
            backend.encode_batch([piece for pieces in chosen for piece in pieces], add_special_tokens=False)
        )
        for pieces in chosen:
            ids = [token for _ in pieces for token in next(encodings).ids]
            parts.append(np.array(ids if end is None else [*ids, end], np.int32))
            total += len(parts[-1])
        if total > MAX_TOKENS:
            raise UserError(f"data: more than {MAX_TOKENS:,} tokens", hint="take a part, such as `split: train[:10%]`")
        done = min(first + AT_ONCE, len(texts))
        if done * 10 // len(texts) > reported:
            reported = done * 10 // len(texts)
            say(f"tokenized {done:,} of {len(texts):,} documents: {total:,} tokens")
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def tokens_of_each(texts: Sequence[str], tokenizer: Any) -> list[Sequence[int]]:
    """The tokens of each text, without special ones."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return [encoding.ids for encoding in backend.encode_batch(list(texts), add_special_tokens=False)]


def prompts_of(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of each text, with the special ones that the tokenizer begins a text with."""
    return [list(ids) for ids in tokenizer(list(texts), truncation=False, padding=False)["input_ids"]]


def _pieces(text: str) -> Iterator[str]:
    """A long text in parts of about PIECE characters, cut at ends of lines. Joined they are the text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE) + 1
        yield text[start : end or len(text)]
        start = end or len(text)
