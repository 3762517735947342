# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Locks
@license Apache-2.0
@notice The collateral that operators lock behind their seats in a job, how much of it a timeout or a conviction takes, and who
        receives that.
@dev An operator has two locks in a job, as a worker and as an aggregator, and neither covers the other. A lock is a part for each
     slot, which follows its price, and restitution once, where a conviction undoes rounds. Calls go to the protocol's own
     contracts only, and none of those calls anybody back while it serves this one.
"""


from .interfaces import ILocks
from .interfaces import INodeRegistry
from .interfaces import ISettlement
from .interfaces import ISettlementViews
from .interfaces import ITaskRegistry
from .modules import lock_words as words
from .modules import numbers
from .modules import outcomes
from .modules import terms as terms_of


implements: ILocks


# The first aggregator's seat.
AGGREGATION: constant(uint256) = 128
# What asks that exhaust burn, and what silence then slashes of a lock: twice that, and never together less than 3/5 of the lock.
BURNED_AND_SLASHED: constant(uint256) = 3
FLOOR_PARTS: constant(uint256) = 3
FLOOR_OF: constant(uint256) = 5
# In the word of what a conviction took.
FINDER_WAITS: constant(uint256) = 1 << 255


deployer: public(immutable(address))
registry: public(immutable(address))
tasks: public(immutable(address))


# Says what happened; and who is owed the audits' part of a conviction. Set once by `wire`.
settlement: public(address)
audit_pool: public(address)
# job -> operator -> 0 as a worker, 1 as an aggregator -> the word of lock_words; 0: nothing is locked
stake_words: HashMap[uint256, HashMap[uint256, uint256[2]]]
# job -> what timeouts left, that a dearer seat may be paid from
pots: public(HashMap[uint256, uint256])
# job -> seat that somebody left -> the word of lock_words: how much of what is set aside the seat may need
set_aside_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> what is set aside of its slashes: what its seats did not need is its own once the job is completed
kept: public(HashMap[uint256, HashMap[uint256, uint256]])
# job -> claim_hash -> what its conviction took of its operator's lock, besides restitution: later ones may find it empty | whether a
#                      share of that waits for whoever found the lie
taken: HashMap[uint256, HashMap[bytes32, uint256]]


event LockReleased:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


event SeatPaidDearer:
    job: indexed(uint256)
    restored: uint256


event SetAside:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    amount: uint256


event SetAsideReturned:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


@deploy
def __init__(registry_: address, tasks_: address):
    """
    @param registry_ Keeps the operators' collateral.
    @param tasks_ Terms and escrow of the jobs.
    """
    deployer = msg.sender
    registry = registry_
    tasks = tasks_


@external
def wire(settlement_: address, audit_pool_: address):
    """
    @notice Names the settlement, and who is owed the audits' part of a conviction, once.
    """
    assert msg.sender == deployer, "locks: not the deployer"
    assert self.settlement == empty(address), "locks: already wired"
    self.settlement = settlement_
    self.audit_pool = audit_pool_


@external
def award(job: uint256, operator: uint256, seat: uint256, count: uint256, locked: uint256):
    """
    @notice Takes over from the auction what is locked behind a seat.
    """
    self._check_settlement()
    # INVARIANT locks: an operator wins once in a role. The auction sends its seats' parts, and with one of them the role's
    # restitution.
    role: uint256 = self._role(seat)
    stake: words.Stake = words._unpack(self.stake_words[job][operator][role])
    stake.locked += locked
    stake.slots += self._slots(role, count)
    stake.held += 1
    self.stake_words[job][operator][role] = words._pack(stake)


@external
def take(
    job: uint256, operator: uint256, seat: uint256, count: uint256, price: uint256, dearer: uint256, token: address
):
    """
    @notice Locks behind a seat that somebody takes over, and pays what it is dearer by out of what was slashed: first of what is set
            aside for this seat.
    """
    self._check_settlement()
    is_new: bool = self.stake_words[job][operator][self._role(seat)] == 0
    amount: uint256 = self._add(job, operator, seat, count, price, dearer > 0)
    extcall INodeRegistry(registry).lock(operator, token, amount, is_new)
    leaver: uint256 = 0
    share: uint256 = 0
    leaver, share = self._take_set_aside(job, seat, count)
    # INVARIANT set aside: who leaves a seat has nothing back that the seat costs more: giving one up to take it back dearer costs
    # what it did before anything was set aside. Nobody is paid before the job is over: a seat that is taken too late ends it all
    # the same. tests/spec/test_attacks.py
    needed: uint256 = min(share, dearer)
    if needed > 0:
        # A conviction may have taken it.
        needed = min(needed, self.kept[job][leaver])
        self.kept[job][leaver] -= needed
    from_pot: uint256 = min(self.pots[job], dearer - needed)
    self.pots[job] -= from_pot
    restored: uint256 = needed + from_pot
    if restored > 0:
        # INVARIANT pot: escrow is paid back at most what the seat costs more, so nobody earns by a timeout.
        log SeatPaidDearer(job=job, restored=restored)
        self._pay_out(job, restored, empty(address), 0, token)


@external
def vacate(
    job: uint256,
    operator: uint256,
    seat: uint256,
    count: uint256,
    price: uint256,
    seats: uint256,
    left_turn: uint256,
    token: address,
) -> uint256:
    """
    @notice Slashes a tenth of a seat's lock; the rest stays until `release`, since it secures earlier claims. Of the tenth an
            operator's reputation has a part set aside, which it has back if that cost nobody anything.
    @param price The seat's; 0 slashes nothing.
    """
    self._check_settlement()
    role: uint256 = self._role(seat)
    terms: ITaskRegistry.LockTerms = self._terms(job, role)
    stake: words.Stake = words._unpack(self.stake_words[job][operator][role])
    slashed: uint256 = min(
        terms_of._lock(count * price, terms.audit_bps) * numbers.SLASH_BPS // numbers.BPS,
        self._own(stake, terms.restitution),
    )
    stake.locked -= slashed
    stake.held -= seats
    stake.slots -= self._slots(role, count)
    stake.left_turn = left_turn
    self.stake_words[job][operator][role] = words._pack(stake)
    set_aside: uint256 = 0
    if price > 0 and not stake.is_dearer:
        set_aside = self._set_aside(job, operator, seat, count, slashed)
    self.pots[job] += slashed - set_aside
    if price > 0:
        extcall INodeRegistry(registry).slash(operator, token, slashed, False)
    return slashed


@external
def return_set_aside(job: uint256, operator: uint256):
    """
    @notice Once a job is over, what was set aside of an operator's slashes and not needed is owed to the operator's owner. In a
            job that was abandoned it burns.
    """
    amount: uint256 = self.kept[job][operator]
    assert amount != 0, "locks: nothing set aside"
    token: address = staticcall ISettlement(self.settlement).check_free(job, operator, True, 0)
    run: ISettlementViews.Run = staticcall ISettlementViews(self.settlement).runs(job)
    self.kept[job][operator] = 0
    if run.round < run.rounds:
        # INVARIANT set aside: ending somebody's job costs a tenth of the lock, whatever the reputation.
        self._burn(amount, token)
    else:
        log SetAsideReturned(job=job, operator=operator, amount=amount)
        owner: address = staticcall INodeRegistry(registry).owner_of(operator)
        self._pay_out(job, 0, owner, amount, token)


@external
def convict(
    job: uint256,
    operator: uint256,
    seat: uint256,
    price: uint256,
    rounds: uint256,
    outcome: uint256,
    burned: uint256,
    claim_hash: bytes32,
    left_turn: uint256,
    token: address,
) -> ILocks.Taken:
    """
    @notice Takes a claim's lock, and what the rounds that rest on it cost; the operator loses its seats in that role.
    """
    self._check_settlement()
    role: uint256 = self._role(seat)
    terms: ITaskRegistry.LockTerms = self._terms(job, role)
    stake: words.Stake = words._unpack(self.stake_words[job][operator][role])
    lock: uint256 = terms_of._lock(price, terms.audit_bps)
    if outcome == outcomes.EXHAUSTED:
        lock = self._exhausted_slash(lock, burned)
    lock = min(lock, self._own(stake, terms.restitution))
    # INVARIANT restitution: each turn is undone once, and at most `depth` of them after an operator's oldest claim that is not
    # final: what its lies cost together is at most what it has locked for that.
    restored: uint256 = min(rounds * terms.round_price, terms.restitution - stake.drawn)
    stake.locked -= lock + restored
    stake.drawn += restored
    if stake.held > 0:
        stake.left_turn = left_turn
    stake.held = 0
    stake.slots = 0
    self.stake_words[job][operator][role] = words._pack(stake)

    # INVARIANT slashes: slashed == restored + to finder + to audits + to the pot + burned.
    # What an operator has locked fits in 112 bits (lock_words).
    taken: uint256 = lock
    if outcome == outcomes.JUDGED:
        taken |= FINDER_WAITS
    self.taken[job][claim_hash] = taken
    to_finder: uint256 = self._finder_share(taken)
    to_audits: uint256 = lock * numbers.AUDITS_BPS // numbers.BPS
    # As of a seat that is given up: who takes it may be dearer. What is left burns when the job is over.
    to_pot: uint256 = lock * numbers.SLASH_BPS // numbers.BPS
    # INVARIANT set aside: a liar that left in time has nothing back: it loses what it would have lost without a record.
    self.pots[job] += to_pot + self.kept[job][operator]
    self.kept[job][operator] = 0
    extcall INodeRegistry(registry).slash(operator, token, lock + restored, True)
    self._pay_out(job, restored, self.audit_pool, to_audits, token)
    self._burn(lock - to_finder - to_audits - to_pot, token)
    return ILocks.Taken(slashed=lock + restored, restored=restored, to_finder=to_finder, to_audits=to_audits)


@external
def reward_finder(job: uint256, claim_hash: bytes32, finder: address, token: address) -> uint256:
    """
    @notice What was set aside of a judged claim's lock becomes owed to its finder; without one it burns.
    """
    self._check_settlement()
    taken: uint256 = self.taken[job][claim_hash]
    amount: uint256 = self._finder_share(taken)
    self.taken[job][claim_hash] = taken & ~FINDER_WAITS
    if finder == empty(address):
        self._burn(amount, token)
    else:
        self._pay_out(job, 0, finder, amount, token)
    return amount


@external
def burn(job: uint256, token: address):
    """
    @notice Burns what is left of the pot of a job that is over.
    """
    self._check_settlement()
    amount: uint256 = self.pots[job]
    self.pots[job] = 0
    self._burn(amount, token)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Unlocks what an operator has locked in a job, once nothing of it can be convicted any more.
    """
    worker: uint256 = self.stake_words[job][operator][0]
    aggregator: uint256 = self.stake_words[job][operator][1]
    assert worker | aggregator != 0, "locks: nothing locked"
    stakes: words.Stake[2] = [words._unpack(worker), words._unpack(aggregator)]
    # INVARIANT locks: a lock outlives every claim that it secures; an operator that was never convicted gets it back.
    token: address = staticcall ISettlement(self.settlement).check_free(
        job, operator, stakes[0].held + stakes[1].held > 0, max(stakes[0].left_turn, stakes[1].left_turn)
    )
    self.stake_words[job][operator] = [0, 0]
    log LockReleased(job=job, operator=operator, amount=stakes[0].locked + stakes[1].locked)
    if worker != 0:
        extcall INodeRegistry(registry).unlock(operator, token, stakes[0].locked, True)
    if aggregator != 0:
        extcall INodeRegistry(registry).unlock(operator, token, stakes[1].locked, True)


@external
@view
def stakes(job: uint256, operator: uint256, is_aggregation: bool) -> words.Stake:
    """
    @notice What an operator has locked in a job as a worker, or as an aggregator, for how many seats.
    """
    return words._unpack(self.stake_words[job][operator][convert(is_aggregation, uint256)])


@external
@view
def set_aside(job: uint256, seat: uint256) -> words.SetAside:
    """
    @notice What is set aside of the lock behind a seat that somebody left, for how many slots that nobody took over.
    """
    return words._unpack_set_aside(self.set_aside_words[job][seat])


@external
@view
def seats_of(job: uint256, operator: uint256) -> uint256:
    """
    @notice How many seats of a job an operator has, in both roles.
    """
    roles: uint256[2] = self.stake_words[job][operator]
    return words._unpack(roles[0]).held + words._unpack(roles[1]).held


@external
@view
def slots_of(job: uint256, operator: uint256) -> uint256:
    """
    @notice How many slots of a job an operator holds.
    """
    return words._unpack(self.stake_words[job][operator][0]).slots


@external
@view
def taken_of_lock(job: uint256, claim_hash: bytes32) -> uint256:
    """
    @notice What a claim's conviction took of its operator's lock, besides restitution.
    """
    return self.taken[job][claim_hash] & ~FINDER_WAITS


@external
@view
def finder_shares(job: uint256, claim_hash: bytes32) -> uint256:
    """
    @notice Of a judged claim's lock, what is set aside for whoever found the lie.
    """
    return self._finder_share(self.taken[job][claim_hash])


@internal
@pure
def _finder_share(taken: uint256) -> uint256:
    """
    @return Of the word of what a conviction took: what waits for whoever found the lie.
    """
    if taken & FINDER_WAITS == 0:
        return 0
    return (taken ^ FINDER_WAITS) * numbers.FINDER_BPS // numbers.BPS


@internal
@view
def _check_settlement():
    assert msg.sender == self.settlement, "locks: not the settlement"


@internal
@pure
def _role(seat: uint256) -> uint256:
    return convert(seat >= AGGREGATION, uint256)


@internal
@pure
def _slots(role: uint256, count: uint256) -> uint256:
    """
    @return The slots of a seat: the aggregator's has none.
    """
    return 0 if role == 1 else count


@internal
@view
def _terms(job: uint256, role: uint256) -> ITaskRegistry.LockTerms:
    return staticcall ITaskRegistry(tasks).lock_terms(job, role == 1)


@internal
@pure
def _own(stake: words.Stake, restitution: uint256) -> uint256:
    """
    @return What a lock has left besides restitution.
    """
    return stake.locked - (restitution - stake.drawn)


@internal
def _add(
    job: uint256, operator: uint256, seat: uint256, count: uint256, price: uint256, is_dearer: bool
) -> uint256:
    """
    @dev One seat more in a role. Its restitution is whole again: later claims rest on nothing that earlier ones cost.
    @return What it adds to the lock.
    """
    role: uint256 = self._role(seat)
    terms: ITaskRegistry.LockTerms = self._terms(job, role)
    word: uint256 = self.stake_words[job][operator][role]
    stake: words.Stake = words._unpack(word)
    amount: uint256 = terms_of._lock(count * price, terms.audit_bps) + stake.drawn
    if word == 0:
        amount += terms.restitution
    stake.locked += amount
    stake.drawn = 0
    stake.held += 1
    stake.slots += self._slots(role, count)
    # INVARIANT set aside: what escrow is paid for a dearer seat, it keeps: who takes one and leaves it loses a whole tenth of the lock.
    stake.is_dearer = stake.is_dearer or is_dearer
    self.stake_words[job][operator][role] = words._pack(stake)
    return amount


@internal
def _set_aside(job: uint256, operator: uint256, seat: uint256, count: uint256, slashed: uint256) -> uint256:
    """
    @return What an operator's reputation has set aside of what it is slashed for leaving a seat.
    """
    points: uint256 = min(
        staticcall INodeRegistry(registry).discount_bps(operator), numbers.MAX_SET_ASIDE
    )
    amount: uint256 = slashed * points // numbers.MAX_REPUTATION
    if amount > 0:
        self.set_aside_words[job][seat] = words._pack_set_aside(
            words.SetAside(operator=operator, count=count, amount=amount)
        )
        self.kept[job][operator] += amount
        log SetAside(job=job, operator=operator, seat=seat, amount=amount)
    return amount


@internal
def _take_set_aside(job: uint256, seat: uint256, count: uint256) -> (uint256, uint256):
    """
    @dev For slots of a seat that somebody takes over: it needs nothing later.
    @return Who left the seat, and how much is set aside for these slots; zeros where nothing is.
    """
    word: uint256 = self.set_aside_words[job][seat]
    if word == 0:
        return 0, 0
    record: words.SetAside = words._unpack_set_aside(word)
    # At most all that is left of the seat: then the count is 0, and so is the amount.
    amount: uint256 = record.amount * count // record.count
    record.amount -= amount
    record.count -= count
    self.set_aside_words[job][seat] = words._pack_set_aside(record) if record.count > 0 else 0
    return record.operator, amount


@internal
def _pay_out(job: uint256, restored: uint256, account: address, amount: uint256, token: address):
    """
    @dev From the registry's pot to the job's escrow, and to what an account is owed.
    """
    total: uint256 = restored + amount
    # Some tokens refuse a transfer of nothing.
    if total > 0:
        extcall INodeRegistry(registry).pay_out(token, total)
        extcall ITaskRegistry(tasks).restore(job, restored, account, amount)


@internal
def _burn(amount: uint256, token: address):
    if amount > 0:
        extcall INodeRegistry(registry).burn(token, amount)


@internal
@pure
def _exhausted_slash(lock: uint256, burned: uint256) -> uint256:
    """
    @return What silence takes of the lock of an operator that was exhausted.
    """
    return min(lock, max(BURNED_AND_SLASHED * burned, lock * FLOOR_PARTS // FLOOR_OF) - burned)
