# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title GPU classes and tiers
@license Apache-2.0
@notice What a machine must have to claim a class or a tier, what its verified compute weighs, and what a tier promises.
@dev Class and VRAM are what the registry knows. That a tier's machine has 4 or 8 such GPUs, its system RAM and its
     bandwidth are declared by the operator and checked by nobody. Sources: ZIP-0407 (classes), Zoo Compute (tiers).
"""


CONSUMER: constant(uint256) = 1
PROFESSIONAL: constant(uint256) = 2
DATACENTER: constant(uint256) = 3
APPLE_SILICON: constant(uint256) = 4

# The most that compute weighs of an operator that is not admitted, in percent: a consumer's.
UNSHOWN_PERCENT: constant(uint256) = 100

# Tiers; 0 is none.
BRONZE: constant(uint256) = 1
SILVER: constant(uint256) = 2
GOLD: constant(uint256) = 3


@internal
@pure
def _least_vram_gb(gpu_class: uint256) -> uint256:
    if gpu_class == PROFESSIONAL:
        return 16
    if gpu_class == DATACENTER:
        return 40
    return 8


@internal
@pure
def _multiplier(gpu_class: uint256) -> uint256:
    if gpu_class == CONSUMER:
        return 100
    if gpu_class == PROFESSIONAL:
        return 150
    if gpu_class == DATACENTER:
        return 300
    if gpu_class == APPLE_SILICON:
        return 80
    return 0


@internal
@pure
def _tier_vram_gb(tier: uint256) -> uint256:
    return 40 if tier == BRONZE else 80


@internal
@pure
def _slack_bps(tier: uint256) -> uint256:
    """
    @notice How much of the declared hours may be missed: what the tier's SLA leaves of the whole, 5 % without a tier.
    """
    if tier == GOLD:
        return 50
    if tier == SILVER:
        return 100
    return 500


@internal
@pure
def _reference_price(tier: uint256) -> uint256:
    """
    @notice What the network expects a GPU-hour of a tier to cost, in 10^-18 ZEN; 0 when unknown. Binds nobody.
    """
    if tier == BRONZE:
        return 25 * 10**17
    if tier == SILVER:
        return 4 * 10**18
    if tier == GOLD:
        return 8 * 10**18
    return 0
