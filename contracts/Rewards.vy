# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Rewards
@license Apache-2.0
@notice Pays network rewards for verified compute from a funded pool, by epochs of `epoch_s` seconds.
@dev A reward never exceeds the fees that the operator's jobs paid to the treasury in that epoch: farming with one's own
     jobs never pays.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .interfaces import IRewards
from .modules import bits


implements: IRewards


zen: public(immutable(address))
registry: public(immutable(address))
epoch_s: public(immutable(uint256))
# The most that all rewards of an epoch come to.
emission_per_epoch: public(immutable(uint256))
deployer: public(immutable(address))


struct Epoch:
    weight: uint256
    fees: uint256
    budget: uint256
    paid: uint256


struct Share:
    weight: uint256
    fees: uint256


# The only recorder; set once by `wire`.
settlement: public(address)
# ZEN not yet given to an epoch's budget.
pool: public(uint256)
# epoch -> weight (144) | fees (112)
totals: HashMap[uint256, uint256]
# epoch -> budget (128) | paid (128); zero until the epoch's first claim
budgets: HashMap[uint256, uint256]
# operator -> epoch -> weight (144) | fees (112); zero once claimed
share_words: HashMap[uint256, HashMap[uint256, uint256]]


event PoolFunded:
    amount: uint256


event ComputeRecorded:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    weight: uint256
    fee: uint256


event RewardClaimed:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    amount: uint256


@deploy
def __init__(zen_: address, registry_: address, epoch_s_: uint256, emission_per_epoch_: uint256):
    """
    @param zen_ The token of the pool.
    @param registry_ Knows the operators' owners.
    @param epoch_s_ Seconds of an epoch.
    @param emission_per_epoch_ The most an epoch pays.
    """
    zen = zen_
    registry = registry_
    epoch_s = epoch_s_
    emission_per_epoch = emission_per_epoch_
    deployer = msg.sender


@external
def wire(settlement_: address):
    """
    @notice Names the settlement, once.
    """
    assert msg.sender == deployer, "rewards: not the deployer"
    assert self.settlement == empty(address), "rewards: already wired"
    self.settlement = settlement_


@external
def fund(amount: uint256):
    """
    @notice Adds the caller's ZEN to the pool.
    """
    assert amount > 0, "rewards: zero amount"
    self.pool += amount
    log PoolFunded(amount=amount)
    assert extcall IERC20(zen).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "rewards: transfer failed"


@external
def record(operator: uint256, weight: uint256, fee: uint256):
    """
    @notice Adds verified compute, and the fee it paid, to the current epoch.
    """
    assert msg.sender == self.settlement, "rewards: not the settlement"
    epoch: uint256 = block.timestamp // epoch_s
    self.totals[epoch] = self._added(self.totals[epoch], weight, fee)
    self.share_words[operator][epoch] = self._added(self.share_words[operator][epoch], weight, fee)
    log ComputeRecorded(operator=operator, epoch=epoch, weight=weight, fee=fee)


@external
def claim(operator: uint256, epoch: uint256) -> uint256:
    """
    @notice Pays the operator's reward of an epoch that is over to its owner.
    @return The reward.
    """
    assert block.timestamp // epoch_s > epoch, "rewards: epoch not over"
    total: Share = self._unpack_share(self.totals[epoch])
    share: Share = self._unpack_share(self.share_words[operator][epoch])
    budget: uint256 = 0
    paid: uint256 = 0
    budget, paid = self._unpack_budget(self.budgets[epoch])
    # A budget of zero was never fixed: an epoch without one has paid nothing.
    fixed: uint256 = budget
    if fixed == 0:
        budget = min(emission_per_epoch, self.pool)
    amount: uint256 = 0
    if share.weight > 0:
        amount = min(budget * share.weight // total.weight, share.fees)
    assert amount > 0, "rewards: nothing to claim"
    if fixed == 0:
        self.pool -= budget
    # INVARIANT rewards: paid <= budget <= emission_per_epoch, and no share is paid twice.
    self.budgets[epoch] = self._pack_budget(budget, paid + amount)
    self.share_words[operator][epoch] = 0
    log RewardClaimed(operator=operator, epoch=epoch, amount=amount)
    owner: address = staticcall INodeRegistry(registry).owner_of(operator)
    assert extcall IERC20(zen).transfer(owner, amount, default_return_value=True), "rewards: transfer failed"
    return amount


@external
@view
def epochs(epoch: uint256) -> Epoch:
    """
    @notice An epoch's totals; the budget is 0 until its first claim.
    """
    total: Share = self._unpack_share(self.totals[epoch])
    budget: uint256 = 0
    paid: uint256 = 0
    budget, paid = self._unpack_budget(self.budgets[epoch])
    return Epoch(weight=total.weight, fees=total.fees, budget=budget, paid=paid)


@external
@view
def shares(operator: uint256, epoch: uint256) -> Share:
    """
    @notice What an operator did in an epoch and has not claimed yet.
    """
    return self._unpack_share(self.share_words[operator][epoch])


@internal
@pure
def _added(word: uint256, weight: uint256, fee: uint256) -> uint256:
    share: Share = self._unpack_share(word)
    # A record is at most 2^96 * 256 * 3 < 2^106 of weight and 2^89 of fee: the widths leave room for 2^23 records of the
    # greatest fee in one epoch, more than blocks have gas for. The conversions of `_pack_share` revert beyond.
    return self._pack_share(Share(weight=share.weight + weight, fees=share.fees + fee))


@internal
@pure
def _pack_share(share: Share) -> uint256:
    return convert(convert(share.weight, uint144), uint256) << 112 | convert(convert(share.fees, uint112), uint256)


@internal
@pure
def _unpack_share(word: uint256) -> Share:
    return Share(weight=word >> 112, fees=word & bits.U112)


@internal
@pure
def _pack_budget(budget: uint256, paid: uint256) -> uint256:
    return convert(convert(budget, uint128), uint256) << 128 | convert(convert(paid, uint128), uint256)


@internal
@pure
def _unpack_budget(word: uint256) -> (uint256, uint256):
    return word >> 128, word & bits.U128
