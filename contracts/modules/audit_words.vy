# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Verdicts as bitmaps of units
@license Apache-2.0
"""


# Words of a bitmap of units: the aggregations, and as many slots as a job may have.
WORDS: constant(uint256) = 65
# Every second bit; every second pair, four, eight of bits; the lowest of every sixteen.
LANES_1: constant(uint256) = max_value(uint256) // 3
LANES_2: constant(uint256) = max_value(uint256) // 5
LANES_4: constant(uint256) = max_value(uint256) // 17
LANES_8: constant(uint256) = max_value(uint256) // 257
ONES_16: constant(uint256) = max_value(uint256) // 65_535


# Of a job's units, which an operator calls clean, and which false: bit `u % 256` of word `u // 256`.
struct Verdicts:
    clean: DynArray[uint256, WORDS]
    wrong: DynArray[uint256, WORDS]


@internal
@pure
def _hash(verdicts: Verdicts) -> uint256:
    return convert(keccak256(abi_encode(verdicts)), uint256)


@internal
@pure
def _has(bitmap: DynArray[uint256, WORDS], unit: uint256) -> bool:
    return unit // 256 < len(bitmap) and bitmap[unit // 256] >> unit % 256 & 1 == 1


@internal
@pure
def _count(bitmap: DynArray[uint256, WORDS]) -> uint256:
    """
    @dev Of each word in lanes of 2, 4, 8 and 16 bits, whose sums fit them; the product adds up the last ones.
    """
    count: uint256 = 0
    for word: uint256 in bitmap:
        if word == 0:
            continue
        lanes: uint256 = word - (word >> 1 & LANES_1)
        lanes = (lanes & LANES_2) + (lanes >> 2 & LANES_2)
        lanes = lanes + (lanes >> 4) & LANES_4
        lanes = (lanes & LANES_8) + (lanes >> 8 & LANES_8)
        count += unsafe_mul(lanes, ONES_16) >> 240
    return count
