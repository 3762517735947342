# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The words and shares of Rewards
@license Apache-2.0
@notice Two amounts in a word, in one of two splits, and what each flow of an epoch's budget is.
@dev Every conversion to a narrower type reverts when the value does not fit.
"""


from . import bits
from . import numbers


# Flows of an epoch's budget.
COMPUTE: constant(uint256) = 0
UPTIME: constant(uint256) = 1
BANDWIDTH: constant(uint256) = 2
VERIFICATION: constant(uint256) = 3
DATA: constant(uint256) = 4

# Each flow's share of the budget. They sum to the whole.
COMPUTE_BPS: constant(uint256) = 5_000
UPTIME_BPS: constant(uint256) = 2_000
BANDWIDTH_BPS: constant(uint256) = 1_000
VERIFICATION_BPS: constant(uint256) = 1_000
DATA_BPS: constant(uint256) = 1_000

# What of a job's fee may come back at most: to who computed it, verified it, and gave it data.
# INVARIANT rewards: the three sum to the whole, so that rewards on a job never exceed the fee it paid.
WORKER_CAP_BPS: constant(uint256) = 7_000
VERIFICATION_CAP_BPS: constant(uint256) = 2_000
DATA_CAP_BPS: constant(uint256) = 1_000

# Bytes of an epoch that count at most, of a pair and of a server.
PAIR_BYTES: constant(uint256) = 2**40
SERVER_BYTES: constant(uint256) = 2**43
BYTES_PER_GBPS: constant(uint256) = 125_000_000


# A weight or a sum of weights, and an amount of ZEN that belongs to it.
struct Weighed:
    weight: uint256
    amount: uint256


@internal
@pure
def _pack_weighed(item: Weighed) -> uint256:
    return convert(convert(item.weight, uint144), uint256) << 112 | convert(convert(item.amount, uint112), uint256)


@internal
@pure
def _unpack_weighed(word: uint256) -> Weighed:
    return Weighed(weight=word >> 112, amount=word & bits.U112)


@internal
@pure
def _pack_halves(high: uint256, low: uint256) -> uint256:
    return convert(convert(high, uint128), uint256) << 128 | convert(convert(low, uint128), uint256)


@internal
@pure
def _unpack_halves(word: uint256) -> (uint256, uint256):
    return word >> 128, word & bits.U128


@internal
@pure
def _part(amount: uint256, bps: uint256) -> uint256:
    """
    @notice `bps` of an amount, rounded down.
    """
    return amount * bps // numbers.BPS


@internal
@pure
def _shared(amount: uint256, weight: uint256, total: uint256) -> uint256:
    """
    @notice What `weight` of `total` has of an amount; nothing where there is no weight.
    """
    if weight == 0:
        return 0
    return amount * weight // total


@internal
@pure
def _link_bytes(tier: uint256, epoch_s: uint256) -> uint256:
    """
    @notice What the link of an operator of a tier carries in an epoch: 1 Gbps without a tier, else what the tier declares.
    """
    gbps: uint256 = 1
    if tier == 1:
        gbps = 100
    elif tier == 2:
        gbps = 200
    elif tier == 3:
        gbps = 400
    return gbps * BYTES_PER_GBPS * epoch_s
