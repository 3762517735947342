# pragma version ==0.4.3
"""
@title A token whose transfers answer `False` and move nothing, once set to
@license Apache-2.0
@dev Tests only.
"""


balanceOf: public(HashMap[address, uint256])
refuses: public(bool)


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def refuse(refuses: bool):
    self.refuses = refuses


@external
def approve(spender: address, amount: uint256) -> bool:
    return True


@external
def transfer(to: address, amount: uint256) -> bool:
    return self._move(msg.sender, to, amount)


@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256) -> bool:
    if self.refuses:
        return False
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    return True
