# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title TaskRegistry
@license Apache-2.0
@notice The jobs: their terms, their escrow and their state; and what is owed to whom.
@dev Money leaves only by `withdraw`, to the account it is owed to.
"""


from ethereum.ercs import IERC20
from .interfaces import IAuction
from .interfaces import ICredits
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .interfaces import ITaskRegistry
from .modules import bits
from .modules import numbers
from .modules import requirements
from .modules import terms as terms_of


implements: ITaskRegistry


# Of EIP-2612: permit(address,address,uint256,uint256,uint8,bytes32,bytes32).
PERMIT: constant(bytes4) = 0xd505accf
# The chain's coin, in place of a token.
COIN: constant(address) = empty(address)
# What a posting deposit is worth in gas: eight bidders' bids, reveals and reclaims.
DEPOSIT_GAS: constant(uint256) = 2_000_000
# A chain's base fee counts as at least this, so that no job is posted for nothing.
LEAST_BASE_FEE: constant(uint256) = 10**9
# The first aggregator's seat; those of slots have lower numbers.
AGGREGATION: constant(uint256) = 128
MOST_SEATS: constant(uint256) = AGGREGATION + numbers.MAX_AGGREGATORS


treasury: public(immutable(address))
# May pause `post`, and nothing else.
guardian: public(immutable(address))
# Who allows payment tokens: the timelock.
governor: public(immutable(address))
# The token of burned ZEN, which counts the work that is paid in it.
credits: public(immutable(address))
deployer: public(immutable(address))
# Whether every job asks for operators whose machine passed a trial.
needs_admission: public(immutable(bool))


struct Job:
    submitter: address
    token: address
    state: uint256
    escrow: uint256
    work_root: bytes32
    state_root: bytes32
    data_root: bytes32
    manifest: bytes32


# The two contracts that advance jobs; set once by `wire`.
auction: public(address)
settlement: public(address)
# Pays slashed locks into a job's escrow.
locks: public(address)
# Before this second no job is posted.
paused_until: public(uint256)
# Jobs are numbered 1..job_count.
job_count: public(uint256)
# token -> whether jobs may be paid in it
is_allowed: public(HashMap[address, bool])
# token -> what a round of a new job costs before its windows grow; 0: they never do
window_values: public(HashMap[address, uint256])
# token -> account -> what `withdraw` sends
owed: public(HashMap[address, HashMap[address, uint256]])
# job -> token (160) | reserve (80) | state (8)
tokens: HashMap[uint256, uint256]
# job -> what is left of the escrow
escrows: HashMap[uint256, uint256]
# job -> submitter (160) | posting deposit (96), in the coin; once the job was cancelled, the part of it that a bid is paid
postings: HashMap[uint256, uint256]
work_roots: HashMap[uint256, bytes32]
state_roots: HashMap[uint256, bytes32]
data_roots: HashMap[uint256, bytes32]
manifests: HashMap[uint256, bytes32]
# job -> max_price (80) | aggregator_max_price (80) | aggregator_reserve (80)
price_words: HashMap[uint256, uint256]
# job -> audit_bps (16) | aggregators - 1 (4) | windows (4) | depth (8) | policy (8) | rounds (16) | slots (16) | quorum (16) | slot_s (24) | aggregate_s (24) | reexecute_s (24) | flops (96)
schedule_words: HashMap[uint256, uint256]


event JobPosted:
    job: indexed(uint256)
    submitter: indexed(address)
    manifest: bytes32
    terms: terms_of.Terms
    escrow: uint256


event JobCancelled:
    job: indexed(uint256)


event JobAdvanced:
    job: indexed(uint256)
    state: uint256


event Paid:
    job: indexed(uint256)
    account: indexed(address)
    net: uint256
    fee: uint256


event Owed:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


event JobFunded:
    job: indexed(uint256)
    amount: uint256


event JobClosed:
    job: indexed(uint256)
    refunded: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


event TokenAllowed:
    token: indexed(address)
    allowed: bool
    window_value: uint256


@deploy
def __init__(
    treasury_: address, governor_: address, guardian_: address, credits_: address, needs_admission_: bool
):
    """
    @param treasury_ Is owed the fees.
    @param governor_ Allows payment tokens.
    @param guardian_ May pause `post`.
    @param credits_ Counts the work that is paid in it.
    @param needs_admission_ Whether every job asks for admission, whatever its terms say.
    """
    treasury = treasury_
    guardian = guardian_
    governor = governor_
    credits = credits_
    deployer = msg.sender
    needs_admission = needs_admission_


@external
def wire(auction_: address, settlement_: address, locks_: address):
    """
    @notice Names the contracts that advance jobs, and the one that pays into their escrow, once.
    """
    assert msg.sender == deployer, "tasks: not the deployer"
    assert self.settlement == empty(address), "tasks: already wired"
    self.auction = auction_
    self.settlement = settlement_
    self.locks = locks_


@external
def pause(until: uint256):
    """
    @notice Pauses `post`, and nothing else, until a second; one that is over resumes it.
    """
    assert msg.sender == guardian, "tasks: not the guardian"
    self.paused_until = until


@external
def allow(token: address, allowed: bool, window_value: uint256):
    """
    @notice Allows or disallows a payment token for new jobs.
    @dev Tokens that charge for transfers or change balances by themselves must never be allowed.
    @param window_value The cost of a round from which on windows are longer; 0: they never are.
    """
    assert msg.sender == governor, "tasks: not the governor"
    self.is_allowed[token] = allowed
    self.window_values[token] = window_value
    log TokenAllowed(token=token, allowed=allowed, window_value=window_value)


@external
@payable
def post(terms: terms_of.Terms) -> uint256:
    """
    @notice Posts a job, pulls the most it can cost into escrow, and opens both auctions. Where the network needs admission, the job
            asks for it. What is sent in the coin is the posting
            deposit: it comes back when the job ends, or is cancelled before a bid is revealed; later it pays the bidders.
    @return The job's number.
    """
    job: uint256 = 0
    escrow: uint256 = 0
    job, escrow = self._open(terms)
    self._pull(terms.token, escrow)
    return job


@external
@payable
def post_permitted(terms: terms_of.Terms, deadline: uint256, v: uint8, r: bytes32, s: bytes32) -> uint256:
    """
    @notice As `post`, with an allowance of exactly the escrow that is signed (EIP-2612) instead of approved before.
    @dev A permit that the token refuses is no refusal here: anyone may have sent it before, and then the allowance is
         there already. Where it is not, the transfer is refused.
    @return The job's number.
    """
    job: uint256 = 0
    escrow: uint256 = 0
    job, escrow = self._open(terms)
    taken: bool = raw_call(
        terms.token,
        abi_encode(msg.sender, self, escrow, deadline, v, r, s, method_id=PERMIT),
        revert_on_failure=False,
    )
    self._pull(terms.token, escrow)
    return job


@external
def cancel(job: uint256):
    """
    @notice Takes back a job before its auctions clear; the whole escrow is owed to the submitter. The posting deposit is too,
            unless bids are revealed that may still win: then each of them is paid an equal part of it, at `Auction.reclaim`.
    """
    posting: uint256 = self.postings[job]
    assert convert(msg.sender, uint256) == posting >> 96, "tasks: not the submitter"
    auction: address = self.auction
    self._check_open(job)
    assert staticcall IAuction(auction).is_cancellable(job), "tasks: auction is clearing"
    self._cancel(job, msg.sender)
    deposit: uint256 = posting & bits.U96
    bids: uint256 = extcall IAuction(auction).cancelled(job)
    share: uint256 = 0
    if bids > 0:
        # INVARIANT deposits: what bids are paid and what is returned is what was sent. What does not divide is returned.
        share = deposit // bids
    self.postings[job] = posting - deposit + share
    self._owe_coin(msg.sender, deposit - bids * share)


@external
def lapse(job: uint256):
    """
    @notice Closes a job whose last auction ended 30 days ago and was neither cleared nor opened again. The escrow is owed to the
            submitter, the posting deposit to whoever calls.
    """
    self._check_open(job)
    auction: address = self.auction
    assert staticcall IAuction(auction).is_lapsed(job), "tasks: auction not lapsed"
    posting: uint256 = self.postings[job]
    deposit: uint256 = posting & bits.U96
    self._cancel(job, convert(posting >> 96, address))
    self.postings[job] = posting - deposit
    self._owe_coin(msg.sender, deposit)
    # The bids of an auction that ended so long ago are paid nothing: each of their operators could have cleared it.
    bids: uint256 = extcall IAuction(auction).cancelled(job)


@external
def compensate(job: uint256, account: address):
    """
    @notice For Auction, once for each revealed bid of a cancelled job: its part of the posting deposit becomes owed.
    """
    assert msg.sender == self.auction, "tasks: not a protocol contract"
    self._owe_coin(account, self.postings[job] & bits.U96)


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends what is owed in a token, or in the coin (the zero address), to the account it is owed to.
    @return The amount.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "tasks: nothing owed"
    # INVARIANT tasks: balance(token) == sum(escrow) + sum(owed). A debt is paid once.
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    if token == COIN:
        assert raw_call(account, b"", value=amount, revert_on_failure=False), "tasks: transfer failed"
        return amount
    assert extcall IERC20(token).transfer(account, amount, default_return_value=True), "tasks: transfer failed"
    return amount


@external
def advance(job: uint256, state: uint256):
    """
    @notice Records the state that the auction or the settlement brought the job to.
    """
    assert msg.sender == self.settlement or msg.sender == self.auction, "tasks: not a protocol contract"
    self._set_state(job, state)
    log JobAdvanced(job=job, state=state)


@external
def pay(job: uint256, account: address, amount: uint256) -> uint256:
    """
    @notice Moves `amount` from the job's escrow to what is owed to `account`, less the treasury's fee.
    @return The fee.
    """
    assert msg.sender == self.settlement, "tasks: not a protocol contract"
    # Rounded against the payee: the fee is the rest.
    net: uint256 = amount * (numbers.BPS - numbers.FEE_BPS) // numbers.BPS
    fee: uint256 = amount - net
    token: address = self._unpack_token(self.tokens[job])[0]
    self.escrows[job] -= amount
    self.owed[token][account] += net
    self.owed[token][treasury] += fee
    log Paid(job=job, account=account, net=net, fee=fee)
    if token == credits:
        extcall ICredits(credits).record(account, net, fee)
    return fee


@external
def restore(job: uint256, restored: uint256, account: address, amount: uint256):
    """
    @notice Books what of a slash the registry has just paid in: restitution to the job's escrow, and what is owed to an account.
    """
    assert msg.sender == self.locks, "tasks: not a protocol contract"
    if restored > 0:
        self.escrows[job] += restored
        log JobFunded(job=job, amount=restored)
    if amount > 0:
        token: address = self._unpack_token(self.tokens[job])[0]
        self.owed[token][account] += amount
        log Owed(token=token, account=account, amount=amount)


@external
def close(job: uint256, kept: uint256):
    """
    @notice What is left of the escrow becomes owed to the submitter, but for what parked claims may still be paid; and the
            posting deposit, the first time.
    """
    assert msg.sender == self.settlement, "tasks: not a protocol contract"
    token: address = self._unpack_token(self.tokens[job])[0]
    refunded: uint256 = self.escrows[job] - kept
    self.escrows[job] = kept
    posting: uint256 = self.postings[job]
    submitter: address = convert(posting >> 96, address)
    self.owed[token][submitter] += refunded
    log JobClosed(job=job, refunded=refunded)
    deposit: uint256 = posting & bits.U96
    if deposit > 0:
        self.postings[job] = posting - deposit
        self._owe_coin(submitter, deposit)


@external
def forsake(job: uint256, registry: address, seats: uint256):
    """
    @notice For Settlement, of a job that never began: its posting deposit becomes owed to those who have its seats, by how many
            slots they have; an aggregator's seat counts as one.
    @param registry Knows their owners.
    @param seats How many seats of slots there are.
    """
    assert msg.sender == self.settlement, "tasks: not a protocol contract"
    owners: DynArray[address, MOST_SEATS] = []
    counts: DynArray[uint256, MOST_SEATS] = []
    total: uint256 = 0
    aggregators: uint256 = terms_of._aggregators(self.schedule_words[job])
    for index: uint256 in range(seats + aggregators, bound=MOST_SEATS):
        number: uint256 = index if index < seats else AGGREGATION + index - seats
        seat: ISettlementViews.Seat = staticcall ISettlementViews(msg.sender).seats(job, number)
        if seat.operator != 0:
            owners.append(staticcall INodeRegistry(registry).owner_of(seat.operator))
            counts.append(seat.count)
            total += seat.count
    if total == 0:
        return
    posting: uint256 = self.postings[job]
    share: uint256 = (posting & bits.U96) // total
    # What does not divide is the submitter's, at `close`.
    self.postings[job] = posting - share * total
    for index: uint256 in range(len(owners), bound=MOST_SEATS):
        self._owe_coin(owners[index], share * counts[index])


@external
@view
def jobs(job: uint256) -> Job:
    """
    @notice Everything stored of a job; zeros when there is none.
    """
    token: address = empty(address)
    state: uint256 = 0
    token, state = self._unpack_token(self.tokens[job])
    return Job(
        submitter=convert(self.postings[job] >> 96, address),
        token=token,
        state=state,
        escrow=self.escrows[job],
        work_root=self.work_roots[job],
        state_root=self.state_roots[job],
        data_root=self.data_roots[job],
        manifest=self.manifests[job],
    )


@external
@view
def deposits(job: uint256) -> uint256:
    """
    @notice What is kept of a job's posting deposit, in the coin; once it was cancelled, what each bid due a part is paid.
    """
    return self.postings[job] & bits.U96


@external
@view
def least_deposit() -> uint256:
    """
    @notice The least posting deposit at this block's base fee. Send more: the base fee may rise.
    """
    return self._least_deposit()


@external
@view
def dispute_terms(job: uint256) -> (bytes32, uint256):
    """
    @notice What a job's claims are judged by, and the seconds in which a slot-round is re-executed.
    """
    return self.work_roots[job], terms_of._reexecute_s(self.schedule_words[job])


@external
@view
def reexecution_price(job: uint256, is_aggregation: bool) -> (address, uint256):
    """
    @notice What re-executing a slot-round, or an aggregation, is worth: its reserve.
    """
    word: uint256 = self.tokens[job]
    return convert(word >> 88, address), (
        terms_of._aggregator_reserve(self.price_words[job]) if is_aggregation else word >> 8 & bits.U80
    )


@external
@view
def schedules(job: uint256) -> ITaskRegistry.Schedule:
    """
    @notice What of a job's terms binds its turns.
    """
    return terms_of._unpack_schedule(
        self._unpack_token(self.tokens[job])[0],
        self.schedule_words[job],
        self.price_words[job],
        self.state_roots[job],
    )


@external
@view
def lock_terms(job: uint256, is_aggregation: bool) -> ITaskRegistry.LockTerms:
    """
    @notice What an operator's lock follows from, as a worker or as an aggregator.
    """
    return terms_of._lock_terms(self.schedule_words[job], self.price_words[job], is_aggregation)



@internal
@payable
def _open(posted: terms_of.Terms) -> (uint256, uint256):
    assert block.timestamp >= self.paused_until, "tasks: intake paused"
    terms: terms_of.Terms = posted
    if needs_admission:
        terms.requirements |= requirements.ADMITTED
    assert self.is_allowed[terms.token], "tasks: token not allowed"
    terms_of._check(terms)
    assert msg.value >= self._least_deposit(), "tasks: deposit too small"
    job: uint256 = self.job_count + 1
    self.job_count = job
    # INVARIANT escrow: nothing a job pays exceeds max_price a slot-round and aggregator_max_price an aggregator and round.
    escrow: uint256 = terms_of._round_price(terms) * terms.rounds
    self._store(job, terms, escrow)
    log JobPosted(job=job, submitter=msg.sender, manifest=terms.manifest, terms=terms, escrow=escrow)

    auction: address = self.auction
    extcall IAuction(auction).open(
        job,
        numbers.SLOTS,
        terms.token,
        terms.slots,
        terms.reserve,
        terms.max_price,
        terms.audit_bps,
        terms_of._restitution(self.schedule_words[job], self.price_words[job], False),
        terms.requirements,
    )
    extcall IAuction(auction).open(
        job,
        numbers.AGGREGATOR,
        terms.token,
        terms.aggregators,
        terms.aggregator_reserve,
        terms.aggregator_max_price,
        terms.audit_bps,
        terms_of._restitution(self.schedule_words[job], self.price_words[job], True),
        terms.requirements,
    )
    return job, escrow


@internal
def _pull(token: address, escrow: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, escrow, default_return_value=True
    ), "tasks: transfer failed"


@internal
@payable
def _store(job: uint256, terms: terms_of.Terms, escrow: uint256):
    # No chain has as much coin as 96 bits count.
    self.postings[job] = convert(msg.sender, uint256) << 96 | convert(convert(msg.value, uint96), uint256)
    self.tokens[job] = convert(terms.token, uint256) << 88 | terms.reserve << 8 | numbers.OPEN
    self.escrows[job] = escrow
    self.work_roots[job] = terms.work_root
    self.state_roots[job] = terms.state_root
    self.data_roots[job] = terms.data_root
    self.manifests[job] = terms.manifest
    self.schedule_words[job] = terms_of._pack_schedule(
        terms, terms_of._windows(terms, self.window_values[terms.token])
    )
    self.price_words[job] = terms_of._pack_prices(terms)


@internal
@view
def _least_deposit() -> uint256:
    return DEPOSIT_GAS * max(block.basefee, LEAST_BASE_FEE)


@internal
@view
def _check_open(job: uint256):
    assert self.tokens[job] & bits.U8 == numbers.OPEN, "tasks: not open"


@internal
def _cancel(job: uint256, submitter: address):
    self._set_state(job, numbers.CANCELLED)
    self.owed[self._unpack_token(self.tokens[job])[0]][submitter] += self.escrows[job]
    self.escrows[job] = 0
    log JobCancelled(job=job)


@internal
def _owe_coin(account: address, amount: uint256):
    if amount > 0:
        self.owed[COIN][account] += amount
        log Owed(token=COIN, account=account, amount=amount)


@internal
def _set_state(job: uint256, state: uint256):
    self.tokens[job] = self.tokens[job] & ~bits.U8 | convert(convert(state, uint8), uint256)


@internal
@pure
def _unpack_token(word: uint256) -> (address, uint256):
    return convert(word >> 88, address), word & bits.U8
