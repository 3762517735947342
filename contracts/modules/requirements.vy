# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What a job asks of its operators
@license Apache-2.0
@notice One word of its terms: region (32) | vram_gb (16) | classes (8) | hours (8) | tier (8) | admitted (8). 0 asks for nothing.
"""


from . import bits


# Bit `c` of `classes` is class `c` of gpu_classes.
CLASSES: constant(uint256) = 2**5 - 2
MOST_HOURS: constant(uint256) = 24
MOST_TIER: constant(uint256) = 3
ADMITTED: constant(uint256) = 1
LIMIT: constant(uint256) = 2**80


struct Requirements:
    # Four letters: of a region and, if not 0, of a country in it.
    region: uint256
    # Of one worker, at least.
    vram_gb: uint256
    # Any of these; 0: every class.
    classes: uint256
    # So many of an epoch's 24 periods are promised, at least.
    hours: uint256
    # At least.
    tier: uint256
    # The machine passed a trial.
    admitted: bool


@internal
@pure
def _unpack(word: uint256) -> Requirements:
    return Requirements(
        region=word >> 48,
        vram_gb=word >> 32 & bits.U16,
        classes=word >> 24 & bits.U8,
        hours=word >> 16 & bits.U8,
        tier=word >> 8 & bits.U8,
        admitted=word & bits.U8 != 0,
    )


@internal
@pure
def _is_known(word: uint256) -> bool:
    """
    @notice Whether each field is within its range. An operator may meet such a word, or nobody does.
    """
    return (
        word < LIMIT
        and word >> 24 & bits.U8 & ~CLASSES == 0
        and word >> 16 & bits.U8 <= MOST_HOURS
        and word >> 8 & bits.U8 <= MOST_TIER
        and word & bits.U8 <= ADMITTED
    )


@internal
@pure
def _is_within(region: uint256, asked: uint256) -> bool:
    """
    @notice Whether a declared region is the one that a job asks for: where it asks for no country, any country in it is.
    """
    narrow: uint256 = 0 if asked & bits.U16 != 0 else 16
    return region >> narrow == asked >> narrow
