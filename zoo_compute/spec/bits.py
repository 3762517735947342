"""Bitmaps of slots: bit `i` is slot `i` (docs/protocol.md, "Conventions")."""

from collections.abc import Iterator

WORD_BITS: int = 256  # slots at most; also the EVM's word
UINT256_MAX: int = 2**WORD_BITS - 1


def full(count: int) -> int:
    """The bitmap of slots 0 .. count-1."""
    return (1 << count) - 1


def bit(index: int) -> int:
    """The bitmap of one slot; 0 past the word, as the EVM's shift gives."""
    return 1 << index if index < WORD_BITS else 0


def run_of(first: int, count: int) -> int:
    """The bitmap of `count` consecutive slots from `first`."""
    return full(count) << first


def popcount(bitmap: int) -> int:
    """How many slots a bitmap holds."""
    return bitmap.bit_count()


def lowest(bitmap: int) -> int:
    """The lowest slot of a bitmap that is not empty."""
    if bitmap == 0:
        raise ValueError("an empty bitmap has no lowest slot")
    return (bitmap & -bitmap).bit_length() - 1


def slots_in(bitmap: int) -> Iterator[int]:
    """The slots of a bitmap, ascending."""
    while bitmap:
        yield lowest(bitmap)
        bitmap &= bitmap - 1


def without(bitmap: int, removed: int) -> int:
    """`bitmap & ~removed`."""
    return bitmap & ~removed
