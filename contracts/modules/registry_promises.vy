# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Declared hours and heartbeats in NodeRegistry
@license Apache-2.0
@notice The hours in which operators promise to be there, their signs of life, and the part of the stake that a broken promise costs;
        and whether an operator is what a job asks for.
"""


from . import bits
from . import gpu_classes
from . import node_words as words
from . import numbers
from . import registry_state as state
from . import registry_time as time
from . import requirements as asked


uses: state
uses: time


# An epoch has so many periods; a heartbeat counts once in each.
PERIODS: constant(uint256) = 24
# Of the stake, for an epoch in which more declared periods were missed than the SLA allows.
BREACH_BPS: constant(uint256) = 100
# Of that, to whoever shows it.
BREACH_FEE_BPS: constant(uint256) = 1_000
# In a word of beats, above the periods: the epoch was judged.
JUDGED: constant(uint256) = 2**24


struct Promise:
    tier: uint256
    hours: uint256


declared: HashMap[uint256, uint256]
# operator -> epoch -> judged (1) | a bit for each period in which the hot key gave a sign of life
beats_words: HashMap[uint256, HashMap[uint256, uint256]]
# epoch -> heartbeats of all operators
total_beats: public(HashMap[uint256, uint256])


event AvailabilityDeclared:
    operator: indexed(uint256)
    tier: uint256
    hours: uint256
    since: uint256


event RegionDeclared:
    operator: indexed(uint256)
    region: uint256


event HeartbeatCounted:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    period: uint256


event AvailabilityBreached:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    missed: uint256


@external
def declare(operator: uint256, tier: uint256, hours: uint256):
    """
    @notice Promises to be there, from the next epoch on, in the periods whose bits are set; with a tier at its SLA.
    @dev A change leaves the promise of the running epoch as it was: who could still change that would never miss it.
    @param tier 0 none, 1 bronze, 2 silver, 3 gold.
    @param hours Bit `i` is period `i` of 24.
    """
    account: words.Account = state._owned(operator)
    if tier > gpu_classes.GOLD:
        state._refuse("registry: unknown tier")
    if hours >= 2**PERIODS:
        state._refuse("registry: hours out of range")
    if tier != 0:
        if account.gpu_class != gpu_classes.DATACENTER:
            state._refuse("registry: class below the tier")
        if account.vram_gb < gpu_classes._tier_vram_gb(tier):
            state._refuse("registry: too little VRAM for the tier")
        if hours == 0:
            state._refuse("registry: tier without hours")
    since: uint256 = block.timestamp // state.epoch_s + 1
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    # INVARIANT promises: what binds in an epoch is known until the next one is over. Two changes in a row would hide it.
    if declaration.since + 1 == since:
        state._refuse("registry: declared in the last epoch")
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
def declare_region(operator: uint256, region: uint256):
    """
    @notice Says where the operator's machines are, at once: jobs may ask for it. Nobody checks it, and it binds nobody.
    @param region Two letters of a region and two of a country in it, or zeros: as `EUDE`, `EU` or nothing, in 32 bits.
    """
    state._check_owner(operator)
    if region >= 2**32:
        state._refuse("registry: region out of range")
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    declaration.region = region
    self.declared[operator] = words._pack_declaration(declaration)
    log RegionDeclared(operator=operator, region=region)


@external
def heartbeat(operator: uint256):
    """
    @notice A sign of life of a staked operator, once in each of an epoch's 24 periods; it is a beat.
    """
    node: words.Node = words._unpack_node(state.nodes[operator])
    if msg.sender != node.hot:
        state._refuse("registry: not the hot key")
    # Exiting operators keep their promises too; only whoever left has nothing at stake.
    if node.stake <= 0:
        state._refuse("registry: nothing staked")
    epoch: uint256 = block.timestamp // state.epoch_s
    period: uint256 = block.timestamp % state.epoch_s * PERIODS // state.epoch_s
    word: uint256 = self.beats_words[operator][epoch]
    if word >> period & 1 != 0:
        state._refuse("registry: period already counted")
    self.beats_words[operator][epoch] = word | 1 << period
    self.total_beats[epoch] += 1
    log HeartbeatCounted(operator=operator, epoch=epoch, period=period)
    time._beat()


@external
def breach(operator: uint256, epoch: uint256):
    """
    @notice Judges a past epoch, once: who missed more declared periods than its SLA allows loses 1 % of its stake, and
            from the next epoch on its tier. The caller is sent a tenth of that. Nobody is judged for an epoch in which the
            chain stood still.
    """
    if epoch >= block.timestamp // state.epoch_s:
        state._refuse("registry: epoch not over")
    if time.is_stopped[epoch]:
        state._refuse("registry: time stood still")
    promise: Promise = self._promised(operator, epoch)
    if promise.hours == 0:
        state._refuse("registry: nothing declared")
    word: uint256 = self.beats_words[operator][epoch]
    if word & JUDGED != 0:
        state._refuse("registry: epoch already judged")
    missed: uint256 = bits._popcount(promise.hours & ~word)
    allowed: uint256 = bits._popcount(promise.hours) * gpu_classes._slack_bps(promise.tier) // numbers.BPS
    if missed <= allowed:
        state._refuse("registry: promise kept")
    self.beats_words[operator][epoch] = word | JUDGED
    next: uint256 = block.timestamp // state.epoch_s + 1
    declaration: words.Declaration = words._unpack_declaration(self.declared[operator])
    # INVARIANT promises: what binds in the running epoch stays as it is, for receipts are signed by its tier already.
    if declaration.since == next:
        declaration.tier = 0
    if self._promised(operator, next - 1).tier != 0:
        declaration.barred_from = next
    self.declared[operator] = words._pack_declaration(declaration)
    log AvailabilityBreached(operator=operator, epoch=epoch, missed=missed)
    # INVARIANT shares: whoever shows its own fault loses more than it is sent.
    state._push(state.zen, msg.sender, state._slash_stake(operator, BREACH_BPS, BREACH_FEE_BPS)[1])


@external
@view
def declarations(operator: uint256) -> words.Declaration:
    """
    @notice What the operator declared last and before: tier, hours, and the epoch from which on each binds; and its region.
    """
    return words._unpack_declaration(self.declared[operator])


@external
@view
def meets(operator: uint256, requirements: uint256) -> bool:
    """
    @notice Whether the operator is what a job asks for by its term `requirements`, as far as this registry knows: class, memory and
            admission as registered and shown, region as declared, tier and hours as promised for this epoch and the next.
    """
    asks: asked.Requirements = asked._unpack(requirements)
    account: words.Account = words._unpack_account(state.accounts[operator])
    if (
        account.vram_gb < asks.vram_gb
        # No operator has class 0.
        or (asks.classes != 0 and asks.classes >> account.gpu_class & 1 == 0)
        or (asks.admitted and not account.is_admitted)
    ):
        return False
    if asks.region != 0 and not asked._is_within(
        words._unpack_declaration(self.declared[operator]).region, asks.region
    ):
        return False
    if asks.tier == 0 and asks.hours == 0:
        return True
    # INVARIANT promises: nobody takes work by a promise that it has already taken back, or that a breach took.
    for later: uint256 in range(2):
        promise: Promise = self._promised(operator, block.timestamp // state.epoch_s + later)
        if promise.tier < asks.tier or bits._popcount(promise.hours) < asks.hours:
            return False
    return True


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
