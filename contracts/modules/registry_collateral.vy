# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Collateral of operators in NodeRegistry
@license Apache-2.0
@notice What operators deposited in payment tokens, which part of it is locked behind bids and seats, and what was slashed.
"""


from . import bits
from . import node_words as words
from . import numbers
from . import registry_state as state


uses: state


# Bounds an array of storage words; each operator costs a stake.
MAX_OPERATORS: constant(uint256) = 2**40
# Tokens an operator may ever be locked in: as many as the governor would allow.
MAX_TOKENS: constant(uint256) = 255


struct Balance:
    balance: uint256
    locked: uint256


# token -> operator -> the word of node_words: one hash finds it
collaterals: HashMap[address, uint256[MAX_OPERATORS]]
# operator -> 0..node.tokens-1 -> token in which anything of it was ever locked
locked_tokens: HashMap[uint256, HashMap[uint256, address]]
# Slashed collateral of a token that escrow, a finder or a submitter may still be paid from.
pot: public(HashMap[address, uint256])


event CollateralDeposited:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event CollateralWithdrawn:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event CollateralLocked:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event CollateralUnlocked:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event CollateralSlashed:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event PotBurned:
    token: indexed(address)
    amount: uint256


event PotPaidOut:
    token: indexed(address)
    amount: uint256


@external
def pause_bids(until: uint256):
    """
    @notice For Auction, whose guardian pauses bids until a second: kept here, where a bid reads a word anyway.
    """
    auction: uint256 = state.bidding & bits.U160
    assert convert(msg.sender, uint256) == auction, "registry: not a protocol contract"
    state.bidding = until << 160 | auction


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds the caller's tokens to an operator's collateral.
    """
    assert state._owner(operator) != empty(address), "registry: unknown operator"
    assert amount > 0, "registry: zero amount"
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    funds.balance += amount
    self.collaterals[token][operator] = words._pack_collateral(funds)
    log CollateralDeposited(operator=operator, token=token, amount=amount)
    state._pull(token, amount)


@external
def withdraw(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends free collateral to the owner.
    """
    state._check_owner(operator)
    assert amount > 0, "registry: zero amount"
    word: uint256 = self.collaterals[token][operator]
    # INVARIANT locks: locked <= balance, always. The subtraction cannot underflow.
    assert amount <= (word >> 144) - (word >> 32 & bits.U112), "registry: amount exceeds free collateral"
    # The amount is at most the balance, above all other fields.
    self.collaterals[token][operator] = word - (amount << 144)
    log CollateralWithdrawn(operator=operator, token=token, amount=amount)
    state._push(token, msg.sender, amount)


@external
def lock(operator: uint256, token: address, amount: uint256, new: bool):
    """
    @notice Locks free collateral behind a seat.
    @param new Whether the operator had nothing locked in this lot.
    """
    state._check_protocol()
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    # INVARIANT locks: as in `lock_bid`.
    assert amount <= funds.balance - funds.locked, "registry: amount exceeds free collateral"
    funds.locked += amount
    if new:
        funds.lots += 1
    if not funds.is_listed:
        self._list(operator, token)
        funds.is_listed = True
    self.collaterals[token][operator] = words._pack_collateral(funds)
    log CollateralLocked(operator=operator, token=token, amount=amount)


@external
@reentrant
def lock_bid(operator: uint256, hot: address, token: address, amount: uint256, units: uint256) -> bool:
    """
    @notice Locks free collateral behind a bid of an operator that may bid for so many units with this hot key; else locks
            nothing. The least stake covers 16 units, and more stake more of them: names are not free.
    @dev Without an event: Auction logs the bid, its lot and its capacity. Without a lock against reentrance: it calls
         nobody, Auction has such a lock itself, and whatever here calls out has done all its effects by then.
    @return Whether the operator may bid, and bids are not paused.
    """
    bidding: uint256 = state.bidding
    assert convert(msg.sender, uint256) == bidding & bits.U160, "registry: not a protocol contract"
    # A lot has at most 2^14 units, and the least stake is below 2^104.
    stake: uint256 = max(state.min_stake, unsafe_mul(state.min_stake, units) // numbers.UNITS_PER_STAKE)
    if block.timestamp < bidding >> 160 or not words._is_eligible(state.nodes[operator], hot, stake):
        return False
    word: uint256 = self.collaterals[token][operator]
    # INVARIANT locks: sum of the locks of open bids and seats == locked <= balance. The subtraction cannot underflow.
    assert (
        amount <= unsafe_sub(word >> 144, word >> 32 & bits.U112)
    ), "registry: amount exceeds free collateral"
    if word & words.LISTED == 0:
        self._list(operator, token)
        word |= words.LISTED
    # What is locked stays within the balance, below 2^112; lots are counted one by one. No field overflows.
    self.collaterals[token][operator] = unsafe_add(word, unsafe_add(amount << 32, words.ONE_LOT))
    return True


@external
def unlock(operator: uint256, token: address, amount: uint256, last: bool):
    """
    @notice Frees locked collateral.
    @param last Whether nothing stays locked in this lot.
    """
    state._check_protocol()
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    funds.locked -= amount
    if last:
        funds.lots -= 1
    self.collaterals[token][operator] = words._pack_collateral(funds)
    log CollateralUnlocked(operator=operator, token=token, amount=amount)


@external
def slash(operator: uint256, token: address, amount: uint256, convicted: bool):
    """
    @notice Moves locked collateral to the pot, and halves the operator's reputation, or clears it at a conviction.
    """
    state._check_protocol()
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    funds.balance -= amount
    funds.locked -= amount
    self.collaterals[token][operator] = words._pack_collateral(funds)
    self.pot[token] += amount
    account: words.Account = words._unpack_account(state.accounts[operator])
    # As it was written: what halves later halves this half.
    account.reputation = 0 if convicted else account.reputation // 2
    state.accounts[operator] = words._pack_account(account)
    log CollateralSlashed(operator=operator, token=token, amount=amount)


@external
def pay_out(token: address, amount: uint256):
    """
    @notice Sends `amount` from the pot to the task registry, where Locks says whom it is owed to.
    """
    assert msg.sender == state.locks, "registry: not a protocol contract"
    self.pot[token] -= amount
    log PotPaidOut(token=token, amount=amount)
    state._push(token, state.tasks, amount)


@external
def burn(token: address, amount: uint256):
    """
    @notice Moves `amount` from the pot to where nothing can spend it.
    """
    state._check_protocol()
    self.pot[token] -= amount
    state.burned[token] += amount
    log PotBurned(token=token, amount=amount)


@external
@view
def auction() -> address:
    """
    @notice The auction that locks behind bids.
    """
    return convert(state.bidding & bits.U160, address)


@external
@view
def bids_paused_until() -> uint256:
    """
    @notice The second before which nobody bids.
    """
    return state.bidding >> 160


@external
@view
def collateral(operator: uint256, token: address) -> Balance:
    """
    @notice An operator's deposit in a token, and how much of it is locked.
    """
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    return Balance(balance=funds.balance, locked=funds.locked)


@internal
@view
def _locks(operator: uint256) -> uint256:
    """
    @notice Bids and seats that the operator has collateral locked for, in all tokens.
    """
    locks: uint256 = 0
    tokens: uint256 = words._unpack_node(state.nodes[operator]).tokens
    for index: uint256 in range(tokens, bound=MAX_TOKENS):
        token: address = self.locked_tokens[operator][index]
        locks += words._unpack_collateral(self.collaterals[token][operator]).lots
    return locks


@internal
def _list(operator: uint256, token: address):
    """
    @dev Once for each operator and token: what is locked from then on, `_locks` finds.
    """
    node: words.Node = words._unpack_node(state.nodes[operator])
    self.locked_tokens[operator][node.tokens] = token
    node.tokens += 1
    state.nodes[operator] = words._pack_node(node)
