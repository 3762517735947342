# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What NodeRegistry keeps of an operator
@license Apache-2.0
@notice The contracts that may call it, the words of each operator, and its stake. Every other module of NodeRegistry reads and writes
        an operator by these words.
"""


from ethereum.ercs import IERC20
from . import bits
from . import node_words as words
from . import numbers


# Epochs in which a reputation halves: a season of work counts, an older one half.
HALVING_EPOCHS: constant(uint256) = 90


zen: public(immutable(address))
# The least stake, in 10^-18 ZEN.
min_stake: public(immutable(uint256))
# Seconds of an epoch, as in Rewards.
epoch_s: public(immutable(uint256))
deployer: public(immutable(address))


# Set once by `wire`. Auction and Locks lock, unlock and slash; `settlement` rewards; `tasks` is where `pay_out` sends to; `rewards`
# and `admissions` slash stake. The auction's word: paused until (96) | auction (160), so that a bid reads both at once.
bidding: uint256
settlement: public(address)
locks: public(address)
tasks: public(address)
rewards: public(address)
admissions: public(address)
# operator -> the words of node_words
nodes: HashMap[uint256, uint256]
accounts: HashMap[uint256, uint256]
# Slashed collateral of a token, and slashed stake, that nothing can spend.
burned: public(HashMap[address, uint256])


event StakeSlashed:
    operator: indexed(uint256)
    amount: uint256


@deploy
def __init__(zen_: address, min_stake_: uint256, epoch_s_: uint256):
    deployer = msg.sender
    zen = zen_
    min_stake = min_stake_
    epoch_s = epoch_s_


@external
def wire(
    auction_: address,
    settlement_: address,
    locks_: address,
    tasks_: address,
    rewards_: address,
    admissions_: address,
):
    """
    @notice Names the contracts that may lock, slash and admit, once.
    """
    assert msg.sender == deployer, "registry: not the deployer"
    assert self.settlement == empty(address), "registry: already wired"
    self.bidding = convert(auction_, uint256)
    self.settlement = settlement_
    self.locks = locks_
    self.tasks = tasks_
    self.rewards = rewards_
    self.admissions = admissions_


@internal
@pure
def _refuse(reason: String[40]):
    """
    @dev `if not so: _refuse(reason)` is `assert so, reason`, in half the bytes.
    """
    raise reason


@internal
@view
def _check_protocol():
    assert (
        msg.sender == self.locks or convert(msg.sender, uint256) == self.bidding & bits.U160
    ), "registry: not a protocol contract"


@internal
@view
def _check_admissions():
    assert msg.sender == self.admissions, "registry: not a protocol contract"


@internal
@view
def _check_owner(operator: uint256):
    assert msg.sender == self._owner(operator), "registry: not the owner"


@internal
@view
def _owned(operator: uint256) -> words.Account:
    """
    @notice The account of an operator whose owner calls.
    """
    account: words.Account = words._unpack_account(self.accounts[operator])
    assert msg.sender == account.owner, "registry: not the owner"
    return account


@internal
@view
def _account(operator: uint256) -> words.Account:
    """
    @notice An operator's account with its reputation as it is now: halved once for each turn of 90 epochs since it was written.
    """
    account: words.Account = words._unpack_account(self.accounts[operator])
    # 16 bits of the count of halvings, which wrap after decades on a devnet and millennia in production.
    now: uint256 = block.timestamp // (epoch_s * HALVING_EPOCHS) & bits.U16
    account.reputation = account.reputation >> (unsafe_sub(now, account.halved_at) & bits.U16)
    account.halved_at = now
    return account


@internal
@view
def _owner(operator: uint256) -> address:
    return convert(self.accounts[operator] >> 96, address)


@internal
@view
def _hot(operator: uint256) -> address:
    return convert(self.nodes[operator] >> 96, address)


@internal
def _slash_stake(operator: uint256, bps: uint256, share_bps: uint256) -> (uint256, uint256):
    """
    @dev Burns a part of a stake, but for a share of that part, which the caller of this function pays out, or keeps for somebody.
    @return The part, and the share.
    """
    node: words.Node = words._unpack_node(self.nodes[operator])
    units: uint256 = node.stake * bps // numbers.BPS
    node.stake -= units
    self.nodes[operator] = words._pack_node(node)
    slashed: uint256 = units * words.STAKE_UNIT
    share: uint256 = units * share_bps // numbers.BPS * words.STAKE_UNIT
    self.burned[zen] += slashed - share
    log StakeSlashed(operator=operator, amount=slashed)
    return slashed, share


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "registry: transfer failed"


@internal
def _push(token: address, to: address, amount: uint256):
    assert extcall IERC20(token).transfer(to, amount, default_return_value=True), "registry: transfer failed"
