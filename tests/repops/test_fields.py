"""Reading what strangers wrote."""

from __future__ import annotations

import pytest

from repops.fields import BadField, parse_json


def test_a_whole_number__is_read_up_to_a_word_and_refused_beyond_any_use():
    assert parse_json(str(2**256 - 1).encode(), "x") == 2**256 - 1
    with pytest.raises(BadField, match="a number of 400 digits"):
        parse_json(b'{"seconds":' + b"9" * 400 + b"}", "x")


@pytest.mark.parametrize("text", [b"1e999", b"[-1e999]", b"NaN", b"Infinity"])
def test_a_number_that_is_not_finite__is_refused(text: bytes):
    with pytest.raises(BadField, match="is not a finite number"):
        parse_json(text, "x")
