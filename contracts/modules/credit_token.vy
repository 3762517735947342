# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The token of Credits
@license Apache-2.0
@notice Balances and allowances of an ERC-20. What a transfer means is Credits' matter.
"""


from ethereum.ercs import IERC20


name: public(constant(String[16])) = "Zoo credit"
symbol: public(constant(String[8])) = "CREDIT"
decimals: public(constant(uint8)) = 18


balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])
totalSupply: public(uint256)


@external
def approve(spender: address, amount: uint256) -> bool:
    """
    @notice Lets `spender` move at most `amount` of the caller's credits.
    """
    self._approve(msg.sender, spender, amount)
    return True


@internal
def _approve(account: address, spender: address, amount: uint256):
    self.allowance[account][spender] = amount
    log IERC20.Approval(owner=account, spender=spender, value=amount)


@internal
def _spend(account: address, spender: address, amount: uint256):
    allowed: uint256 = self.allowance[account][spender]
    if allowed == max_value(uint256):
        return
    assert allowed >= amount, "erc20: insufficient allowance"
    self._approve(account, spender, allowed - amount)


@internal
def _mint(account: address, amount: uint256):
    self.totalSupply += amount
    # INVARIANT credits: the sum of all balances is the supply, so that no balance overflows.
    self.balanceOf[account] += amount
    log IERC20.Transfer(sender=empty(address), receiver=account, value=amount)


@internal
def _use_up(account: address, amount: uint256):
    assert self.balanceOf[account] >= amount, "erc20: transfer amount exceeds balance"
    self.balanceOf[account] -= amount
    self.totalSupply -= amount
    log IERC20.Transfer(sender=account, receiver=empty(address), value=amount)


@internal
def _move(account: address, to: address, amount: uint256):
    assert self.balanceOf[account] >= amount, "erc20: transfer amount exceeds balance"
    self.balanceOf[account] -= amount
    self.balanceOf[to] += amount
    log IERC20.Transfer(sender=account, receiver=to, value=amount)
