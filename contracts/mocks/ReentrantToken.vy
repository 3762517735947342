# pragma version ==0.4.3
"""
@title A token that calls a target back while it transfers
@license Apache-2.0
@dev Tests only. It keeps whether the call back went through, and passes the transfer on either way.
"""


balanceOf: public(HashMap[address, uint256])
target: address
payload: Bytes[1_024]
# How often the target was called back, and how often that succeeded.
attempts: public(uint256)
entered: public(uint256)


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def arm(target: address, payload: Bytes[1_024]):
    self.target = target
    self.payload = payload


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
    if self.target != empty(address):
        self.attempts += 1
        if raw_call(self.target, self.payload, revert_on_failure=False):
            self.entered += 1
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    return True
