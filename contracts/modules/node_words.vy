# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of NodeRegistry
@license Apache-2.0
@notice What is kept of an operator (two words) and of its collateral in a token (one word).
"""


from . import bits


# The second word of an operator; the first is `owner | stake`.
struct Profile:
    hot: address
    gpu_class: uint256
    vram_gb: uint256
    reputation: uint256
    locks: uint256
    exit_at: uint256


struct Collateral:
    balance: uint256
    locked: uint256


@internal
@pure
def _pack_account(owner: address, stake: uint256) -> uint256:
    return convert(owner, uint256) << 96 | convert(convert(stake, uint96), uint256)


@internal
@pure
def _unpack_account(word: uint256) -> (address, uint256):
    return convert(word >> 96, address), word & bits.U96


@internal
@pure
def _pack_profile(profile: Profile) -> uint256:
    # Each conversion to a narrower type reverts when the value does not fit.
    return (
        convert(profile.hot, uint256) << 96
        | convert(convert(profile.gpu_class, uint8), uint256) << 88
        | convert(convert(profile.vram_gb, uint16), uint256) << 72
        | convert(convert(profile.reputation, uint16), uint256) << 56
        | convert(convert(profile.locks, uint16), uint256) << 40
        | convert(convert(profile.exit_at, uint40), uint256)
    )


@internal
@pure
def _unpack_profile(word: uint256) -> Profile:
    return Profile(
        hot=convert(word >> 96, address),
        gpu_class=word >> 88 & bits.U8,
        vram_gb=word >> 72 & bits.U16,
        reputation=word >> 56 & bits.U16,
        locks=word >> 40 & bits.U16,
        exit_at=word & bits.U40,
    )


@internal
@pure
def _pack_collateral(held: Collateral) -> uint256:
    return convert(convert(held.balance, uint128), uint256) << 128 | convert(convert(held.locked, uint128), uint256)


@internal
@pure
def _unpack_collateral(word: uint256) -> Collateral:
    return Collateral(balance=word >> 128, locked=word & bits.U128)
