"""A service's texts and tokens: each side makes the same tokens of a text, or they mean different questions."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any, Protocol

from zoo_compute.errors import UserError
from zoo_compute.serving.files import TIMEOUT_S, BadService
from zoo_compute.serving.service import BYTES, Service
from zoo_compute.store.interface import Store

MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
UNFINISHED = "\ufffd"  # what bytes that are not yet a character decode to


class Texts(Protocol):
    """A service's tokenizer."""

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a prompt, with those that its tokenizer begins a text with."""

    def decode(self, tokens: Sequence[int]) -> str: ...


class ByteTexts:
    """Each byte of UTF-8 is a token. A token above 255 is no text, and is shown as such."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode("utf-8", errors="replace"))

    def decode(self, tokens: Sequence[int]) -> str:
        # 0xFF is in no UTF-8 text.
        return bytes(token if token < 256 else 0xFF for token in tokens).decode(errors="replace")


class StoredTokenizer:
    """A `tokenizer.json`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_truncation()  # which the file can ask for
        tokenizer.no_padding()

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))


def open_texts(service: Service, store: Store) -> Texts:
    """Raises UserError without the library `tokenizers`, BadService for a file that is none, and the store's errors."""
    if service.tokenizer == BYTES:
        return ByteTexts()
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UserError(
            f"{service.model} needs its tokenizer's library, which is not installed",
            hint="pip install 'zoo-compute[hf]'",
        ) from error
    data = store.read(service.tokenizer, max_bytes=MAX_TOKENIZER_BYTES, timeout_s=TIMEOUT_S)
    try:
        return StoredTokenizer(Tokenizer.from_str(data.decode()))
    except Exception as error:  # the library raises bare Exception
        raise BadService(f"the tokenizer {service.tokenizer} cannot be read: {error}") from error


class Pieces:
    """A text that grows by tokens, in pieces that each end where a character does. Joined they are the text."""

    def __init__(self, texts: Texts) -> None:
        self._texts, self._tokens, self._said = texts, list[int](), ""

    def add(self, token: int) -> str:
        """What can be said now, which may be nothing."""
        self._tokens.append(token)
        text = self._texts.decode(self._tokens)
        # A tokenizer may change the end of a text with its next token: only what goes on from before is said.
        if text.endswith(UNFINISHED) or not text.startswith(self._said):
            return ""
        return self._say(text)

    def end(self) -> str:
        """The rest, of a text that may end in the middle of a character."""
        text = self._texts.decode(self._tokens)
        return self._say(text) if text.startswith(self._said) else ""

    def _say(self, text: str) -> str:
        piece, self._said = text[len(self._said) :], text
        return piece


class BytePieces:
    """`Pieces` of bytes, without decoding all of the text at each token."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(bytes([min(token, 0xFF)]))

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


def pieces_of(texts: Texts) -> Pieces | BytePieces:
    return BytePieces() if isinstance(texts, ByteTexts) else Pieces(texts)
