# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Custody
@license Apache-2.0
@notice Keeps a record of who holds what a job committed: custodians, drawn by stake, sign for it, are paid for it and answer for
        it with a reserve.
@dev docs/design/decisions/0033-custodians-sign-for-what-they-hold.md. A committee is kept by its hash, a number for each change;
     whoever calls shows it. A turn's record is one word in a ring of `depth + 1` places. Fewer than `t = (C + 1) / 2` hostile
     custodians can record nothing that no honest one signed.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .interfaces import ITaskRegistry
from .interfaces import ITaskViews
from .modules import bits
from .modules import chance
from .modules import claims
from .modules import custody_signatures as signatures
from .modules import custody_words as words
from .modules import numbers
from .modules import protocol_time
from .modules import settlement_words


# A later offer displaces the one with the least stake: bounds the gas of a draw.
MAX_OFFERS: constant(uint256) = 32
NO_OFFER: constant(uint256) = MAX_OFFERS
# Of the reserve, for a turn in which too few signed, of each who did not.
LAPSE_BPS: constant(uint256) = 100
# The price is per GiB and round, and a round takes two signatures.
SIGNED_BYTES: constant(uint256) = 2 * 2**30
MAX_SIZE: constant(uint256) = 2**50
SLOT_TIMES: constant(uint256) = 2
STAKE_UNIT: constant(uint256) = 10**12
OPEN_TURN: constant(uint256) = max_value(uint256)


registry: immutable(address)
tasks: immutable(address)
settlement: immutable(address)
availability: immutable(address)
# Seconds in which a request takes its first offers.
bid_window_s: immutable(uint256)
# Stake counts once it is that old: what left a registration cannot be there again before.
exit_delay_s: immutable(uint256)
answer_s: immutable(uint256)
# Blocks that bury the draw's block before it is read.
draw_blocks: immutable(uint256)


# job -> fee (112) | reserve (104) | closes_at (40)
request_words: HashMap[uint256, uint256]
# job -> vacated_at (40) | started (1) | custodians (8) | depth (8) | version (24) | vacant (9) | offers (8) | draw_block (64) | counted (24)
progress_words: HashMap[uint256, uint256]
# job -> what is left to pay custodians with
escrows: reentrant(public(HashMap[uint256, uint256]))
# job -> place -> operator | weight (64)
offer_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> reserve | index (8) | status (8)
role_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> version -> keccak256 of the committee's ABI encoding
committees: reentrant(public(HashMap[uint256, HashMap[uint256, bytes32]]))
# job -> turn mod (depth + 1) -> mask (128) | signed_at (40) | turn (24) | version (24) | signers of inputs, of the checkpoint, of less (10 each)
record_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> turn mod (depth + 1) -> the message that the signers of the checkpoint posted last there signed: its root and its pointer
checkpoints: reentrant(public(HashMap[uint256, HashMap[uint256, bytes32]]))
# operator -> stake that counts once it is old enough
notes: reentrant(public(HashMap[uint256, words.Note]))
# token -> operator -> what it has here and has not put up
funds: reentrant(public(HashMap[address, HashMap[uint256, uint256]]))
# token -> reserves that were lost, which nothing can spend
burned: reentrant(public(HashMap[address, uint256]))


event CustodyRequested:
    job: indexed(uint256)
    custodians: uint256
    fee: uint256
    reserve: uint256
    closes_at: uint256


event CustodyFunded:
    job: indexed(uint256)
    amount: uint256


event CustodyRefunded:
    job: indexed(uint256)
    amount: uint256


event FundsDeposited:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event FundsWithdrawn:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event StakeNoted:
    operator: indexed(uint256)
    stake: uint256
    since: uint256


event CustodyOffered:
    job: indexed(uint256)
    operator: indexed(uint256)
    weight: uint256


event OfferEnded:
    job: indexed(uint256)
    operator: indexed(uint256)


event CommitteeScheduled:
    job: indexed(uint256)
    block: uint256


event DrawLost:
    job: indexed(uint256)


event CommitteeChanged:
    job: indexed(uint256)
    version: uint256
    committee: DynArray[words.Member, words.MAX_CUSTODIANS]


event StartSigned:
    job: indexed(uint256)
    signers: uint256


event InputsSigned:
    job: indexed(uint256)
    turn: uint256
    mask: uint256
    # Who holds all of the mask; and who signed before a majority did.
    inputs: uint256
    answered: uint256


event CheckpointSigned:
    job: indexed(uint256)
    turn: uint256
    signers: uint256


event CustodiansPaid:
    job: indexed(uint256)
    turns: uint256
    fee: uint256
    signed: uint256


event CustodianLapsed:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    burned: uint256


event CustodianResigned:
    job: indexed(uint256)
    operator: indexed(uint256)


event ReserveForfeited:
    job: indexed(uint256)
    operator: indexed(uint256)
    burned: uint256


event CustodianExpelled:
    job: indexed(uint256)
    operator: indexed(uint256)


event ReserveReleased:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    availability_: address,
    bid_window_s_: uint256,
    exit_delay_s_: uint256,
    answer_s_: uint256,
    draw_blocks_: uint256,
):
    """
    @param registry_ Knows the operators' keys and stake.
    @param tasks_ Knows the jobs' terms.
    @param settlement_ Keeps seats, turns and claims.
    @param availability_ Says which custodian did not show what it signed for.
    @param bid_window_s_ Seconds in which a request takes its first offers.
    @param exit_delay_s_ Seconds after which noted stake counts.
    @param answer_s_ Seconds that signatures have after a turn's inputs closed, and after the first of them; and offers, after a place
           fell vacant.
    @param draw_blocks_ Blocks that bury the draw's block before it is read.
    """
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    availability = availability_
    bid_window_s = bid_window_s_
    exit_delay_s = exit_delay_s_
    answer_s = answer_s_
    draw_blocks = draw_blocks_


# --- money


@external
def request(job: uint256, price: uint256, size: uint256):
    """
    @notice The submitter asks, once, for the custodians that its job's terms say it has.
    @param price Per GiB and round, in the job's token.
    @param size Bytes that a custodian holds of a round.
    """
    record: ITaskViews.Job = self._job(job)
    if record.submitter != msg.sender:
        self._refuse("custody: not the submitter")
    if record.state != numbers.OPEN:
        self._refuse("custody: job not open")
    if self.request_words[job] != 0:
        self._refuse("custody: already requested")
    terms: ITaskRegistry.Schedule = staticcall ITaskRegistry(tasks).schedules(job)
    custodians: uint256 = terms.policy >> numbers.CUSTODIANS_AT
    if custodians == 0:
        self._refuse("custody: no custodians")
    if price > numbers.MAX_PRICE or size > MAX_SIZE or price * size < SIGNED_BYTES:
        self._refuse("custody: price out of range")
    fee: uint256 = price * size // SIGNED_BYTES
    # INVARIANT reserves: any majority's cover what it costs to do again all rounds that may rest on what it lost.
    least: uint256 = self._least(custodians)
    reserve: uint256 = (terms.depth * terms.round_price + least - 1) // least
    closes_at: uint256 = self._now() + bid_window_s
    self.request_words[job] = words._pack_request(
        words.Request(fee=fee, reserve=reserve, closes_at=closes_at)
    )
    self.progress_words[job] = words._pack_progress(
        words.Progress(
            custodians=custodians,
            depth=terms.depth,
            version=0,
            vacant=bits._full(custodians),
            offers=0,
            draw_block=0,
            counted=0,
            started=0,
            vacated_at=0,
        )
    )
    log CustodyRequested(job=job, custodians=custodians, fee=fee, reserve=reserve, closes_at=closes_at)


@external
def fund(job: uint256, amount: uint256):
    """
    @notice Adds to what pays a job's custodians.
    """
    if self.request_words[job] == 0:
        self._refuse("custody: nothing requested")
    if amount == 0:
        self._refuse("custody: zero amount")
    self.escrows[job] += amount
    log CustodyFunded(job=job, amount=amount)
    self._pull(self._job(job).token, amount)


@external
def refund(job: uint256):
    """
    @notice Sends the submitter what is left, once nothing can be earned any more. Anyone may call it.
    """
    if not self._is_over(job):
        self._refuse("custody: job not over")
    amount: uint256 = self.escrows[job]
    if amount == 0:
        self._refuse("custody: nothing left")
    self.escrows[job] = 0
    log CustodyRefunded(job=job, amount=amount)
    record: ITaskViews.Job = self._job(job)
    self._push(record.token, record.submitter, amount)


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds to what an operator can put up for its offers. Anyone may.
    """
    if staticcall INodeRegistry(registry).owner_of(operator) == empty(address):
        self._refuse("custody: unknown operator")
    if amount == 0:
        self._refuse("custody: zero amount")
    self.funds[token][operator] += amount
    log FundsDeposited(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def withdraw(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends the owner of an operator what it earned, or put up for nothing yet.
    """
    if staticcall INodeRegistry(registry).owner_of(operator) != msg.sender:
        self._refuse("custody: not the owner")
    if amount == 0:
        self._refuse("custody: zero amount")
    if amount > self.funds[token][operator]:
        self._refuse("custody: amount exceeds funds")
    self.funds[token][operator] -= amount
    log FundsWithdrawn(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


# --- offers


@external
def note_stake(operator: uint256):
    """
    @notice Notes an operator's stake, which counts from `exit_delay_s` after that. Anyone may note that it fell; that it grew,
            which makes it young again, its hot key alone.
    """
    note: words.Note = self.notes[operator]
    stake: uint256 = staticcall INodeRegistry(registry).stake_of(operator) // STAKE_UNIT
    if stake == note.stake:
        self._refuse("custody: nothing changed")
    if stake > note.stake:
        self._check_hot(operator)
        note.since = self._now()
    note.stake = stake
    self.notes[operator] = note
    log StakeNoted(operator=operator, stake=stake, since=note.since)


@external
def offer(job: uint256, operator: uint256):
    """
    @notice Offers to be a custodian of a job, and puts up the reserve. Where offers are many, the one with the least stake ends.
    """
    if self.request_words[job] == 0:
        self._refuse("custody: nothing requested")
    if not staticcall INodeRegistry(registry).is_eligible(operator, msg.sender):
        self._refuse("custody: not eligible")
    record: ITaskViews.Job = self._job(job)
    if record.state > numbers.RUNNING:
        self._refuse("custody: job is over")
    progress: words.Progress = self._progress(job)
    if progress.draw_block != 0:
        self._refuse("custody: draw scheduled")
    if self.role_words[job][operator] != 0:
        self._refuse("custody: already offered")
    weight: uint256 = self._aged_stake(operator)
    if weight == 0:
        self._refuse("custody: stake too young")
    reserve: uint256 = words._unpack_request(self.request_words[job]).reserve
    if reserve > self.funds[record.token][operator]:
        self._refuse("custody: amount exceeds funds")
    place: uint256 = progress.offers
    if place == MAX_OFFERS:
        least: uint256 = weight
        for index: uint256 in range(MAX_OFFERS):
            other: uint256 = self.offer_words[job][index] & bits.U64
            if other < least:
                least = other
                place = index
        if place >= MAX_OFFERS:
            self._refuse("custody: offers full")
        self._end_offer(job, self.offer_words[job][place] >> words.WEIGHT_BITS, record.token)
    else:
        progress.offers += 1
        self.progress_words[job] = words._pack_progress(progress)
    self.funds[record.token][operator] -= reserve
    self.offer_words[job][place] = operator << words.WEIGHT_BITS | weight
    self.role_words[job][operator] = words._pack_role(
        words.Role(reserve=reserve, status=words.OFFERED, index=0)
    )
    log CustodyOffered(job=job, operator=operator, weight=weight)


@external
def retire(job: uint256, place: uint256):
    """
    @notice Ends an offer that was not drawn, unless a draw is about to read it.
    """
    progress: words.Progress = self._progress(job)
    if place >= progress.offers:
        self._refuse("custody: no offer")
    operator: uint256 = self.offer_words[job][place] >> words.WEIGHT_BITS
    self._check_hot(operator)
    if progress.draw_block != 0:
        self._refuse("custody: draw scheduled")
    progress.offers -= 1
    self.offer_words[job][place] = self.offer_words[job][progress.offers]
    self.offer_words[job][progress.offers] = 0
    self.progress_words[job] = words._pack_progress(progress)
    self._end_offer(job, operator, self._job(job).token)


# --- the committee


@external
def schedule(job: uint256):
    """
    @notice Names the block whose hash will fill a committee's vacant places: the next one. Offers are fixed until it is read.
    """
    request: words.Request = words._unpack_request(self.request_words[job])
    if request.closes_at == 0:
        self._refuse("custody: nothing requested")
    progress: words.Progress = self._progress(job)
    if progress.draw_block != 0:
        self._refuse("custody: draw scheduled")
    state: uint256 = self._job(job).state
    if state != numbers.AWARDED and state != numbers.RUNNING:
        self._refuse("custody: job not awarded")
    if progress.vacant == 0:
        self._refuse("custody: no place vacant")
    least: uint256 = 1
    if progress.version == 0:
        if self._now() < request.closes_at:
            self._refuse("custody: offers open")
        rounds: uint256 = (staticcall ITaskRegistry(tasks).schedules(job)).rounds
        # INVARIANT pay: what every signature of every round costs is here before anybody holds anything.
        if self.escrows[job] < 2 * request.fee * progress.custodians * rounds:
            self._refuse("custody: escrow too small")
        least = progress.custodians
    elif self._now() < progress.vacated_at + answer_s:
        # INVARIANT replacements: whoever offers first is not alone.
        self._refuse("custody: offers open")
    if progress.offers < least:
        self._refuse("custody: too few offers")
    progress.draw_block = block.number + 1
    self.progress_words[job] = words._pack_progress(progress)
    log CommitteeScheduled(job=job, block=progress.draw_block)


@external
def draw(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS]):
    """
    @notice Fills vacant places from the offers, by stake: first from operators without a seat in the job.
    @param committee The present one; empty before the first draw.
    """
    progress: words.Progress = self._progress(job)
    if progress.draw_block == 0:
        self._refuse("custody: nothing scheduled")
    if block.number <= progress.draw_block + draw_blocks:
        self._refuse("custody: draw block not buried")
    members: DynArray[words.Member, words.MAX_CUSTODIANS] = committee
    if progress.version == 0:
        members = []
        for _: uint256 in range(progress.custodians, bound=words.MAX_CUSTODIANS):
            members.append(empty(words.Member))
    else:
        self._check_committee(job, progress.version, committee)
    found: bytes32 = chance._hash_of(progress.draw_block)
    progress.draw_block = 0
    if found == empty(bytes32):
        self.progress_words[job] = words._pack_progress(progress)
        log DrawLost(job=job)
        return
    offers: DynArray[uint256, MAX_OFFERS] = []
    for place: uint256 in range(progress.offers, bound=MAX_OFFERS):
        offers.append(self.offer_words[job][place])
    run: ISettlementViews.Run = self._run(job)
    seated: uint256 = self._seated(job, run.seats, offers)
    from_turn: uint256 = run.turn
    if run.state == numbers.RUNNING and run.opened_at != 0:
        from_turn += 1
    seed: bytes32 = keccak256(abi_encode(found, job))
    taken: uint256 = 0
    for index: uint256 in range(progress.custodians, bound=words.MAX_CUSTODIANS):
        if progress.vacant >> index & 1 == 0:
            continue
        place: uint256 = self._picked(offers, seated, taken, seed, index)
        if place == NO_OFFER:
            break
        taken |= 1 << place
        operator: uint256 = offers[place] >> words.WEIGHT_BITS
        self._let_go(job, words._operator_of(members[index]))
        members[index] = words.Member(
            word=operator << words.OPERATOR_AT | from_turn,
            key=self._key(operator),
        )
        role: words.Role = words._unpack_role(self.role_words[job][operator])
        role.status = words.CUSTODIAN
        role.index = index
        self.role_words[job][operator] = words._pack_role(role)
        progress.vacant ^= 1 << index
    progress.offers = 0
    for place: uint256 in range(len(offers), bound=MAX_OFFERS):
        self.offer_words[job][place] = 0
        if taken >> place & 1 == 0:
            self.offer_words[job][progress.offers] = offers[place]
            progress.offers += 1
    self._change(job, progress, members)


@external
def note_key(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian's hot key changed: from now on the new one signs. Anyone may say so.
    """
    progress: words.Progress = self._progress(job)
    member: words.Member = self._member(job, progress.version, committee, index)
    key: uint256 = self._key(words._operator_of(member))
    if key == member.key:
        self._refuse("custody: nothing changed")
    members: DynArray[words.Member, words.MAX_CUSTODIANS] = committee
    members[index].key = key
    self._change(job, progress, members)


@external
def resign(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian asks to be replaced. Until a draw does so it has its place, and keeps what it signed for till the end.
    """
    progress: words.Progress = self._progress(job)
    operator: uint256 = words._operator_of(self._member(job, progress.version, committee, index))
    self._check_hot(operator)
    if progress.vacant >> index & 1 != 0:
        self._refuse("custody: nothing changed")
    if progress.draw_block != 0:
        self._refuse("custody: draw scheduled")
    if progress.vacant == 0:
        # Nobody resigns to have others wait.
        progress.vacated_at = self._now()
    progress.vacant |= 1 << index
    self.progress_words[job] = words._pack_progress(progress)
    log CustodianResigned(job=job, operator=operator)


# --- signatures


@external
def hold_start(
    job: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice A majority of the committee holds the job's program, data and first state: its first turn opens.
    """
    progress: words.Progress = self._progress(job)
    if progress.version == 0:
        self._refuse("custody: no committee")
    if progress.started != 0:
        self._refuse("custody: already held")
    self._check_committee(job, progress.version, committee)
    if len(signed) < self._least(progress.custodians):
        self._refuse("custody: too few signatures")
    digest: bytes32 = signatures._start_digest(signatures._domain(), job)
    signers: uint256 = self._signers(committee, signed, digest)
    progress.started = 1
    self.progress_words[job] = words._pack_progress(progress)
    log StartSigned(job=job, signers=signers)
    extcall ISettlementViews(settlement).start(job)


@external
def hold_inputs(
    job: uint256,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
):
    """
    @notice Custodians hold the updates of these seats in the open turn, whose inputs are complete. Of a majority: nobody commits any
            more, and the seats that all of them hold join the mask. Of fewer: they signed, and do not lapse. Once a majority did,
            those who hold the whole mask are on record.
    @param committee The present one; or, once a majority signed, that of the turn's record.
    """
    if staticcall ISettlementViews(settlement).pending(job, turn) != OPEN_TURN:
        self._refuse("custody: turn is closed")
    progress: words.Progress = self._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    if len(inputs) == 0:
        self._refuse("custody: too few signatures")
    is_new: bool = record.signed_at == 0
    record = self._with_inputs(job, progress, record, committee, inputs)
    self._store(job, progress, record)
    if is_new:
        if record.signed_at != 0:
            extcall ISettlementViews(settlement).note_custody(job, turn, settlement_words.SIGNED, answer_s)
        else:
            run: ISettlementViews.Run = self._run(job)
            if run.state != numbers.RUNNING or run.turn != turn or run.opened_at == 0:
                self._refuse("custody: not the open turn")


@external
def leave_out(job: uint256, turn: uint256):
    """
    @notice Custodians had their time: seats whose inputs no majority of them holds are left out of the open turn. Anyone may call it.
    """
    progress: words.Progress = self._progress(job)
    record: words.Record = self._record_at(job, progress, turn)
    if record.turn != turn or record.signed_at == 0 or self._now() <= record.signed_at + answer_s:
        self._refuse("custody: mask is open")
    extcall ISettlementViews(settlement).leave_out(job, turn, record.mask)


@external
def post_checkpoint(
    job: uint256,
    turn: uint256,
    mask: uint256,
    root: bytes32,
    cid: bytes32,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice The aggregator closes the open turn with a checkpoint, and the inputs of its seats, that a majority of custodians holds.
            With fewer signatures for the checkpoint, at least one of another operator first, it is short of them: it may be
            replaced, and is not slashed.
    @param inputs Those that are not on record yet.
    """
    aggregator: uint256 = (
        staticcall ISettlementViews(settlement).seats(job, claims.AGGREGATION)
    ).operator
    self._check_hot(aggregator)
    progress: words.Progress = self._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    is_held: bool = record.signed_at != 0
    if len(inputs) > 0:
        record = self._with_inputs(job, progress, record, committee, inputs)
    # INVARIANT held: no seat is taken in, and no checkpoint posted, that a majority does not hold.
    if record.signed_at == 0 or mask & ~record.mask != 0:
        self._refuse("custody: inputs not held")
    message: bytes32 = signatures._checkpoint_message(job, turn, root, cid)
    signers: uint256 = self._checkpoint_signers(job, turn, message, committee, signed)
    if len(signed) >= self._least(progress.custodians):
        record.checkpoint = signers
        record.signed_at = self._now()
        self._store(job, progress, record)
        self.checkpoints[job][self._place(progress, turn)] = message
        extcall ISettlementViews(settlement).post_checkpoint(job, turn, mask, root, cid)
    else:
        if (
            not is_held
            or len(signed) == 0
            or words._operator_of(committee[signed[0].index]) == aggregator
        ):
            self._refuse("custody: too few signatures")
        self._store(job, progress, record)
        extcall ISettlementViews(settlement).note_custody(job, turn, settlement_words.SHORT, 0)


@external
def hold_turn(
    job: uint256,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
):
    """
    @notice More custodians hold a closed turn's inputs, and the checkpoint that was posted.
    @param committee Of the turn's record.
    """
    progress: words.Progress = self._progress(job)
    record: words.Record = self._record(job, progress, turn, committee)
    if record.checkpoint == 0:
        self._refuse("custody: no checkpoint")
    if self._now() > record.signed_at + answer_s:
        self._refuse("custody: too late")
    if len(inputs) > 0:
        record = self._with_inputs(job, progress, record, committee, inputs)
    if len(signed) > 0:
        # INVARIANT pointer: a signature counts for the root and the pointer that were posted, and for no others.
        message: bytes32 = self.checkpoints[job][self._place(progress, turn)]
        record.checkpoint |= self._checkpoint_signers(job, turn, message, committee, signed)
    self._store(job, progress, record)


# --- pay, lapses and the end


@external
def count(job: uint256, version: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS]):
    """
    @notice Pays for turns that are final, in their order, as far as this committee signed for them. Where the escrow does not
            cover them (rounds that were done again), all get the same part.
    """
    self._check_committee(job, version, committee)
    progress: words.Progress = self._progress(job)
    signed: uint256[words.MAX_CUSTODIANS] = empty(uint256[words.MAX_CUSTODIANS])
    total: uint256 = 0
    turn: uint256 = progress.counted
    for _: uint256 in range(numbers.MAX_DEPTH):
        if staticcall ISettlementViews(settlement).pending(job, turn) != 0:
            break
        record: words.Record = self._record_at(job, progress, turn)
        if record.version != 0 and record.turn == turn:
            if record.version != version:
                break
            for index: uint256 in range(words.MAX_CUSTODIANS):
                count: uint256 = (record.inputs >> index & 1) + (record.checkpoint >> index & 1)
                signed[index] += count
                total += count
        turn += 1
    turns: uint256 = turn - progress.counted
    if turns == 0:
        self._refuse("custody: nothing to count")
    # INVARIANT counted: a turn is counted once, in order, before its place is used again.
    progress.counted = turn
    self.progress_words[job] = words._pack_progress(progress)
    fee: uint256 = 0
    if total > 0:
        fee = min(words._unpack_request(self.request_words[job]).fee, self.escrows[job] // total)
        self.escrows[job] -= fee * total
        token: address = self._job(job).token
        for index: uint256 in range(len(committee), bound=words.MAX_CUSTODIANS):
            if signed[index] > 0:
                self.funds[token][words._operator_of(committee[index])] += fee * signed[index]
    log CustodiansPaid(job=job, turns=turns, fee=fee, signed=total)


@external
def lapse(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice Too few signed for the open turn's inputs in time: a custodian that did not loses its place and a part of its reserve.
            A custodian that lacks an update signs for the seats it holds, or for none, and is excused.
    """
    run: ISettlementViews.Run = self._run(job)
    if run.state != numbers.RUNNING or run.opened_at == 0:
        self._refuse("custody: no open turn")
    if run.holds > 0 or self._now() <= run.opened_at + SLOT_TIMES * run.slot_s + answer_s:
        self._refuse("custody: time left")
    progress: words.Progress = self._progress(job)
    member: words.Member = self._member(job, progress.version, committee, index)
    # INVARIANT duty: nobody lapses in a turn that was open when it was drawn, or for its predecessor.
    if words._from_of(member) > run.turn:
        self._refuse("custody: not on duty")
    record: words.Record = self._record_at(job, progress, run.turn)
    if record.version != 0 and record.turn == run.turn:
        if record.signed_at != 0:
            self._refuse("custody: inputs are held")
        if record.answered >> index & 1 != 0:
            self._refuse("custody: it signed")
    operator: uint256 = words._operator_of(member)
    role: words.Role = words._unpack_role(self.role_words[job][operator])
    lost: uint256 = role.reserve * LAPSE_BPS // numbers.BPS
    role.reserve -= lost
    self.role_words[job][operator] = words._pack_role(role)
    self.burned[self._job(job).token] += lost
    log CustodianLapsed(job=job, operator=operator, turn=run.turn, burned=lost)
    self._vacate(job, progress, committee, index)


@external
def forfeit(job: uint256, operator: uint256) -> bool:
    """
    @notice A custodian did not show what it signed for: its whole reserve burns, so that nobody preys on outages.
    @return Whether it had a reserve. Several demands may end one after the other: the first takes it.
    """
    if msg.sender != availability:
        self._refuse("custody: not the availability")
    role: words.Role = words._unpack_role(self.role_words[job][operator])
    lost: uint256 = role.reserve
    if lost == 0:
        return False
    role.reserve = 0
    self.role_words[job][operator] = words._pack_role(role)
    self.burned[self._job(job).token] += lost
    log ReserveForfeited(job=job, operator=operator, burned=lost)
    return True


@external
def expel(job: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS], index: uint256):
    """
    @notice A custodian whose reserve is forfeit loses its place. Anyone may call it, once no draw is scheduled.
    """
    progress: words.Progress = self._progress(job)
    operator: uint256 = words._operator_of(self._member(job, progress.version, committee, index))
    if words._unpack_role(self.role_words[job][operator]).reserve != 0:
        self._refuse("custody: its reserve is here")
    if self._job(job).state > numbers.RUNNING:
        # Reserves go back then.
        self._refuse("custody: job is over")
    log CustodianExpelled(job=job, operator=operator)
    self._vacate(job, progress, committee, index)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Gives an operator its reserve back once the job is over and every turn is counted. Anyone may call it.
    """
    role: words.Role = words._unpack_role(self.role_words[job][operator])
    if role.reserve == 0:
        self._refuse("custody: nothing reserved")
    # INVARIANT retention: whoever may still be asked for what it signed for has its reserve here.
    if not self._is_over(job):
        self._refuse("custody: job not over")
    amount: uint256 = role.reserve
    role.reserve = 0
    self.role_words[job][operator] = words._pack_role(role)
    self.funds[self._job(job).token][operator] += amount
    log ReserveReleased(job=job, operator=operator, amount=amount)


# --- views


@external
@reentrant
@view
def requests(job: uint256) -> words.Request:
    """
    @notice What a submitter offers the custodians of its job.
    """
    return words._unpack_request(self.request_words[job])


@external
@reentrant
@view
def progress(job: uint256) -> words.Progress:
    """
    @notice Where a job's custody is.
    """
    return self._progress(job)


@external
@reentrant
@view
def records(job: uint256, turn: uint256) -> words.Record:
    """
    @notice The record in a turn's place of the ring.
    """
    return self._record_at(job, self._progress(job), turn)


@external
@reentrant
@view
def roles(job: uint256, operator: uint256) -> words.Role:
    """
    @notice An operator in a job: what it put up, and whether it offered, has a place, or left it.
    """
    return words._unpack_role(self.role_words[job][operator])


@external
@reentrant
@view
def offers(job: uint256, place: uint256) -> (uint256, uint256):
    """
    @notice An offer that was not drawn: operator and weight.
    """
    word: uint256 = self.offer_words[job][place]
    return word >> words.WEIGHT_BITS, word & bits.U64


@external
@reentrant
@view
def aged_stake(operator: uint256) -> uint256:
    """
    @notice By which weight an operator would be drawn now.
    """
    return self._aged_stake(operator)


@external
@reentrant
@view
def signer_of(
    job: uint256,
    turn: uint256,
    seat: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    index: uint256,
) -> uint256:
    """
    @notice The operator that signed for a claim of this turn at this place: for the inputs of its seat, or for its checkpoint.
    @param committee Of the turn's record.
    """
    record: words.Record = self._record_at(job, self._progress(job), turn)
    signers: uint256 = record.inputs
    if seat == claims.AGGREGATION:
        signers = record.checkpoint
    elif record.mask >> seat & 1 == 0:
        signers = 0
    if record.turn != turn or signers >> index & 1 == 0:
        self._refuse("custody: it did not sign")
    self._check_committee(job, record.version, committee)
    return words._operator_of(committee[index])


# --- inside


@internal
@pure
def _refuse(reason: String[48]):
    """
    @dev `if not so: _refuse(reason)` is `assert so, reason`, in half the bytes.
    """
    raise reason


@internal
@view
def _now() -> uint256:
    return protocol_time._now(registry)


@internal
@view
def _job(job: uint256) -> ITaskViews.Job:
    return staticcall ITaskViews(tasks).jobs(job)


@internal
@view
def _run(job: uint256) -> ISettlementViews.Run:
    return staticcall ISettlementViews(settlement).runs(job)


@internal
@view
def _key(operator: uint256) -> uint256:
    return convert(staticcall INodeRegistry(registry).hot_key(operator), uint256)


@internal
@view
def _check_hot(operator: uint256):
    if self._key(operator) != convert(msg.sender, uint256):
        self._refuse("custody: not the hot key")


@internal
@view
def _progress(job: uint256) -> words.Progress:
    return words._unpack_progress(self.progress_words[job])


@internal
@pure
def _place(progress: words.Progress, turn: uint256) -> uint256:
    # The depth is at most 64.
    return turn % unsafe_add(progress.depth, 1)


@internal
@pure
def _least(custodians: uint256) -> uint256:
    return (custodians + 1) // 2


@internal
@view
def _aged_stake(operator: uint256) -> uint256:
    note: words.Note = self.notes[operator]
    if note.since == 0 or self._now() < note.since + exit_delay_s:
        return 0
    return min(note.stake, staticcall INodeRegistry(registry).stake_of(operator) // STAKE_UNIT)


@internal
@view
def _check_committee(
    job: uint256, version: uint256, committee: DynArray[words.Member, words.MAX_CUSTODIANS]
):
    if self.committees[job][version] != keccak256(abi_encode(committee)):
        self._refuse("custody: committee differs")


@internal
@view
def _member(
    job: uint256,
    version: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    index: uint256,
) -> words.Member:
    self._check_committee(job, version, committee)
    if index >= len(committee) or committee[index].word == 0:
        self._refuse("custody: no custodian")
    return committee[index]


@internal
def _change(
    job: uint256, progress: words.Progress, committee: DynArray[words.Member, words.MAX_CUSTODIANS]
):
    """
    @dev Another committee, by the next number.
    """
    changed: words.Progress = progress
    changed.version += 1
    self.progress_words[job] = words._pack_progress(changed)
    self.committees[job][changed.version] = keccak256(abi_encode(committee))
    log CommitteeChanged(job=job, version=changed.version, committee=committee)


@internal
def _vacate(
    job: uint256,
    progress: words.Progress,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    index: uint256,
):
    # INVARIANT replacements: offers that were fixed before do not fill it.
    if progress.draw_block != 0:
        self._refuse("custody: draw scheduled")
    members: DynArray[words.Member, words.MAX_CUSTODIANS] = committee
    self._let_go(job, words._operator_of(members[index]))
    members[index] = empty(words.Member)
    changed: words.Progress = progress
    changed.vacant |= 1 << index
    changed.vacated_at = self._now()
    self._change(job, changed, members)


@internal
def _let_go(job: uint256, operator: uint256):
    """
    @dev It has no place any more. What it put up stays till the end.
    """
    if operator == 0:
        return
    role: words.Role = words._unpack_role(self.role_words[job][operator])
    role.status = words.LEFT
    self.role_words[job][operator] = words._pack_role(role)


@internal
def _end_offer(job: uint256, operator: uint256, token: address):
    self.funds[token][operator] += words._unpack_role(self.role_words[job][operator]).reserve
    self.role_words[job][operator] = 0
    log OfferEnded(job=job, operator=operator)


@internal
@view
def _seated(job: uint256, seats: uint256, offers: DynArray[uint256, MAX_OFFERS]) -> uint256:
    """
    @return The places of the offers whose operators have a seat in the job.
    """
    seated: uint256 = 0
    for index: uint256 in range(seats + 1, bound=claims.AGGREGATION + 1):
        seat: uint256 = index
        if index == seats:
            seat = claims.AGGREGATION
        holder: uint256 = (staticcall ISettlementViews(settlement).seats(job, seat)).operator
        for place: uint256 in range(len(offers), bound=MAX_OFFERS):
            if offers[place] >> words.WEIGHT_BITS == holder:
                seated |= 1 << place
    return seated


@internal
@pure
def _picked(
    offers: DynArray[uint256, MAX_OFFERS], seated: uint256, taken: uint256, seed: bytes32, index: uint256
) -> uint256:
    """
    @return The place of the offer that is drawn, with a chance in proportion to its weight; one with a seat if no other is left.
    """
    for has_seat: uint256 in range(2):
        total: uint256 = 0
        for place: uint256 in range(len(offers), bound=MAX_OFFERS):
            if taken >> place & 1 == 0 and seated >> place & 1 == has_seat:
                total += offers[place] & bits.U64
        if total == 0:
            continue
        ticket: uint256 = convert(keccak256(abi_encode(seed, index)), uint256) % total
        for place: uint256 in range(len(offers), bound=MAX_OFFERS):
            if taken >> place & 1 == 0 and seated >> place & 1 == has_seat:
                weight: uint256 = offers[place] & bits.U64
                if ticket < weight:
                    return place
                ticket -= weight
    return NO_OFFER


@internal
@view
def _record_at(job: uint256, progress: words.Progress, turn: uint256) -> words.Record:
    return words._unpack_record(self.record_words[job][self._place(progress, turn)])


@internal
@view
def _record(
    job: uint256,
    progress: words.Progress,
    turn: uint256,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
) -> words.Record:
    """
    @dev The turn's record, or a new one in the place of an older turn that is counted. Until its checkpoint is posted, the present
         committee may take it over: who is not in that any more, or was drawn meanwhile, is not paid for inputs signed before.
    """
    if progress.version == 0:
        self._refuse("custody: no committee")
    if turn < progress.counted:
        self._refuse("custody: turn is counted")
    record: words.Record = self._record_at(job, progress, turn)
    if record.version == 0 or record.turn != turn:
        if record.version != 0 and record.turn >= progress.counted:
            self._refuse("custody: turn not counted")
        record = words.Record(
            turn=turn, version=progress.version, mask=0, signed_at=0, inputs=0, checkpoint=0, answered=0
        )
    if (
        record.version != progress.version
        and record.checkpoint == 0
        and self.committees[job][record.version] != keccak256(abi_encode(committee))
    ):
        record.version = progress.version
        stayed: uint256 = 0
        for index: uint256 in range(len(committee), bound=words.MAX_CUSTODIANS):
            if committee[index].word != 0 and words._from_of(committee[index]) <= turn:
                stayed |= 1 << index
        record.inputs &= stayed
        record.answered &= stayed
    self._check_committee(job, record.version, committee)
    return record


@internal
def _store(job: uint256, progress: words.Progress, record: words.Record):
    self.record_words[job][self._place(progress, record.turn)] = words._pack_record(record)


@internal
def _with_inputs(
    job: uint256,
    progress: words.Progress,
    before: words.Record,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    inputs: DynArray[signatures.InputsSignature, words.MAX_CUSTODIANS],
) -> words.Record:
    record: words.Record = before
    domain: bytes32 = signatures._domain()
    digest: bytes32 = empty(bytes32)
    last: uint256 = 0
    signers: uint256 = 0
    common: uint256 = bits.U128
    for each: signatures.InputsSignature in inputs:
        if digest == empty(bytes32) or each.seats != last:
            last = each.seats
            digest = signatures._inputs_digest(domain, job, record.turn, last)
        self._check_signer(committee, signers, each.index, digest, each.r, each.vs)
        signers |= 1 << each.index
        common &= each.seats
    is_new: bool = record.signed_at == 0
    may_grow: bool = record.checkpoint == 0 and len(inputs) >= self._least(progress.custodians)
    if is_new and not may_grow:
        record.answered |= signers
    elif is_new or self._now() <= record.signed_at + answer_s:
        if may_grow and (is_new or common & ~record.mask != 0):
            # INVARIANT mask: a seat joins it by the signatures of a majority, before the checkpoint, and never leaves it.
            record.mask |= common
            record.inputs = 0
            if is_new:
                record.signed_at = self._now()
        # INVARIANT inputs: whoever is on record, and paid, holds the whole mask. If it grows, the others sign again.
        for each: signatures.InputsSignature in inputs:
            if record.mask & ~each.seats == 0:
                record.inputs |= 1 << each.index
    log InputsSigned(
        job=job, turn=record.turn, mask=record.mask, inputs=record.inputs, answered=record.answered
    )
    return record


@internal
def _checkpoint_signers(
    job: uint256,
    turn: uint256,
    message: bytes32,
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
) -> uint256:
    digest: bytes32 = signatures._digest(signatures._domain(), message)
    signers: uint256 = self._signers(committee, signed, digest)
    log CheckpointSigned(job=job, turn=turn, signers=signers)
    return signers


@internal
@view
def _signers(
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signed: DynArray[signatures.Signature, words.MAX_CUSTODIANS],
    digest: bytes32,
) -> uint256:
    signers: uint256 = 0
    for each: signatures.Signature in signed:
        self._check_signer(committee, signers, each.index, digest, each.r, each.vs)
        signers |= 1 << each.index
    return signers


@internal
@view
def _check_signer(
    committee: DynArray[words.Member, words.MAX_CUSTODIANS],
    signers: uint256,
    index: uint256,
    digest: bytes32,
    r: bytes32,
    vs: bytes32,
):
    """
    @dev Each place signs once, with its custodian's key.
    """
    if (
        index >= len(committee)
        or signers >> index & 1 == 1
        or not signatures._has_signed(committee[index].key, digest, r, vs)
    ):
        self._refuse("custody: not the custodian's signature")


@internal
@view
def _is_over(job: uint256) -> bool:
    """
    @notice Whether nothing can be earned, or asked for, any more: the job never began, or every claim of it is resolved, also those
            parked, and every turn counted.
    """
    record: ITaskViews.Job = self._job(job)
    if record.state == numbers.CANCELLED:
        return True
    progress: words.Progress = self._progress(job)
    # An ended job's escrow is what its claims may still be paid.
    return (
        record.state == numbers.ENDED
        and record.escrow == 0
        and (progress.version == 0 or progress.counted >= self._run(job).turn)
    )


@internal
def _pull(token: address, amount: uint256):
    if not extcall IERC20(token).transferFrom(msg.sender, self, amount, default_return_value=True):
        self._refuse("custody: transfer failed")


@internal
def _push(token: address, account: address, amount: uint256):
    if not extcall IERC20(token).transfer(account, amount, default_return_value=True):
        self._refuse("custody: transfer failed")
