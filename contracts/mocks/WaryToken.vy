# pragma version ==0.4.3
"""
@title A token that changes no allowance but from or to zero, and whose `approve` answers nothing: as Tether's
@license Apache-2.0
@dev Tests only.
"""


balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def approve(spender: address, amount: uint256):
    assert amount == 0 or self.allowance[msg.sender][spender] == 0
    self.allowance[msg.sender][spender] = amount


@external
def transferFrom(owner: address, to: address, amount: uint256):
    self.allowance[owner][msg.sender] -= amount
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
