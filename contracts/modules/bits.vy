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
    @notice How many bits are set. Each step clears the lowest.
    """
    left: uint256 = bitmap
    count: uint256 = 0
    for _: uint256 in range(256):
        if left == 0:
            break
        left = left & unsafe_sub(left, 1)
        count = unsafe_add(count, 1)
    return count
