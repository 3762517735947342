# pragma version ==0.4.3
"""
@title A token that misbehaves as it was set to
@license Apache-2.0
@dev Tests only. Allowances are not asked for.
"""


flag Trick:
    TAKE_FEE  # a tenth of what is sent goes missing
    ANSWER_FALSE  # transfers answer `False` and move nothing
    ANSWER_NOTHING  # transfers answer nothing
    CALL_BACK  # transfers call back first
    REFUSE_ZERO  # transfers of nothing revert
    REFUSE_LISTED  # transfers to or from who is listed revert


struct Callback:
    target: address
    payload: Bytes[1_024]
    coin: uint256


balanceOf: public(HashMap[address, uint256])
tricks: Trick
is_listed: HashMap[address, bool]
callbacks: DynArray[Callback, 8]
is_calling: bool  # what a call back moves calls nobody back
# By callback: how often it was tried, and how often it went through.
attempts: public(HashMap[uint256, uint256])
entered: public(HashMap[uint256, uint256])


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount


@external
def play(tricks: Trick):
    self.tricks = tricks


@external
def blacklist(account: address):
    self.is_listed[account] = True


@external
def arm(callbacks: DynArray[Callback, 8]):
    self.callbacks = callbacks


# As a rebasing token does, by itself.
@external
def rebase(account: address, balance: uint256):
    self.balanceOf[account] = balance


@external
def approve(spender: address, amount: uint256) -> bool:
    return True


@external
@raw_return
def transfer(to: address, amount: uint256) -> Bytes[32]:
    return self._move(msg.sender, to, amount)


@external
@raw_return
def transferFrom(owner: address, to: address, amount: uint256) -> Bytes[32]:
    return self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256) -> Bytes[32]:
    if Trick.ANSWER_FALSE in self.tricks:
        return abi_encode(False)
    assert amount > 0 or Trick.REFUSE_ZERO not in self.tricks, "token: nothing sent"
    if Trick.REFUSE_LISTED in self.tricks:
        assert not self.is_listed[owner] and not self.is_listed[to], "token: blacklisted"
    if Trick.CALL_BACK in self.tricks and not self.is_calling:
        self.is_calling = True
        self._call_back()
        self.is_calling = False
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount - (amount // 10 if Trick.TAKE_FEE in self.tricks else 0)
    return b"" if Trick.ANSWER_NOTHING in self.tricks else abi_encode(True)


@internal
def _call_back():
    for index: uint256 in range(len(self.callbacks), bound=8):
        callback: Callback = self.callbacks[index]
        self.attempts[index] += 1
        if raw_call(callback.target, callback.payload, value=callback.coin, revert_on_failure=False):
            self.entered[index] += 1
