# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Stakes and exits of operators in NodeRegistry
@license Apache-2.0
"""


from . import node_words as words
from . import registry_collateral as collateral
from . import registry_state as state
from . import registry_time as time


uses: state
uses: time
uses: collateral


# Seconds from a request of exit to the withdrawal of the stake.
exit_delay_s: public(immutable(uint256))


event StakeAdded:
    operator: indexed(uint256)
    amount: uint256


event ExitRequested:
    operator: indexed(uint256)
    exit_at: uint256


event StakeWithdrawn:
    operator: indexed(uint256)
    amount: uint256


@deploy
def __init__(exit_delay_s_: uint256):
    exit_delay_s = exit_delay_s_


@external
def add_stake(operator: uint256, amount: uint256):
    """
    @notice Adds the caller's ZEN to an operator's stake.
    """
    word: uint256 = state.nodes[operator]
    if word == 0:
        state._refuse("registry: unknown operator")
    if amount <= 0:
        state._refuse("registry: zero amount")
    if amount % words.STAKE_UNIT != 0:
        state._refuse("registry: stake has dust")
    node: words.Node = words._unpack_node(word)
    node.stake += amount // words.STAKE_UNIT
    state.nodes[operator] = words._pack_node(node)
    log StakeAdded(operator=operator, amount=amount)
    state._pull(state.zen, amount)


@external
def request_exit(operator: uint256):
    """
    @notice Starts the exit delay. The operator is no longer eligible to bid.
    """
    account: words.Account = state._owned(operator)
    if account.exit_at != 0:
        state._refuse("registry: exit already requested")
    account.exit_at = time._time() + exit_delay_s
    state.accounts[operator] = words._pack_account(account)
    node: words.Node = words._unpack_node(state.nodes[operator])
    node.is_exiting = True
    state.nodes[operator] = words._pack_node(node)
    log ExitRequested(operator=operator, exit_at=account.exit_at)


@external
def withdraw_stake(operator: uint256):
    """
    @notice Sends the whole stake to the owner, from `exit_at` on, and ends the operator's admission. It may stake again.
    """
    account: words.Account = state._owned(operator)
    if account.exit_at == 0:
        state._refuse("registry: exit not requested")
    if time._time() < account.exit_at:
        state._refuse("registry: exit delay runs")
    # INVARIANT stake: no stake leaves while collateral is locked for a bid or a seat.
    if collateral._locks(operator) != 0:
        state._refuse("registry: collateral is locked")
    node: words.Node = words._unpack_node(state.nodes[operator])
    stake: uint256 = node.stake * words.STAKE_UNIT
    account.exit_at = 0
    account.is_admitted = False
    state.accounts[operator] = words._pack_account(account)
    node.stake = 0
    node.is_exiting = False
    state.nodes[operator] = words._pack_node(node)
    log StakeWithdrawn(operator=operator, amount=stake)
    state._push(state.zen, account.owner, stake)


@external
def slash_stake(operator: uint256, bps: uint256) -> uint256:
    """
    @notice Moves a part of an operator's stake to where nothing can spend it. Also while it exits.
    @return How much.
    """
    if msg.sender != state.rewards:
        state._refuse("registry: not a protocol contract")
    return state._slash_stake(operator, bps, 0)[0]


@external
def slash_for(operator: uint256, bps: uint256, share_bps: uint256, account: address) -> (uint256, uint256):
    """
    @notice As `slash_stake`, but a share of the part goes to an account, or without one to the pot, for `pay_share`.
    @return The part, and the share.
    """
    state._check_admissions()
    slashed: uint256 = 0
    share: uint256 = 0
    slashed, share = state._slash_stake(operator, bps, share_bps)
    if account == empty(address):
        collateral.pot[state.zen] += share
    else:
        state._push(state.zen, account, share)
    return slashed, share


@external
def pay_share(account: address, amount: uint256):
    """
    @notice What `slash_for` kept in the pot goes to an account; without one it burns.
    """
    state._check_admissions()
    collateral.pot[state.zen] -= amount
    if account == empty(address):
        state.burned[state.zen] += amount
    else:
        state._push(state.zen, account, amount)


@external
@view
def stake_of(operator: uint256) -> uint256:
    """
    @notice The operator's stake, in 10^-18 ZEN.
    """
    return words._unpack_node(state.nodes[operator]).stake * words.STAKE_UNIT


@external
@view
def is_eligible(operator: uint256, hot: address) -> bool:
    """
    @notice Whether the hot key matches, no exit is requested and the stake is enough.
    """
    return words._is_eligible(state.nodes[operator], hot, state.min_stake)
