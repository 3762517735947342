# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Owners and keys of operators in NodeRegistry
@license Apache-2.0
"""


from . import node_words as words
from . import registry_state as state


uses: state


# operator -> its owner -> account -> whether it may answer asks in disputes beside the hot key; it may do nothing else
answer_keys: HashMap[uint256, HashMap[address, HashMap[address, bool]]]
# operator -> the account that its owner hands it over to, and that has not accepted yet
offered_owners: public(HashMap[uint256, address])


event EndpointAnnounced:
    operator: indexed(uint256)
    endpoint: String[128]


event HotKeyChanged:
    operator: indexed(uint256)
    hot: address


event OwnerOffered:
    operator: indexed(uint256)
    account: indexed(address)


event OwnerChanged:
    operator: indexed(uint256)
    owner: indexed(address)


event AnswerKeyChanged:
    operator: indexed(uint256)
    account: indexed(address)
    allowed: bool


@external
def announce(operator: uint256, endpoint: String[128]):
    """
    @notice Announces where the operator's store serves blocks. An event only.
    """
    owner: address = state._owner(operator)
    hot: address = state._hot(operator)
    # The zero address never calls: an operator that does not exist has no caller who passes.
    assert msg.sender == owner or msg.sender == hot, "registry: not the operator"
    log EndpointAnnounced(operator=operator, endpoint=endpoint)


@external
def set_hot(operator: uint256, hot: address):
    """
    @notice Replaces the hot key.
    """
    state._check_owner(operator)
    assert hot != empty(address), "registry: zero hot key"
    node: words.Node = words._unpack_node(state.nodes[operator])
    node.hot = hot
    state.nodes[operator] = words._pack_node(node)
    log HotKeyChanged(operator=operator, hot=hot)


@external
def allow_answers(operator: uint256, account: address, allowed: bool):
    """
    @notice Lets an account answer asks in disputes about the operator's claims, as the hot key may, or no longer.
    """
    state._check_owner(operator)
    self.answer_keys[operator][msg.sender][account] = allowed
    log AnswerKeyChanged(operator=operator, account=account, allowed=allowed)


@external
def offer_owner(operator: uint256, account: address):
    """
    @notice Offers the operator to a new owner, which must accept; the zero address takes the offer back.
    """
    state._check_owner(operator)
    self.offered_owners[operator] = account
    log OwnerOffered(operator=operator, account=account)


@external
def accept_owner(operator: uint256):
    """
    @notice Makes the caller, to which the operator was offered, its owner: of its stake, its free collateral, and all that it is
            paid from then on. What is owed to the old owner already stays the old owner's.
    """
    # INVARIANT owners: the account that becomes an owner has called, so no operator is handed to an address without a key.
    assert msg.sender == self.offered_owners[operator], "registry: not the offered owner"
    self.offered_owners[operator] = empty(address)
    account: words.Account = words._unpack_account(state.accounts[operator])
    account.owner = msg.sender
    state.accounts[operator] = words._pack_account(account)
    log OwnerChanged(operator=operator, owner=msg.sender)


@external
@view
def hot_key(operator: uint256) -> address:
    """
    @notice The operator's hot key; the zero address when there is no such operator.
    """
    return state._hot(operator)


@external
@view
def may_answer(operator: uint256, account: address) -> bool:
    """
    @notice Whether an account may answer asks for an operator: its hot key, or one that its owner allowed to.
    """
    return account == state._hot(operator) or self.answer_keys[operator][state._owner(operator)][account]


@external
@view
def owner_of(operator: uint256) -> address:
    """
    @notice The operator's owner; the zero address when there is no such operator.
    """
    return state._owner(operator)
