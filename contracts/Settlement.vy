# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Settlement
@license Apache-2.0
@notice Runs awarded jobs: who holds which seat, what was committed in which turn, what timed out and who took over; pays
        every claim that survived its window, convicts those that did not, and has done again what rested on a lie.
@dev Calls go to the protocol's own contracts only, and none of those calls anybody back while it serves this one: no
     token is moved here, payments become debts of TaskRegistry. Where effects and calls interleave, nothing else runs.
     A turn whose `opened_at` is 0 waits until the claims of `depth` turns before it are final; nobody can be late in it.
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
MAX_CHALLENGERS: constant(uint256) = 16
# Seats of slots are numbered 0..127; the aggregator's is the next number.
MAX_SEATS: constant(uint256) = 128
AGGREGATION: constant(uint256) = MAX_SEATS
# Of the slots of a job: a standby takes at least such a part of them too, or all of a seat.
MAX_WINNERS: constant(uint256) = 64
# A turn's inputs close after a seat's time and one standby's.
SLOT_TIMES: constant(uint256) = 2
# A window is at least so many times the profiled re-execution.
REEXECUTIONS: constant(uint256) = 3
# A claim's word: its hash without the lowest 16 bits | open disputes (8) | status (8).
DISPUTES: constant(uint256) = 255 << 8
ONE_DISPUTE: constant(uint256) = 1 << 8
PENDING: constant(uint256) = 1
PAID: constant(uint256) = 2
CONVICTED: constant(uint256) = 3


deployer: immutable(address)
registry: public(immutable(address))
tasks: public(immutable(address))
auction: public(immutable(address))
rewards: immutable(address)
zen: immutable(address)
ready_window_s: public(immutable(uint256))
min_window_s: public(immutable(uint256))


struct Run:
    state: uint256
    round: uint256
    turn: uint256
    rounds: uint256
    slots: uint256
    quorum: uint256
    depth: uint256
    policy: uint256
    opened_at: uint256
    window_s: uint256
    slot_s: uint256
    aggregate_s: uint256
    aggregator: uint256
    aggregator_due: uint256
    token: address
    lock: uint256
    flops: uint256
    seats: uint256
    missing: uint256
    committed: uint256
    holds: uint256
    held_s: uint256
    pot: uint256
    start_root: bytes32


struct Seat:
    operator: uint256
    first: uint256
    count: uint256
    price: uint256
    pot_price: uint256
    estimate_s: uint256
    since: uint256
    pot: uint256


# Consecutive claims of one operator, paid together.
struct Batch:
    operator: uint256
    is_aggregation: bool
    count: uint256
    amount: uint256
    from_pot: uint256


# The contracts deployed after this one, and who is owed the audits' part of a conviction; set once by `wire`.
referee: public(address)
availability: public(address)
audit_pool: public(address)
# job -> what its terms fix, and its state
stages: HashMap[uint256, uint256]
# job -> its newest turn
turns: HashMap[uint256, uint256]
# job -> locks, aggregator's clock, number of seats
chairs: HashMap[uint256, uint256]
# job -> token (160) | flops of a slot-round (96)
orders: HashMap[uint256, uint256]
# job -> turn mod (depth + 1) -> the state that a turn starts from
start_roots: HashMap[uint256, HashMap[uint256, bytes32]]
# job -> pending claims of its last turns
lanes: HashMap[uint256, uint256]
# job -> what of the registry's pot is this job's
pots: HashMap[uint256, uint256]
# job -> what of its pot convicted operators left for rollbacks to come
reserves: public(HashMap[uint256, uint256])
# job -> seat -> operator, slots, prices
holdings: HashMap[uint256, HashMap[uint256, uint256]]
# job -> seat -> clocks, and what of the job's pot is this seat's
tenures: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> what it has at stake
standings: HashMap[uint256, HashMap[uint256, uint256]]
# job -> seat -> turn mod (depth + 1) -> the newest claim
claim_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]


event SeatTaken:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    first: uint256
    count: uint256
    price: uint256


event SeatReady:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    estimate_s: uint256


event SeatSplit:
    job: indexed(uint256)
    seat: uint256
    kept: uint256
    new_seat: uint256
    first: uint256
    count: uint256


event SeatVacated:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    turn: uint256
    slashed: uint256


event SeatTakenOver:
    job: indexed(uint256)
    operator: indexed(uint256)
    seat: uint256
    turn: uint256
    price: uint256
    pot_price: uint256
    burned: uint256


event TurnOpened:
    job: indexed(uint256)
    turn: uint256
    round: uint256
    start_root: bytes32
    inputs_close: uint256


event ResultsCommitted:
    job: indexed(uint256)
    operator: indexed(uint256)
    claim: ISettlement.Claim
    bundle: bytes32


event CheckpointPosted:
    job: indexed(uint256)
    operator: indexed(uint256)
    claim: ISettlement.Claim
    cid: bytes32


event ClaimFinalised:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256
    paid: uint256
    fee: uint256
    from_pot: uint256


event DisputeOpened:
    job: indexed(uint256)
    turn: uint256
    seat: uint256


event DisputeClosed:
    job: indexed(uint256)
    turn: uint256
    seat: uint256
    convicted: bool


event ClaimConvicted:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256
    slashed: uint256
    restored: uint256
    to_challengers: uint256
    to_audits: uint256


event RolledBack:
    job: indexed(uint256)
    turn: uint256
    round: uint256


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
    @param tasks_ Terms and escrow of the jobs.
    @param auction_ Seats winners and lends standbys.
    @param rewards_ Is told of compute paid in ZEN.
    @param zen_ The token whose jobs earn network rewards.
    @param ready_window_s_ Seconds in which holders confirm.
    @param min_window_s_ The least challenge window.
    """
    deployer = msg.sender
    registry = registry_
    tasks = tasks_
    auction = auction_
    rewards = rewards_
    zen = zen_
    ready_window_s = ready_window_s_
    min_window_s = min_window_s_


@external
def wire(referee_: address, availability_: address, audit_pool_: address):
    """
    @notice Names who judges disputes, who asks for data, and who is owed the audits' part of a conviction, once.
    """
    assert msg.sender == deployer, "settlement: not the deployer"
    assert self.audit_pool == empty(address), "settlement: already wired"
    self.referee = referee_
    self.availability = availability_
    self.audit_pool = audit_pool_


@external
def seat(
    job: uint256, kind: uint256, operator: uint256, first: uint256, count: uint256, price: uint256, lock: uint256
):
    """
    @notice Records a seat that the auction awarded.
    @param lock All that stands behind the seat.
    """
    self._check_auction()
    chair: words.Chair = self._chair(job)
    number: uint256 = AGGREGATION
    if kind == numbers.AGGREGATOR:
        chair.aggregator_lock = lock
    else:
        # The auction sells at most 64 seats.
        number = chair.seats
        chair.seats += 1
    self._set_chair(job, chair)
    self._set_holding(
        job, number, words.Holding(operator=operator, first=first, count=count, price=price, pot_price=0)
    )
    standing: words.Standing = self._standing(job, operator)
    standing.locked += lock
    standing.lots += 1
    standing.held += 1
    self._set_standing(job, operator, standing)
    log SeatTaken(job=job, operator=operator, seat=number, first=first, count=count, price=price)


@external
def begin(job: uint256, lock: uint256):
    """
    @notice Starts the ready window of a job whose seats are all awarded.
    @param lock Of one slot.
    """
    self._check_auction()
    terms: ITaskRegistry.Schedule = self._schedule(job)
    self._set_stage(
        job,
        words.Stage(
            state=numbers.AWARDED,
            rounds=terms.rounds,
            slots=terms.slots,
            quorum=terms.quorum,
            depth=terms.depth,
            policy=terms.policy,
            window_s=terms.windows * max(min_window_s, REEXECUTIONS * terms.reexecute_s),
            slot_s=terms.slot_s,
            aggregate_s=terms.aggregate_s,
        ),
    )
    self.orders[job] = words._pack_order(terms.token, terms.flops)
    self.start_roots[job][0] = terms.state_root
    chair: words.Chair = self._chair(job)
    chair.lock = lock
    self._set_chair(job, chair)
    self._set_turn(
        job,
        words.Turn(
            round=0,
            turn=0,
            opened_at=block.timestamp,
            committed=0,
            missing=bits._full(chair.seats),
            holds=0,
            held_s=0,
        ),
    )


@external
def ready(job: uint256, seat: uint256, estimate_s: uint256):
    """
    @notice Confirms that the holder of a seat has the inputs and timed a step.
    @param estimate_s Seconds that the seat's slots take a round.
    """
    stage: words.Stage = self._awarded(job)
    operator: uint256 = self._holding(job, seat).operator
    self._check_hot(operator)
    turn: words.Turn = self._turn(job)
    self._check_unready(turn, seat)
    self._check_estimate(stage, estimate_s)
    tenure: words.Tenure = self._tenure(job, seat)
    tenure.estimate_s = estimate_s
    self._set_tenure(job, seat, tenure)
    log SeatReady(job=job, operator=operator, seat=seat, estimate_s=estimate_s)
    self._settle_readiness(job, seat, stage)


@external
def decline(job: uint256, seat: uint256, count: uint256):
    """
    @notice Gives up the last `count` slots of a seat that is still missing, at the price of a timeout.
    """
    stage: words.Stage = self._taking(job)
    holding: words.Holding = self._holding(job, seat)
    self._check_hot(holding.operator)
    self._check_missing(self._turn(job), seat)
    self._check_count(holding, count, 1)
    self._vacate(job, self._split(job, seat, holding, count), stage)


@external
def expire(job: uint256, seat: uint256):
    """
    @notice Vacates a seat whose holder was silent in the ready window.
    """
    stage: words.Stage = self._awarded(job)
    turn: words.Turn = self._turn(job)
    assert block.timestamp > turn.opened_at + ready_window_s, "settlement: ready window open"
    self._check_unready(turn, seat)
    self._vacate(job, seat, stage)


@external
def commit(job: uint256, seat: uint256, turn: uint256, root: bytes32, bundle: bytes32):
    """
    @notice Commits the results of a seat in a turn: a claim that stands open to challenge for the job's window.
    @param root Round root of the results.
    @param bundle Digest of the CID of the file that lists them.
    """
    stage: words.Stage = self._running(job)
    newest: words.Turn = self._open_turn(job, turn)
    assert not self._are_closed(stage, newest), "settlement: inputs closed"
    holding: words.Holding = self._holding(job, seat)
    self._check_hot(holding.operator)
    # INVARIANT claims: a seat commits at most once a turn, so its slots are claimed and paid at most once.
    self._check_missing(newest, seat)
    price: uint256 = holding.count * holding.price
    pot_price: uint256 = holding.count * holding.pot_price
    if pot_price > 0:
        # INVARIANT pot: a seat's claims never draw more than the seat's part of the pot. Only a rollback can spend that:
        # escrow then pays both, out of the restitution that filled it at `max_price` for every round done again.
        tenure: words.Tenure = self._tenure(job, seat)
        if tenure.pot >= pot_price:
            tenure.pot -= pot_price
            self._set_tenure(job, seat, tenure)
        else:
            price += pot_price
            pot_price = 0
    # A missing seat has a number below 128, and a seat its slots: nothing below can wrap.
    newest.missing = newest.missing ^ (1 << seat)
    newest.committed = unsafe_add(newest.committed, holding.count)
    self._set_turn(job, newest)
    scope: uint256 = holding.first << 16 | holding.count
    start_root: bytes32 = self._slots_root(job, stage, newest)
    claim: ISettlement.Claim = self._claim(
        job, stage, newest, seat, holding.operator, scope, price, pot_price, start_root, root
    )
    log ResultsCommitted(job=job, operator=holding.operator, claim=claim, bundle=bundle)


@external
def time_out(job: uint256, seat: uint256):
    """
    @notice Vacates a seat whose holder did not commit in time, or whose checkpoint is overdue.
    """
    stage: words.Stage = self._running(job)
    assert self.holdings[job][seat] >> 192 != 0, "settlement: seat vacant"
    turn: words.Turn = self._turn(job)
    # INVARIANT timeouts: nobody is slashed who could not have acted: not in a turn that waits, not while data is held.
    is_late: bool = turn.opened_at != 0 and turn.holds == 0
    if seat == AGGREGATION:
        # `due` is after the inputs' close: an aggregator always has `aggregate_s` with complete inputs.
        due: uint256 = self._chair(job).due
        is_late = is_late and block.timestamp > due and turn.committed >= stage.quorum
    else:
        self._check_missing(turn, seat)
        deadline: uint256 = self._deadline(stage, turn, self.tenures[job][seat])
        # Who took over too late to commit is spared: a deadline after the inputs' close never binds.
        is_late = is_late and block.timestamp > deadline and deadline <= self._inputs_close(stage, turn)
    assert is_late, "settlement: deadline not passed"
    self._vacate(job, seat, stage)


@external
def take_over(job: uint256, seat: uint256, operator: uint256, count: uint256, estimate_s: uint256):
    """
    @notice A standby takes the last `count` slots of a vacant seat at its own bid, or at what escrow paid before and the
            seat's part of the pot adds, where that is less.
    """
    stage: words.Stage = self._taking(job)
    self._check_hot(operator)
    vacant: words.Holding = self._holding(job, seat)
    assert vacant.operator == 0 and vacant.count > 0, "settlement: seat not vacant"
    # INVARIANT seats: they cannot be used up without a slash. A lot has the same floor for bids.
    self._check_count(vacant, count, min(vacant.count, (stage.slots + MAX_WINNERS - 1) // MAX_WINNERS))
    self._check_estimate(stage, estimate_s)
    turn: words.Turn = self._turn(job)
    # A claim of the open turn stands for all slots of its seat.
    if count < vacant.count and stage.state == numbers.RUNNING:
        self._check_missing(turn, seat)
    taken: uint256 = self._split(job, seat, vacant, count)
    lock: uint256 = self._lock_of(job, seat, count)
    kind: uint256 = numbers.SLOTS
    if seat == AGGREGATION:
        kind = numbers.AGGREGATOR
        self._extend(job, stage)
    offer: uint256 = extcall IAuction(auction).take(job, kind, operator, count)

    tenure: words.Tenure = self._tenure(job, taken)
    slot_rounds: uint256 = count * (stage.rounds - turn.round)
    # INVARIANT prices: what escrow pays for a seat never rises.
    price: uint256 = min(offer, vacant.price)
    pot_price: uint256 = min(tenure.pot // slot_rounds, offer - price)
    burned: uint256 = tenure.pot - pot_price * slot_rounds
    tenure.pot -= burned
    tenure.estimate_s = estimate_s
    tenure.since = self._since(turn)
    self._set_tenure(job, taken, tenure)
    holding: words.Holding = self._holding(job, taken)
    holding.operator = operator
    holding.price = price
    holding.pot_price = pot_price
    self._set_holding(job, taken, holding)
    standing: words.Standing = self._standing(job, operator)
    is_new: bool = standing.lots == 0
    if is_new:
        standing.lots = 1
    standing.locked += lock
    standing.held += 1
    self._set_standing(job, operator, standing)
    log SeatTakenOver(
        job=job,
        operator=operator,
        seat=taken,
        turn=turn.turn,
        price=price,
        pot_price=pot_price,
        burned=burned,
    )
    extcall INodeRegistry(registry).lock(operator, self._token(job), lock, is_new)
    self._burn(job, burned)


@external
def post_checkpoint(job: uint256, turn: uint256, mask: uint256, root: bytes32, cid: bytes32):
    """
    @notice Closes a turn with the aggregation of what was committed; opens the next one, or ends the job.
    @param mask The seats that committed.
    @param root State root of the new checkpoint.
    @param cid Digest of the CID of its pointer.
    """
    stage: words.Stage = self._running(job)
    newest: words.Turn = self._open_turn(job, turn)
    holding: words.Holding = self._holding(job, AGGREGATION)
    self._check_hot(holding.operator)
    assert self._are_complete(job, stage, newest), "settlement: inputs open"
    assert mask == self._present(job, newest), "settlement: mask differs"
    assert newest.committed >= stage.quorum, "settlement: quorum not reached"
    claim: ISettlement.Claim = self._claim(
        job, stage, newest, AGGREGATION, holding.operator, mask, holding.price, 0, self._start_root(job, turn), root
    )
    log CheckpointPosted(job=job, operator=holding.operator, claim=claim, cid=cid)
    self._close(job, newest.round + 1, root, 1)
    if newest.round + 1 == stage.rounds:
        self._end(job)
    else:
        self._go_on(job)


@external
def abandon(job: uint256):
    """
    @notice Ends a job that cannot go on. What was committed in the open turn stays payable.
    """
    stage: words.Stage = self._running(job)
    turn: words.Turn = self._turn(job)
    is_short: bool = self._are_complete(job, stage, turn) and turn.committed < stage.quorum
    is_overdue: bool = (
        self.holdings[job][AGGREGATION] >> 192 == 0
        and turn.holds == 0
        and block.timestamp > self._chair(job).due
    )
    assert turn.opened_at != 0 and (is_short or is_overdue), "settlement: job can go on"
    self._close(job, turn.round, self._start_root(job, turn.turn), 0)
    self._end(job)


@external
def finalise(job: uint256, claims: DynArray[ISettlement.Claim, BATCH]):
    """
    @notice Pays claims whose windows are over, each once; consecutive ones of one operator together.
    """
    assert len(claims) > 0, "settlement: no claims"
    stage: words.Stage = self._stage(job)
    turn: words.Turn = self._turn(job)
    order: uint256 = self.orders[job]
    lanes: uint256 = self.lanes[job]
    from_pot: uint256 = 0
    batch: Batch = empty(Batch)
    for claim: ISettlement.Claim in claims:
        word: uint256 = self._known(job, claim)
        assert claim.turn < turn.turn, "settlement: turn still open"
        assert word & DISPUTES == 0, "settlement: in dispute"
        assert block.timestamp > claim.deadline, "settlement: window open"
        # INVARIANT claims: paid once. The word says so before anything is paid.
        self._mark(job, claim, word ^ (PENDING ^ PAID))
        # INVARIANT pending: a lane counts the claims of its closed turn that are neither paid nor convicted.
        lanes -= 1 << words.LANE_BITS * (claim.turn % stage.depth)
        is_aggregation: bool = claim.seat == AGGREGATION
        if claim.operator != batch.operator or is_aggregation != batch.is_aggregation:
            self._pay(job, order, batch)
            batch = Batch(operator=claim.operator, is_aggregation=is_aggregation, count=0, amount=0, from_pot=0)
        if not is_aggregation:
            batch.count += claim.scope & bits.U16
        # The fee is rounded over a batch: a claim's is by how much it raises that.
        fee: uint256 = self._fee(batch.amount + claim.price) - self._fee(batch.amount)
        batch.amount += claim.price
        batch.from_pot += claim.pot_price
        from_pot += claim.pot_price
        log ClaimFinalised(
            job=job,
            operator=claim.operator,
            turn=claim.turn,
            seat=claim.seat,
            paid=claim.price,
            fee=fee,
            from_pot=claim.pot_price,
        )
    self._pay(job, order, batch)
    self.lanes[job] = lanes
    if from_pot > 0:
        self.pots[job] -= from_pot
    self._go_on(job)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Unlocks what an operator has locked in a job, once nothing of it can be convicted any more.
    """
    stage: words.Stage = self._stage(job)
    standing: words.Standing = self._standing(job, operator)
    assert standing.lots > 0, "settlement: nothing locked"
    newest: uint256 = self._turn(job).turn
    left_turn: uint256 = standing.left_turn
    if standing.held > 0:
        assert stage.state == numbers.ENDED, "settlement: seat still held"
        left_turn = newest
    # INVARIANT locks: a lock outlives every claim that it stands behind; whoever was never convicted gets it back.
    is_settled: bool = left_turn <= newest
    for before: uint256 in range(16):
        if before >= left_turn:
            break
        is_settled = is_settled and self._pending(job, left_turn - before - 1) == 0
    assert is_settled, "settlement: claims not final"
    amount: uint256 = standing.locked
    lots: uint256 = standing.lots
    standing.locked = 0
    standing.lots = 0
    self._set_standing(job, operator, standing)
    log LockReleased(job=job, operator=operator, amount=amount)
    token: address = self._token(job)
    extcall INodeRegistry(registry).unlock(operator, token, amount, True)
    if lots > 1:
        extcall INodeRegistry(registry).unlock(operator, token, 0, True)


@external
def open_dispute(job: uint256, claim: ISettlement.Claim):
    """
    @notice One more dispute of a pending claim: it is not paid while one is open.
    """
    self._check_referee()
    word: uint256 = self._known(job, claim)
    assert block.timestamp <= claim.deadline, "settlement: window closed"
    assert word & DISPUTES != DISPUTES, "settlement: too many disputes"
    self._mark(job, claim, word + ONE_DISPUTE)
    log DisputeOpened(job=job, turn=claim.turn, seat=claim.seat)


@external
def close_dispute(
    job: uint256, claim: ISettlement.Claim, convicted: bool, challengers: DynArray[address, MAX_CHALLENGERS]
):
    """
    @notice One dispute less; convicts a claim that is still pending.
    @dev A disputed claim cannot be paid: where it is not pending it was convicted, and its place may be used again. Then
         nothing is left to do, so that the referee can always end what it opened.
    @param challengers Share in what the claim's operator loses.
    """
    self._check_referee()
    word: uint256 = self._word(job, claim)
    if word != 0:
        assert word & DISPUTES != 0, "settlement: not in dispute"
        self._mark(job, claim, word - ONE_DISPUTE)
        log DisputeClosed(job=job, turn=claim.turn, seat=claim.seat, convicted=convicted)
        if convicted:
            self._convict(job, claim, challengers)


@external
def void(job: uint256, claim: ISettlement.Claim):
    """
    @notice Convicts a pending claim whose data nobody can have.
    """
    self._check_availability()
    self._known(job, claim)
    self._convict(job, claim, [])


@external
def hold(job: uint256):
    """
    @notice Nobody in the job is late until `resume`.
    """
    self._check_availability()
    turn: words.Turn = self._turn(job)
    turn.holds += 1
    self._set_turn(job, turn)


@external
def resume(job: uint256, seconds: uint256):
    """
    @notice Ends a hold, and gives the open turn the time back.
    """
    self._check_availability()
    turn: words.Turn = self._turn(job)
    turn.holds -= 1
    if turn.opened_at != 0:
        turn.opened_at = min(block.timestamp, turn.opened_at + seconds)
        turn.held_s += seconds
        chair: words.Chair = self._chair(job)
        chair.due += seconds
        self._set_chair(job, chair)
    self._set_turn(job, turn)


@external
@view
def runs(job: uint256) -> Run:
    """
    @notice Everything known of a run; zeros before it is awarded.
    """
    stage: words.Stage = self._stage(job)
    turn: words.Turn = self._turn(job)
    chair: words.Chair = self._chair(job)
    return Run(
        state=stage.state,
        round=turn.round,
        turn=turn.turn,
        rounds=stage.rounds,
        slots=stage.slots,
        quorum=stage.quorum,
        depth=stage.depth,
        policy=stage.policy,
        opened_at=turn.opened_at,
        window_s=stage.window_s,
        slot_s=stage.slot_s,
        aggregate_s=stage.aggregate_s,
        aggregator=self.holdings[job][AGGREGATION] >> 192,
        aggregator_due=chair.due,
        token=self._token(job),
        lock=chair.lock,
        flops=self.orders[job] & bits.U96,
        seats=chair.seats,
        missing=turn.missing,
        committed=turn.committed,
        holds=turn.holds,
        held_s=turn.held_s,
        pot=self.pots[job],
        start_root=self._start_root(job, turn.turn),
    )


@external
@view
def seats(job: uint256, seat: uint256) -> Seat:
    """
    @notice Who holds a seat at what price, or what a standby finds; zeros when there is none.
    """
    holding: words.Holding = self._holding(job, seat)
    tenure: words.Tenure = self._tenure(job, seat)
    return Seat(
        operator=holding.operator,
        first=holding.first,
        count=holding.count,
        price=holding.price,
        pot_price=holding.pot_price,
        estimate_s=tenure.estimate_s,
        since=tenure.since,
        pot=tenure.pot,
    )


@external
@view
def stakes(job: uint256, operator: uint256) -> words.Standing:
    """
    @notice What an operator has locked in a job, in how many lots, for how many seats; and since when it holds none.
    """
    return self._standing(job, operator)


@external
@view
def claims(job: uint256, seat: uint256, turn: uint256) -> bytes32:
    """
    @notice The newest claim of a seat in the ring place of a turn: upper bits of its hash | open disputes | status.
    """
    return convert(self.claim_words[job][seat][self._place(job, turn)], bytes32)


@external
@view
def pending(job: uint256, turn: uint256) -> uint256:
    """
    @notice Claims of a closed turn that are neither paid nor convicted.
    """
    return self._pending(job, turn)


@external
@view
def is_final(job: uint256, turn: uint256) -> bool:
    """
    @notice Whether a turn is closed and nothing of it is pending.
    """
    return turn < self._turn(job).turn and self._pending(job, turn) == 0


@external
@view
def deadline(job: uint256, seat: uint256) -> uint256:
    """
    @notice The last second at which the seat's holder may still commit in the open turn without being timed out.
    """
    return self._deadline(
        self._stage(job), self._turn(job), self.tenures[job][seat]
    )


@internal
@view
def _schedule(job: uint256) -> ITaskRegistry.Schedule:
    return staticcall ITaskRegistry(tasks).schedules(job)


@internal
@view
def _stage(job: uint256) -> words.Stage:
    return words._unpack_stage(self.stages[job])


@internal
def _set_stage(job: uint256, stage: words.Stage):
    self.stages[job] = words._pack_stage(stage)


@internal
@view
def _turn(job: uint256) -> words.Turn:
    return words._unpack_turn(self.turns[job])


@internal
def _set_turn(job: uint256, turn: words.Turn):
    self.turns[job] = words._pack_turn(turn)


@internal
@view
def _chair(job: uint256) -> words.Chair:
    return words._unpack_chair(self.chairs[job])


@internal
def _set_chair(job: uint256, chair: words.Chair):
    self.chairs[job] = words._pack_chair(chair)


@internal
@view
def _holding(job: uint256, seat: uint256) -> words.Holding:
    return words._unpack_holding(self.holdings[job][seat])


@internal
def _set_holding(job: uint256, seat: uint256, holding: words.Holding):
    self.holdings[job][seat] = words._pack_holding(holding)


@internal
@view
def _tenure(job: uint256, seat: uint256) -> words.Tenure:
    return words._unpack_tenure(self.tenures[job][seat])


@internal
def _set_tenure(job: uint256, seat: uint256, tenure: words.Tenure):
    self.tenures[job][seat] = words._pack_tenure(tenure)


@internal
@view
def _standing(job: uint256, operator: uint256) -> words.Standing:
    return words._unpack_standing(self.standings[job][operator])


@internal
def _set_standing(job: uint256, operator: uint256, standing: words.Standing):
    self.standings[job][operator] = words._pack_standing(standing)


@internal
@view
def _awarded(job: uint256) -> words.Stage:
    stage: words.Stage = self._stage(job)
    assert stage.state == numbers.AWARDED, "settlement: not awarded"
    return stage


@internal
@view
def _running(job: uint256) -> words.Stage:
    stage: words.Stage = self._stage(job)
    self._check_running(stage.state == numbers.RUNNING)
    return stage


@internal
@view
def _taking(job: uint256) -> words.Stage:
    stage: words.Stage = self._stage(job)
    self._check_running(stage.state == numbers.AWARDED or stage.state == numbers.RUNNING)
    return stage


@internal
@pure
def _check_running(is_running: bool):
    assert is_running, "settlement: not running"


@internal
@view
def _open_turn(job: uint256, turn: uint256) -> words.Turn:
    newest: words.Turn = self._turn(job)
    assert turn == newest.turn, "settlement: not the current turn"
    assert newest.opened_at != 0, "settlement: depth reached"
    return newest


@internal
@pure
def _check_missing(turn: words.Turn, seat: uint256):
    assert turn.missing >> seat & 1 == 1, "settlement: already committed"


@internal
@pure
def _check_unready(turn: words.Turn, seat: uint256):
    assert turn.missing >> seat & 1 == 1, "settlement: nothing to ready"


@internal
@pure
def _check_count(holding: words.Holding, count: uint256, least: uint256):
    assert count >= least and count <= holding.count, "settlement: count out of range"


@internal
@view
def _check_auction():
    assert msg.sender == auction, "settlement: not the auction"


@internal
@view
def _check_referee():
    assert msg.sender == self.referee, "settlement: not the referee"


@internal
@view
def _check_availability():
    assert msg.sender == self.availability, "settlement: not the availability"


@internal
@view
def _place(job: uint256, turn: uint256) -> uint256:
    """
    @return Where in the ring the claims of a turn are kept: those of the turn before a pending claim's are there still.
    """
    # The depth is at most 16.
    return turn % unsafe_add(self.stages[job] >> 192 & bits.U8, 1)


@internal
@view
def _start_root(job: uint256, turn: uint256) -> bytes32:
    return self.start_roots[job][self._place(job, turn)]


@internal
@view
def _slots_root(job: uint256, stage: words.Stage, turn: words.Turn) -> bytes32:
    """
    @return What the slots of the newest turn start from: in a delayed job what the turn before it started from, so that nobody
            waits for the aggregation between them; but the first turn, and one after a rollback, have none before.
    """
    if stage.policy & numbers.DELAYED != 0 and turn.turn > 0:
        before: uint256 = unsafe_sub(turn.turn, 1)
        if words._lane(self.lanes[job], before, stage.depth) & words.LANE_DEAD == 0:
            return self._start_root(job, before)
    return self._start_root(job, turn.turn)


@internal
def _claim(
    job: uint256,
    stage: words.Stage,
    turn: words.Turn,
    seat: uint256,
    operator: uint256,
    scope: uint256,
    price: uint256,
    pot_price: uint256,
    start_root: bytes32,
    root: bytes32,
) -> ISettlement.Claim:
    """
    @dev Makes and records a claim of the open turn.
    """
    claim: ISettlement.Claim = ISettlement.Claim(
        turn=turn.turn,
        round=turn.round,
        seat=seat,
        operator=operator,
        scope=scope,
        price=price,
        pot_price=pot_price,
        start_root=start_root,
        root=root,
        deadline=block.timestamp + stage.window_s,
    )
    self._mark(job, claim, self._hash(claim) | PENDING)
    return claim


@internal
@view
def _word(job: uint256, claim: ISettlement.Claim) -> uint256:
    """
    @return The word of a claim that is pending; 0 of any other.
    """
    word: uint256 = self.claim_words[job][claim.seat][self._place(job, claim.turn)]
    if word & ~DISPUTES != self._hash(claim) | PENDING:
        return 0
    return word


@internal
@view
def _known(job: uint256, claim: ISettlement.Claim) -> uint256:
    word: uint256 = self._word(job, claim)
    assert word != 0, "settlement: unknown claim"
    return word


@internal
def _mark(job: uint256, claim: ISettlement.Claim, word: uint256):
    self.claim_words[job][claim.seat][self._place(job, claim.turn)] = word


@internal
@view
def _check_hot(operator: uint256):
    assert msg.sender == staticcall INodeRegistry(registry).hot_key(operator), "settlement: not the hot key"


@internal
@pure
def _check_estimate(stage: words.Stage, estimate_s: uint256):
    assert estimate_s >= 1 and estimate_s <= stage.slot_s, "settlement: estimate out of range"


@internal
@view
def _since(turn: words.Turn) -> uint256:
    """
    @return Now, less what the open turn was held: who starts before a later hold has that one back as the others have.
    """
    return block.timestamp - turn.held_s


@internal
@pure
def _inputs_close(stage: words.Stage, turn: words.Turn) -> uint256:
    return turn.opened_at + SLOT_TIMES * stage.slot_s


@internal
@view
def _are_closed(stage: words.Stage, turn: words.Turn) -> bool:
    return turn.holds == 0 and block.timestamp >= self._inputs_close(stage, turn)


@internal
@view
def _are_complete(job: uint256, stage: words.Stage, turn: words.Turn) -> bool:
    """
    @return Whether nobody can commit any more, or nobody holds a seat that is missing and the quorum is there.
    """
    if turn.missing == 0 or self._are_closed(stage, turn):
        return True
    if turn.committed < stage.quorum:
        return False
    for seat: uint256 in range(MAX_SEATS):
        if turn.missing >> seat == 0:
            break
        if turn.missing >> seat & 1 == 1 and self.holdings[job][seat] >> 192 != 0:
            return False
    return True


@internal
@view
def _present(job: uint256, turn: words.Turn) -> uint256:
    """
    @return The seats that committed. A turn that waits has none: all are missing.
    """
    return bits._full(self._chair(job).seats) ^ turn.missing


@internal
@pure
def _deadline(stage: words.Stage, turn: words.Turn, tenure_word: uint256) -> uint256:
    tenure: words.Tenure = words._unpack_tenure(tenure_word)
    return max(turn.opened_at, tenure.since + turn.held_s) + min(2 * tenure.estimate_s, stage.slot_s)


@internal
@view
def _token(job: uint256) -> address:
    return convert(self.orders[job] >> 96, address)


@internal
@view
def _pending(job: uint256, turn: uint256) -> uint256:
    depth: uint256 = self._stage(job).depth
    newest: uint256 = self._turn(job).turn
    if turn >= newest or turn + depth < newest:
        return 0
    return words._lane(self.lanes[job], turn, depth) & words.LANE_COUNT


@internal
@pure
def _hash(claim: ISettlement.Claim) -> uint256:
    return convert(keccak256(abi_encode(claim)), uint256) & ~bits.U16


@internal
@pure
def _fee(amount: uint256) -> uint256:
    # As TaskRegistry has it.
    return amount - amount * (numbers.BPS - numbers.FEE_BPS) // numbers.BPS


@internal
def _settle_readiness(job: uint256, seat: uint256, stage: words.Stage):
    """
    @dev The seat is no longer missing; when none is, the first turn opens.
    """
    turn: words.Turn = self._turn(job)
    turn.missing = turn.missing & ~(1 << seat)
    if turn.missing == 0:
        turn.opened_at = 0
        turn.missing = bits._full(self._chair(job).seats)
        self._advance(job, numbers.RUNNING)
    self._set_turn(job, turn)
    self._go_on(job)


@internal
def _advance(job: uint256, state: uint256):
    stage: words.Stage = self._stage(job)
    stage.state = state
    self._set_stage(job, stage)
    extcall ITaskRegistry(tasks).advance(job, state)


@internal
def _go_on(job: uint256):
    """
    @dev What follows when a turn closed or claims ceased to be pending. A turn that waits opens on an empty lane; an ended
         job is over when nothing is pending, which happens once: no claim is left to make it happen again.
    """
    stage: words.Stage = self._stage(job)
    turn: words.Turn = self._turn(job)
    lanes: uint256 = self.lanes[job]
    if stage.state == numbers.RUNNING and turn.opened_at == 0:
        if words._lane(lanes, turn.turn, stage.depth) & words.LANE_COUNT == 0:
            turn.opened_at = block.timestamp
            turn.held_s = 0
            self._set_turn(job, turn)
            inputs_close: uint256 = self._inputs_close(stage, turn)
            chair: words.Chair = self._chair(job)
            chair.due = inputs_close + stage.aggregate_s
            self._set_chair(job, chair)
            log TurnOpened(
                job=job,
                turn=turn.turn,
                round=turn.round,
                start_root=self._start_root(job, turn.turn),
                inputs_close=inputs_close,
            )
    elif stage.state == numbers.ENDED and lanes & words.ALL_COUNTS == 0:
        self.reserves[job] = 0
        self._burn(job, self.pots[job])
        extcall ITaskRegistry(tasks).close(job)


@internal
def _close(job: uint256, round: uint256, start_root: bytes32, more: uint256):
    """
    @dev What was committed in the open turn, if one is open, becomes pending in its lane, with `more` claims. The turn
         after it waits.
    """
    turn: words.Turn = self._turn(job)
    turn.round = round
    if turn.opened_at != 0:
        seats: uint256 = bits._full(self._chair(job).seats)
        lane: uint256 = bits._popcount(seats ^ turn.missing) + more
        self.lanes[job] = words._with_lane(self.lanes[job], turn.turn, self._stage(job).depth, lane)
        turn.turn += 1
        turn.opened_at = 0
        turn.committed = 0
        turn.missing = seats
    self.start_roots[job][self._place(job, turn.turn)] = start_root
    self._set_turn(job, turn)


@internal
def _end(job: uint256):
    """
    @dev The newest turn is one that waits, and that nothing opens unless a rollback does.
    """
    round: uint256 = self._turn(job).round
    log JobEnded(job=job, rounds_done=round, completed=round == self._stage(job).rounds)
    self._advance(job, numbers.ENDED)
    self._go_on(job)


@internal
def _burn(job: uint256, amount: uint256):
    if amount > 0:
        self.pots[job] -= amount
        extcall INodeRegistry(registry).burn(self._token(job), amount)


@internal
def _extend(job: uint256, stage: words.Stage):
    """
    @dev Whoever aggregates has `aggregate_s` from now on.
    """
    chair: words.Chair = self._chair(job)
    chair.due = max(chair.due, block.timestamp + stage.aggregate_s)
    self._set_chair(job, chair)


@internal
def _split(job: uint256, seat: uint256, whole: words.Holding, count: uint256) -> uint256:
    """
    @dev Makes the last `count` slots of a seat a seat of their own, unless they are all of it.
    @return The number of the seat that has them.
    """
    if count == whole.count:
        return seat
    chair: words.Chair = self._chair(job)
    number: uint256 = chair.seats
    assert number < MAX_SEATS, "settlement: too many seats"
    chair.seats += 1
    self._set_chair(job, chair)
    tenure: words.Tenure = self._tenure(job, seat)
    pot: uint256 = tenure.pot
    tenure.pot = pot * count // whole.count
    self._set_tenure(job, number, tenure)
    tenure.pot = pot - tenure.pot
    self._set_tenure(job, seat, tenure)
    part: words.Holding = whole
    part.count = whole.count - count
    self._set_holding(job, seat, part)
    part.first += part.count
    part.count = count
    self._set_holding(job, number, part)
    if part.operator != 0:
        standing: words.Standing = self._standing(job, part.operator)
        standing.held += 1
        self._set_standing(job, part.operator, standing)
    turn: words.Turn = self._turn(job)
    turn.missing |= (turn.missing >> seat & 1) << number
    self._set_turn(job, turn)
    log SeatSplit(
        job=job, seat=seat, kept=whole.count - count, new_seat=number, first=part.first, count=count
    )
    return number


@internal
def _vacate(job: uint256, seat: uint256, stage: words.Stage):
    """
    @dev Slashes a tenth of the seat's lock; the rest stays until `release`, since earlier claims stand on it.
    """
    holding: words.Holding = self._holding(job, seat)
    amount: uint256 = self._lock_of(job, seat, holding.count) * numbers.SLASH_BPS // numbers.BPS
    slashed: uint256 = self._unseat(job, seat, stage, amount, holding.operator, False)
    if seat == AGGREGATION:
        self._burn(job, slashed)
        self._extend(job, stage)
    else:
        tenure: words.Tenure = self._tenure(job, seat)
        tenure.pot += slashed
        self._set_tenure(job, seat, tenure)
        if stage.state == numbers.AWARDED:
            self._settle_readiness(job, seat, stage)


@internal
def _unseat(
    job: uint256, seat: uint256, stage: words.Stage, amount: uint256, operator: uint256, convicted: bool
) -> uint256:
    """
    @dev Takes `amount`, or what is left, of the operator's lock in the job to the job's pot, and the seat if it still
         holds it.
    @return What was taken of the lock.
    """
    turn: words.Turn = self._turn(job)
    holding: words.Holding = self._holding(job, seat)
    standing: words.Standing = self._standing(job, operator)
    slashed: uint256 = min(standing.locked, amount)
    standing.locked -= slashed
    if holding.operator == operator:
        holding.operator = 0
        holding.pot_price = 0
        self._set_holding(job, seat, holding)
        standing.held -= 1
        standing.left_turn = turn.turn
        if stage.state == numbers.RUNNING and turn.opened_at != 0:
            standing.left_turn += 1
        log SeatVacated(job=job, operator=operator, seat=seat, turn=turn.turn, slashed=slashed)
    self._set_standing(job, operator, standing)
    self.pots[job] += slashed
    extcall INodeRegistry(registry).slash(operator, self._token(job), slashed, convicted)
    return slashed


@internal
@view
def _lock_of(job: uint256, seat: uint256, count: uint256) -> uint256:
    chair: words.Chair = self._chair(job)
    if seat == AGGREGATION:
        return chair.aggregator_lock
    return chair.lock * count


@internal
def _convict(job: uint256, claim: ISettlement.Claim, challengers: DynArray[address, MAX_CHALLENGERS]):
    """
    @dev The claim is never paid, its operator loses seat and lock, and what rested on it is done again.
    """
    stage: words.Stage = self._stage(job)
    self._mark(job, claim, self._hash(claim) | CONVICTED)
    count: uint256 = claim.scope & bits.U16
    is_aggregation: bool = claim.seat == AGGREGATION
    slashed: uint256 = self._unseat(
        job, claim.seat, stage, self._lock_of(job, claim.seat, count), claim.operator, True
    )
    turn: words.Turn = self._turn(job)
    is_based_on: bool = False
    if claim.turn == turn.turn:
        # The seat is missing again. Whoever holds it by now has its whole time; so has the aggregator.
        turn.missing |= 1 << claim.seat
        turn.committed -= count
        self._set_turn(job, turn)
        tenure: words.Tenure = self._tenure(job, claim.seat)
        tenure.since = self._since(turn)
        self._set_tenure(job, claim.seat, tenure)
    else:
        lanes: uint256 = self.lanes[job]
        # A turn that was rolled back already has nothing that rests on it; neither has the last one of a job that was
        # abandoned, and such a job stays ended.
        is_based_on = (
            words._lane(lanes, claim.turn, stage.depth) & words.LANE_DEAD == 0
            and claim.round < turn.round
            and (stage.state == numbers.RUNNING or turn.round == stage.rounds)
        )
        self.lanes[job] = lanes - (1 << words.LANE_BITS * (claim.turn % stage.depth))
    self._extend(job, stage)

    can_roll_back: bool = is_aggregation or stage.policy & numbers.ROLL_BACK != 0
    cost: uint256 = 0
    most: uint256 = 0
    if can_roll_back:
        round_price: uint256 = self._schedule(job).round_price
        most = stage.depth * round_price
        if is_based_on:
            # INVARIANT depth: at most `depth` turns rest on a claim that is not final, so `cost <= most`.
            cost = (turn.round - claim.round + convert(turn.opened_at != 0, uint256)) * round_price
    restored: uint256 = self._divide(job, claim, slashed, cost, most, challengers)
    if cost > 0 and restored == cost:
        self._roll_back(job, stage, claim.turn, claim.round)
    elif cost > 0 and stage.state == numbers.RUNNING:
        # What is left of the lock cannot pay for doing it again: the job ends, its escrow returns to the submitter.
        self._close(job, turn.round, self._start_root(job, turn.turn), 0)
        self._end(job)
    else:
        self._go_on(job)


@internal
def _roll_back(job: uint256, stage: words.Stage, turn: uint256, round: uint256):
    """
    @dev The round of a turn is done again, from the state it started from. What was committed since stays payable.
    """
    self._close(job, round, self._start_root(job, turn), 0)
    newest: uint256 = self._turn(job).turn
    lanes: uint256 = self.lanes[job]
    for after: uint256 in range(16):
        if turn + after == newest:
            break
        lanes |= words.LANE_DEAD << words.LANE_BITS * ((turn + after) % stage.depth)
    self.lanes[job] = lanes
    log RolledBack(job=job, turn=newest, round=round)
    if stage.state == numbers.ENDED:
        self._advance(job, numbers.RUNNING)
    self._go_on(job)


@internal
def _divide(
    job: uint256,
    claim: ISettlement.Claim,
    slashed: uint256,
    cost: uint256,
    most: uint256,
    challengers: DynArray[address, MAX_CHALLENGERS],
) -> uint256:
    """
    @dev What a conviction took: `cost` restores escrow; up to `most` is kept in the job's pot for what else the operator's
         lies may cost; of the rest challengers and audits have their parts, and the last of it is burned.
    @return What of `cost` was restored.
    """
    # INVARIANT slashes: slashed + reserve before == restored + reserve after + to challengers + to audits + burned.
    reserve: uint256 = self.reserves[job]
    from_slash: uint256 = min(slashed, cost)
    from_reserve: uint256 = min(reserve, cost - from_slash)
    restored: uint256 = from_slash + from_reserve
    kept: uint256 = min(slashed, most) - from_slash
    self.reserves[job] = reserve - from_reserve + kept
    rest: uint256 = slashed - from_slash - kept
    share: uint256 = 0
    if len(challengers) > 0:
        share = rest * numbers.CHALLENGERS_BPS // numbers.BPS // len(challengers)
    to_audits: uint256 = rest * numbers.AUDITS_BPS // numbers.BPS
    to_challengers: uint256 = share * len(challengers)
    paid_out: uint256 = restored + to_challengers + to_audits
    self.pots[job] -= paid_out
    log ClaimConvicted(
        job=job,
        operator=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        slashed=slashed,
        restored=restored,
        to_challengers=to_challengers,
        to_audits=to_audits,
    )
    # Some tokens refuse a transfer of nothing.
    if paid_out > 0:
        extcall INodeRegistry(registry).pay_out(self._token(job), paid_out)
        extcall ITaskRegistry(tasks).restore(job, restored, self.audit_pool, to_audits, challengers, share)
    self._burn(job, rest - to_challengers - to_audits)
    return restored


@internal
def _pay(job: uint256, order: uint256, batch: Batch):
    if batch.operator == 0:
        return
    owner: address = empty(address)
    if batch.is_aggregation:
        owner = staticcall INodeRegistry(registry).owner_of(batch.operator)
    else:
        owner = extcall INodeRegistry(registry).reward_outcome(batch.operator, batch.count)
    fee: uint256 = extcall ITaskRegistry(tasks).pay(job, owner, batch.amount)
    token: address = convert(order >> 96, address)
    if batch.from_pot > 0:
        extcall INodeRegistry(registry).credit(batch.operator, token, batch.from_pot)
    if token == zen and not batch.is_aggregation:
        multiplier: uint256 = staticcall INodeRegistry(registry).multiplier_of(batch.operator)
        extcall IRewards(rewards).record(
            job, batch.operator, (order & bits.U96) * batch.count * multiplier // 100, fee
        )
