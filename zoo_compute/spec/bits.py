"""Bitmaps: bit `i` is seat `i`, or another item (docs/protocol/index.md)."""

from collections.abc import Iterator

WORD_BITS: int = 256  # the EVM's word
UINT256_MAX: int = 2**WORD_BITS - 1


def full(count: int) -> int:
    """The bitmap of 0 .. count-1."""
    return (1 << count) - 1


def bit(index: int) -> int:
    """The bitmap with one bit; 0 beyond the word, like the EVM's shift."""
    return 1 << index if index < WORD_BITS else 0


def popcount(bitmap: int) -> int:
    """The number of set bits."""
    return bitmap.bit_count()


def lowest(bitmap: int) -> int:
    """The lowest bit of a bitmap that is not empty."""
    if bitmap == 0:
        raise ValueError("an empty bitmap has no lowest bit")
    return (bitmap & -bitmap).bit_length() - 1


def slots_in(bitmap: int) -> Iterator[int]:
    """The bits of a bitmap, ascending."""
    while bitmap:
        yield lowest(bitmap)
        bitmap &= bitmap - 1


def without(bitmap: int, removed: int) -> int:
    """`bitmap & ~removed`."""
    return bitmap & ~removed
