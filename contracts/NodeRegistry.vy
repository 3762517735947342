# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title NodeRegistry
@license Apache-2.0
@notice Who may work: operators, their keys, their stake in ZEN, and their collateral in payment tokens, part of which is
        locked behind what they took on.
@dev Auction and Settlement lock, unlock and slash; nothing here calls them.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .modules import gpu_classes
from .modules import intake
from .modules import node_words as words
from .modules import numbers


implements: INodeRegistry


initializes: intake
exports: (intake.guardian, intake.paused)


MAX_VRAM_GB: constant(uint256) = 65_535


zen: public(immutable(address))
# The least stake, in 10^-18 ZEN.
min_stake: public(immutable(uint256))
# Seconds from a request of exit to the withdrawal of the stake.
exit_delay_s: public(immutable(uint256))
deployer: public(immutable(address))


struct Operator:
    owner: address
    stake: uint256
    hot: address
    gpu_class: uint256
    vram_gb: uint256
    reputation: uint256
    locks: uint256
    exit_at: uint256


# The two contracts that lock, unlock and slash; set once by `wire`.
auction: public(address)
settlement: public(address)
# Operators are numbered 1..operator_count.
operator_count: public(uint256)
# operator -> owner (160) | stake (96)
accounts: HashMap[uint256, uint256]
# operator -> hot (160) | class (8) | vram_gb (16) | reputation (16) | locks (16) | exit_at (40)
profiles: HashMap[uint256, uint256]
# operator -> token -> balance (128) | locked (128)
collaterals: HashMap[uint256, HashMap[address, uint256]]
# Slashed collateral of a token that a standby may still be paid from.
pot: public(HashMap[address, uint256])
# Slashed collateral of a token that nothing can spend.
burned: public(HashMap[address, uint256])


event OperatorRegistered:
    operator: indexed(uint256)
    owner: indexed(address)
    hot: address
    gpu_class: uint256
    vram_gb: uint256
    stake: uint256
    endpoint: String[128]


event EndpointAnnounced:
    operator: indexed(uint256)
    endpoint: String[128]


event HotKeyChanged:
    operator: indexed(uint256)
    hot: address


event StakeAdded:
    operator: indexed(uint256)
    amount: uint256


event ExitRequested:
    operator: indexed(uint256)
    exit_at: uint256


event StakeWithdrawn:
    operator: indexed(uint256)
    amount: uint256


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


event CollateralCredited:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event PotBurned:
    token: indexed(address)
    amount: uint256


@deploy
def __init__(zen_: address, guardian_: address, min_stake_: uint256, exit_delay_s_: uint256):
    """
    @param zen_ The token of the stakes.
    @param guardian_ May pause `register`.
    @param min_stake_ The least stake, in 10^-18 ZEN.
    @param exit_delay_s_ Seconds from request to withdrawal.
    """
    intake.__init__(guardian_)
    zen = zen_
    min_stake = min_stake_
    exit_delay_s = exit_delay_s_
    deployer = msg.sender


@external
def wire(auction_: address, settlement_: address):
    """
    @notice Names the contracts that may lock and slash, once.
    """
    assert msg.sender == deployer, "registry: not the deployer"
    assert self.settlement == empty(address), "registry: already wired"
    self.auction = auction_
    self.settlement = settlement_


@external
def set_paused(paused: bool):
    """
    @notice Pauses or resumes `register`, and nothing else.
    """
    assert msg.sender == intake.guardian, "registry: not the guardian"
    intake._set_paused(paused)


@external
def register(
    hot: address, gpu_class: uint256, vram_gb: uint256, stake: uint256, endpoint: String[128]
) -> uint256:
    """
    @notice Registers the caller as the owner of a new operator and pulls its stake.
    @param hot The key that bids, reveals, readies and commits.
    @param gpu_class 1 consumer, 2 professional, 3 datacenter, 4 apple silicon.
    @param vram_gb Memory of one worker, in GB.
    @param stake In 10^-18 ZEN.
    @param endpoint Where the operator's store serves blocks.
    @return The operator's number.
    """
    assert not intake.paused, "registry: intake paused"
    assert hot != empty(address), "registry: zero hot key"
    assert gpu_class >= gpu_classes.CONSUMER and gpu_class <= gpu_classes.APPLE_SILICON, "registry: unknown class"
    assert vram_gb >= gpu_classes._least_vram_gb(gpu_class), "registry: too little VRAM for the class"
    assert vram_gb <= MAX_VRAM_GB, "registry: VRAM out of range"
    assert stake >= min_stake, "registry: stake below the minimum"
    operator: uint256 = self.operator_count + 1
    self.operator_count = operator
    self.accounts[operator] = words._pack_account(msg.sender, stake)
    self.profiles[operator] = words._pack_profile(
        words.Profile(hot=hot, gpu_class=gpu_class, vram_gb=vram_gb, reputation=0, locks=0, exit_at=0)
    )
    log OperatorRegistered(
        operator=operator,
        owner=msg.sender,
        hot=hot,
        gpu_class=gpu_class,
        vram_gb=vram_gb,
        stake=stake,
        endpoint=endpoint,
    )
    self._pull(zen, stake)
    return operator


@external
def announce(operator: uint256, endpoint: String[128]):
    """
    @notice Tells where the operator's store serves blocks. An event only.
    """
    owner: address = self._owner(operator)
    hot: address = self._hot(operator)
    # The zero address never calls: an operator that does not exist has no caller who passes.
    assert msg.sender == owner or msg.sender == hot, "registry: not the operator"
    log EndpointAnnounced(operator=operator, endpoint=endpoint)


@external
def set_hot(operator: uint256, hot: address):
    """
    @notice Replaces the hot key.
    """
    self._check_owner(operator)
    assert hot != empty(address), "registry: zero hot key"
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    profile.hot = hot
    self.profiles[operator] = words._pack_profile(profile)
    log HotKeyChanged(operator=operator, hot=hot)


@external
def add_stake(operator: uint256, amount: uint256):
    """
    @notice Adds the caller's ZEN to an operator's stake.
    """
    owner: address = empty(address)
    stake: uint256 = 0
    owner, stake = words._unpack_account(self.accounts[operator])
    assert owner != empty(address), "registry: unknown operator"
    assert amount > 0, "registry: zero amount"
    self.accounts[operator] = words._pack_account(owner, stake + amount)
    log StakeAdded(operator=operator, amount=amount)
    self._pull(zen, amount)


@external
def request_exit(operator: uint256):
    """
    @notice Starts the exit delay. The operator is no longer eligible to bid.
    """
    self._check_owner(operator)
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    assert profile.exit_at == 0, "registry: exit already requested"
    profile.exit_at = block.timestamp + exit_delay_s
    self.profiles[operator] = words._pack_profile(profile)
    log ExitRequested(operator=operator, exit_at=profile.exit_at)


@external
def withdraw_stake(operator: uint256):
    """
    @notice Sends the whole stake to the owner, from `exit_at` on. The operator may stake again.
    """
    self._check_owner(operator)
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    assert profile.exit_at != 0, "registry: exit not requested"
    assert block.timestamp >= profile.exit_at, "registry: exit delay runs"
    # INVARIANT stake: no stake leaves while collateral stands behind a bid or a seat.
    assert profile.locks == 0, "registry: collateral is locked"
    owner: address = empty(address)
    stake: uint256 = 0
    owner, stake = words._unpack_account(self.accounts[operator])
    profile.exit_at = 0
    self.profiles[operator] = words._pack_profile(profile)
    self.accounts[operator] = words._pack_account(owner, 0)
    log StakeWithdrawn(operator=operator, amount=stake)
    self._push(zen, owner, stake)


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds the caller's tokens to an operator's collateral.
    """
    assert self._owner(operator) != empty(address), "registry: unknown operator"
    assert amount > 0, "registry: zero amount"
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    held.balance += amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    log CollateralDeposited(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def withdraw(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends free collateral to the owner.
    """
    self._check_owner(operator)
    assert amount > 0, "registry: zero amount"
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    # INVARIANT locks: locked <= balance, always. The subtraction cannot underflow.
    assert amount <= held.balance - held.locked, "registry: amount exceeds free collateral"
    held.balance -= amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    log CollateralWithdrawn(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


@external
def lock(operator: uint256, token: address, amount: uint256, new: bool):
    """
    @notice Locks free collateral behind a bid or a seat.
    @param new Whether the operator had nothing locked in this lot.
    """
    self._check_protocol()
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    # INVARIANT locks: sum of the locks of open bids and seats == locked <= balance.
    assert amount <= held.balance - held.locked, "registry: amount exceeds free collateral"
    held.locked += amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    if new:
        profile: words.Profile = words._unpack_profile(self.profiles[operator])
        profile.locks += 1
        self.profiles[operator] = words._pack_profile(profile)
    log CollateralLocked(operator=operator, token=token, amount=amount)


@external
def unlock(operator: uint256, token: address, amount: uint256, last: bool):
    """
    @notice Frees locked collateral.
    @param last Whether nothing stays locked in this lot.
    """
    self._check_protocol()
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    held.locked -= amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    if last:
        profile: words.Profile = words._unpack_profile(self.profiles[operator])
        profile.locks -= 1
        self.profiles[operator] = words._pack_profile(profile)
    log CollateralUnlocked(operator=operator, token=token, amount=amount)


@external
def slash(operator: uint256, token: address, amount: uint256):
    """
    @notice Moves locked collateral to the pot and halves the operator's reputation.
    """
    self._check_protocol()
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    held.balance -= amount
    held.locked -= amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    self.pot[token] += amount
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    profile.reputation = profile.reputation // 2
    self.profiles[operator] = words._pack_profile(profile)
    log CollateralSlashed(operator=operator, token=token, amount=amount)


@external
def credit(operator: uint256, token: address, amount: uint256):
    """
    @notice Moves `amount` from the pot to the operator's free collateral.
    """
    assert msg.sender == self.settlement, "registry: not a protocol contract"
    self.pot[token] -= amount
    held: words.Collateral = words._unpack_collateral(self.collaterals[operator][token])
    held.balance += amount
    self.collaterals[operator][token] = words._pack_collateral(held)
    log CollateralCredited(operator=operator, token=token, amount=amount)


@external
def burn(token: address, amount: uint256):
    """
    @notice Moves `amount` from the pot to where nothing can spend it.
    """
    self._check_protocol()
    self.pot[token] -= amount
    self.burned[token] += amount
    log PotBurned(token=token, amount=amount)


@external
def reward_outcome(operator: uint256, count: uint256) -> address:
    """
    @notice Adds a point of reputation for each of `count` final slot-rounds, up to the most.
    @return The operator's owner, who is paid.
    """
    assert msg.sender == self.settlement, "registry: not a protocol contract"
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    reputation: uint256 = min(profile.reputation + count, numbers.MAX_REPUTATION)
    if reputation != profile.reputation:
        profile.reputation = reputation
        self.profiles[operator] = words._pack_profile(profile)
    return self._owner(operator)


@external
@view
def operators(operator: uint256) -> Operator:
    """
    @notice Everything known of an operator; zeros when there is none.
    """
    owner: address = empty(address)
    stake: uint256 = 0
    owner, stake = words._unpack_account(self.accounts[operator])
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    return Operator(
        owner=owner,
        stake=stake,
        hot=profile.hot,
        gpu_class=profile.gpu_class,
        vram_gb=profile.vram_gb,
        reputation=profile.reputation,
        locks=profile.locks,
        exit_at=profile.exit_at,
    )


@external
@view
def collateral(operator: uint256, token: address) -> words.Collateral:
    """
    @notice An operator's deposit in a token, and how much of it is locked.
    """
    return words._unpack_collateral(self.collaterals[operator][token])


@external
@view
def is_eligible(operator: uint256, hot: address) -> bool:
    """
    @notice Whether the hot key matches, no exit is requested and the stake is enough.
    """
    owner: address = empty(address)
    stake: uint256 = 0
    owner, stake = words._unpack_account(self.accounts[operator])
    profile: words.Profile = words._unpack_profile(self.profiles[operator])
    return owner != empty(address) and hot == profile.hot and profile.exit_at == 0 and stake >= min_stake


@external
@view
def hot_key(operator: uint256) -> address:
    """
    @notice The operator's hot key; the zero address when there is no such operator.
    """
    return self._hot(operator)


@external
@view
def owner_of(operator: uint256) -> address:
    """
    @notice The operator's owner; the zero address when there is no such operator.
    """
    return self._owner(operator)


@external
@view
def discount_bps(operator: uint256) -> uint256:
    """
    @notice What an operator's score is discounted by: one basis point a point of reputation.
    """
    return words._unpack_profile(self.profiles[operator]).reputation


@external
@view
def multiplier(gpu_class: uint256) -> uint256:
    """
    @notice The reward multiplier of a class in percent; 0 when unknown.
    """
    return gpu_classes._multiplier(gpu_class)


@external
@view
def multiplier_of(operator: uint256) -> uint256:
    """
    @notice The reward multiplier of an operator's class in percent.
    """
    return gpu_classes._multiplier(words._unpack_profile(self.profiles[operator]).gpu_class)


@internal
@view
def _check_protocol():
    assert msg.sender == self.auction or msg.sender == self.settlement, "registry: not a protocol contract"


@internal
@view
def _check_owner(operator: uint256):
    assert msg.sender == self._owner(operator), "registry: not the owner"


@internal
@view
def _owner(operator: uint256) -> address:
    return convert(self.accounts[operator] >> 96, address)


@internal
@view
def _hot(operator: uint256) -> address:
    return convert(self.profiles[operator] >> 96, address)


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "registry: transfer failed"


@internal
def _push(token: address, to: address, amount: uint256):
    assert extcall IERC20(token).transfer(to, amount, default_return_value=True), "registry: transfer failed"
