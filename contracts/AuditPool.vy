# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title AuditPool
@license Apache-2.0
@notice Is owed the audits' part of each conviction, and puts all of it into the treasury's bucket of audits. An account of
        its own: what the treasury itself is owed are fees, which it splits among all buckets.
"""


from ethereum.ercs import IERC20


interface Treasury:
    def fund(token: address, bucket: uint256, amount: uint256): nonpayable


# The treasury's bucket of audits.
AUDITS: constant(uint256) = 1


treasury: public(immutable(address))


event AuditsFunded:
    token: indexed(address)
    amount: uint256


@deploy
def __init__(treasury_: address):
    """
    @param treasury_ Keeps the bucket.
    """
    treasury = treasury_


@external
def collect(token: address) -> uint256:
    """
    @notice Puts all that arrived into the bucket. Anyone may call it, after `TaskRegistry.withdraw` for this contract.
    @return How much.
    """
    amount: uint256 = staticcall IERC20(token).balanceOf(self)
    assert amount > 0, "pool: nothing to collect"
    log AuditsFunded(token=token, amount=amount)
    assert extcall IERC20(token).approve(treasury, amount, default_return_value=True), "pool: approval failed"
    extcall Treasury(treasury).fund(token, AUDITS, amount)
    return amount
