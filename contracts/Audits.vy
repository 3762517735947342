# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Audits
@license Apache-2.0
@notice Pays auditors to re-execute parts of a job that chance picks after the work was committed, and slashes those that call
        clean what is judged false.
@dev A unit is one slot-round, `slot + 1`, or the aggregation of a turn, 0. Operators hold places, each behind the same bond. A draw
     fixes which places there were before its block was named; a unit's ticket says whether it is drawn, and which places it falls to.
     Verdicts are checked when they are settled, not when they are given: to give them costs the same whatever their number.
     Audits deter; the challenge window judges.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .interfaces import IRewards
from .interfaces import ISettlementViews
from .interfaces import ITaskRegistry
from .interfaces import ITaskViews
from .modules import bits
from .modules import chance
from .modules import claims
from .modules import numbers
from .modules import outcomes
from .modules import protocol_time
from .modules import terms as terms_of


interface IReferee:
    def claims(key: bytes32) -> uint256: view
    def finders(key: bytes32) -> uint256: view


# Words of a bitmap of units: the aggregation, and as many slots as a job may have.
WORDS: constant(uint256) = 65
UNITS_A_CLAIM: constant(uint256) = numbers.MAX_SLOTS
MAX_CLAIMS: constant(uint256) = 32
MAX_PLACES: constant(uint256) = 32
MAX_HOLDERS: constant(uint256) = 256
# Whose turn it is: the unit's auditor in the first half of what is left of the window, its replacement in the second.
AUDITOR: constant(uint256) = 0
REPLACEMENT: constant(uint256) = 1
# Places that a unit's ticket names: the claim's own operator, and one named twice, are passed over.
CANDIDATES: constant(uint256) = 4
# What a verdict reserves of its operator's deposit, in fees; it is lost when a unit was called clean and is judged false.
RESERVED_FEES: constant(uint256) = 50
# What a verdict of "false" from before the first ask earns beside its fee: so many fees at most, and at most one in so many parts of
# what is locked behind the lie.
BOUNTY_FEES: constant(uint256) = 10
BOUNTY_OF_LOCK: constant(uint256) = 2
# Verdicts lapse this many re-executions after the deadline, beside `lapse_s`: disputes are over by then.
LAPSE_REEXECUTIONS: constant(uint256) = 64
# A claim's word in Referee: status, deadline, and seconds from the first ask to it; of a judged claim, its slot.
STATUS: constant(uint256) = 15
PENDING: constant(uint256) = 6
SLOT_AT: constant(uint256) = 36
DEADLINE_AT: constant(uint256) = 108
LEFT_AT: constant(uint256) = 176
U20: constant(uint256) = 2**20 - 1
U56: constant(uint256) = 2**56 - 1
# Nobody said anything of the claim, or it is not decided.
UNDECIDED: constant(uint256) = 0
# Every second bit; every second pair, four, eight of bits; the lowest of every sixteen.
LANES_1: constant(uint256) = max_value(uint256) // 3
LANES_2: constant(uint256) = max_value(uint256) // 5
LANES_4: constant(uint256) = max_value(uint256) // 17
LANES_8: constant(uint256) = max_value(uint256) // 257
ONES_16: constant(uint256) = max_value(uint256) // 65_535


registry: public(immutable(address))
tasks: public(immutable(address))
settlement: public(immutable(address))
rewards: public(immutable(address))
zen: public(immutable(address))
# The bond of a place, in ZEN.
place_bond: public(immutable(uint256))
# Blocks that bury the draw's block before it is read.
draw_blocks: public(immutable(uint256))
# Seconds after a turn's deadline, beside re-executions, from which on verdicts lapse.
lapse_s: public(immutable(uint256))
deployer: public(immutable(address))


# Of a job's units, which an operator calls clean, and which false: bit `u % 256` of word `u // 256`.
struct Verdicts:
    clean: DynArray[uint256, WORDS]
    wrong: DynArray[uint256, WORDS]


struct Draw:
    # The block whose hash draws; when it was named, among how many places.
    block: uint256
    named_at: uint256
    places: uint256
    # Of the turn's claims.
    deadline: uint256
    rate_bps: uint256
    is_drawn: bool
    seed: bytes32


# What is there for a job's audits, and what of it verdicts have reserved beside.
struct Budget:
    balance: uint256
    reserved: uint256


# An operator's deposit, and what of it bonds and verdicts have reserved.
struct Funds:
    balance: uint256
    reserved: uint256


# What verdicts are paid at most: their fees, and with bounties what they reserve of the budget.
struct Cost:
    token: address
    count: uint256
    fees: uint256
    budget: uint256


# What settling adds up.
struct Sums:
    settled: uint256
    # What the verdicts had reserved, of the deposit and of the budget.
    deposit: uint256
    budget: uint256
    paid: uint256
    slashed: uint256
    burned: uint256
    slots: uint256


# What became of a claim.
struct Outcome:
    end: uint256
    # Of a judged claim.
    slot: uint256
    # Whether the verdict came before the first ask.
    is_early: bool
    # Of a judged claim: whether its finder is known, and who it is.
    is_found: bool
    finder: address


# Keeps the disputes; set once by `wire`.
referee: public(address)
place_count: public(uint256)
# place -> operator (56) | since (40) | changes before (32)
place_words: HashMap[uint256, uint256]
# place -> number of a change -> the word that it had until then
past_words: HashMap[uint256, HashMap[uint256, uint256]]
# operator -> places
held: public(HashMap[uint256, uint256])
# operator -> token -> balance (128) | reserved (128)
fund_words: HashMap[uint256, HashMap[address, uint256]]
# job -> balance (128) | reserved (128)
budget_words: HashMap[uint256, uint256]
# job -> turn -> block (64) | named_at (40) | deadline (40) | places (32) | rate_bps (16) | drawn (1)
draw_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> turn -> what all choices of the turn follow from
seeds: HashMap[uint256, HashMap[uint256, bytes32]]
# job -> turn -> operator -> role -> hash of the verdicts without its lowest 40 bits | when they were given
given: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]])
# the same -> hash of what is not settled; 0 while that is all
left: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]]])
# token -> account -> what it may withdraw
owed: public(HashMap[address, HashMap[address, uint256]])
# token -> what nothing can spend
burned: public(HashMap[address, uint256])


event AuditsFunded:
    job: indexed(uint256)
    amount: uint256


event AuditsRefunded:
    job: indexed(uint256)
    amount: uint256


event AuditorFunded:
    operator: indexed(uint256)
    token: address
    amount: uint256


event AuditorPaidOut:
    operator: indexed(uint256)
    token: address
    amount: uint256


event PlacesChanged:
    operator: indexed(uint256)
    held: uint256
    places: uint256


event DrawNamed:
    job: indexed(uint256)
    turn: uint256
    block: uint256


event UnitsDrawn:
    job: indexed(uint256)
    turn: uint256
    seed: bytes32


event VerdictsGiven:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    verdicts: Verdicts


event VerdictsSettled:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    settled: uint256
    paid: uint256
    slashed: uint256
    left: Verdicts


event VerdictsLapsed:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    lapsed: uint256
    slashed: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    rewards_: address,
    zen_: address,
    place_bond_: uint256,
    draw_blocks_: uint256,
    lapse_s_: uint256,
):
    """
    @param registry_ Knows the operators' keys.
    @param tasks_ Knows the jobs' submitters, tokens and terms.
    @param settlement_ Keeps the claims.
    @param rewards_ Counts verification of jobs paid in ZEN.
    @param zen_ The token of the bonds.
    @param place_bond_ The bond of a place.
    @param draw_blocks_ Blocks that bury the draw's block before it is read.
    @param lapse_s_ Seconds after a turn's deadline, beside re-executions, from which on verdicts lapse.
    """
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    rewards = rewards_
    zen = zen_
    place_bond = place_bond_
    draw_blocks = draw_blocks_
    lapse_s = lapse_s_
    deployer = msg.sender


@external
def wire(referee_: address):
    """
    @notice Names the referee, once.
    """
    assert msg.sender == deployer, "audits: not the deployer"
    assert self.referee == empty(address), "audits: already wired"
    self.referee = referee_


# --- money of jobs


@external
def fund(job: uint256, amount: uint256):
    """
    @notice Adds to what a job's audits are paid from, in the job's token. What is left goes to the submitter.
    """
    assert amount > 0, "audits: zero amount"
    record: ITaskViews.Job = staticcall ITaskViews(tasks).jobs(job)
    assert record.state != 0 and record.state != numbers.CANCELLED, "audits: no such job"
    budget: Budget = self._budget(job)
    self._store_budget(job, budget.balance + amount, budget.reserved)
    log AuditsFunded(job=job, amount=amount)
    self._pull(record.token, amount)


@external
def refund(job: uint256):
    """
    @notice When a job is over, what no verdict has reserved becomes owed to its submitter.
    """
    record: ITaskViews.Job = staticcall ITaskViews(tasks).jobs(job)
    assert record.state == numbers.ENDED or record.state == numbers.CANCELLED, "audits: job not over"
    budget: Budget = self._budget(job)
    assert budget.balance > 0, "audits: nothing left"
    self._store_budget(job, 0, budget.reserved)
    self.owed[record.token][record.submitter] += budget.balance
    log AuditsRefunded(job=job, amount=budget.balance)


# --- auditors


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds to an operator's deposit: in ZEN for places, in a job's token for verdicts.
    """
    assert staticcall INodeRegistry(registry).owner_of(operator) != empty(address), "audits: no such operator"
    assert amount > 0, "audits: zero amount"
    funds: Funds = self._funds(operator, token)
    self._store_funds(operator, token, funds.balance + amount, funds.reserved)
    log AuditorFunded(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def pay_out(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends the owner what neither places nor verdicts have reserved.
    """
    self._check_owner(operator)
    funds: Funds = self._funds(operator, token)
    # INVARIANT exit: nothing of a deposit leaves that a verdict may cost, whatever became of its operator's places.
    assert amount > 0 and amount <= funds.balance - funds.reserved, "audits: amount exceeds free deposit"
    self._store_funds(operator, token, funds.balance - amount, funds.reserved)
    log AuditorPaidOut(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


@external
def offer(operator: uint256, count: uint256):
    """
    @notice Takes places, each behind a bond from the operator's deposit: units fall to it by its share of all places, in draws whose
            block is named later.
    """
    self._check_owner(operator)
    assert count > 0 and count <= MAX_PLACES, "audits: places out of range"
    hot: address = staticcall INodeRegistry(registry).hot_key(operator)
    assert staticcall INodeRegistry(registry).is_eligible(operator, hot), "audits: not eligible"
    self._reserve(operator, zen, count * place_bond)
    places: uint256 = self.place_count
    for i: uint256 in range(count, bound=MAX_PLACES):
        self._change(places + i, operator)
    self.place_count = places + count
    self._hold(operator, self.held[operator] + count)


@external
def leave(operator: uint256, places: DynArray[uint256, MAX_PLACES]):
    """
    @notice Gives places up, one after the other; the last place there is moves to where each was. Who was drawn before stays drawn.
    """
    self._check_owner(operator)
    assert len(places) > 0, "audits: places out of range"
    last: uint256 = self.place_count
    for place: uint256 in places:
        assert place < last and self._operator_of(self.place_words[place]) == operator, "audits: not its place"
        last -= 1
        if place != last:
            self._change(place, self._operator_of(self.place_words[last]))
        self._change(last, 0)
    self.place_count = last
    self._release(operator, zen, len(places) * place_bond, 0)
    self._hold(operator, self.held[operator] - len(places))


# --- draws


@external
def draw_units(job: uint256, turn: uint256):
    """
    @notice Draws the units of a closed turn, in two calls. The first names the next block; the second, once that block is buried, reads
            its hash. A hash too old for the chain to know is given up: the call names another block.
    """
    draw: Draw = self._draw(job, turn)
    assert not draw.is_drawn, "audits: already drawn"
    if draw.block != 0:
        assert block.number > draw.block + draw_blocks, "audits: draw block not buried"
        found: bytes32 = chance._hash_of(draw.block)
        if found != empty(bytes32):
            seed: bytes32 = keccak256(abi_encode(found, job, turn))
            self.draw_words[job][turn] |= 1
            self.seeds[job][turn] = seed
            log UnitsDrawn(job=job, turn=turn, seed=seed)
            return
    assert self.budget_words[job] != 0, "audits: nothing funded"
    places: uint256 = self.place_count
    assert places > 0, "audits: no auditors"
    deadline: uint256 = staticcall ISettlementViews(settlement).claim_deadline(job, turn)
    assert deadline != max_value(uint256), "audits: turn still open"
    now: uint256 = protocol_time._now(registry)
    assert now < deadline, "audits: window over"
    number: uint256 = block.number + 1
    self.draw_words[job][turn] = (
        convert(convert(number, uint64), uint256) << 192
        | convert(convert(now, uint40), uint256) << 152
        | convert(convert(deadline, uint40), uint256) << 112
        | convert(convert(places, uint32), uint256) << 80
        | (staticcall ITaskRegistry(tasks).schedules(job)).audit_bps << 64
    )
    log DrawNamed(job=job, turn=turn, block=number)


# --- verdicts


@external
def give_verdicts(job: uint256, turn: uint256, operator: uint256, verdicts: Verdicts):
    """
    @notice All that an auditor says of a turn's units, once in each half of the window. Each verdict reserves part of its deposit, and
            its fee of the job's budget. Whether the units are its own is checked when they are settled: others cost it a fee each.
    """
    draw: Draw = self._draw(job, turn)
    assert draw.is_drawn, "audits: not drawn"
    assert protocol_time._now(registry) <= draw.deadline, "audits: window over"
    assert staticcall INodeRegistry(registry).hot_key(operator) == msg.sender, "audits: not the hot key"
    role: uint256 = self._role(draw)
    assert self.given[job][turn][operator][role] == 0, "audits: verdicts given"
    cost: Cost = self._cost(job, verdicts)
    assert cost.count > 0, "audits: no verdicts"
    for i: uint256 in range(min(len(verdicts.clean), len(verdicts.wrong)), bound=WORDS):
        assert verdicts.clean[i] & verdicts.wrong[i] == 0, "audits: two verdicts"
    self._reserve(operator, cost.token, cost.fees * RESERVED_FEES)
    budget: Budget = self._budget(job)
    assert cost.budget <= budget.balance, "audits: budget spent"
    self._store_budget(job, budget.balance - cost.budget, budget.reserved + cost.budget)
    self.given[job][turn][operator][role] = self._hash(verdicts) & ~bits.U40 | protocol_time._now(registry)
    log VerdictsGiven(job=job, operator=operator, turn=turn, role=role, verdicts=verdicts)


@external
def settle_verdicts(
    job: uint256,
    turn: uint256,
    operator: uint256,
    role: uint256,
    verdicts: Verdicts,
    claimed: DynArray[ISettlementViews.Claim, MAX_CLAIMS],
    first: Verdicts,
):
    """
    @notice Ends the verdicts on claims that are decided: paid where nothing contradicts them; a unit that was called clean and judged
            false costs what it reserved. Claims that are unknown or undecided are passed over.
    @param verdicts What of the operator's verdicts is not settled.
    @param first Of a replacement: all verdicts of the units' auditor, where it gave any; units that it judged are not paid twice.
    """
    draw: Draw = self._draw(job, turn)
    self._check_left(job, turn, operator, role, verdicts)
    assert protocol_time._now(registry) > draw.deadline, "audits: window open"
    open: Verdicts = verdicts
    sums: Sums = empty(Sums)
    token: address = empty(address)
    slot_fee: uint256 = 0
    token, slot_fee = staticcall ITaskViews(tasks).reexecution_price(job, False)
    given_at: uint256 = self.given[job][turn][operator][role] & bits.U40
    first_hash: uint256 = self._hash(first) & ~bits.U40
    for claim: ISettlementViews.Claim in claimed:
        if claim.turn != turn:
            continue
        outcome: Outcome = self._outcome(job, claim, draw, given_at)
        if outcome.end == UNDECIDED:
            continue
        fee: uint256 = slot_fee
        unit: uint256 = (claim.scope >> 16) + 1
        count: uint256 = claim.scope & bits.U16
        if claim.seat == claims.AGGREGATION:
            fee = (staticcall ITaskViews(tasks).reexecution_price(job, True))[1]
            unit = 0
            count = 1
        # INVARIANT bounty: whoever lies to have its own auditor call it false loses more than that earns.
        bounty: uint256 = min(
            fee * BOUNTY_FEES, terms_of._lock(claim.price // count, draw.rate_bps) // BOUNTY_OF_LOCK
        )
        for i: uint256 in range(count, bound=UNITS_A_CLAIM):
            number: uint256 = unit + i
            is_false: bool = self._has(open.wrong, number)
            if not (is_false or self._has(open.clean, number)):
                continue
            if self._assigned(draw, number, claim.operator, role) != operator:
                continue
            is_late: bool = False
            if role == REPLACEMENT:
                auditor: uint256 = self._assigned(draw, number, claim.operator, AUDITOR)
                word: uint256 = self.given[job][turn][auditor][AUDITOR]
                if word != 0:
                    if word & ~bits.U40 != first_hash:
                        continue
                    is_late = self._has(first.clean, number) or self._has(first.wrong, number)
            is_judged: bool = outcome.end == outcomes.JUDGED and (number == 0 or number == outcome.slot + 1)
            if is_judged and not is_false and not outcome.is_found:
                continue
            sums.settled += 1
            sums.deposit += fee * RESERVED_FEES
            sums.budget += fee
            paid: uint256 = 0
            if is_false:
                sums.budget += fee * BOUNTY_FEES
                open.wrong[number // 256] ^= 1 << number % 256
                if outcome.end != outcomes.FINAL:
                    paid = fee
                    if outcome.is_early and (is_judged or outcome.end != outcomes.JUDGED):
                        paid += bounty
            else:
                open.clean[number // 256] ^= 1 << number % 256
                if not is_judged:
                    paid = fee
                else:
                    loss: uint256 = fee * RESERVED_FEES
                    share: uint256 = 0
                    if outcome.finder != empty(address):
                        share = loss * numbers.CHALLENGERS_BPS // numbers.BPS
                        self.owed[token][outcome.finder] += share
                    sums.slashed += loss
                    sums.burned += loss - share
            if paid > 0 and not is_late:
                sums.paid += paid
                if number != 0:
                    sums.slots += 1
    assert sums.settled > 0, "audits: nothing to settle"
    self.left[job][turn][operator][role] = convert(self._hash(open), bytes32)
    self._end(job, operator, token, sums)
    log VerdictsSettled(
        job=job,
        operator=operator,
        turn=turn,
        role=role,
        settled=sums.settled,
        paid=sums.paid,
        slashed=sums.slashed,
        left=open,
    )
    if token == zen and sums.slots > 0:
        flops: uint256 = (staticcall ITaskRegistry(tasks).schedules(job)).flops
        extcall IRewards(rewards).record_verification(operator, job, flops * sums.slots)


@external
def lapse_verdicts(job: uint256, turn: uint256, operator: uint256, role: uint256, verdicts: Verdicts):
    """
    @notice Once every dispute of a turn must be over: frees what is left of verdicts, for a fee each. So nobody keeps a job's budget
            by verdicts on units that are not its own.
    """
    self._check_left(job, turn, operator, role, verdicts)
    reexecute_s: uint256 = (staticcall ITaskRegistry(tasks).dispute_terms(job))[1]
    deadline: uint256 = self._draw(job, turn).deadline
    assert protocol_time._now(registry) > deadline + lapse_s + LAPSE_REEXECUTIONS * reexecute_s, "audits: time left"
    cost: Cost = self._cost(job, verdicts)
    assert cost.count > 0, "audits: nothing to settle"
    nothing: Verdicts = empty(Verdicts)
    self.left[job][turn][operator][role] = convert(self._hash(nothing), bytes32)
    sums: Sums = empty(Sums)
    sums.deposit = cost.fees * RESERVED_FEES
    sums.budget = cost.budget
    sums.slashed = cost.fees
    sums.burned = cost.fees
    self._end(job, operator, cost.token, sums)
    log VerdictsLapsed(
        job=job, operator=operator, turn=turn, role=role, lapsed=cost.count, slashed=cost.fees
    )


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends an account what it is owed.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "audits: nothing owed"
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    self._push(token, account, amount)
    return amount


# --- views


@external
@view
def budgets(job: uint256) -> Budget:
    """
    @notice What is left to pay a job's audits with.
    """
    return self._budget(job)


@external
@view
def funds(operator: uint256, token: address) -> Funds:
    """
    @notice An operator's deposit in a token.
    """
    return self._funds(operator, token)


@external
@view
def draws(job: uint256, turn: uint256) -> Draw:
    """
    @notice A turn's draw.
    """
    return self._draw(job, turn)


@external
@view
def holders(start: uint256, count: uint256, at: uint256) -> DynArray[uint256, MAX_HOLDERS]:
    """
    @notice The operators of `count` places from `start` on, just before a second.
    """
    found: DynArray[uint256, MAX_HOLDERS] = []
    for i: uint256 in range(count, bound=MAX_HOLDERS):
        found.append(self._holder(start + i, at))
    return found


@external
@view
def assigned(job: uint256, turn: uint256, unit: uint256, author: uint256, role: uint256) -> uint256:
    """
    @notice Whom a unit of an operator's claim falls to; 0 where it is not drawn, or falls to nobody.
    """
    draw: Draw = self._draw(job, turn)
    if not draw.is_drawn:
        return 0
    return self._assigned(draw, unit, author, role)


# --- within


@internal
@view
def _cost(job: uint256, verdicts: Verdicts) -> Cost:
    cost: Cost = empty(Cost)
    fee: uint256 = 0
    cost.token, fee = staticcall ITaskViews(tasks).reexecution_price(job, False)
    wrong: uint256 = self._count(verdicts.wrong)
    cost.count = self._count(verdicts.clean) + wrong
    cost.fees = cost.count * fee
    cost.budget = cost.fees + wrong * fee * BOUNTY_FEES
    is_wrong: bool = self._has(verdicts.wrong, 0)
    if is_wrong or self._has(verdicts.clean, 0):
        # The aggregation has a price of its own.
        other: uint256 = (staticcall ITaskViews(tasks).reexecution_price(job, True))[1]
        cost.fees = cost.fees + other - fee
        cost.budget = cost.budget + other - fee
        if is_wrong:
            cost.budget = cost.budget + BOUNTY_FEES * other - BOUNTY_FEES * fee
    return cost


@internal
@view
def _outcome(job: uint256, claim: ISettlementViews.Claim, draw: Draw, given_at: uint256) -> Outcome:
    """
    @notice What became of a claim: FINAL where nobody showed a lie, and UNDECIDED where that is unknown.
    """
    status: uint256 = claims._status(settlement, job, claim)
    key: bytes32 = keccak256(abi_encode(job, claims._hash(claim)))
    word: uint256 = staticcall IReferee(self.referee).claims(key)
    outcome: Outcome = empty(Outcome)
    if word == 0:
        # Nobody asked in time. Availability may have convicted it.
        if status != 0:
            outcome.end = outcomes.SILENT if status == claims.CONVICTED else outcomes.FINAL
        return outcome
    deadline: uint256 = word >> DEADLINE_AT & bits.U40
    end: uint256 = word & STATUS
    # INVARIANT claims: who re-committed in the place of a claim that was convicted in the open turn is not paid, or slashed, for that.
    if end == PENDING or (status == 0 and deadline != draw.deadline):
        return outcome
    outcome.end = outcomes.FINAL if end == outcomes.AGED else end
    left_s: uint256 = word >> LEFT_AT & U20
    # A claim that was asked about in the open turn has no deadline, or the most that is counted.
    outcome.is_early = deadline > 0 and left_s < U20 and given_at + left_s < deadline
    if end == outcomes.JUDGED:
        outcome.slot = word >> SLOT_AT & bits.U16
        finder: uint256 = staticcall IReferee(self.referee).finders(key)
        outcome.is_found = finder & bits.U96 == bits.U96
        outcome.finder = convert(finder >> 96, address)
    return outcome


@internal
@view
def _assigned(draw: Draw, unit: uint256, author: uint256, role: uint256) -> uint256:
    """
    @dev The lowest 32 bits of the ticket say whether the unit is drawn, 56 more each name a place: what a remainder favours is nothing.
    """
    ticket: uint256 = convert(keccak256(abi_encode(draw.seed, unit)), uint256)
    if (ticket & bits.U32) % numbers.BPS >= draw.rate_bps:
        return 0
    auditor: uint256 = 0
    for i: uint256 in range(CANDIDATES):
        place: uint256 = (ticket >> 32 + 56 * i & U56) % draw.places
        candidate: uint256 = self._holder(place, draw.named_at)
        if candidate == 0 or candidate == author or candidate == auditor:
            continue
        if role == AUDITOR or auditor != 0:
            return candidate
        auditor = candidate
    return 0


@internal
@view
def _holder(place: uint256, at: uint256) -> uint256:
    """
    @notice Who held a place just before a second: whoever takes or leaves it in that second or later changes nothing.
    """
    word: uint256 = self.place_words[place]
    # Whoever changed a place so often within one window paid for each change; then it counts as nobody's.
    for _: uint256 in range(MAX_HOLDERS):
        if word >> 32 & bits.U40 < at:
            return self._operator_of(word)
        changes: uint256 = word & bits.U32
        if changes == 0:
            break
        word = self.past_words[place][changes - 1]
    return 0


@internal
def _change(place: uint256, operator: uint256):
    word: uint256 = self.place_words[place]
    changes: uint256 = 0
    if word != 0:
        changes = (word & bits.U32) + 1
        self.past_words[place][changes - 1] = word
    self.place_words[place] = (
        convert(convert(operator, uint56), uint256) << 72 | protocol_time._now(registry) << 32 | changes
    )


@internal
@pure
def _operator_of(word: uint256) -> uint256:
    return word >> 72


@internal
def _hold(operator: uint256, count: uint256):
    self.held[operator] = count
    log PlacesChanged(operator=operator, held=count, places=self.place_count)


@internal
@view
def _role(draw: Draw) -> uint256:
    half: uint256 = draw.named_at + (draw.deadline - draw.named_at) // 2
    return REPLACEMENT if protocol_time._now(registry) > half else AUDITOR


@internal
@view
def _check_left(job: uint256, turn: uint256, operator: uint256, role: uint256, verdicts: Verdicts):
    word: uint256 = self.given[job][turn][operator][role]
    hash: uint256 = self._hash(verdicts)
    left: uint256 = convert(self.left[job][turn][operator][role], uint256)
    assert word != 0 and (
        hash == left if left != 0 else hash & ~bits.U40 == word & ~bits.U40
    ), "audits: other verdicts"


@internal
@pure
def _hash(verdicts: Verdicts) -> uint256:
    return convert(keccak256(abi_encode(verdicts)), uint256)


@internal
@pure
def _has(bitmap: DynArray[uint256, WORDS], unit: uint256) -> bool:
    return unit // 256 < len(bitmap) and bitmap[unit // 256] >> unit % 256 & 1 == 1


@internal
@pure
def _count(bitmap: DynArray[uint256, WORDS]) -> uint256:
    """
    @dev Of each word in lanes of 2, 4, 8 and 16 bits, whose sums fit them; the product adds up the last ones.
    """
    count: uint256 = 0
    for word: uint256 in bitmap:
        if word == 0:
            continue
        lanes: uint256 = word - (word >> 1 & LANES_1)
        lanes = (lanes & LANES_2) + (lanes >> 2 & LANES_2)
        lanes = lanes + (lanes >> 4) & LANES_4
        lanes = (lanes & LANES_8) + (lanes >> 8 & LANES_8)
        count += unsafe_mul(lanes, ONES_16) >> 240
    return count

@internal
def _end(job: uint256, operator: uint256, token: address, sums: Sums):
    """
    @dev What verdicts had reserved is free again, but for what they cost and what they are paid.
    """
    # INVARIANT budget: reserved == the fees, and bounties of verdicts of "false", of all verdicts that are not settled.
    budget: Budget = self._budget(job)
    self._store_budget(job, budget.balance + sums.budget - sums.paid, budget.reserved - sums.budget)
    self._release(operator, token, sums.deposit, sums.slashed)
    self.burned[token] += sums.burned
    if sums.paid > 0:
        self.owed[token][staticcall INodeRegistry(registry).owner_of(operator)] += sums.paid


@internal
@view
def _check_owner(operator: uint256):
    assert staticcall INodeRegistry(registry).owner_of(operator) == msg.sender, "audits: not the owner"


@internal
def _reserve(operator: uint256, token: address, amount: uint256):
    funds: Funds = self._funds(operator, token)
    assert amount <= funds.balance - funds.reserved, "audits: deposit too small"
    self._store_funds(operator, token, funds.balance, funds.reserved + amount)


@internal
def _release(operator: uint256, token: address, amount: uint256, lost: uint256):
    funds: Funds = self._funds(operator, token)
    self._store_funds(operator, token, funds.balance - lost, funds.reserved - amount)


@internal
@view
def _budget(job: uint256) -> Budget:
    word: uint256 = self.budget_words[job]
    return Budget(balance=word >> 128, reserved=word & bits.U128)


@internal
def _store_budget(job: uint256, balance: uint256, reserved: uint256):
    self.budget_words[job] = self._packed(balance, reserved)


@internal
@view
def _funds(operator: uint256, token: address) -> Funds:
    word: uint256 = self.fund_words[operator][token]
    return Funds(balance=word >> 128, reserved=word & bits.U128)


@internal
def _store_funds(operator: uint256, token: address, balance: uint256, reserved: uint256):
    self.fund_words[operator][token] = self._packed(balance, reserved)


@internal
@pure
def _packed(high: uint256, low: uint256) -> uint256:
    return (
        convert(convert(high, uint128), uint256) << 128 | convert(convert(low, uint128), uint256)
    )


@internal
@view
def _draw(job: uint256, turn: uint256) -> Draw:
    word: uint256 = self.draw_words[job][turn]
    return Draw(
        block=word >> 192,
        named_at=word >> 152 & bits.U40,
        places=word >> 80 & bits.U32,
        deadline=word >> 112 & bits.U40,
        rate_bps=word >> 64 & bits.U16,
        is_drawn=word & 1 == 1,
        seed=self.seeds[job][turn],
    )


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "audits: transfer failed"


@internal
def _push(token: address, account: address, amount: uint256):
    assert extcall IERC20(token).transfer(account, amount, default_return_value=True), "audits: transfer failed"
