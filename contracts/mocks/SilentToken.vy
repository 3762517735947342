# pragma version ==0.4.3
"""
@title A token whose transfers answer nothing at all, as some old ones do
@license Apache-2.0
@dev Tests only.
"""


balanceOf: public(HashMap[address, uint256])


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def transfer(to: address, amount: uint256):
    self._move(msg.sender, to, amount)


@external
def transferFrom(owner: address, to: address, amount: uint256):
    self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256):
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
