"""Bitmaps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.spec import bits

bitmaps = st.integers(0, bits.UINT256_MAX)


def test_full_and_bit_end_with_the_word() -> None:
    assert bits.full(0) == 0
    assert bits.full(256) == bits.UINT256_MAX
    assert bits.bit(255) == 2**255
    assert bits.bit(256) == bits.bit(2**256 - 1) == 0


def test_an_empty_bitmap_has_no_lowest_bit() -> None:
    with pytest.raises(ValueError, match="empty"):
        bits.lowest(0)


@given(bitmap=bitmaps)
def test_bits_are_listed_ascending_and_make_up_the_bitmap(bitmap: int) -> None:
    slots = list(bits.slots_in(bitmap))
    assert slots == sorted(set(slots))
    assert sum(map(bits.bit, slots)) == bitmap
    assert len(slots) == bits.popcount(bitmap)
    assert not slots or slots[0] == bits.lowest(bitmap)


@given(bitmap=bitmaps, removed=bitmaps)
def test_without_removes_and_adds_nothing(bitmap: int, removed: int) -> None:
    left = bits.without(bitmap, removed)
    assert left & removed == 0
    assert left | (bitmap & removed) == bitmap
