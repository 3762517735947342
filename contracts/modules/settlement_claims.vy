# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Claims in Settlement
@license Apache-2.0
@notice What a seat commits and an aggregator posts in a turn, how it is recorded, and how it is paid once its window is over.
"""


from ..interfaces import INodeRegistry
from ..interfaces import IRewards
from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry
from . import bits
from . import claims as claim_hashes
from . import merkle
from . import numbers
from . import settlement_shares as shares
from . import settlement_state as state
from . import settlement_turns as turns
from . import settlement_words as words


uses: state
uses: shares
uses: turns


BATCH: constant(uint256) = 64
# A claim's word: its hash without the lowest 16 bits | whether somebody asked about it (8) | status (8). Of one that `finalise` paid
# it still says pending: its turn's record does not.
DISPUTED: constant(uint256) = 1 << 8
PENDING: constant(uint256) = 1
PAID: constant(uint256) = 2
CONVICTED: constant(uint256) = 3
# Unpaid and unslashed.
VOID: constant(uint256) = 4
# In the ring, of a claim whose dispute outlasts its window, but holds nothing up any more: `parked` has its status.
PARKED: constant(uint256) = 5
# In place of the word of a parked claim that is pending.
IS_PARKED: constant(uint256) = DISPUTED | PENDING


# Consecutive claims of one operator, paid together. `count`: of slots, or of aggregations.
struct Batch:
    operator: uint256
    is_aggregation: bool
    void_before: uint256
    count: uint256
    amount: uint256


event ResultsCommitted:
    job: indexed(uint256)
    operator: indexed(uint256)
    claim: ISettlementViews.Claim
    bundle: bytes32


event CheckpointPosted:
    job: indexed(uint256)
    operator: indexed(uint256)
    claim: ISettlementViews.Claim
    cid: bytes32


event SeatsAbsent:
    job: indexed(uint256)
    turn: uint256
    # Too few custodians hold what they committed: their claims are unpaid and unslashed.
    seats: uint256


event ClaimFinalised:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256
    # With the treasury's fee, which is rounded over what is paid together.
    paid: uint256


event ClaimParked:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256


event ClaimVoided:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    seat: uint256


@external
def commit(job: uint256, seat: uint256, turn: uint256, root: bytes32, bundle: bytes32):
    """
    @notice Commits the results of a seat in a turn: a claim that can be challenged for the job's window.
    @param root Round root of the results.
    @param bundle Digest of the CID of the file that lists them.
    """
    stage: words.Stage = state._running(job)
    newest: words.Turn = turns._open_turn(job, turn)
    turns._check_inputs(turns._are_closed(job, stage, newest))
    holding: words.Holding = state._holding(job, seat)
    state._check_hot(holding.operator)
    # INVARIANT claims: a seat commits at most once a turn, so its slots are claimed and paid at most once.
    turns._check_missing(newest, seat)
    # A missing seat has a number below 128, and a seat its slots: nothing below can wrap.
    newest.missing = newest.missing ^ (1 << seat)
    newest.committed = unsafe_add(newest.committed, holding.count)
    state._set_turn(job, newest)
    scope: uint256 = holding.first << 16 | holding.count
    start_root: bytes32 = turns._slots_root(job, stage, newest)
    claim: ISettlementViews.Claim = self._claim(
        job, stage.depth, newest, seat, holding.operator, scope, holding.count * holding.price, start_root, root
    )
    log ResultsCommitted(job=job, operator=holding.operator, claim=claim, bundle=bundle)


@external
def post_checkpoint(
    job: uint256, seat: uint256, turn: uint256, mask: uint256, root: bytes32, cid: bytes32
) -> bool:
    """
    @notice What an aggregator combined of what was committed. The last one of them closes the turn, and opens the next one or ends
            the job. Where there are custodians, Custody calls for the aggregator.
    @param mask The seats that committed.
    @param root State root of its share of the new checkpoint: of all where there is one aggregator.
    @param cid Digest of the CID of its pointer.
    @return Whether there are several aggregators.
    """
    stage: words.Stage = state._running(job)
    newest: words.Turn = turns._open_turn(job, turn)
    holding: words.Holding = state._holding(job, seat)
    if state._has_custodians(stage.policy):
        state._check_sender(state.custody)
    else:
        state._check_hot(holding.operator)
    turns._check_complete(job, stage, newest)
    if mask != turns._present(job, newest):
        state._refuse("settlement: mask differs")
    if newest.committed < stage.quorum:
        state._refuse("settlement: quorum not reached")
    # INVARIANT claims: an aggregator posts once a turn. What has its key has its seat, or one of slots: that is no aggregator's.
    if shares._has_posted(job, seat):
        state._refuse("settlement: already committed")
    share: uint256 = seat - state.AGGREGATION
    state.aggregator_state[job] += 1 << words.POSTED_AT + share
    start_root: bytes32 = state._start_root(job, stage.depth, turn)
    claim: ISettlementViews.Claim = self._claim(
        job, stage.depth, newest, seat, holding.operator, mask, holding.price, start_root, root
    )
    log CheckpointPosted(job=job, operator=holding.operator, claim=claim, cid=cid)
    new_root: bytes32 = root
    if stage.aggregators > 1:
        shares.share_roots[job][share] = root
        if state.aggregator_state[job] >> words.POSTED_AT != bits._full(stage.aggregators):
            return True
        # Each root is the right sibling of all before it.
        new_root = shares.share_roots[job][0]
        for i: uint256 in range(1, stage.aggregators, bound=numbers.MAX_AGGREGATORS):
            new_root = merkle._parent(new_root, shares.share_roots[job][i])
    waiting: words.Turn = turns._close(job, stage, newest, newest.round + 1, new_root)
    if waiting.round == stage.rounds:
        turns._end(job)
    else:
        turns._open(job, stage, waiting)
    return stage.aggregators > 1


@external
def leave_out(job: uint256, turn: uint256, mask: uint256):
    """
    @notice Seats that committed in the open turn, and whose inputs too few custodians hold, are missing again; their claims are
            absent: unpaid, unslashed.
    @param mask The seats whose inputs a majority holds.
    """
    state._check_sender(state.custody)
    newest: words.Turn = turns._open_turn(job, turn)
    absent: uint256 = turns._present(job, newest) & ~mask
    place: uint256 = state._place(state._depth(job), turn)
    for seat: uint256 in range(state.MAX_SEATS):
        if absent >> seat & 1 == 1:
            # Nobody asks about a claim of the open turn where there are custodians: it is pending.
            state.claim_words[job][seat][place] += claim_hashes.ABSENT - PENDING
            newest.committed -= state._holding(job, seat).count
    newest.missing |= absent
    state._set_turn(job, newest)
    log SeatsAbsent(job=job, turn=turn, seats=absent)


@external
def finalise(job: uint256, claims: DynArray[ISettlementViews.Claim, BATCH]):
    """
    @notice Ends what waits for claims whose windows are over: each is paid, once, consecutive ones of one operator together; or
            void, where its operator was convicted since; or, in dispute, parked, if its conviction undoes nothing.
    """
    if len(claims) == 0:
        state._refuse("settlement: no claims")
    stage: words.Stage = state._stage(job)
    # A job that never began has none, and no claims either.
    depth: uint256 = max(stage.depth, 1)
    newest: uint256 = state._newest(job)
    now: uint256 = state._now()
    batch: Batch = empty(Batch)
    settled: uint256 = 0
    for claim: ISettlementViews.Claim in claims:
        # As `_known`, `_claim_deadline` and `_settle` have it, with each word read once.
        claim_hash: uint256 = self._hash(claim)
        place: uint256 = claim.turn % unsafe_add(depth, 1)
        word: uint256 = state.claim_words[job][claim.seat][place]
        record_place: uint256 = claim.turn % depth
        record: uint256 = state.closed_turns[job][record_place]
        # What wraps is of a claim that was never made, and is refused.
        pending: uint256 = 1 << unsafe_add(words.PENDING_AT, claim.seat)
        # INVARIANT claims: paid once. Of turns before the last `depth` closed ones nothing is pending.
        if word & ~DISPUTED != claim_hash | PENDING or (
            claim.turn < newest
            and (unsafe_add(claim.turn, depth) < newest or record & pending == 0)
        ):
            word = self._known(job, claim)
        # INVARIANT depth: a claim keeps its place in the ring where rounds rest on it, or where it is judged with others' places.
        is_disputed: bool = word & DISPUTED != 0
        if is_disputed and (
            word == IS_PARKED
            or claim.seat >= state.AGGREGATION
            or stage.policy & (numbers.ROLL_BACK | numbers.CARRIES) != 0
        ):
            state._refuse("settlement: in dispute")
        if claim.turn >= newest or now <= unsafe_add(record & bits.U40, stage.window_s):
            state._refuse("settlement: window open")
        if is_disputed:
            self._park(job, claim)
            continue
        if claim.operator != batch.operator or (claim.seat >= state.AGGREGATION) != batch.is_aggregation:
            self._pay(job, batch)
            batch = self._batch(job, claim)
        # INVARIANT void: nothing is paid of what an operator claimed before its conviction.
        is_void: bool = claim.turn < batch.void_before
        record ^= pending
        state.closed_turns[job][record_place] = record
        if record <= bits.U40:
            settled += words.ONE_PENDING_TURN
        if is_void:
            state.claim_words[job][claim.seat][place] = claim_hash | VOID
            log ClaimVoided(job=job, operator=claim.operator, turn=claim.turn, seat=claim.seat)
        else:
            batch.count += self._final(job, claim, claim.price)
            batch.amount += claim.price
    state.aggregator_state[job] -= settled
    self._pay(job, batch)
    turns._go_on(job)


@internal
def _claim(
    job: uint256,
    depth: uint256,
    turn: words.Turn,
    seat: uint256,
    operator: uint256,
    scope: uint256,
    price: uint256,
    start_root: bytes32,
    root: bytes32,
) -> ISettlementViews.Claim:
    """
    @dev Makes and records a claim of the open turn.
    """
    claim: ISettlementViews.Claim = ISettlementViews.Claim(
        turn=turn.turn,
        round=turn.round,
        seat=seat,
        operator=operator,
        scope=scope,
        price=price,
        start_root=start_root,
        root=root,
    )
    self._mark(job, depth, claim, self._hash(claim) | PENDING)
    return claim


@internal
@view
def _batch(job: uint256, claim: ISettlementViews.Claim) -> Batch:
    return Batch(
        operator=claim.operator,
        is_aggregation=claim.seat >= state.AGGREGATION,
        void_before=state._void_before(job, claim.operator),
        count=0,
        amount=0,
    )


@internal
def _final(job: uint256, claim: ISettlementViews.Claim, price: uint256) -> uint256:
    """
    @dev Says that a claim is paid.
    @return How much work it is: slots, or one aggregation.
    """
    log ClaimFinalised(job=job, operator=claim.operator, turn=claim.turn, seat=claim.seat, paid=price)
    return 1 if claim.seat >= state.AGGREGATION else claim.scope & bits.U16


@internal
def _pay_alone(job: uint256, claim: ISettlementViews.Claim, price: uint256):
    """
    @dev As `finalise` does, of one claim in the ring or parked, at its price or less.
    """
    batch: Batch = self._batch(job, claim)
    if claim.turn < batch.void_before:
        self._void(job, claim)
    else:
        self._settle(job, claim, PAID)
        batch.count = self._final(job, claim, price)
        batch.amount = price
        self._pay(job, batch)


@internal
def _void(job: uint256, claim: ISettlementViews.Claim):
    self._settle(job, claim, VOID)
    log ClaimVoided(job=job, operator=claim.operator, turn=claim.turn, seat=claim.seat)


@internal
def _settle(job: uint256, claim: ISettlementViews.Claim, status: uint256):
    """
    @dev A claim of a closed turn is no longer pending.
    """
    if self._word(job, claim) != IS_PARKED:
        self._mark(job, state._depth(job), claim, self._hash(claim) | status)
        state._settle(job, claim.turn, claim.seat)
        return
    state.parked[job][claim_hashes._hash(claim)] = status
    state.parked_money[job] -= claim.price
    state.records[job][claim.operator] -= words.ONE_PARKED


@internal
def _park(job: uint256, claim: ISettlementViews.Claim):
    """
    @dev Turns, payments and the job's end no longer wait for the claim; its operator's `release` does.
    """
    state.parked_deadlines[job][claim.turn] = state._claim_deadline(job, claim.turn)
    self._settle(job, claim, PARKED)
    state.parked[job][claim_hashes._hash(claim)] = PENDING
    state.parked_money[job] += claim.price
    state.records[job][claim.operator] += words.ONE_PARKED
    log ClaimParked(job=job, operator=claim.operator, turn=claim.turn, seat=claim.seat)


@internal
@view
def _known(job: uint256, claim: ISettlementViews.Claim) -> uint256:
    word: uint256 = self._word(job, claim)
    if word == 0:
        state._refuse("settlement: unknown claim")
    return word


@internal
@view
def _word(job: uint256, claim: ISettlementViews.Claim) -> uint256:
    """
    @return The word of a claim that is pending; 0 of any other.
    """
    word: uint256 = state.claim_words[job][claim.seat][state._place(state._depth(job), claim.turn)]
    if word & ~DISPUTED == self._hash(claim) | PENDING and state._is_pending(job, claim.turn, claim.seat):
        return word
    if state.parked[job][claim_hashes._hash(claim)] == PENDING:
        return IS_PARKED
    return 0


@internal
def _mark(job: uint256, depth: uint256, claim: ISettlementViews.Claim, word: uint256):
    state.claim_words[job][claim.seat][state._place(depth, claim.turn)] = word


@internal
@pure
def _hash(claim: ISettlementViews.Claim) -> uint256:
    return convert(claim_hashes._hash(claim), uint256) & ~bits.U16


@internal
@pure
def _fee(amount: uint256) -> uint256:
    # As TaskRegistry has it.
    return amount - amount * (numbers.BPS - numbers.FEE_BPS) // numbers.BPS


@internal
def _pay(job: uint256, batch: Batch):
    if batch.count == 0:
        return
    payment_terms: uint256 = state.payment_terms[job]
    token: address = convert(payment_terms >> 96, address)
    owner: address = extcall INodeRegistry(state.registry).reward_outcome(
        batch.operator, self._fee(batch.amount) if token == state.zen else 0
    )
    fee: uint256 = extcall ITaskRegistry(state.tasks).pay(job, owner, batch.amount)
    if token == state.zen and not batch.is_aggregation:
        multiplier: uint256 = staticcall INodeRegistry(state.registry).multiplier_of(batch.operator)
        extcall IRewards(state.rewards).record(
            job, batch.operator, (payment_terms & bits.U96) * batch.count * multiplier // 100, fee
        )
