# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Credits
@license Apache-2.0
@notice Burn and mint: whoever burns ZEN at the posted rate has credits, which pay for jobs. Work that is accepted uses credits up,
        and those who did it share the epoch's mint, which comes from a funded pool.
@dev A credit is one burned ZEN, whatever the rate is later: nothing that moves credits gains by a rate. What one credit brings is
     at most one ZEN, and it is used up by that; so nobody takes out more than was put in for its credits
     (docs/protocol/credits.md has the argument).
"""


from ethereum.ercs import IERC20
from .interfaces import ICredits
from .interfaces import INodeRegistry
from .modules import credit_token as token
from .modules import reward_words as words


implements: ICredits
implements: IERC20


initializes: token


exports: (
    token.name,
    token.symbol,
    token.decimals,
    token.balanceOf,
    token.allowance,
    token.totalSupply,
    token.approve,
)


interface Successor:
    def fund(amount: uint256): nonpayable


interface Collateral:
    def deposit(operator: uint256, token: address, amount: uint256): nonpayable


# A whole dollar, and a whole ZEN, in the smallest units.
WHOLE: constant(uint256) = 10**18
# Dollars for a ZEN: from a millionth to a million.
LEAST_RATE: constant(uint256) = 10**12
MOST_RATE: constant(uint256) = 10**24
# What one call buys at most, in 10^-18 dollars: no product can overflow.
MOST_DOLLARS: constant(uint256) = 2**96 - 1
# Of the rate before, by which the poster's next one may differ.
STEP_BPS: constant(uint256) = 1_000
BPS: constant(uint256) = 10_000
# Epochs after its own in which an epoch's mint can be claimed.
CLAIM_EPOCHS: constant(uint256) = 90


zen: public(immutable(address))
# Is paid the fees, and has their share of a mint.
treasury: public(immutable(address))
# The timelock: names the poster, sets any rate, moves the pool to the next version.
governor: public(immutable(address))
deployer: public(immutable(address))
# Seconds of an epoch.
epoch_s: public(immutable(uint256))
# The most that an epoch mints.
mint_per_epoch: public(immutable(uint256))
# The least seconds between two rates of the poster.
rate_step_s: public(immutable(uint256))
# Seconds after which a rate is stale.
rate_stale_s: public(immutable(uint256))


struct Epoch:
    accepted: uint256
    budget: uint256
    paid: uint256


# Set once by `wire`.
tasks: public(address)
registry: public(address)
# Posts rates.
poster: public(address)
# 10^-18 dollars for a whole ZEN; 0 before the first one.
rate: public(uint256)
posted_at: public(uint256)
# ZEN that was burned for credits: kept here, and nothing spends it.
burned: public(uint256)
# ZEN behind credits that are collateral, in all and by the operators' owners.
pledged: public(uint256)
pledges: public(HashMap[address, uint256])
# ZEN for the mints of epochs to come.
pool: public(uint256)
# account -> credits owed to it by TaskRegistry for accepted work: used up when they leave
earned: public(HashMap[address, uint256])
# account -> epoch -> credits of its accepted work; zero once claimed
shares: public(HashMap[address, HashMap[uint256, uint256]])
# epoch -> credits of all accepted work (128) | its mint (128)
epoch_words: HashMap[uint256, uint256]
# epoch -> what of its mint was claimed
paid_of: HashMap[uint256, uint256]


event PosterAppointed:
    account: indexed(address)


event RatePosted:
    rate: uint256


event CreditsBought:
    account: indexed(address)
    dollars: uint256
    amount: uint256


event CollateralPledged:
    operator: indexed(uint256)
    owner: indexed(address)
    amount: uint256


event PledgeReturned:
    owner: indexed(address)
    amount: uint256


event WorkAccepted:
    account: indexed(address)
    epoch: indexed(uint256)
    net: uint256
    fee: uint256


event MintClaimed:
    account: indexed(address)
    epoch: indexed(uint256)
    amount: uint256


event MintRecycled:
    epoch: indexed(uint256)
    amount: uint256


event PoolFunded:
    amount: uint256


event PoolMoved:
    successor: indexed(address)
    amount: uint256


@deploy
def __init__(
    zen_: address,
    treasury_: address,
    governor_: address,
    poster_: address,
    rate_: uint256,
    epoch_s_: uint256,
    mint_per_epoch_: uint256,
    rate_step_s_: uint256,
    rate_stale_s_: uint256,
):
    """
    @param zen_ What is burned, and what a mint is paid in.
    @param treasury_ Is paid the fees.
    @param governor_ The timelock.
    @param poster_ The first poster; nobody where it is the zero address.
    @param rate_ The first rate; 0: credits cannot be bought until the governor sets one.
    @param epoch_s_ Seconds of an epoch.
    @param mint_per_epoch_ The most that an epoch mints.
    @param rate_step_s_ The least seconds between two rates of the poster.
    @param rate_stale_s_ Seconds after which a rate is stale.
    """
    zen = zen_
    treasury = treasury_
    governor = governor_
    deployer = msg.sender
    epoch_s = epoch_s_
    mint_per_epoch = mint_per_epoch_
    rate_step_s = rate_step_s_
    rate_stale_s = rate_stale_s_
    self._appoint(poster_)
    if rate_ > 0:
        self._set_rate(rate_)


@external
def wire(tasks_: address, registry_: address):
    """
    @notice Names the contract that pays for work, and the one that keeps collateral, once.
    """
    assert msg.sender == deployer, "credits: not the deployer"
    assert self.tasks == empty(address), "credits: already wired"
    self.tasks = tasks_
    self.registry = registry_


@external
def appoint(account: address):
    """
    @notice The governor replaces the poster.
    """
    assert msg.sender == governor, "credits: not the governor"
    self._appoint(account)


@external
def set_rate(next_rate: uint256):
    """
    @notice The governor sets any rate: the first one, or one that is more than steps away.
    """
    assert msg.sender == governor, "credits: not the governor"
    self._set_rate(next_rate)


@external
def post_rate(next_rate: uint256):
    """
    @notice The poster sets the next rate: at most a tenth above or below the last one, and no sooner than `rate_step_s` after it.
    """
    assert msg.sender == self.poster, "credits: not the poster"
    last: uint256 = self.rate
    assert last > 0, "credits: no rate yet"
    assert block.timestamp >= self.posted_at + rate_step_s, "credits: rate posted too recently"
    step: uint256 = next_rate - last if next_rate > last else last - next_rate
    assert step <= last * STEP_BPS // BPS, "credits: step too large"
    self._set_rate(next_rate)


@external
def buy(dollars: uint256, most: uint256) -> uint256:
    """
    @notice Burns the caller's ZEN that are worth so many dollars at the posted rate, and gives it as many credits.
    @param most The most ZEN that may be burned.
    @return The ZEN burned, and the credits bought.
    """
    assert self._is_fresh(), "credits: rate is stale"
    assert 0 < dollars and dollars <= MOST_DOLLARS, "credits: dollars out of range"
    posted: uint256 = self.rate
    # Rounded up: no dollar is had for nothing.
    amount: uint256 = (dollars * WHOLE + posted - 1) // posted
    assert amount <= most, "credits: costs more than the most"
    # INVARIANT burned: it only grows, and ZEN here == burned + pledged + pool + mints not claimed.
    self.burned += amount
    token._mint(msg.sender, amount)
    log CreditsBought(account=msg.sender, dollars=dollars, amount=amount)
    self._pull(amount)
    return amount


@external
def pledge(operator: uint256, amount: uint256):
    """
    @notice Puts ZEN behind as many credits, which become an operator's collateral. When its owner takes them out again, it has
            the ZEN back; what was slashed is not.
    """
    registry: address = self.registry
    owner: address = staticcall INodeRegistry(registry).owner_of(operator)
    assert owner != empty(address), "credits: unknown operator"
    assert amount > 0, "credits: zero amount"
    self.pledged += amount
    self.pledges[owner] += amount
    token._mint(self, amount)
    token._approve(self, registry, amount)
    log CollateralPledged(operator=operator, owner=owner, amount=amount)
    self._pull(amount)
    extcall Collateral(registry).deposit(operator, self, amount)


@external
def transfer(to: address, amount: uint256) -> bool:
    """
    @notice Moves the caller's credits. What TaskRegistry pays for accepted work is used up on the way, and NodeRegistry's pledged
            collateral becomes ZEN again.
    """
    rest: uint256 = amount
    if msg.sender == self.tasks:
        # INVARIANT earned: at most what TaskRegistry owes the account, all of which it sends at once.
        used: uint256 = self.earned[to]
        if used > 0:
            self.earned[to] = 0
            rest -= used
            token._use_up(msg.sender, used)
    elif msg.sender == self.registry:
        back: uint256 = min(amount, self.pledges[to])
        if back > 0:
            self.pledges[to] -= back
            self.pledged -= back
            rest -= back
            token._use_up(msg.sender, back)
            log PledgeReturned(owner=to, amount=back)
            self._push(to, back)
    token._move(msg.sender, to, rest)
    return True


@external
@reentrant
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    """
    @notice Moves credits of an account that allowed it. TaskRegistry pulls escrow so, and only while the rate is fresh.
    @dev Without a lock against reentrance: `pledge` calls NodeRegistry, which pulls. It calls nobody itself.
    """
    assert msg.sender != self.tasks or self._is_fresh(), "credits: rate is stale"
    token._spend(owner, msg.sender, amount)
    token._move(owner, to, amount)
    return True


@external
def record(account: address, net: uint256, fee: uint256):
    """
    @notice For TaskRegistry, of a job that pays in credits: counts accepted work in the current epoch, and sets its mint aside.
    @param account Is paid `net`; the treasury is paid `fee`.
    """
    assert msg.sender == self.tasks, "credits: not the task registry"
    epoch: uint256 = block.timestamp // epoch_s
    accepted: uint256 = 0
    budget: uint256 = 0
    accepted, budget = words._unpack_halves(self.epoch_words[epoch])
    accepted += net + fee
    # INVARIANT mint: of an epoch, at most `mint_per_epoch`, and at most the credits that its work used up. What is burned is no part
    # of it.
    more: uint256 = min(min(mint_per_epoch, accepted) - budget, self.pool)
    self.pool -= more
    # Jobs cost below 2^108, and ZEN's supply bounds all credits: the halves do not overflow.
    self.epoch_words[epoch] = words._pack_halves(accepted, budget + more)
    self.shares[account][epoch] += net
    self.shares[treasury][epoch] += fee
    self.earned[account] += net
    self.earned[treasury] += fee
    log WorkAccepted(account=account, epoch=epoch, net=net, fee=fee)


@external
def claim(account: address, epoch: uint256) -> uint256:
    """
    @notice Pays an account its share of the mint of an epoch that is over. Anyone may call it.
    @return The ZEN.
    """
    now: uint256 = block.timestamp // epoch_s
    assert now > epoch, "credits: epoch not over"
    assert now - epoch <= CLAIM_EPOCHS, "credits: epoch expired"
    accepted: uint256 = 0
    budget: uint256 = 0
    accepted, budget = words._unpack_halves(self.epoch_words[epoch])
    # INVARIANT shares: they sum to at most the mint, since those of an epoch's accounts sum to `accepted`.
    amount: uint256 = words._shared(budget, self.shares[account][epoch], accepted)
    assert amount > 0, "credits: nothing to claim"
    self.shares[account][epoch] = 0
    self.paid_of[epoch] += amount
    log MintClaimed(account=account, epoch=epoch, amount=amount)
    self._push(account, amount)
    return amount


@external
def recycle(epoch: uint256) -> uint256:
    """
    @notice Returns to the pool what of an expired epoch's mint nobody claimed.
    @return What came back.
    """
    assert block.timestamp // epoch_s > epoch + CLAIM_EPOCHS, "credits: claims still open"
    accepted: uint256 = 0
    budget: uint256 = 0
    accepted, budget = words._unpack_halves(self.epoch_words[epoch])
    paid: uint256 = self.paid_of[epoch]
    assert budget > paid, "credits: nothing to recycle"
    self.epoch_words[epoch] = words._pack_halves(accepted, paid)
    self.pool += budget - paid
    log MintRecycled(epoch=epoch, amount=budget - paid)
    return budget - paid


@external
def fund(amount: uint256):
    """
    @notice Adds the caller's ZEN to the pool.
    """
    assert amount > 0, "credits: zero amount"
    self.pool += amount
    log PoolFunded(amount=amount)
    self._pull(amount)


@external
def move_pool(successor: address, amount: uint256):
    """
    @notice Moves ZEN of the pool into the pool of the next version. Mints that are set aside stay.
    """
    assert msg.sender == governor, "credits: not the governor"
    assert amount > 0, "credits: zero amount"
    assert self.pool >= amount, "credits: amount exceeds pool"
    self.pool -= amount
    log PoolMoved(successor=successor, amount=amount)
    before: uint256 = staticcall IERC20(zen).balanceOf(self)
    assert extcall IERC20(zen).approve(successor, amount, default_return_value=True), "credits: approval failed"
    extcall Successor(successor).fund(amount)
    assert staticcall IERC20(zen).balanceOf(self) == before - amount, "credits: successor took another amount"


@external
@view
def is_fresh() -> bool:
    """
    @notice Whether credits can be bought, and jobs posted that pay in them.
    """
    return self._is_fresh()


@external
@view
def epochs(epoch: uint256) -> Epoch:
    """
    @notice The credits that an epoch's accepted work used up, its mint, and what of that was claimed.
    """
    accepted: uint256 = 0
    budget: uint256 = 0
    accepted, budget = words._unpack_halves(self.epoch_words[epoch])
    return Epoch(accepted=accepted, budget=budget, paid=self.paid_of[epoch])


@internal
@view
def _is_fresh() -> bool:
    return self.rate > 0 and block.timestamp <= self.posted_at + rate_stale_s


@internal
def _appoint(account: address):
    self.poster = account
    log PosterAppointed(account=account)


@internal
def _set_rate(next_rate: uint256):
    assert LEAST_RATE <= next_rate and next_rate <= MOST_RATE, "credits: rate out of range"
    self.rate = next_rate
    self.posted_at = block.timestamp
    log RatePosted(rate=next_rate)


@internal
def _pull(amount: uint256):
    assert extcall IERC20(zen).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "credits: transfer failed"


@internal
def _push(to: address, amount: uint256):
    assert extcall IERC20(zen).transfer(to, amount, default_return_value=True), "credits: transfer failed"
