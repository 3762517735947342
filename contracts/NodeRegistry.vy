# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title NodeRegistry
@license Apache-2.0
@notice Who may work: operators, their keys, their stake in ZEN, their collateral in payment tokens, part of which is
        locked behind what they took on, and the hours in which they promise to be there. It also keeps the protocol's time, which
        stops when the chain does.
@dev Auction and Settlement lock, unlock and slash; nothing here calls them. Only `pay_out` moves tokens to one of them.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .modules import bits
from .modules import consent
from .modules import gpu_classes
from .modules import node_words as words
from .modules import numbers


implements: INodeRegistry


MAX_VRAM_GB: constant(uint256) = 65_535
# An epoch has so many periods; a heartbeat counts once in each.
PERIODS: constant(uint256) = 24
# Of the stake, for an epoch in which more declared periods were missed than the SLA allows.
BREACH_BPS: constant(uint256) = 100
# Epochs in which a reputation halves: a season of work counts, an older one half.
HALVING_EPOCHS: constant(uint256) = 90
# Epochs of one gap that nobody is judged for, at most: bounds the gas of the beat that ends it.
MAX_STOPPED: constant(uint256) = 64
# In a word of beats, above the periods: the epoch was judged.
JUDGED: constant(uint256) = 2**24
# In the census, above the count: the second until which registration is paused.
COUNT: constant(uint256) = 2**216 - 1
# Bounds an array of storage words; each operator costs a stake.
MAX_OPERATORS: constant(uint256) = 2**40
# Tokens an operator may ever be locked in: as many as the governor would allow.
MAX_TOKENS: constant(uint256) = 255


zen: public(immutable(address))
# May pause `register` and `register_for`, and nothing else.
guardian: public(immutable(address))
# The least stake, in 10^-18 ZEN.
min_stake: public(immutable(uint256))
# Seconds from a request of exit to the withdrawal of the stake.
exit_delay_s: public(immutable(uint256))
# Seconds of an epoch, as in Rewards.
epoch_s: public(immutable(uint256))
# Seconds without any beat after which the protocol's time stops.
outage_s: public(immutable(uint256))
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


struct Balance:
    balance: uint256
    locked: uint256


struct Promise:
    tier: uint256
    hours: uint256


# Set once by `wire`. Auction and Locks lock, unlock and slash; `settlement` rewards; `tasks` is where `pay_out` sends to; `rewards`
# and `admissions` slash stake. The auction's word: paused until (96) | auction (160), so that a bid reads both at once.
bidding: uint256
settlement: public(address)
locks: public(address)
tasks: public(address)
rewards: public(address)
admissions: public(address)
# paused until (40) | operator_count (216): operators are numbered from 1.
census: uint256
# operator -> the words of node_words
nodes: HashMap[uint256, uint256]
accounts: HashMap[uint256, uint256]
declared: HashMap[uint256, uint256]
# token -> operator -> the word of node_words: one hash finds it
collaterals: HashMap[address, uint256[MAX_OPERATORS]]
# operator -> 0..node.tokens-1 -> token in which anything of it was ever locked
locked_tokens: HashMap[uint256, HashMap[uint256, address]]
# Slashed collateral of a token that a standby, a finder or a submitter may still be paid from.
pot: public(HashMap[address, uint256])
# Slashed collateral of a token, and slashed stake, that nothing can spend.
burned: public(HashMap[address, uint256])
# operator -> epoch -> judged (1) | a bit for each period in which the hot key gave a sign of life
beats_words: HashMap[uint256, HashMap[uint256, uint256]]
# epoch -> heartbeats of all operators
total_beats: public(HashMap[uint256, uint256])
# owner -> registrations it consented to that were used
nonces: public(HashMap[address, uint256])
# operator -> its owner -> account -> whether it may answer asks in disputes beside the hot key; it may do nothing else
answer_keys: HashMap[uint256, HashMap[address, HashMap[address, bool]]]
# operator -> the account that its owner hands it over to, and that has not accepted yet
offered_owners: public(HashMap[uint256, address])
# seconds for which the protocol's time stood still (40) | block time of the last beat (40)
clock: uint256
# epoch -> whether the protocol's time stood still in it: then nobody missed a period by its own fault
is_stopped: public(HashMap[uint256, bool])


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


event PotBurned:
    token: indexed(address)
    amount: uint256


event PotPaidOut:
    token: indexed(address)
    amount: uint256


event StakeSlashed:
    operator: indexed(uint256)
    amount: uint256


event AvailabilityDeclared:
    operator: indexed(uint256)
    tier: uint256
    hours: uint256
    since: uint256


event HeartbeatCounted:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    period: uint256


event TimeStopped:
    # Seconds that no clock counted, of the gap that this beat ended.
    seconds: uint256
    # The sum over all gaps: block time less the protocol's.
    stopped_s: uint256


event AvailabilityBreached:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    missed: uint256


event AdmissionChanged:
    operator: indexed(uint256)
    admitted: bool


@deploy
def __init__(
    zen_: address,
    guardian_: address,
    min_stake_: uint256,
    exit_delay_s_: uint256,
    epoch_s_: uint256,
    outage_s_: uint256,
):
    """
    @param zen_ The token of the stakes.
    @param guardian_ May pause registration.
    @param min_stake_ The least stake, in 10^-18 ZEN.
    @param exit_delay_s_ Seconds from request to withdrawal.
    @param epoch_s_ Seconds of an epoch.
    @param outage_s_ Seconds without any beat after which the protocol's time stops.
    """
    zen = zen_
    guardian = guardian_
    min_stake = min_stake_
    exit_delay_s = exit_delay_s_
    epoch_s = epoch_s_
    outage_s = outage_s_
    self.clock = block.timestamp
    deployer = msg.sender


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


@external
def pause(until: uint256):
    """
    @notice Pauses registration, and nothing else, until a second below 2^40; one that is over resumes it.
    """
    assert msg.sender == guardian, "registry: not the guardian"
    self.census = until << 216 | self.census & COUNT


@external
def pause_bids(until: uint256):
    """
    @notice For Auction, whose guardian pauses bids until a second: kept here, where a bid reads a word anyway.
    """
    auction: uint256 = self.bidding & bits.U160
    assert convert(msg.sender, uint256) == auction, "registry: not a protocol contract"
    self.bidding = until << 160 | auction


@external
def register(
    hot: address, gpu_class: uint256, vram_gb: uint256, stake: uint256, endpoint: String[128]
) -> uint256:
    """
    @notice Registers the caller as the owner of a new operator and pulls its stake.
    @param hot The key that bids, reveals, readies and commits.
    @param gpu_class 1 consumer, 2 professional, 3 datacenter, 4 apple silicon.
    @param vram_gb Memory of one worker, in GB.
    @param stake In 10^-18 ZEN, a multiple of 10^12.
    @param endpoint Where the operator's store serves blocks.
    @return The operator's number.
    """
    census: uint256 = self.census
    assert block.timestamp >= census >> 216, "registry: intake paused"
    self._check_machine(hot, gpu_class, vram_gb, stake)
    return self._register((census & COUNT) + 1, msg.sender, hot, gpu_class, vram_gb, stake, endpoint)


@external
def register_for(
    owner: address,
    hot: address,
    gpu_class: uint256,
    vram_gb: uint256,
    stake: uint256,
    endpoint: String[128],
    deadline: uint256,
    owner_signature: Bytes[65],
    hot_signature: Bytes[65],
) -> uint256:
    """
    @notice Registers an operator for an owner who signed for it, as its hot key did. The caller sponsors gas and stake;
            the stake is the owner's from then on.
    @param deadline The last second at which the consent holds.
    @param owner_signature r | s | v of the EIP-712 `Registration`, with the owner's nonce.
    @param hot_signature The same, by the hot key.
    @return The operator's number.
    """
    census: uint256 = self.census
    assert block.timestamp >= census >> 216, "registry: intake paused"
    self._check_machine(hot, gpu_class, vram_gb, stake)
    assert block.timestamp <= deadline, "registry: consent expired"
    nonce: uint256 = self.nonces[owner]
    digest: bytes32 = consent._digest(owner, hot, gpu_class, vram_gb, stake, endpoint, nonce, deadline)
    assert consent._has_signed(owner, digest, owner_signature), "registry: owner did not sign"
    assert consent._has_signed(hot, digest, hot_signature), "registry: hot key did not sign"
    # INVARIANT consent: a pair of signatures registers one operator.
    self.nonces[owner] = nonce + 1
    return self._register((census & COUNT) + 1, owner, hot, gpu_class, vram_gb, stake, endpoint)


@external
def announce(operator: uint256, endpoint: String[128]):
    """
    @notice Announces where the operator's store serves blocks. An event only.
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
    node: words.Node = words._unpack_node(self.nodes[operator])
    node.hot = hot
    self.nodes[operator] = words._pack_node(node)
    log HotKeyChanged(operator=operator, hot=hot)


@external
def allow_answers(operator: uint256, account: address, allowed: bool):
    """
    @notice Lets an account answer asks in disputes about the operator's claims, as the hot key may, or no longer.
    """
    self._check_owner(operator)
    self.answer_keys[operator][msg.sender][account] = allowed
    log AnswerKeyChanged(operator=operator, account=account, allowed=allowed)


@external
def offer_owner(operator: uint256, account: address):
    """
    @notice Offers the operator to a new owner, which must accept; the zero address takes the offer back.
    """
    self._check_owner(operator)
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
    account: words.Account = words._unpack_account(self.accounts[operator])
    account.owner = msg.sender
    self.accounts[operator] = words._pack_account(account)
    log OwnerChanged(operator=operator, owner=msg.sender)


@external
def add_stake(operator: uint256, amount: uint256):
    """
    @notice Adds the caller's ZEN to an operator's stake.
    """
    word: uint256 = self.nodes[operator]
    assert word != 0, "registry: unknown operator"
    assert amount > 0, "registry: zero amount"
    assert amount % words.STAKE_UNIT == 0, "registry: stake has dust"
    node: words.Node = words._unpack_node(word)
    node.stake += amount // words.STAKE_UNIT
    self.nodes[operator] = words._pack_node(node)
    log StakeAdded(operator=operator, amount=amount)
    self._pull(zen, amount)


@external
def request_exit(operator: uint256):
    """
    @notice Starts the exit delay. The operator is no longer eligible to bid.
    """
    account: words.Account = self._owned(operator)
    assert account.exit_at == 0, "registry: exit already requested"
    account.exit_at = self._time() + exit_delay_s
    self.accounts[operator] = words._pack_account(account)
    node: words.Node = words._unpack_node(self.nodes[operator])
    node.is_exiting = True
    self.nodes[operator] = words._pack_node(node)
    log ExitRequested(operator=operator, exit_at=account.exit_at)


@external
def withdraw_stake(operator: uint256):
    """
    @notice Sends the whole stake to the owner, from `exit_at` on, and ends the operator's admission. It may stake again.
    """
    account: words.Account = self._owned(operator)
    assert account.exit_at != 0, "registry: exit not requested"
    assert self._time() >= account.exit_at, "registry: exit delay runs"
    # INVARIANT stake: no stake leaves while collateral is locked for a bid or a seat.
    assert self._locks(operator) == 0, "registry: collateral is locked"
    node: words.Node = words._unpack_node(self.nodes[operator])
    stake: uint256 = node.stake * words.STAKE_UNIT
    account.exit_at = 0
    account.is_admitted = False
    self.accounts[operator] = words._pack_account(account)
    node.stake = 0
    node.is_exiting = False
    self.nodes[operator] = words._pack_node(node)
    log StakeWithdrawn(operator=operator, amount=stake)
    self._push(zen, account.owner, stake)


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds the caller's tokens to an operator's collateral.
    """
    assert self._owner(operator) != empty(address), "registry: unknown operator"
    assert amount > 0, "registry: zero amount"
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    funds.balance += amount
    self.collaterals[token][operator] = words._pack_collateral(funds)
    log CollateralDeposited(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def withdraw(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends free collateral to the owner.
    """
    self._check_owner(operator)
    assert amount > 0, "registry: zero amount"
    word: uint256 = self.collaterals[token][operator]
    # INVARIANT locks: locked <= balance, always. The subtraction cannot underflow.
    assert amount <= (word >> 144) - (word >> 32 & bits.U112), "registry: amount exceeds free collateral"
    # The amount is at most the balance, above all other fields.
    self.collaterals[token][operator] = word - (amount << 144)
    log CollateralWithdrawn(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


@external
def declare(operator: uint256, tier: uint256, hours: uint256):
    """
    @notice Promises to be there, from the next epoch on, in the periods whose bits are set; with a tier at its SLA.
    @dev A change leaves the promise of the running epoch as it was: who could still change that would never miss it.
    @param tier 0 none, 1 bronze, 2 silver, 3 gold.
    @param hours Bit `i` is period `i` of 24.
    """
    account: words.Account = self._owned(operator)
    assert tier <= gpu_classes.GOLD, "registry: unknown tier"
    assert hours < 2**PERIODS, "registry: hours out of range"
    if tier != 0:
        assert account.gpu_class == gpu_classes.DATACENTER, "registry: class below the tier"
        assert account.vram_gb >= gpu_classes._tier_vram_gb(tier), "registry: too little VRAM for the tier"
        assert hours != 0, "registry: tier without hours"
    since: uint256 = block.timestamp // epoch_s + 1
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    # INVARIANT promises: what binds in an epoch is known until the next one is over. Two changes in a row would hide it.
    assert declaration.since + 1 != since, "registry: declared in the last epoch"
    if declaration.since != since:
        declaration.last_tier = declaration.tier
        declaration.last_hours = declaration.hours
        declaration.last_since = declaration.since
    declaration.tier = tier
    declaration.hours = hours
    declaration.since = since
    self.declared[operator] = words._pack_declaration(declaration)
    log AvailabilityDeclared(operator=operator, tier=tier, hours=hours, since=since)


@external
def beat():
    """
    @notice A beat: the chain takes transactions. Anybody may, at any time.
    """
    self._beat()


@external
def heartbeat(operator: uint256):
    """
    @notice A sign of life of a staked operator, once in each of an epoch's 24 periods; it is a beat.
    """
    node: words.Node = words._unpack_node(self.nodes[operator])
    assert msg.sender == node.hot, "registry: not the hot key"
    # Exiting operators keep their promises too; only whoever left has nothing at stake.
    assert node.stake > 0, "registry: nothing staked"
    epoch: uint256 = block.timestamp // epoch_s
    period: uint256 = block.timestamp % epoch_s * PERIODS // epoch_s
    word: uint256 = self.beats_words[operator][epoch]
    assert word >> period & 1 == 0, "registry: period already counted"
    self.beats_words[operator][epoch] = word | 1 << period
    self.total_beats[epoch] += 1
    log HeartbeatCounted(operator=operator, epoch=epoch, period=period)
    self._beat()


@external
def breach(operator: uint256, epoch: uint256):
    """
    @notice Judges a past epoch, once: who missed more declared periods than its SLA allows loses 1 % of its stake, and
            from the next epoch on its tier. Nobody is judged for an epoch in which the chain stood still.
    """
    assert epoch < block.timestamp // epoch_s, "registry: epoch not over"
    assert not self.is_stopped[epoch], "registry: time stood still"
    promise: Promise = self._promised(operator, epoch)
    assert promise.hours != 0, "registry: nothing declared"
    word: uint256 = self.beats_words[operator][epoch]
    assert word & JUDGED == 0, "registry: epoch already judged"
    missed: uint256 = bits._popcount(promise.hours & ~word)
    allowed: uint256 = bits._popcount(promise.hours) * gpu_classes._slack_bps(promise.tier) // numbers.BPS
    assert missed > allowed, "registry: promise kept"
    self.beats_words[operator][epoch] = word | JUDGED
    next: uint256 = block.timestamp // epoch_s + 1
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    # INVARIANT promises: what binds in the running epoch stays as it is, for receipts are signed by its tier already.
    if declaration.since == next:
        declaration.tier = 0
    if self._promised(operator, next - 1).tier != 0:
        declaration.barred_from = next
    self.declared[operator] = words._pack_declaration(declaration)
    log AvailabilityBreached(operator=operator, epoch=epoch, missed=missed)
    self._slash_stake(operator, BREACH_BPS)


@external
def lock(operator: uint256, token: address, amount: uint256, new: bool):
    """
    @notice Locks free collateral behind a seat.
    @param new Whether the operator had nothing locked in this lot.
    """
    self._check_protocol()
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
    bidding: uint256 = self.bidding
    assert convert(msg.sender, uint256) == bidding & bits.U160, "registry: not a protocol contract"
    # A lot has at most 2^14 units, and the least stake is below 2^104.
    stake: uint256 = max(min_stake, unsafe_mul(min_stake, units) // numbers.UNITS_PER_STAKE)
    if block.timestamp < bidding >> 160 or not words._is_eligible(self.nodes[operator], hot, stake):
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
    self._check_protocol()
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
    self._check_protocol()
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    funds.balance -= amount
    funds.locked -= amount
    self.collaterals[token][operator] = words._pack_collateral(funds)
    self.pot[token] += amount
    account: words.Account = words._unpack_account(self.accounts[operator])
    # As it was written: what halves later halves this half.
    account.reputation = 0 if convicted else account.reputation // 2
    self.accounts[operator] = words._pack_account(account)
    log CollateralSlashed(operator=operator, token=token, amount=amount)


@external
def slash_stake(operator: uint256, bps: uint256) -> uint256:
    """
    @notice Moves a part of an operator's stake to where nothing can spend it. Also while it exits.
    @return How much.
    """
    assert (
        msg.sender == self.rewards or msg.sender == self.admissions
    ), "registry: not a protocol contract"
    return self._slash_stake(operator, bps)


@external
def set_admitted(operator: uint256, admitted: bool):
    """
    @notice Whether the operator earns its class's multiplier.
    """
    assert msg.sender == self.admissions, "registry: not a protocol contract"
    account: words.Account = words._unpack_account(self.accounts[operator])
    account.is_admitted = admitted
    self.accounts[operator] = words._pack_account(account)
    log AdmissionChanged(operator=operator, admitted=admitted)


@external
def pay_out(token: address, amount: uint256):
    """
    @notice Sends `amount` from the pot to the task registry, where Locks says whom it is owed to.
    """
    assert msg.sender == self.locks, "registry: not a protocol contract"
    self.pot[token] -= amount
    log PotPaidOut(token=token, amount=amount)
    self._push(token, self.tasks, amount)


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
def reward_outcome(operator: uint256, fee: uint256) -> address:
    """
    @notice Adds a point of reputation for each ZEN that the treasury is paid of the operator's work, up to the most.
    @param fee In 10^-18 ZEN: reputation costs what it counts. What is below a thousandth of a ZEN is left out.
    @return The operator's owner, who is paid.
    """
    assert msg.sender == self.settlement, "registry: not a protocol contract"
    earned: uint256 = fee // words.REPUTATION_UNIT
    account: words.Account = self._account(operator)
    if earned > 0:
        account.reputation = min(account.reputation + earned, numbers.MAX_REPUTATION * words.PARTS_A_POINT)
        self.accounts[operator] = words._pack_account(account)
    return account.owner


@external
@view
def operator_count() -> uint256:
    """
    @notice How many operators were ever registered: they are numbered 1..operator_count.
    """
    return self.census & COUNT


@external
@view
def auction() -> address:
    """
    @notice The auction that locks behind bids.
    """
    return convert(self.bidding & bits.U160, address)


@external
@view
def bids_paused_until() -> uint256:
    """
    @notice The second before which nobody bids.
    """
    return self.bidding >> 160


@external
@view
def paused_until() -> uint256:
    """
    @notice The second before which nobody registers.
    """
    return self.census >> 216


@external
@view
def operators(operator: uint256) -> Operator:
    """
    @notice Everything known of an operator but what it declared; zeros when there is none.
    """
    node: words.Node = words._unpack_node(self.nodes[operator])
    account: words.Account = self._account(operator)
    return Operator(
        owner=account.owner,
        stake=node.stake * words.STAKE_UNIT,
        hot=node.hot,
        gpu_class=account.gpu_class,
        vram_gb=account.vram_gb,
        reputation=account.reputation // words.PARTS_A_POINT,
        locks=self._locks(operator),
        exit_at=account.exit_at,
    )


@external
@view
def declarations(operator: uint256) -> words.Declaration:
    """
    @notice What the operator declared last and before: tier, hours, and the epoch from which on each binds.
    """
    return words._unpack_declaration(self.declared[operator])


@external
@view
def promised(operator: uint256, epoch: uint256) -> Promise:
    """
    @notice The tier and the hours that bind in an epoch; zeros where nothing does, or where it is no longer known.
    """
    return self._promised(operator, epoch)


@external
@view
def beats(operator: uint256, epoch: uint256) -> uint256:
    """
    @notice The periods of an epoch in which the operator gave a sign of life, bit `i` for period `i`.
    """
    return self.beats_words[operator][epoch] & ~JUDGED


@external
@view
def is_judged(operator: uint256, epoch: uint256) -> bool:
    """
    @notice Whether the operator broke its promise of an epoch.
    """
    return self.beats_words[operator][epoch] & JUDGED != 0


@external
@view
def collateral(operator: uint256, token: address) -> Balance:
    """
    @notice An operator's deposit in a token, and how much of it is locked.
    """
    funds: words.Collateral = words._unpack_collateral(self.collaterals[token][operator])
    return Balance(balance=funds.balance, locked=funds.locked)


@external
@view
def stake_of(operator: uint256) -> uint256:
    """
    @notice The operator's stake, in 10^-18 ZEN.
    """
    return words._unpack_node(self.nodes[operator]).stake * words.STAKE_UNIT


@external
@view
def is_eligible(operator: uint256, hot: address) -> bool:
    """
    @notice Whether the hot key matches, no exit is requested and the stake is enough.
    """
    return words._is_eligible(self.nodes[operator], hot, min_stake)


@external
@view
def hot_key(operator: uint256) -> address:
    """
    @notice The operator's hot key; the zero address when there is no such operator.
    """
    return self._hot(operator)


@external
@view
def may_answer(operator: uint256, account: address) -> bool:
    """
    @notice Whether an account may answer asks for an operator: its hot key, or one that its owner allowed to.
    """
    return account == self._hot(operator) or self.answer_keys[operator][self._owner(operator)][account]


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
    return self._account(operator).reputation // words.PARTS_A_POINT


@external
@view
def time() -> uint256:
    """
    @notice The protocol's time: seconds in which the chain ran. Of a gap without any beat it counts `outage_s` at most.
    """
    return self._time()


@external
@view
def last_beat() -> uint256:
    """
    @notice Block time of the last beat.
    """
    return self.clock & bits.U40


@external
@view
def stopped_s() -> uint256:
    """
    @notice Seconds for which the protocol's time stood still, up to the last beat.
    """
    return self.clock >> 40


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
    @notice What an operator's verified compute weighs, in percent: its class's multiplier once it is admitted, until then
            at most a consumer's.
    """
    account: words.Account = words._unpack_account(self.accounts[operator])
    percent: uint256 = gpu_classes._multiplier(account.gpu_class)
    return percent if account.is_admitted else min(percent, gpu_classes.UNSHOWN_PERCENT)


@external
@view
def vram_of(operator: uint256) -> uint256:
    """
    @notice The declared memory of one worker, in GB; 0 when there is no such operator.
    """
    return words._unpack_account(self.accounts[operator]).vram_gb


@external
@view
def is_admitted(operator: uint256) -> bool:
    """
    @notice Whether the operator's machine passed admission.
    """
    return words._unpack_account(self.accounts[operator]).is_admitted


@external
@view
def reference_price(tier: uint256) -> uint256:
    """
    @notice What a GPU-hour of a tier is expected to cost, in 10^-18 ZEN; 0 when unknown. Binds nobody.
    """
    return gpu_classes._reference_price(tier)


@internal
@view
def _time() -> uint256:
    clock: uint256 = self.clock
    # INVARIANT time: it never runs backwards, and no faster than block time. A beat does not change it: the running gap becomes a
    # recorded one. tests/differential/test_halts.py
    return block.timestamp - (clock >> 40) - self._uncounted(clock)


@internal
@view
def _uncounted(clock: uint256) -> uint256:
    """
    @return Seconds by which the running gap is longer than `outage_s`.
    """
    counted_until: uint256 = (clock & bits.U40) + outage_s
    return block.timestamp - counted_until if block.timestamp > counted_until else 0


@internal
def _beat():
    clock: uint256 = self.clock
    uncounted: uint256 = self._uncounted(clock)
    stopped_s: uint256 = (clock >> 40) + uncounted
    self.clock = stopped_s << 40 | block.timestamp
    if uncounted == 0:
        return
    since: uint256 = (clock & bits.U40) // epoch_s
    end: uint256 = block.timestamp // epoch_s + 1
    # INVARIANT beats: a beat is never refused: of a gap that is longer, the first epochs are marked.
    for epoch: uint256 in range(since, min(end, since + MAX_STOPPED), bound=MAX_STOPPED):
        self.is_stopped[epoch] = True
    log TimeStopped(seconds=uncounted, stopped_s=stopped_s)


@internal
@view
def _check_protocol():
    assert (
        msg.sender == self.locks or convert(msg.sender, uint256) == self.bidding & bits.U160
    ), "registry: not a protocol contract"


@internal
@view
def _check_owner(operator: uint256):
    assert msg.sender == self._owner(operator), "registry: not the owner"


@internal
@view
def _check_machine(hot: address, gpu_class: uint256, vram_gb: uint256, stake: uint256):
    assert hot != empty(address), "registry: zero hot key"
    assert gpu_class >= gpu_classes.CONSUMER and gpu_class <= gpu_classes.APPLE_SILICON, "registry: unknown class"
    assert vram_gb >= gpu_classes._least_vram_gb(gpu_class), "registry: too little VRAM for the class"
    assert vram_gb <= MAX_VRAM_GB, "registry: VRAM out of range"
    assert stake >= min_stake, "registry: stake below the minimum"
    assert stake % words.STAKE_UNIT == 0, "registry: stake has dust"


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
@view
def _promised(operator: uint256, epoch: uint256) -> Promise:
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    barred_from: uint256 = declaration.barred_from
    # No declaration has `since` 0: it would have been made before the first epoch.
    if declaration.since != 0 and epoch >= declaration.since:
        is_barred: bool = declaration.since < barred_from and barred_from <= epoch
        return Promise(tier=0 if is_barred else declaration.tier, hours=declaration.hours)
    if declaration.last_since != 0 and epoch >= declaration.last_since:
        is_barred: bool = declaration.last_since < barred_from and barred_from <= epoch
        return Promise(tier=0 if is_barred else declaration.last_tier, hours=declaration.last_hours)
    return empty(Promise)


@internal
def _register(
    census: uint256,
    owner: address,
    hot: address,
    gpu_class: uint256,
    vram_gb: uint256,
    stake: uint256,
    endpoint: String[128],
) -> uint256:
    """
    @dev `census` counts the new operator, and is its number. Registration is not paused: the end of a pause that is over is
         forgotten.
    """
    self.census = census
    self.nodes[census] = words._pack_node(
        words.Node(hot=hot, stake=stake // words.STAKE_UNIT, tokens=0, is_exiting=False)
    )
    self.accounts[census] = words._pack_account(
        words.Account(
            owner=owner,
            reputation=0,
            halved_at=0,
            exit_at=0,
            gpu_class=gpu_class,
            vram_gb=vram_gb,
            is_admitted=False,
        )
    )
    log OperatorRegistered(
        operator=census,
        owner=owner,
        hot=hot,
        gpu_class=gpu_class,
        vram_gb=vram_gb,
        stake=stake,
        endpoint=endpoint,
    )
    self._pull(zen, stake)
    return census


@internal
@view
def _locks(operator: uint256) -> uint256:
    """
    @notice Bids and seats that the operator has collateral locked for, in all tokens.
    """
    locks: uint256 = 0
    tokens: uint256 = words._unpack_node(self.nodes[operator]).tokens
    for index: uint256 in range(tokens, bound=MAX_TOKENS):
        token: address = self.locked_tokens[operator][index]
        locks += words._unpack_collateral(self.collaterals[token][operator]).lots
    return locks


@internal
def _list(operator: uint256, token: address):
    """
    @dev Once for each operator and token: what is locked from then on, `_locks` finds.
    """
    node: words.Node = words._unpack_node(self.nodes[operator])
    self.locked_tokens[operator][node.tokens] = token
    node.tokens += 1
    self.nodes[operator] = words._pack_node(node)


@internal
def _slash_stake(operator: uint256, bps: uint256) -> uint256:
    node: words.Node = words._unpack_node(self.nodes[operator])
    units: uint256 = node.stake * bps // numbers.BPS
    node.stake -= units
    self.nodes[operator] = words._pack_node(node)
    slashed: uint256 = units * words.STAKE_UNIT
    self.burned[zen] += slashed
    log StakeSlashed(operator=operator, amount=slashed)
    return slashed


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "registry: transfer failed"


@internal
def _push(token: address, to: address, amount: uint256):
    assert extcall IERC20(token).transfer(to, amount, default_return_value=True), "registry: transfer failed"
