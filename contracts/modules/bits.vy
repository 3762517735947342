# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Bitmaps of seats
@license Apache-2.0
@notice Bit `i` of a bitmap is seat `i`.
"""


# Masks of the narrow fields that packed words are made of.
U8: constant(uint256) = 2**8 - 1
U16: constant(uint256) = 2**16 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
U64: constant(uint256) = 2**64 - 1
U80: constant(uint256) = 2**80 - 1
U96: constant(uint256) = 2**96 - 1
U104: constant(uint256) = 2**104 - 1
U112: constant(uint256) = 2**112 - 1
U128: constant(uint256) = 2**128 - 1
U160: constant(uint256) = 2**160 - 1

# Every second bit, pair, nibble and byte: 0x55.., 0x33.., 0x0F0F.., 0x00FF00FF... The divisions are exact, since
# 2^(2w) - 1 divides 2^256 - 1 and is (2^w - 1)(2^w + 1).
ALTERNATE_1: constant(uint256) = max_value(uint256) // 3
ALTERNATE_2: constant(uint256) = max_value(uint256) // 5
ALTERNATE_4: constant(uint256) = max_value(uint256) // 17
ALTERNATE_8: constant(uint256) = max_value(uint256) // 257
# 1 in every field of 16 bits: 0x00010001...
ONES_16: constant(uint256) = max_value(uint256) // U16


@internal
@pure
def _full(n: uint256) -> uint256:
    """
    @notice The bitmap of seats 0..n-1, that is `2^n - 1`.
    @param n 1..256. A larger `n` underflows and reverts; 0 gives 0.
    """
    return max_value(uint256) >> (256 - n)


@internal
@pure
def _popcount(bitmap: uint256) -> uint256:
    """
    @notice How many bits are set.
    @dev Warren, Hacker's Delight, 5-1, on 256 bits: sums of neighbouring fields in parallel.
    """
    # A field of w bits after this step holds at most w (2, then 4, then 8), which fits in its w bits, and a two-bit
    # field `x` is at least `x >> 1 & 1`: none of the unsafe operations below can carry or borrow across fields.
    odd: uint256 = (bitmap >> 1) & ALTERNATE_1
    x: uint256 = unsafe_sub(bitmap, odd)
    x = unsafe_add(
        x & ALTERNATE_2,
        (x >> 2) & ALTERNATE_2,
    )
    x = unsafe_add(x, x >> 4) & ALTERNATE_4
    # 32 bytes of at most 8 each: 256 does not fit in a byte, so bytes are first paired into 16 fields of 16 bits.
    x = unsafe_add(x, x >> 8) & ALTERNATE_8
    # The product's top 16-bit field is the sum of all 16 fields, at most 256; what overflows 256 bits is above it.
    return unsafe_mul(x, ONES_16) >> 240
