"""Texts and tokens of a service, and that a text said in pieces is the whole one."""

from __future__ import annotations

import random

import pytest

from zoo_compute.serving.texts import ByteTexts, StoredTokenizer, Texts, pieces_of


def joined(texts: Texts, tokens: list[int]) -> tuple[str, int]:
    pieces = pieces_of(texts)
    said = [pieces.add(token) for token in tokens]
    return "".join(said) + pieces.end(), sum(bool(piece) for piece in said)


@pytest.mark.parametrize("text", ["", "plain", "ä€𝄞", "a𝄞" * 20])
def test_bytes__come_back(text: str) -> None:
    texts = ByteTexts()
    assert texts.decode(texts.encode(text)) == text
    assert joined(texts, list(texts.encode(text))) == (text, len(text))


def test_pieces_of_any_bytes__join_to_what_they_decode_to_together() -> None:
    source, texts = random.Random(5), ByteTexts()
    for _ in range(300):
        tokens = [
            source.choice([*b"a\xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e\xff", 300]) for _ in range(source.randrange(12))
        ]
        assert joined(texts, tokens)[0] == texts.decode(tokens)


def test_pieces_of_a_tokenizer__join_to_the_whole_and_break_no_character() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), vocab_size=260
    )
    tokenizer.train_from_iterator(["the fox"], trainer)
    texts = StoredTokenizer(tokenizer)
    text = "the ä𝄞 fox €"
    whole, said = joined(texts, list(texts.encode(text)))
    assert (whole, said > 5) == (text, True)
    cut = list(texts.encode("€"))[:-1]
    assert joined(texts, cut)[0] == texts.decode(cut) == "\ufffd"
