"""What a job's file says of operators, as its terms have it and as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jobs.job_keys import ADAMW
from zoo_compute.jobs.requirements import RequirementsSection
from zoo_compute.requirement_words import described, format_region, parse_region, to_dict
from zoo_compute.spec.requirements import Requirements, is_known, requirements_of

ALL: dict[str, Any] = ADAMW["requirements"]
EU_DE = int.from_bytes(b"EUDE", "big")
PARTS = {
    "gpu_class": Requirements(classes=1 << 2 | 1 << 3),
    "vram_gb": Requirements(vram_gb=24),
    "admitted": Requirements(admitted=True),
    "tier": Requirements(tier=1),
    "hours": Requirements(hours=12),
    "region": Requirements(region=EU_DE),
}


def test_requirements__are_one_word_of_the_terms_to_which_each_key_adds_its_part() -> None:
    assert set(PARTS) == set(ALL)
    assert {key: RequirementsSection(**{key: ALL[key]}).word for key in ALL} == {k: v.word for k, v in PARTS.items()}
    word = RequirementsSection(**ALL).word
    assert word == sum(part.word for part in PARTS.values())
    assert is_known(word)
    assert RequirementsSection().word == 0
    assert RequirementsSection(gpu_class="datacenter").word == Requirements(classes=1 << 3).word
    assert RequirementsSection(gpu_class=["apple", "apple silicon"]).word == Requirements(classes=1 << 4).word


def test_requirements__are_read_back_as_they_were_written() -> None:
    word = RequirementsSection(**ALL).word
    assert to_dict(word) == ALL
    assert RequirementsSection(**to_dict(word)).word == word
    assert to_dict(0) == {"gpu_class": [], "vram_gb": 0, "admitted": False, "tier": "none", "hours": 0, "region": ""}
    assert described(0) == []
    assert described(word) == [
        "class professional or datacenter",
        "24 GB",
        "admitted",
        "tier bronze",
        "12 promised hours",
        "region EU-DE",
    ]


@pytest.mark.parametrize(("text", "word"), [("", 0), ("eu", 0x45550000), ("EU-DE", EU_DE), ("as-jp", 0x41534A50)])
def test_region__as_written__is_one_word(text: str, word: int) -> None:
    assert parse_region(text) == word
    assert format_region(word) == text.upper()


@pytest.mark.parametrize("text", ["DE", "EUR", "EU-", "EU-D", "EU-DEU", "EU DE", "E1", "ÄÖ"])
def test_region__that_is_none__is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no region: expected AF \(Africa\).*such as EU-DE"):
        parse_region(text)


@pytest.mark.parametrize(("word", "text"), [(2**32 - 1, "??-??"), (0x1B5B4100, "??-A?"), (1, "??-??")])
def test_region__of_other_bytes__is_shown_without_them(word: int, text: str) -> None:
    """Anyone may declare any 32 bits; a terminal never sees them."""
    assert format_region(word) == text


def test_words_without_a_meaning__are_not_known() -> None:
    most = Requirements(2**32 - 1, 2**16 - 1, 0b11110, 24, 3, admitted=True)
    assert is_known(most.word)
    assert requirements_of(most.word) == most
    for beyond in (1 << 80, 1 << 24, 1 << 29, 25 << 16, 4 << 8, 2):
        assert not is_known(beyond)
