# pragma version ==0.4.3
"""
@title A plain token of any symbol and decimals, without permit
@license Apache-2.0
@dev Tests only.
"""


symbol: public(String[32])
decimals: public(uint8)
balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])


@deploy
def __init__(symbol: String[32], decimals: uint8):
    self.symbol = symbol
    self.decimals = decimals


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def approve(spender: address, amount: uint256) -> bool:
    self.allowance[msg.sender][spender] = amount
    return True


@external
def transfer(to: address, amount: uint256) -> bool:
    self.balanceOf[msg.sender] -= amount
    self.balanceOf[to] += amount
    return True


@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    self.allowance[owner][msg.sender] -= amount
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    return True
