# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Settlement
@license Apache-2.0
@notice Runs awarded jobs: who holds which slot, what was committed in which round, what timed out and who took over; and
        pays every claim that survived its window.
@dev Calls go to the protocol's own contracts only, and none of those calls anybody back while it serves this one: no
     token is moved here, payments become debts of TaskRegistry. Where a loop interleaves effects and calls, nothing else runs.
"""


from .interfaces import IAuction
from .interfaces import INodeRegistry
from .interfaces import IRewards
from .interfaces import ISettlement
from .interfaces import ITaskRegistry
from .modules import settlement_words as words
from .modules import bits
from .modules import numbers


implements: ISettlement


BATCH: constant(uint256) = 64
# The key of an aggregation's claim; those of slots are 0..255.
AGGREGATION: constant(uint256) = 256
# A round's inputs close after a slot's time and one standby's.
SLOT_TIMES: constant(uint256) = 2
# A window is at least so many times the profiled re-execution.
REEXECUTIONS: constant(uint256) = 3


registry: public(immutable(address))
tasks: public(immutable(address))
auction: public(immutable(address))
rewards: public(immutable(address))
zen: public(immutable(address))
ready_window_s: public(immutable(uint256))
min_window_s: public(immutable(uint256))


struct Run:
    state: uint256
    round: uint256
    rounds: uint256
    slots: uint256
    quorum: uint256
    opened_at: uint256
    outstanding: uint256
    window_s: uint256
    slot_s: uint256
    aggregate_s: uint256
    aggregator: uint256
    aggregator_price: uint256
    aggregator_due: uint256
    token: address
    lock: uint256
    flops: uint256
    missing: uint256
    vacant: uint256
    pot: uint256


struct Seat:
    price: uint256
    locked: uint256
    estimate_s: uint256
    since: uint256
    held: uint256
    taken: uint256


struct AggregatorSeat:
    price: uint256
    locked: uint256


struct Vacancy:
    price: uint256
    pot: uint256


struct Takeover:
    escrow_price: uint256
    pot_price: uint256


struct ClaimRef:
    round: uint256
    key: uint256
    operator: uint256
    bitmap: uint256
    root: bytes32
    deadline: uint256


# job -> state (8) | round (16) | rounds (16) | slots (16) | quorum (16) | opened_at (40) | outstanding (32) | window_s (32)
#        | slot_s (24) | aggregate_s (24)
stages: HashMap[uint256, uint256]
# job -> token (160) | flops of a slot-round (96)
orders: HashMap[uint256, uint256]
# job -> lock of a slot (96) | aggregator (64), 0 when vacant | when its checkpoint is due (40)
chairs: HashMap[uint256, uint256]
# job -> slots not yet committed this round, or not yet ready while awarded
missing: HashMap[uint256, uint256]
# job -> slots that nobody holds
vacant: HashMap[uint256, uint256]
# job -> what of the registry's pot is this job's
pots: HashMap[uint256, uint256]
# job -> operator -> price (80) | locked (96) | estimate_s (24) | since (40)
seat_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> slots it holds
held: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> slots it took over, and is paid for by their takeover's prices
taken: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> slots it held and vacated
left: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> price (128) | locked (128)
aggregator_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> slot -> price (128) | pot (128)
vacancy_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> slot -> operator -> escrow_price (128) | pot_price (128)
takeover_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# job -> round -> key -> keccak256(operator, bitmap, root, deadline); empty once paid
claims: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]])


event SeatTaken:
    job: indexed(uint256)
    operator: indexed(uint256)
    kind: uint256
    bitmap: uint256
    price: uint256


event SeatReady:
    job: indexed(uint256)
    operator: indexed(uint256)
    bitmap: uint256
    estimate_s: uint256


event SlotsVacated:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    bitmap: uint256
    slashed: uint256


event SlotTakenOver:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    slot: uint256
    escrow_price: uint256
    pot_price: uint256
    burned: uint256


event RoundOpened:
    job: indexed(uint256)
    round: uint256
    inputs_close: uint256


event ResultsCommitted:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    bitmap: uint256
    root: bytes32
    bundle: bytes32
    deadline: uint256


event CheckpointPosted:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    mask: uint256
    root: bytes32
    cid: bytes32
    deadline: uint256


event AggregatorVacated:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    slashed: uint256


event AggregatorTakenOver:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    price: uint256


event ClaimFinalised:
    job: indexed(uint256)
    operator: indexed(uint256)
    round: uint256
    key: uint256
    paid: uint256
    fee: uint256
    from_pot: uint256


event JobEnded:
    job: indexed(uint256)
    rounds_done: uint256
    completed: bool


event LockReleased:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    auction_: address,
    rewards_: address,
    zen_: address,
    ready_window_s_: uint256,
    min_window_s_: uint256,
):
    """
    @param registry_ Keys, owners and collateral of the operators.
    @param tasks_ Escrow and checkpoints of the jobs.
    @param auction_ Seats winners and lends standbys.
    @param rewards_ Is told of compute paid in ZEN.
    @param zen_ The token whose jobs earn network rewards.
    @param ready_window_s_ Seconds in which holders confirm.
    @param min_window_s_ The least challenge window.
    """
    registry = registry_
    tasks = tasks_
    auction = auction_
    rewards = rewards_
    zen = zen_
    ready_window_s = ready_window_s_
    min_window_s = min_window_s_


@external
def seat(job: uint256, kind: uint256, operator: uint256, bitmap: uint256, price: uint256, lock: uint256):
    """
    @notice Records a seat that the auction awarded.
    @param bitmap The slots won; 0 for the aggregator's seat.
    @param lock What stands behind the seat.
    """
    assert msg.sender == auction, "settlement: not the auction"
    if kind == numbers.AGGREGATOR:
        chair: words.Chair = words._unpack_chair(self.chairs[job])
        chair.aggregator = operator
        self.chairs[job] = words._pack_chair(chair)
        self.aggregator_words[job][operator] = words._pack_pair(price, lock)
    else:
        self.seat_words[job][operator] = words._pack_terms(
            words.Terms(price=price, locked=lock, estimate_s=0, since=0)
        )
        self.held[job][operator] = bitmap
    log SeatTaken(job=job, operator=operator, kind=kind, bitmap=bitmap, price=price)


@external
def begin(job: uint256, lock: uint256):
    """
    @notice Starts the ready window of a job whose seats are all awarded.
    @param lock Of one slot.
    """
    assert msg.sender == auction, "settlement: not the auction"
    terms: ITaskRegistry.Schedule = staticcall ITaskRegistry(tasks).schedules(job)
    self.stages[job] = words._pack_stage(
        words.Stage(
            state=numbers.AWARDED,
            round=0,
            rounds=terms.rounds,
            slots=terms.slots,
            quorum=terms.quorum,
            opened_at=block.timestamp,
            outstanding=0,
            window_s=max(min_window_s, REEXECUTIONS * terms.reexecute_s),
            slot_s=terms.slot_s,
            aggregate_s=terms.aggregate_s,
        )
    )
    self.orders[job] = words._pack_order(terms.token, terms.flops)
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    chair.lock = lock
    self.chairs[job] = words._pack_chair(chair)
    self.missing[job] = bits._full(terms.slots)


@external
def ready(job: uint256, operator: uint256, estimate_s: uint256):
    """
    @notice Confirms that the operator holds the inputs of its slots and timed a step.
    @param estimate_s Seconds that its slots take a round.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.AWARDED, "settlement: not awarded"
    self._check_hot(operator)
    missing: uint256 = self.missing[job]
    bitmap: uint256 = self.held[job][operator] & missing
    assert bitmap != 0, "settlement: nothing to ready"
    assert estimate_s >= 1 and estimate_s <= stage.slot_s, "settlement: estimate out of range"
    terms: words.Terms = words._unpack_terms(self.seat_words[job][operator])
    terms.estimate_s = estimate_s
    self.seat_words[job][operator] = words._pack_terms(terms)
    self.missing[job] = missing & ~bitmap
    log SeatReady(job=job, operator=operator, bitmap=bitmap, estimate_s=estimate_s)
    self._start_when_ready(job, stage)


@external
def decline(job: uint256, operator: uint256):
    """
    @notice Gives up the operator's slots before the job runs, at the price of a timeout.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.AWARDED, "settlement: not awarded"
    self._check_hot(operator)
    self._give_up(job, operator, stage)


@external
def expire(job: uint256, operator: uint256):
    """
    @notice Vacates the slots of an operator that was silent in the ready window.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.AWARDED, "settlement: not awarded"
    assert block.timestamp > stage.opened_at + ready_window_s, "settlement: ready window open"
    self._give_up(job, operator, stage)


@external
def commit(job: uint256, round: uint256, operator: uint256, bitmap: uint256, root: bytes32, bundle: bytes32):
    """
    @notice Commits the operator's results of a round: a claim that stands open to challenge for the job's window.
    @param bitmap The slots whose results are committed.
    @param root Round root of their results.
    @param bundle Digest of the CID of the file that lists them.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    assert round == stage.round, "settlement: not the current round"
    assert block.timestamp < self._inputs_close(stage), "settlement: inputs closed"
    self._check_hot(operator)
    assert bitmap != 0, "settlement: no slots"
    assert bitmap & ~self.held[job][operator] == 0, "settlement: slot not held"
    missing: uint256 = self.missing[job]
    # INVARIANT claims: a slot is committed at most once a round, so it is claimed and paid at most once.
    assert bitmap & ~missing == 0, "settlement: slot already committed"
    deadline: uint256 = block.timestamp + stage.window_s
    self.missing[job] = missing & ~bitmap
    self.claims[job][round][bits._lowest(bitmap)] = self._claim_word(operator, bitmap, root, deadline)
    log ResultsCommitted(
        job=job, operator=operator, round=round, bitmap=bitmap, root=root, bundle=bundle, deadline=deadline
    )


@external
def time_out(job: uint256, operator: uint256, bitmap: uint256):
    """
    @notice Vacates slots whose holder did not commit in time.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    assert bitmap != 0, "settlement: no slots"
    assert bitmap & ~self.held[job][operator] == 0, "settlement: slot not held"
    assert bitmap & ~self.missing[job] == 0, "settlement: slot already committed"
    deadline: uint256 = self._deadline(stage, words._unpack_terms(self.seat_words[job][operator]))
    # INVARIANT timeouts: nobody is slashed who could not have committed: a deadline after the inputs' close never binds.
    assert (
        block.timestamp > deadline and deadline <= self._inputs_close(stage)
    ), "settlement: deadline not passed"
    self._vacate(job, operator, bitmap, stage.round)


@external
def take_over(job: uint256, slot: uint256, operator: uint256, estimate_s: uint256):
    """
    @notice A standby takes a vacant slot at its own bid; the slash pays what that is above the price before.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.AWARDED or stage.state == numbers.RUNNING, "settlement: not running"
    self._check_hot(operator)
    vacant: uint256 = self.vacant[job]
    assert vacant >> slot & 1 == 1, "settlement: slot not vacant"
    # INVARIANT claims: what an operator is paid for a slot never changes while it has claims on it.
    assert self.left[job][operator] >> slot & 1 == 0, "settlement: held it before"
    assert estimate_s >= 1 and estimate_s <= stage.slot_s, "settlement: estimate out of range"
    offer: uint256 = extcall IAuction(auction).take(job, numbers.SLOTS, operator)

    price: uint256 = 0
    pot: uint256 = 0
    price, pot = words._unpack_pair(self.vacancy_words[job][slot])
    remaining: uint256 = stage.rounds - stage.round
    difference: uint256 = offer - min(offer, price)
    # INVARIANT pot: a takeover draws pot_price at most once in each remaining round, and leaves it that much.
    pot_price: uint256 = min(pot, difference * remaining) // remaining
    burned: uint256 = pot - pot_price * remaining

    bit: uint256 = 1 << slot
    lock: uint256 = words._unpack_chair(self.chairs[job]).lock
    terms: words.Terms = words._unpack_terms(self.seat_words[job][operator])
    is_new: bool = terms.locked == 0
    terms.locked += lock
    terms.estimate_s = estimate_s
    terms.since = block.timestamp
    self.seat_words[job][operator] = words._pack_terms(terms)
    self.held[job][operator] |= bit
    self.taken[job][operator] |= bit
    self.vacant[job] = vacant & ~bit
    self.vacancy_words[job][slot] = 0
    self.takeover_words[job][slot][operator] = words._pack_pair(offer - pot_price, pot_price)
    self.pots[job] -= burned
    log SlotTakenOver(
        job=job,
        operator=operator,
        round=stage.round,
        slot=slot,
        escrow_price=offer - pot_price,
        pot_price=pot_price,
        burned=burned,
    )
    token: address = words._unpack_order(self.orders[job])[0]
    extcall INodeRegistry(registry).lock(operator, token, lock, is_new)
    if burned > 0:
        extcall INodeRegistry(registry).burn(token, burned)


@external
def post_checkpoint(job: uint256, round: uint256, operator: uint256, mask: uint256, root: bytes32, cid: bytes32):
    """
    @notice Closes a round with the aggregation of what was committed; opens the next one, or ends the job.
    @param mask The slots that committed.
    @param root State root of the new checkpoint.
    @param cid Digest of the CID of its pointer.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    assert round == stage.round, "settlement: not the current round"
    assert operator == words._unpack_chair(self.chairs[job]).aggregator, "settlement: not the aggregator"
    self._check_hot(operator)
    missing: uint256 = self.missing[job]
    assert self._are_complete(stage, missing), "settlement: inputs open"
    assert mask == bits._full(stage.slots) & ~missing, "settlement: mask differs"
    present: uint256 = bits._popcount(mask)
    assert present >= stage.quorum, "settlement: quorum not reached"
    deadline: uint256 = block.timestamp + stage.window_s
    self.claims[job][round][AGGREGATION] = self._claim_word(operator, mask, root, deadline)
    # INVARIANT outstanding: it counts the slot-rounds and aggregations of closed rounds that are not yet paid.
    stage.outstanding += present + 1
    stage.round += 1
    log CheckpointPosted(
        job=job, operator=operator, round=round, mask=mask, root=root, cid=cid, deadline=deadline
    )
    extcall ITaskRegistry(tasks).record_checkpoint(job, stage.round, root, cid)
    if stage.round == stage.rounds:
        self._end(job, stage, True)
    else:
        self._open_round(job, stage)


@external
def time_out_aggregator(job: uint256):
    """
    @notice Vacates the seat of an aggregator whose checkpoint is overdue. Its slash is burned.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    operator: uint256 = chair.aggregator
    assert operator != 0, "settlement: aggregator vacant"
    # `due` is after the inputs' close: an aggregator always has `aggregate_s` with complete inputs.
    assert block.timestamp > chair.due, "settlement: deadline not passed"
    assert self._present(job, stage) >= stage.quorum, "settlement: quorum not reached"
    chair.aggregator = 0
    chair.due = block.timestamp + stage.aggregate_s
    self.chairs[job] = words._pack_chair(chair)
    price: uint256 = 0
    locked: uint256 = 0
    price, locked = words._unpack_pair(self.aggregator_words[job][operator])
    slashed: uint256 = locked * numbers.SLASH_BPS // numbers.BPS
    self.aggregator_words[job][operator] = words._pack_pair(price, locked - slashed)
    log AggregatorVacated(job=job, operator=operator, round=stage.round, slashed=slashed)
    token: address = words._unpack_order(self.orders[job])[0]
    extcall INodeRegistry(registry).slash(operator, token, slashed)
    extcall INodeRegistry(registry).burn(token, slashed)


@external
def take_over_aggregator(job: uint256, operator: uint256):
    """
    @notice A standby takes the aggregator's seat at its own bid, with the whole lock.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    self._check_hot(operator)
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    assert chair.aggregator == 0, "settlement: aggregator not vacant"
    # Prices are at least 1: the word of whoever had the seat is never 0.
    assert self.aggregator_words[job][operator] == 0, "settlement: held it before"
    offer: uint256 = extcall IAuction(auction).take(job, numbers.AGGREGATOR, operator)
    # A slot's lock is 2 * max_price * min(rounds, D): the aggregator's, slots * max_price * min(rounds, D), is exact.
    lock: uint256 = chair.lock * stage.slots // 2
    chair.aggregator = operator
    chair.due = block.timestamp + stage.aggregate_s
    self.chairs[job] = words._pack_chair(chair)
    self.aggregator_words[job][operator] = words._pack_pair(offer, lock)
    log AggregatorTakenOver(job=job, operator=operator, round=stage.round, price=offer)
    extcall INodeRegistry(registry).lock(operator, words._unpack_order(self.orders[job])[0], lock, True)


@external
def abandon(job: uint256):
    """
    @notice Ends a job that cannot go on. What was committed in the open round stays payable.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.RUNNING, "settlement: not running"
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    present: uint256 = self._present(job, stage)
    is_short: bool = self._are_complete(stage, self.missing[job]) and present < stage.quorum
    is_overdue: bool = chair.aggregator == 0 and block.timestamp > chair.due
    assert is_short or is_overdue, "settlement: job can go on"
    stage.outstanding += present
    self._end(job, stage, False)


@external
def finalise(job: uint256, claims: DynArray[ClaimRef, BATCH]):
    """
    @notice Pays claims whose windows are over, each once.
    """
    assert len(claims) > 0, "settlement: no claims"
    stage: words.Stage = words._unpack_stage(self.stages[job])
    token: address = empty(address)
    flops: uint256 = 0
    token, flops = words._unpack_order(self.orders[job])
    from_pot: uint256 = 0
    for claim: ClaimRef in claims:
        assert claim.round < stage.round or stage.state == numbers.ENDED, "settlement: round still open"
        assert self.claims[job][claim.round][claim.key] == self._claim_word(
            claim.operator, claim.bitmap, claim.root, claim.deadline
        ), "settlement: unknown claim"
        assert block.timestamp > claim.deadline, "settlement: window open"
        # INVARIANT claims: paid once. The word is gone before anything is paid.
        self.claims[job][claim.round][claim.key] = empty(bytes32)
        if claim.key == AGGREGATION:
            stage.outstanding -= 1
            self._pay_aggregation(job, claim)
        else:
            count: uint256 = bits._popcount(claim.bitmap)
            stage.outstanding -= count
            from_pot += self._pay_slots(job, claim, count, token, flops)
    self.stages[job] = words._pack_stage(stage)
    if from_pot > 0:
        self.pots[job] -= from_pot
    self._close_when_paid(job, stage)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Unlocks all that an operator has locked in a job that is over and paid.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    assert stage.state == numbers.ENDED and stage.outstanding == 0, "settlement: job not over"
    terms: words.Terms = words._unpack_terms(self.seat_words[job][operator])
    price: uint256 = 0
    locked: uint256 = 0
    price, locked = words._unpack_pair(self.aggregator_words[job][operator])
    amount: uint256 = terms.locked + locked
    # INVARIANT locks: a lock is released once, and whoever was never convicted gets it back.
    assert amount > 0, "settlement: nothing locked"
    log LockReleased(job=job, operator=operator, amount=amount)
    token: address = words._unpack_order(self.orders[job])[0]
    slots_locked: uint256 = terms.locked
    terms.locked = 0
    self.seat_words[job][operator] = words._pack_terms(terms)
    self.aggregator_words[job][operator] = words._pack_pair(price, 0)
    if slots_locked > 0:
        extcall INodeRegistry(registry).unlock(operator, token, slots_locked, True)
    if locked > 0:
        extcall INodeRegistry(registry).unlock(operator, token, locked, True)


@external
@view
def runs(job: uint256) -> Run:
    """
    @notice Everything known of a run; zeros before it is awarded.
    """
    stage: words.Stage = words._unpack_stage(self.stages[job])
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    token: address = empty(address)
    flops: uint256 = 0
    token, flops = words._unpack_order(self.orders[job])
    return Run(
        state=stage.state,
        round=stage.round,
        rounds=stage.rounds,
        slots=stage.slots,
        quorum=stage.quorum,
        opened_at=stage.opened_at,
        outstanding=stage.outstanding,
        window_s=stage.window_s,
        slot_s=stage.slot_s,
        aggregate_s=stage.aggregate_s,
        aggregator=chair.aggregator,
        aggregator_price=words._unpack_pair(self.aggregator_words[job][chair.aggregator])[0],
        aggregator_due=chair.due,
        token=token,
        lock=chair.lock,
        flops=flops,
        missing=self.missing[job],
        vacant=self.vacant[job],
        pot=self.pots[job],
    )


@external
@view
def seats(job: uint256, operator: uint256) -> Seat:
    """
    @notice What an operator has in a job; zeros when nothing.
    """
    terms: words.Terms = words._unpack_terms(self.seat_words[job][operator])
    return Seat(
        price=terms.price,
        locked=terms.locked,
        estimate_s=terms.estimate_s,
        since=terms.since,
        held=self.held[job][operator],
        taken=self.taken[job][operator],
    )


@external
@view
def aggregator_seats(job: uint256, operator: uint256) -> AggregatorSeat:
    """
    @notice Price and lock of whoever is, or was, a job's aggregator.
    """
    price: uint256 = 0
    locked: uint256 = 0
    price, locked = words._unpack_pair(self.aggregator_words[job][operator])
    return AggregatorSeat(price=price, locked=locked)


@external
@view
def vacancies(job: uint256, slot: uint256) -> Vacancy:
    """
    @notice What escrow paid the last holder of a vacant slot, and what its slash left for a standby.
    """
    price: uint256 = 0
    pot: uint256 = 0
    price, pot = words._unpack_pair(self.vacancy_words[job][slot])
    return Vacancy(price=price, pot=pot)


@external
@view
def takeovers(job: uint256, slot: uint256, operator: uint256) -> Takeover:
    """
    @notice What an operator that took a slot over is paid a round, from escrow and from the pot.
    """
    escrow_price: uint256 = 0
    pot_price: uint256 = 0
    escrow_price, pot_price = words._unpack_pair(self.takeover_words[job][slot][operator])
    return Takeover(escrow_price=escrow_price, pot_price=pot_price)


@external
@view
def deadline(job: uint256, operator: uint256) -> uint256:
    """
    @notice The last second at which the operator may still commit in the current round without being timed out.
    """
    return self._deadline(
        words._unpack_stage(self.stages[job]), words._unpack_terms(self.seat_words[job][operator])
    )


@internal
@view
def _check_hot(operator: uint256):
    assert msg.sender == staticcall INodeRegistry(registry).hot_key(operator), "settlement: not the hot key"


@internal
@pure
def _inputs_close(stage: words.Stage) -> uint256:
    return stage.opened_at + SLOT_TIMES * stage.slot_s


@internal
@view
def _are_complete(stage: words.Stage, missing: uint256) -> bool:
    return missing == 0 or block.timestamp >= self._inputs_close(stage)


@internal
@view
def _present(job: uint256, stage: words.Stage) -> uint256:
    return bits._popcount(bits._full(stage.slots) & ~self.missing[job])


@internal
@pure
def _deadline(stage: words.Stage, terms: words.Terms) -> uint256:
    return max(stage.opened_at, terms.since) + min(2 * terms.estimate_s, stage.slot_s)


@internal
@pure
def _claim_word(operator: uint256, bitmap: uint256, root: bytes32, deadline: uint256) -> bytes32:
    return keccak256(abi_encode(operator, bitmap, root, deadline))


@internal
def _start_when_ready(job: uint256, stage: words.Stage):
    if self.missing[job] == 0:
        started: words.Stage = stage
        started.state = numbers.RUNNING
        extcall ITaskRegistry(tasks).advance(job, numbers.RUNNING)
        self._open_round(job, started)


@internal
def _open_round(job: uint256, stage: words.Stage):
    opened: words.Stage = stage
    opened.opened_at = block.timestamp
    self.stages[job] = words._pack_stage(opened)
    self.missing[job] = bits._full(opened.slots)
    inputs_close: uint256 = self._inputs_close(opened)
    chair: words.Chair = words._unpack_chair(self.chairs[job])
    chair.due = inputs_close + opened.aggregate_s
    self.chairs[job] = words._pack_chair(chair)
    log RoundOpened(job=job, round=opened.round, inputs_close=inputs_close)


@internal
def _end(job: uint256, stage: words.Stage, completed: bool):
    ended: words.Stage = stage
    ended.state = numbers.ENDED
    self.stages[job] = words._pack_stage(ended)
    log JobEnded(job=job, rounds_done=ended.round, completed=completed)
    extcall ITaskRegistry(tasks).advance(job, numbers.ENDED)
    self._close_when_paid(job, ended)


@internal
def _close_when_paid(job: uint256, stage: words.Stage):
    # Once nothing is outstanding no claim is left to pay: this runs once a job.
    if stage.state == numbers.ENDED and stage.outstanding == 0:
        pot: uint256 = self.pots[job]
        if pot > 0:
            self.pots[job] = 0
            extcall INodeRegistry(registry).burn(words._unpack_order(self.orders[job])[0], pot)
        extcall ITaskRegistry(tasks).close(job)


@internal
def _give_up(job: uint256, operator: uint256, stage: words.Stage):
    missing: uint256 = self.missing[job]
    bitmap: uint256 = self.held[job][operator] & missing
    assert bitmap != 0, "settlement: nothing to ready"
    self.missing[job] = missing & ~bitmap
    self._vacate(job, operator, bitmap, stage.round)
    self._start_when_ready(job, stage)


@internal
def _vacate(job: uint256, operator: uint256, bitmap: uint256, round: uint256):
    """
    @dev Slashes a tenth of the lock of each slot; the rest stays until `release`, since earlier claims stand on it.
    """
    slash: uint256 = words._unpack_chair(self.chairs[job]).lock * numbers.SLASH_BPS // numbers.BPS
    terms: words.Terms = words._unpack_terms(self.seat_words[job][operator])
    taken: uint256 = self.taken[job][operator]
    slashed: uint256 = 0
    rest: uint256 = bitmap
    for slot: uint256 in range(256):
        if rest == 0:
            break
        if rest & 1 == 1:
            price: uint256 = terms.price
            if taken >> slot & 1 == 1:
                price = words._unpack_pair(self.takeover_words[job][slot][operator])[0]
            self.vacancy_words[job][slot] = words._pack_pair(price, slash)
            slashed += slash
        rest = rest >> 1
    terms.locked -= slashed
    self.seat_words[job][operator] = words._pack_terms(terms)
    self.held[job][operator] &= ~bitmap
    self.left[job][operator] |= bitmap
    self.vacant[job] |= bitmap
    self.pots[job] += slashed
    log SlotsVacated(job=job, operator=operator, round=round, bitmap=bitmap, slashed=slashed)
    extcall INodeRegistry(registry).slash(operator, words._unpack_order(self.orders[job])[0], slashed)


@internal
def _pay_aggregation(job: uint256, claim: ClaimRef):
    amount: uint256 = words._unpack_pair(self.aggregator_words[job][claim.operator])[0]
    owner: address = staticcall INodeRegistry(registry).owner_of(claim.operator)
    fee: uint256 = extcall ITaskRegistry(tasks).pay(job, owner, amount)
    log ClaimFinalised(
        job=job, operator=claim.operator, round=claim.round, key=claim.key, paid=amount, fee=fee, from_pot=0
    )


@internal
def _pay_slots(job: uint256, claim: ClaimRef, count: uint256, token: address, flops: uint256) -> uint256:
    """
    @return What the claim drew from the pot.
    """
    taken: uint256 = claim.bitmap & self.taken[job][claim.operator]
    amount: uint256 = (count - bits._popcount(taken)) * words._unpack_terms(
        self.seat_words[job][claim.operator]
    ).price
    from_pot: uint256 = 0
    for slot: uint256 in range(256):
        if taken == 0:
            break
        if taken & 1 == 1:
            escrow_price: uint256 = 0
            pot_price: uint256 = 0
            escrow_price, pot_price = words._unpack_pair(self.takeover_words[job][slot][claim.operator])
            amount += escrow_price
            from_pot += pot_price
        taken = taken >> 1
    owner: address = extcall INodeRegistry(registry).reward_outcome(claim.operator, count)
    fee: uint256 = extcall ITaskRegistry(tasks).pay(job, owner, amount)
    if from_pot > 0:
        extcall INodeRegistry(registry).credit(claim.operator, token, from_pot)
    if token == zen:
        multiplier: uint256 = staticcall INodeRegistry(registry).multiplier_of(claim.operator)
        extcall IRewards(rewards).record(claim.operator, flops * count * multiplier // 100, fee)
    log ClaimFinalised(
        job=job,
        operator=claim.operator,
        round=claim.round,
        key=claim.key,
        paid=amount,
        fee=fee,
        from_pot=from_pot,
    )
    return from_pot
