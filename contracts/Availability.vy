# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Availability
@license Apache-2.0
@notice Makes whoever answers for a claim's data publish it: anybody may demand one chunk of it on chain, prepaying the answer. In a job
        without custodians that is the claim's author, which loses the claim if nobody shows the bytes in time; in a job with
        custodians one of them that signed that it holds the data, which loses its reserve.
@dev docs/design/decisions/0010-availability-is-asked-for.md and 0037-data-is-demanded-of-signers.md. A job in which everybody serves
     what it commits, or signed for, never calls this contract. Demands of those who have a clock to keep hold that clock; demands of
     others hold nothing, so strangers delay nobody.
"""


from .interfaces import ICustody
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .interfaces import ITaskViews
from .modules import bits
from .modules import claims
from .modules import merkle
from .modules import numbers
from .modules import protocol_time


# Gas that an answer's transaction is taken to cost: measured below it, see docs/protocol/.
ANSWER_GAS: constant(uint256) = 300_000
# A deposit pays the answer at twice the base fee of the demand, as the answer may come an hour later.
FEE_MULTIPLE: constant(uint256) = 2
# A chain's base fee counts as at least this, so that no demand is free.
LEAST_BASE_FEE: constant(uint256) = 10**9
# Lanes: 0..143 belong to the seats' holders, from 128 on to aggregators; then the submitter's, and one for everybody else.
SUBMITTER_LANE: constant(uint256) = claims.AGGREGATION + numbers.MAX_AGGREGATORS
STRANGERS_LANE: constant(uint256) = SUBMITTER_LANE + 1
# Demands that a lane may make of one claim.
LANE_DEMANDS: constant(uint256) = 4
# Demands of one signer that may be open in a job and lane at once, of whatever claims: it answers each within answer_s.
SIGNER_DEMANDS: constant(uint256) = 2
# So many answer windows lie between a demand and its claim's deadline: one to answer in, one to end the demand in.
WINDOWS_BEFORE_DEADLINE: constant(uint256) = 2
# The part of an answer's time, from the demand on, in which the deposit is for whom the data is demanded of, whoever answers.
FIRST_PART: constant(uint256) = 2
# The part of a custodian's reserve that is forfeit for what it did not show and somebody else did.
HELPED_PART: constant(uint256) = 4

registry: public(immutable(address))
tasks: public(immutable(address))
settlement: public(immutable(address))
# Seconds within which a demand is answered.
answer_s: public(immutable(uint256))


struct Demand:
    demander: address
    deposit: uint256
    asked: uint256
    opened_at: uint256
    slot: uint256
    tensor: uint256
    group: uint256
    turn: uint256
    holds: bool
    # Of whom it is demanded, in a job with custodians; else 0: of the claim's author.
    signer: uint256


# What leads from a chunk to a claim's root. Of an aggregation the first three are empty; of a tensor that is not there, `head`.
struct Opening:
    segment_root: bytes32
    end_root: bytes32
    result_path: DynArray[bytes32, merkle.MAX_DEPTH]
    name: Bytes[merkle.MAX_NAME]
    head: Bytes[merkle.MAX_HEAD]
    state_path: DynArray[bytes32, merkle.MAX_DEPTH]
    chunk: Bytes[merkle.GROUP_BYTES]
    tensor_path: DynArray[bytes32, merkle.MAX_DEPTH]


# How long a job's clocks stand still: demands that hold them, since when, and when the last of these must have been answered.
struct Holding:
    open: uint256
    since: uint256
    until: uint256


# What a seat's demands used of its right to hold the clocks in a turn.
struct Spent:
    turn: uint256
    seconds: uint256


# job -> claim_hash -> lane -> demander (160) | deposit (96); zero when no demand is open
bonds: HashMap[uint256, HashMap[bytes32, HashMap[uint256, uint256]]]
# job -> claim_hash -> lane -> asked (8) | opened_at (40) | slot (16) | tensor (32) | group (40) | turn (40) | signer (72) | holds (8)
questions: HashMap[uint256, HashMap[bytes32, HashMap[uint256, uint256]]]
# job -> lane -> signer -> its open demands
signer_demands: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]])
# job -> open (64) | since (40) | until (40)
holding_words: HashMap[uint256, uint256]
# job -> seat -> turn (40) | seconds (40)
spent_words: HashMap[uint256, HashMap[uint256, uint256]]
# account -> what of the chain's coin it may withdraw
owed: public(HashMap[address, uint256])


event ChunkDemanded:
    job: indexed(uint256)
    # Of whom it is demanded.
    operator: indexed(uint256)
    author: uint256
    turn: uint256
    seat: uint256
    lane: uint256
    demander: address
    slot: uint256
    tensor: uint256
    group: uint256
    deposit: uint256
    holds: bool


event DemandAnswered:
    job: indexed(uint256)
    # Of whom it is demanded.
    operator: indexed(uint256)
    author: uint256
    turn: uint256
    seat: uint256
    lane: uint256


# Somebody else showed what was demanded of a custodian; the demand is open until its time is over, or the custodian answers.
event DemandHelped:
    job: indexed(uint256)
    # Of whom it is demanded.
    operator: indexed(uint256)
    author: uint256
    turn: uint256
    seat: uint256
    lane: uint256


event DemandUnanswered:
    job: indexed(uint256)
    # Of whom it is demanded.
    operator: indexed(uint256)
    author: uint256
    turn: uint256
    seat: uint256
    lane: uint256
    # Whether that cost the claim; or a custodian its reserve, or a part of it.
    convicted: bool
    forfeited: bool


event ClocksHeld:
    job: indexed(uint256)


event ClocksResumed:
    job: indexed(uint256)
    seconds: uint256


event DepositWithdrawn:
    account: indexed(address)
    amount: uint256


@deploy
def __init__(registry_: address, tasks_: address, settlement_: address, answer_s_: uint256):
    """
    @param registry_ Knows the operators' keys.
    @param tasks_ Knows the jobs' submitters.
    @param settlement_ Keeps the claims and the clocks.
    @param answer_s_ Seconds within which a demand is answered.
    """
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    answer_s = answer_s_


@external
@payable
def demand(
    job: uint256, claim: ISettlementViews.Claim, lane: uint256, slot: uint256, tensor: uint256, group: uint256
):
    """
    @notice Demands one chunk of a pending claim's data of its author, prepaying the answer. In a job without custodians.
    @param lane The demander's seat, from 128 on of an aggregator; 144 of the submitter, 145 of anybody else.
    @param slot Whose update, for a claim of slots; 0 for an aggregation.
    @param tensor Which tensor of the state, in ascending order of names; taken modulo the width of the state's tree.
    @param group Which eight leaves of it; taken modulo the width of the tensor's tree of groups.
    """
    run: ISettlementViews.Run = staticcall ISettlementViews(settlement).runs(job)
    assert run.policy >> numbers.CUSTODIANS_AT == 0, "availability: signers answer"
    self._open(job, claim, run, 0, lane, slot, tensor, group)


@external
@payable
def demand_of_signer(
    job: uint256,
    claim: ISettlementViews.Claim,
    lane: uint256,
    slot: uint256,
    tensor: uint256,
    group: uint256,
    index: uint256,
    committee: DynArray[ICustody.Member, numbers.MAX_CUSTODIANS],
):
    """
    @notice Demands one chunk of a closed turn's claim of one custodian that signed that it holds the claim's data.
    @param index Its place in the committee.
    @param committee Of the turn's record in Custody.
    """
    run: ISettlementViews.Run = staticcall ISettlementViews(settlement).runs(job)
    # Custodians say what of an open turn can be had.
    assert claim.turn < run.turn, "availability: turn is open"
    custody: address = staticcall ISettlementViews(settlement).custody()
    signer: uint256 = staticcall ICustody(custody).signer_of(job, claim.turn, claim.seat, committee, index)
    # It answers for nothing any more: demand of another one.
    assert (staticcall ICustody(custody).roles(job, signer)).reserve > 0, "availability: nothing reserved"
    self._open(job, claim, run, signer, lane, slot, tensor, group)


@external
def answer(job: uint256, claim: ISettlementViews.Claim, lane: uint256, opening: Opening):
    """
    @notice Shows the bytes that a demand asked for. Anybody may. In the first half of the time the deposit becomes the owner's of whom
            the data is demanded; then it is the sender's, so that somebody answers for one that is offline.
    @dev In the second half whoever answers for a custodian helps: the bytes are there, and the clocks run. The demand stays open, so
         the custodian may still answer, and loses a part of its reserve if it does not. Nobody convicts it by answering.
    """
    claim_hash: bytes32 = claims._hash(claim)
    question: Demand = self._demand(job, claim_hash, lane)
    assert question.demander != empty(address), "availability: no demand"
    now: uint256 = protocol_time._now(registry)
    assert now <= question.opened_at + answer_s, "availability: answer too late"
    assert self._is_shown(claim, question, opening), "availability: bytes do not match"
    operator: uint256 = self._asked(claim, question)
    payee: address = msg.sender
    helps: bool = False
    if now <= question.opened_at + answer_s // FIRST_PART:
        payee = staticcall INodeRegistry(registry).owner_of(operator)
    elif question.signer != 0:
        helps = staticcall INodeRegistry(registry).hot_key(operator) != msg.sender
    self.owed[payee] += question.deposit
    if helps:
        # INVARIANT help: whoever shows what is demanded of a custodian ends nothing for it.
        assert question.deposit > 0, "availability: already shown"
        self.bonds[job][claim_hash][lane] = self._pack_bond(question.demander, 0)
        helped: Demand = question
        helped.holds = False
        self.questions[job][claim_hash][lane] = self._pack_question(helped)
        log DemandHelped(
            job=job, operator=operator, author=claim.operator, turn=claim.turn, seat=claim.seat, lane=lane
        )
    else:
        self._end(job, claim_hash, lane, question)
        log DemandAnswered(
            job=job, operator=operator, author=claim.operator, turn=claim.turn, seat=claim.seat, lane=lane
        )
    self._release(job, lane, question)


@external
def close(job: uint256, claim: ISettlementViews.Claim, lane: uint256):
    """
    @notice Ends a demand that was not answered in time, and gives the deposit back unless somebody helped. The claim is void; or the
            custodian's reserve is forfeit, a part of it where somebody helped: the claim stays, as somebody else who signed for it is
            honest.
    """
    claim_hash: bytes32 = claims._hash(claim)
    question: Demand = self._demand(job, claim_hash, lane)
    assert question.demander != empty(address), "availability: no demand"
    assert protocol_time._now(registry) > question.opened_at + answer_s, "availability: window open"
    self._end(job, claim_hash, lane, question)
    self.owed[question.demander] += question.deposit
    self._release(job, lane, question)
    convicted: bool = False
    forfeited: bool = False
    if question.signer != 0:
        custody: address = staticcall ISettlementViews(settlement).custody()
        kept: uint256 = 0
        if question.deposit == 0:
            # INVARIANT outages: nothing is lost, so nobody loses more of a job's reserve, however many demands end.
            reserve: uint256 = (staticcall ICustody(custody).requests(job)).reserve
            kept = reserve * (HELPED_PART - 1) // HELPED_PART
        forfeited = extcall ICustody(custody).forfeit(job, question.signer, kept)
    elif claims._is_pending(settlement, job, claim):
        # Else it was convicted already, or paid because nobody ended the demand in time.
        convicted = True
        extcall ISettlementViews(settlement).void(job, claim)
    log DemandUnanswered(
        job=job,
        operator=self._asked(claim, question),
        author=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        lane=lane,
        convicted=convicted,
        forfeited=forfeited,
    )


@external
def withdraw(account: address) -> uint256:
    """
    @notice Sends an account what it is owed of the chain's coin.
    """
    amount: uint256 = self.owed[account]
    assert amount > 0, "availability: nothing owed"
    self.owed[account] = 0
    log DepositWithdrawn(account=account, amount=amount)
    assert raw_call(account, b"", value=amount, revert_on_failure=False), "availability: transfer failed"
    return amount


@external
@view
def least_deposit() -> uint256:
    """
    @notice What a demand in this block must bring.
    """
    return self._least_deposit()


@external
@view
def demands(job: uint256, claim_hash: bytes32, lane: uint256) -> Demand:
    """
    @notice A lane's open demand of a claim, without a deposit once somebody helped; without one, `demander` is zero and the rest is
            of its last one.
    @param claim_hash keccak256 of the claim's ABI encoding.
    """
    return self._demand(job, claim_hash, lane)


@external
@view
def holdings(job: uint256) -> Holding:
    """
    @notice How long a job's clocks stand still.
    """
    return self._holding(job)


@external
@view
def held(job: uint256, seat: uint256) -> Spent:
    """
    @notice What a seat's ended demands used of its right to hold the clocks, in the last turn it used any.
    """
    return self._spent(job, seat)


@internal
@payable
def _open(
    job: uint256,
    claim: ISettlementViews.Claim,
    run: ISettlementViews.Run,
    signer: uint256,
    lane: uint256,
    slot: uint256,
    tensor: uint256,
    group: uint256,
):
    """
    @param signer Of whom it is demanded; 0: of the author.
    """
    assert claims._is_pending(settlement, job, claim), "availability: unknown claim"
    assert self._is_holder(job, claim, signer, lane), "availability: not the lane's holder"
    assert self._has_slot(claim, slot) and tensor <= bits.U32 and group <= bits.U40, "availability: nothing there"
    # INVARIANT answers: a demand can be answered, and ended, before its claim is final, and a reserve released.
    assert (
        protocol_time._now(registry) + WINDOWS_BEFORE_DEADLINE * answer_s
        <= staticcall ISettlementViews(settlement).claim_deadline(job, claim.turn)
    ), "availability: too late"
    claim_hash: bytes32 = claims._hash(claim)
    assert self.bonds[job][claim_hash][lane] == 0, "availability: demand open"
    asked: uint256 = self.questions[job][claim_hash][lane] >> 248
    assert asked < LANE_DEMANDS, "availability: demands spent"
    if signer != 0:
        # INVARIANT loads: nobody asks a signer at once for more than it can show in time, however many claims it signed for.
        assert self.signer_demands[job][lane][signer] < SIGNER_DEMANDS, "availability: signer is busy"
        self.signer_demands[job][lane][signer] += 1
    assert msg.value >= self._least_deposit(), "availability: deposit too small"
    # Who has a clock to keep in the open turn, and did not hold it for an answer's time already, holds it now.
    spent: Spent = self._spent(job, lane)
    holds: bool = (
        run.state == numbers.RUNNING
        and lane < SUBMITTER_LANE
        and (spent.turn != run.turn or spent.seconds < answer_s)
    )
    self.bonds[job][claim_hash][lane] = self._pack_bond(msg.sender, msg.value)
    question: Demand = Demand(
        demander=msg.sender,
        deposit=msg.value,
        asked=asked + 1,
        opened_at=protocol_time._now(registry),
        slot=slot,
        tensor=tensor,
        group=group,
        turn=run.turn,
        holds=holds,
        signer=signer,
    )
    self.questions[job][claim_hash][lane] = self._pack_question(question)
    log ChunkDemanded(
        job=job,
        operator=self._asked(claim, question),
        author=claim.operator,
        turn=claim.turn,
        seat=claim.seat,
        lane=lane,
        demander=msg.sender,
        slot=slot,
        tensor=tensor,
        group=group,
        deposit=msg.value,
        holds=holds,
    )
    if holds:
        self._hold(job)


@internal
def _end(job: uint256, claim_hash: bytes32, lane: uint256, question: Demand):
    self.bonds[job][claim_hash][lane] = 0
    if question.signer != 0:
        self.signer_demands[job][lane][question.signer] -= 1


@internal
@pure
def _asked(claim: ISettlementViews.Claim, question: Demand) -> uint256:
    """
    @return The operator of which the data is demanded.
    """
    if question.signer != 0:
        return question.signer
    return claim.operator


@internal
@view
def _is_holder(job: uint256, claim: ISettlementViews.Claim, signer: uint256, lane: uint256) -> bool:
    """
    @notice Whether a lane is the sender's. Nobody demands its own data, or of itself, from a seat: it would only hold its own clocks.
    """
    if lane == STRANGERS_LANE:
        return True
    if lane == SUBMITTER_LANE:
        return (staticcall ITaskViews(tasks).jobs(job)).submitter == msg.sender
    # No higher number is a seat's.
    operator: uint256 = (staticcall ISettlementViews(settlement).seats(job, lane)).operator
    if operator == 0 or operator == claim.operator or operator == signer:
        return False
    return staticcall INodeRegistry(registry).hot_key(operator) == msg.sender


@internal
@pure
def _has_slot(claim: ISettlementViews.Claim, slot: uint256) -> bool:
    if claim.seat >= claims.AGGREGATION:
        return slot == 0
    return claims._holds_slot(claim, slot)


@internal
@view
def _least_deposit() -> uint256:
    return FEE_MULTIPLE * ANSWER_GAS * max(block.basefee, LEAST_BASE_FEE)


@internal
@pure
def _is_shown(claim: ISettlementViews.Claim, question: Demand, opening: Opening) -> bool:
    """
    @notice Whether an opening leads to the claim's root, from the place that was asked for.
    @dev Indices in a state are taken modulo the width of the tree, which the paths prove: every demand of a true root has one
         answer.
    """
    leaf: bytes32 = empty(bytes32)
    if len(opening.head) > 0:
        elements: bytes32 = merkle._climb(
            merkle._group_root(opening.chunk, len(opening.tensor_path) > 0), question.group, opening.tensor_path
        )
        leaf = merkle._state_leaf(opening.name, merkle._tensor_root(opening.head, elements))
    state_root: bytes32 = merkle._climb(leaf, question.tensor, opening.state_path)
    if claim.seat >= claims.AGGREGATION:
        return state_root == claim.root
    result: bytes32 = merkle._result_root(
        question.slot, claim.start_root, opening.segment_root, opening.end_root, state_root
    )
    return claims._has_result(claim.root, claim.scope, question.slot, result, opening.result_path)


@internal
def _hold(job: uint256):
    """
    @notice Settlement's clocks stand still from the first demand that holds them to the end of the last.
    """
    holding: Holding = self._holding(job)
    first: bool = holding.open == 0
    if first:
        holding.since = protocol_time._now(registry)
    holding.open += 1
    # Time does not run backwards: the newest demand ends last.
    holding.until = protocol_time._now(registry) + answer_s
    self.holding_words[job] = self._pack_holding(holding)
    if first:
        log ClocksHeld(job=job)
        extcall ISettlementViews(settlement).hold(job)


@internal
def _release(job: uint256, lane: uint256, question: Demand):
    if not question.holds:
        return
    # A demand that nobody ended when its time was over counts up to there.
    seconds: uint256 = min(protocol_time._now(registry) - question.opened_at, answer_s)
    spent: Spent = self._spent(job, lane)
    if spent.turn == question.turn:
        seconds += spent.seconds
    # INVARIANT holds: a seat's demands hold the clocks of a turn for less than two answer windows.
    if spent.turn <= question.turn:
        self.spent_words[job][lane] = question.turn << 40 | seconds
    holding: Holding = self._holding(job)
    holding.open -= 1
    if holding.open > 0:
        self.holding_words[job] = self._pack_holding(holding)
        return
    self.holding_words[job] = 0
    # A turn that opened meanwhile has its own clock, which ran from then.
    opened_at: uint256 = (staticcall ISettlementViews(settlement).runs(job)).opened_at
    start: uint256 = max(holding.since, opened_at)
    end: uint256 = min(holding.until, protocol_time._now(registry))
    moved: uint256 = 0
    if end > start:
        moved = end - start
    log ClocksResumed(job=job, seconds=moved)
    extcall ISettlementViews(settlement).resume(job, moved)


@internal
@view
def _demand(job: uint256, claim_hash: bytes32, lane: uint256) -> Demand:
    bond: uint256 = self.bonds[job][claim_hash][lane]
    word: uint256 = self.questions[job][claim_hash][lane]
    return Demand(
        demander=convert(bond >> 96, address),
        deposit=bond & bits.U96,
        asked=word >> 248,
        opened_at=word >> 208 & bits.U40,
        slot=word >> 192 & bits.U16,
        tensor=word >> 160 & bits.U32,
        group=word >> 120 & bits.U40,
        turn=word >> 80 & bits.U40,
        holds=word & 1 == 1,
        signer=word >> 8 & bits.U64,
    )


@internal
@pure
def _pack_question(question: Demand) -> uint256:
    # `asked` is at most 4; `slot` lies in a 16-bit run, `tensor` and `group` were checked; a turn fits the claim's lane, and an operator
    # a committee's word.
    return (
        question.asked << 248
        | convert(convert(question.opened_at, uint40), uint256) << 208
        | question.slot << 192
        | question.tensor << 160
        | question.group << 120
        | convert(convert(question.turn, uint40), uint256) << 80
        | convert(convert(question.signer, uint64), uint256) << 8
        | convert(question.holds, uint256)
    )


@internal
@pure
def _pack_bond(demander: address, deposit: uint256) -> uint256:
    return convert(demander, uint256) << 96 | convert(convert(deposit, uint96), uint256)


@internal
@view
def _holding(job: uint256) -> Holding:
    word: uint256 = self.holding_words[job]
    return Holding(open=word >> 80, since=word >> 40 & bits.U40, until=word & bits.U40)


@internal
@pure
def _pack_holding(holding: Holding) -> uint256:
    return holding.open << 80 | holding.since << 40 | convert(convert(holding.until, uint40), uint256)


@internal
@view
def _spent(job: uint256, lane: uint256) -> Spent:
    word: uint256 = self.spent_words[job][lane]
    return Spent(turn=word >> 40, seconds=word & bits.U40)
