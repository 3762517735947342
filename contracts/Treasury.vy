# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Treasury
@license Apache-2.0
@notice Keeps the protocol's fees in three buckets a token: 0 development, 1 audits, 2 grants. Only the governor
        (the timelock) spends.
"""


from ethereum.ercs import IERC20
from .modules import numbers


AUDITS_BPS: constant(uint256) = 3_000
GRANTS_BPS: constant(uint256) = 2_000
DEVELOPMENT: constant(uint256) = 0
AUDITS: constant(uint256) = 1
GRANTS: constant(uint256) = 2


# Who may spend.
governor: public(immutable(address))


# What each bucket of a token holds.
buckets: public(HashMap[address, HashMap[uint256, uint256]])


event Collected:
    token: indexed(address)
    development: uint256
    audits: uint256
    grants: uint256


event BucketFunded:
    token: indexed(address)
    bucket: uint256
    amount: uint256


event Spent:
    token: indexed(address)
    bucket: uint256
    to: indexed(address)
    amount: uint256


@deploy
def __init__(governor_: address):
    """
    @param governor_ The timelock.
    """
    governor = governor_


@external
def collect(token: address) -> uint256:
    """
    @notice Splits what arrived since the last call among the buckets.
    @return What arrived.
    """
    known: uint256 = (
        self.buckets[token][DEVELOPMENT] + self.buckets[token][AUDITS] + self.buckets[token][GRANTS]
    )
    arrived: uint256 = staticcall IERC20(token).balanceOf(self) - known
    assert arrived > 0, "treasury: nothing to collect"
    # INVARIANT treasury: sum(buckets) == balance after a collect. Dust goes to development.
    audits: uint256 = arrived * AUDITS_BPS // numbers.BPS
    grants: uint256 = arrived * GRANTS_BPS // numbers.BPS
    development: uint256 = arrived - audits - grants
    self.buckets[token][DEVELOPMENT] += development
    self.buckets[token][AUDITS] += audits
    self.buckets[token][GRANTS] += grants
    log Collected(token=token, development=development, audits=audits, grants=grants)
    return arrived


@external
def fund(token: address, bucket: uint256, amount: uint256):
    """
    @notice Adds the caller's tokens to one bucket, whole.
    @dev What arrived before and was not collected stays apart: the transfer comes with its booking.
    """
    assert bucket <= GRANTS, "treasury: unknown bucket"
    assert amount > 0, "treasury: zero amount"
    self.buckets[token][bucket] += amount
    log BucketFunded(token=token, bucket=bucket, amount=amount)
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "treasury: transfer failed"


@external
def spend(token: address, bucket: uint256, to: address, amount: uint256):
    """
    @notice Sends `amount` of a bucket to `to`.
    """
    assert msg.sender == governor, "treasury: not the governor"
    assert bucket <= GRANTS, "treasury: unknown bucket"
    assert amount <= self.buckets[token][bucket], "treasury: amount exceeds bucket"
    self.buckets[token][bucket] -= amount
    log Spent(token=token, bucket=bucket, to=to, amount=amount)
    assert extcall IERC20(token).transfer(to, amount, default_return_value=True), "treasury: transfer failed"
