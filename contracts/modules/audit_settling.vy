# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Verdicts in Audits, from giving to settling
@license Apache-2.0
"""


from ..interfaces import INodeRegistry
from ..interfaces import IRewards
from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry
from ..interfaces import ITaskViews
from . import audit_draws as draws
from . import audit_money as money
from . import audit_state as state
from . import audit_words as words
from . import bits
from . import claims
from . import numbers
from . import outcomes
from . import protocol_time


uses: state
uses: money
uses: draws


interface IReferee:
    def claims(key: bytes32) -> uint256: view
    def finders(key: bytes32) -> uint256: view


interface ISettlementLocks:
    def locks() -> address: view


interface ILocksTaken:
    def taken_of_lock(job: uint256, claim_hash: bytes32) -> uint256: view


UNITS_A_CLAIM: constant(uint256) = numbers.MAX_SLOTS
# Units below are of aggregations, by their seats; the others of slots.
FIRST_SLOT: constant(uint256) = numbers.MAX_AGGREGATORS
MAX_CLAIMS: constant(uint256) = 32
# What a verdict reserves of its operator's deposit, in fees; it is lost when a unit was called clean and is judged false.
RESERVED_FEES: constant(uint256) = 50
# What a verdict of "false" from before the first ask earns beside its fee: so many fees at most, and at most one in so many parts of
# what the lie's conviction took of its author's lock.
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
# Nobody said anything of the claim, or it is not decided.
UNDECIDED: constant(uint256) = 0


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
    # Left out of its turn: nobody could show a lie.
    is_absent: bool


# job -> turn -> operator -> role -> hash of the verdicts without its lowest 40 bits | when they were given
given: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]])
# the same -> hash of what is not settled; 0 while that is all
left: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]]])


event VerdictsGiven:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    verdicts: words.Verdicts


event VerdictsSettled:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    settled: uint256
    paid: uint256
    slashed: uint256
    left: words.Verdicts


event VerdictsLapsed:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    role: uint256
    lapsed: uint256
    slashed: uint256


@external
def give_verdicts(job: uint256, turn: uint256, operator: uint256, verdicts: words.Verdicts):
    """
    @notice All that an auditor says of a turn's units, once in each half of the window. Each verdict reserves part of its deposit, and
            its fee of the job's budget. Whether the units are its own is checked when they are settled: others cost it a fee each.
    """
    draw: draws.Draw = draws._draw(job, turn)
    assert draw.is_drawn, "audits: not drawn"
    assert protocol_time._now(state.registry) <= draw.deadline, "audits: window over"
    assert staticcall INodeRegistry(state.registry).hot_key(operator) == msg.sender, "audits: not the hot key"
    role: uint256 = self._role(draw)
    assert self.given[job][turn][operator][role] == 0, "audits: verdicts given"
    cost: Cost = self._cost(job, verdicts)
    assert cost.count > 0, "audits: no verdicts"
    for i: uint256 in range(min(len(verdicts.clean), len(verdicts.wrong)), bound=words.WORDS):
        assert verdicts.clean[i] & verdicts.wrong[i] == 0, "audits: two verdicts"
    money._reserve(operator, cost.token, cost.fees * RESERVED_FEES)
    budget: money.Budget = money._budget(job)
    assert cost.budget <= budget.balance, "audits: budget spent"
    money._store_budget(job, budget.balance - cost.budget, budget.reserved + cost.budget)
    self.given[job][turn][operator][role] = words._hash(verdicts) & ~bits.U40 | protocol_time._now(state.registry)
    log VerdictsGiven(job=job, operator=operator, turn=turn, role=role, verdicts=verdicts)


@external
def settle_verdicts(
    job: uint256,
    turn: uint256,
    operator: uint256,
    role: uint256,
    verdicts: words.Verdicts,
    claimed: DynArray[ISettlementViews.Claim, MAX_CLAIMS],
    first: words.Verdicts,
):
    """
    @notice Ends the verdicts on claims that are decided: paid where nothing contradicts them, and somebody could have; a unit that was
            called clean and judged false costs what it reserved. Claims that are unknown or undecided are passed over.
    @param verdicts What of the operator's verdicts is not settled.
    @param first Of a replacement: all verdicts of the units' auditor, where it gave any; units that it judged are not paid twice.
    """
    draw: draws.Draw = draws._draw(job, turn)
    self._check_left(job, turn, operator, role, verdicts)
    assert protocol_time._now(state.registry) > draw.deadline, "audits: window open"
    open: words.Verdicts = verdicts
    sums: Sums = empty(Sums)
    token: address = empty(address)
    slot_fee: uint256 = 0
    token, slot_fee = staticcall ITaskViews(state.tasks).reexecution_price(job, False)
    given_at: uint256 = self.given[job][turn][operator][role] & bits.U40
    first_hash: uint256 = words._hash(first) & ~bits.U40
    for claim: ISettlementViews.Claim in claimed:
        if claim.turn != turn:
            continue
        outcome: Outcome = self._outcome(job, claim, draw, given_at)
        if outcome.end == UNDECIDED:
            continue
        fee: uint256 = slot_fee
        unit: uint256 = (claim.scope >> 16) + FIRST_SLOT
        count: uint256 = claim.scope & bits.U16
        is_aggregation: bool = claim.seat >= claims.AGGREGATION
        if is_aggregation:
            fee = (staticcall ITaskViews(state.tasks).reexecution_price(job, True))[1]
            unit = claim.seat - claims.AGGREGATION
            count = 1
        # INVARIANT bounty: whoever lies to have its own auditor call it false loses more than that earns: one lock answers for lies in
        # many turns, so what convictions took of it counts, each once. An honest auditor of the first has the whole bounty.
        bounty: uint256 = 0
        if outcome.is_early:
            bounty = min(fee * BOUNTY_FEES, self._taken(job, claim) // count // BOUNTY_OF_LOCK)
        for i: uint256 in range(count, bound=UNITS_A_CLAIM):
            number: uint256 = unit + i
            is_false: bool = words._has(open.wrong, number)
            if not (is_false or words._has(open.clean, number)):
                continue
            if draws._assigned(draw, number, claim.operator, role) != operator:
                continue
            is_late: bool = False
            if role == draws.REPLACEMENT:
                auditor: uint256 = draws._assigned(draw, number, claim.operator, draws.AUDITOR)
                word: uint256 = self.given[job][turn][auditor][draws.AUDITOR]
                if word != 0:
                    if word & ~bits.U40 != first_hash:
                        continue
                    is_late = words._has(first.clean, number) or words._has(first.wrong, number)
            is_judged: bool = outcome.end == outcomes.JUDGED and (is_aggregation or number == outcome.slot + FIRST_SLOT)
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
                        share = loss * numbers.FINDER_BPS // numbers.BPS
                        money.owed[token][outcome.finder] += share
                    sums.slashed += loss
                    sums.burned += loss - share
            # INVARIANT verdicts: nobody is paid for what nobody could contradict.
            if paid > 0 and not is_late and not outcome.is_absent:
                sums.paid += paid
                if not is_aggregation:
                    sums.slots += 1
    assert sums.settled > 0, "audits: nothing to settle"
    self.left[job][turn][operator][role] = convert(words._hash(open), bytes32)
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
    if token == state.zen and sums.slots > 0:
        flops: uint256 = (staticcall ITaskRegistry(state.tasks).schedules(job)).flops
        extcall IRewards(state.rewards).record_verification(operator, job, flops * sums.slots)


@external
def lapse_verdicts(job: uint256, turn: uint256, operator: uint256, role: uint256, verdicts: words.Verdicts):
    """
    @notice Once every dispute of a turn must be over: frees what is left of verdicts, for a fee each. So nobody keeps a job's budget
            by verdicts on units that are not its own.
    """
    self._check_left(job, turn, operator, role, verdicts)
    reexecute_s: uint256 = (staticcall ITaskRegistry(state.tasks).dispute_terms(job))[1]
    deadline: uint256 = draws._draw(job, turn).deadline
    assert protocol_time._now(state.registry) > deadline + state.lapse_s + LAPSE_REEXECUTIONS * reexecute_s, "audits: time left"
    cost: Cost = self._cost(job, verdicts)
    assert cost.count > 0, "audits: nothing to settle"
    nothing: words.Verdicts = empty(words.Verdicts)
    self.left[job][turn][operator][role] = convert(words._hash(nothing), bytes32)
    sums: Sums = empty(Sums)
    sums.deposit = cost.fees * RESERVED_FEES
    sums.budget = cost.budget
    sums.slashed = cost.fees
    sums.burned = cost.fees
    self._end(job, operator, cost.token, sums)
    log VerdictsLapsed(
        job=job, operator=operator, turn=turn, role=role, lapsed=cost.count, slashed=cost.fees
    )


@internal
@view
def _cost(job: uint256, verdicts: words.Verdicts) -> Cost:
    cost: Cost = empty(Cost)
    fee: uint256 = 0
    cost.token, fee = staticcall ITaskViews(state.tasks).reexecution_price(job, False)
    wrong: uint256 = words._count(verdicts.wrong)
    cost.count = words._count(verdicts.clean) + wrong
    cost.fees = cost.count * fee
    cost.budget = cost.fees + wrong * fee * BOUNTY_FEES
    wrong_shares: uint256 = self._aggregations(verdicts.wrong)
    shares: uint256 = self._aggregations(verdicts.clean) + wrong_shares
    if shares != 0:
        # An aggregation has a price of its own.
        other: uint256 = (staticcall ITaskViews(state.tasks).reexecution_price(job, True))[1]
        cost.fees = cost.fees + shares * other - shares * fee
        shares += BOUNTY_FEES * wrong_shares
        cost.budget = cost.budget + shares * other - shares * fee
    return cost


@internal
@pure
def _aggregations(bitmap: DynArray[uint256, words.WORDS]) -> uint256:
    """
    @return How many of the units are aggregations.
    """
    if len(bitmap) == 0:
        return 0
    return bits._popcount(bitmap[0] & bits.U16)


@internal
@view
def _outcome(job: uint256, claim: ISettlementViews.Claim, draw: draws.Draw, given_at: uint256) -> Outcome:
    """
    @notice What became of a claim: FINAL where nobody showed a lie, and UNDECIDED where that is unknown.
    """
    status: uint256 = claims._status(state.settlement, job, claim)
    key: bytes32 = keccak256(abi_encode(job, claims._hash(claim)))
    word: uint256 = staticcall IReferee(state.referee).claims(key)
    outcome: Outcome = empty(Outcome)
    if word == 0:
        # Nobody asked in time. Availability may have convicted it.
        if status != 0:
            outcome.end = outcomes.SILENT if status == claims.CONVICTED else outcomes.FINAL
            outcome.is_absent = status == claims.ABSENT
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
        finder: uint256 = staticcall IReferee(state.referee).finders(key)
        outcome.is_found = finder & bits.U96 == bits.U96
        outcome.finder = convert(finder >> 96, address)
    return outcome


@internal
@view
def _taken(job: uint256, claim: ISettlementViews.Claim) -> uint256:
    """
    @return What the conviction of a claim took of its operator's lock, besides restitution.
    """
    locks: address = staticcall ISettlementLocks(state.settlement).locks()
    return staticcall ILocksTaken(locks).taken_of_lock(job, claims._hash(claim))


@internal
@view
def _role(draw: draws.Draw) -> uint256:
    half: uint256 = draw.named_at + (draw.deadline - draw.named_at) // 2
    return draws.REPLACEMENT if protocol_time._now(state.registry) > half else draws.AUDITOR


@internal
@view
def _check_left(job: uint256, turn: uint256, operator: uint256, role: uint256, verdicts: words.Verdicts):
    word: uint256 = self.given[job][turn][operator][role]
    hash: uint256 = words._hash(verdicts)
    left: uint256 = convert(self.left[job][turn][operator][role], uint256)
    assert word != 0 and (
        hash == left if left != 0 else hash & ~bits.U40 == word & ~bits.U40
    ), "audits: other verdicts"


@internal
def _end(job: uint256, operator: uint256, token: address, sums: Sums):
    """
    @dev What verdicts had reserved is free again, but for what they cost and what they are paid.
    """
    # INVARIANT budget: reserved == the fees, and bounties of verdicts of "false", of all verdicts that are not settled.
    budget: money.Budget = money._budget(job)
    money._store_budget(job, budget.balance + sums.budget - sums.paid, budget.reserved - sums.budget)
    money._release(operator, token, sums.deposit, sums.slashed)
    money.burned[token] += sums.burned
    if sums.paid > 0:
        money.owed[token][staticcall INodeRegistry(state.registry).owner_of(operator)] += sums.paid
