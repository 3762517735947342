# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Rewards
@license Apache-2.0
@notice Pays network rewards from a funded pool, by epochs of `epoch_s` seconds: for verified compute, uptime, bandwidth,
        verification and data.
@dev Rewards on a job never exceed the fee it paid to the treasury, so farming with one's own jobs never pays; the argument
     is in docs/protocol/rewards.md. Every call costs the same however many operators and jobs there are.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .interfaces import IRewards
from .modules import bits
from .modules import reward_words as words


implements: IRewards


# What NodeRegistry says an operator promised for an epoch.
struct Promise:
    tier: uint256
    hours: uint256


interface Successor:
    def fund(amount: uint256): nonpayable


interface Promises:
    def promised(operator: uint256, epoch: uint256) -> Promise: view


# Epochs after its own in which an epoch's rewards can be claimed.
CLAIM_EPOCHS: constant(uint256) = 90
# Jobs in one call: bounds its gas.
LIST_LIMIT: constant(uint256) = 64
# Of the stake of who signed, or knowingly redeemed, more bytes than a link carries.
VIOLATION_BPS: constant(uint256) = 100
BPS: constant(uint256) = 10_000
YEAR_S: constant(uint256) = 31_536_000

# EIP-712
DOMAIN_TYPE_HASH: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME_HASH: constant(bytes32) = keccak256("Zoo Rewards")
VERSION_HASH: constant(bytes32) = keccak256("1")
RECEIPT_TYPE_HASH: constant(bytes32) = keccak256(
    "Receipt(uint256 server,uint256 client,uint256 epoch,uint256 total)"
)


zen: public(immutable(address))
registry: public(immutable(address))
epoch_s: public(immutable(uint256))
# The most that all rewards of an epoch come to.
emission_per_epoch: public(immutable(uint256))
# The most weight of verified compute that counts per smallest unit of the fee paid for it.
weight_per_fee: public(immutable(uint256))
# The timelock: moves the pool to the next version.
governor: public(immutable(address))
deployer: public(immutable(address))


struct Epoch:
    weight: uint256
    fees: uint256
    budget: uint256
    paid: uint256


struct Share:
    weight: uint256
    fees: uint256


struct JobFees:
    fees: uint256
    verification: uint256
    data: uint256


struct Called:
    verification: uint256
    data: uint256


struct Call:
    called: uint256
    weight: uint256


struct Earned:
    extra: uint256
    paid: uint256


struct Traffic:
    total: uint256
    counted: uint256


struct Signed:
    total: uint256
    violated: bool


# The recorders; set once by `wire`.
settlement: public(address)
audits: public(address)
datasets: public(address)
# ZEN not yet given to an epoch's budget.
pool: public(uint256)
# epoch -> weight (144) | fees (112) of all verified compute
totals: HashMap[uint256, uint256]
# epoch -> budget (128) | paid (128); zero until the epoch's first claim
budgets: HashMap[uint256, uint256]
# operator -> epoch -> job -> weight (144) | fees (112); zero once claimed
share_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# operator -> epoch -> uptime and bandwidth paid (128) | all that was claimed (128)
earned_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> fees that its recorded payments brought the treasury
fees_of: HashMap[uint256, uint256]
# job -> what verification (128) | data (128) called of its fees
called_of: HashMap[uint256, uint256]
# epoch -> what verification (128) | data (128) called in it, over all jobs
called_words: HashMap[uint256, uint256]
# flow -> job -> epoch -> weight (144) | called (112)
call_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# flow -> who -> job -> epoch -> weight; zero once claimed
works: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]])
# epoch -> bytes that count
total_bytes: public(HashMap[uint256, uint256])
# server -> epoch -> bytes by receipts (128) | bytes that count (128)
served_words: HashMap[uint256, HashMap[uint256, uint256]]
# server -> client -> epoch -> bytes of the last receipt (128) | bytes that count (128)
pair_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# client -> epoch -> bytes it signed for (128) | 1 when they were more than its link carries
signed_words: HashMap[uint256, HashMap[uint256, uint256]]


event PoolFunded:
    amount: uint256


event PoolMoved:
    successor: indexed(address)
    amount: uint256


event ComputeRecorded:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    job: indexed(uint256)
    weight: uint256
    fee: uint256


event VerificationRecorded:
    auditor: indexed(uint256)
    epoch: indexed(uint256)
    job: indexed(uint256)
    weight: uint256
    called: uint256


event DataRecorded:
    contributor: indexed(address)
    epoch: indexed(uint256)
    job: indexed(uint256)
    weight: uint256
    most: uint256
    called: uint256


event ReceiptRedeemed:
    server: indexed(uint256)
    client: indexed(uint256)
    epoch: indexed(uint256)
    total: uint256
    counted: uint256


event ReceiptVoided:
    server: indexed(uint256)
    client: indexed(uint256)
    epoch: indexed(uint256)
    total: uint256
    taken: uint256


event RewardClaimed:
    operator: indexed(uint256)
    epoch: indexed(uint256)
    amount: uint256


event VerificationClaimed:
    auditor: indexed(uint256)
    epoch: indexed(uint256)
    job: indexed(uint256)
    amount: uint256


event DataClaimed:
    contributor: indexed(address)
    epoch: indexed(uint256)
    job: indexed(uint256)
    amount: uint256


event BudgetRecycled:
    epoch: indexed(uint256)
    amount: uint256


@deploy
def __init__(
    zen_: address,
    registry_: address,
    governor_: address,
    epoch_s_: uint256,
    emission_per_epoch_: uint256,
    weight_per_fee_: uint256,
):
    """
    @param zen_ The token of the pool.
    @param registry_ Knows the operators' owners, hot keys, tiers and heartbeats.
    @param governor_ The timelock.
    @param epoch_s_ Seconds of an epoch.
    @param emission_per_epoch_ The most an epoch pays.
    @param weight_per_fee_ The most weight that counts per smallest unit of a fee.
    """
    zen = zen_
    registry = registry_
    governor = governor_
    epoch_s = epoch_s_
    emission_per_epoch = emission_per_epoch_
    weight_per_fee = weight_per_fee_
    deployer = msg.sender


@external
def wire(settlement_: address, audits_: address, datasets_: address):
    """
    @notice Names the recorders, once.
    """
    assert msg.sender == deployer, "rewards: not the deployer"
    assert self.settlement == empty(address), "rewards: already wired"
    self.settlement = settlement_
    self.audits = audits_
    self.datasets = datasets_


@external
def fund(amount: uint256):
    """
    @notice Adds the caller's ZEN to the pool.
    """
    assert amount > 0, "rewards: zero amount"
    self.pool += amount
    log PoolFunded(amount=amount)
    assert extcall IERC20(zen).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "rewards: transfer failed"


@external
def move_pool(successor: address, amount: uint256):
    """
    @notice Moves ZEN of the pool into the pool of the next version. What the epochs that can still be claimed may pay stays.
    """
    assert msg.sender == governor, "rewards: not the governor"
    assert amount > 0, "rewards: zero amount"
    # INVARIANT pool: no epoch in which anything was recorded has a smaller budget because the pool moved.
    assert self.pool >= amount + self._reserved(), "rewards: reserved for epochs"
    self.pool -= amount
    log PoolMoved(successor=successor, amount=amount)
    before: uint256 = staticcall IERC20(zen).balanceOf(self)
    assert extcall IERC20(zen).approve(successor, amount, default_return_value=True), "rewards: approval failed"
    extcall Successor(successor).fund(amount)
    assert staticcall IERC20(zen).balanceOf(self) == before - amount, "rewards: successor took another amount"


@external
def record(job: uint256, operator: uint256, weight: uint256, fee: uint256):
    """
    @notice Adds verified compute of a job, and the fee it paid, to the current epoch.
    """
    assert msg.sender == self.settlement, "rewards: not the settlement"
    epoch: uint256 = block.timestamp // epoch_s
    # A job of absurd declared work weighs no more than its fee lets it: it cannot thin out the others' rewards.
    counted: uint256 = min(weight, weight_per_fee * fee)
    self.totals[epoch] = self._added(self.totals[epoch], counted, fee)
    self.share_words[operator][epoch][job] = self._added(self.share_words[operator][epoch][job], counted, fee)
    self.fees_of[job] += fee
    log ComputeRecorded(operator=operator, epoch=epoch, job=job, weight=counted, fee=fee)


@external
def record_verification(auditor: uint256, job: uint256, weight: uint256):
    """
    @notice Adds an auditor's work on a job to the current epoch, and calls what is left of the job's allowance into it.
    """
    assert msg.sender == self.audits, "rewards: not the audits"
    called: uint256 = self._call(words.VERIFICATION, auditor, job, weight, weight)
    log VerificationRecorded(
        auditor=auditor, epoch=block.timestamp // epoch_s, job=job, weight=weight, called=called
    )


@external
def record_data(contributor: address, job: uint256, weight: uint256, most: uint256):
    """
    @notice Adds what a contributor's data was worth to a job, and calls what is left of the job's allowance.
    @param weight Quality x bytes.
    @param most What the best score would have weighed.
    """
    assert msg.sender == self.datasets, "rewards: not the datasets"
    called: uint256 = self._call(words.DATA, convert(contributor, uint256), job, weight, most)
    log DataRecorded(
        contributor=contributor,
        epoch=block.timestamp // epoch_s,
        job=job,
        weight=weight,
        most=most,
        called=called,
    )


@external
def redeem(server: uint256, client: uint256, epoch: uint256, total: uint256, signature: Bytes[65]) -> uint256:
    """
    @notice Counts what a client's receipt adds to the bytes that `server` sent it in this epoch.
    @param total Bytes so far, as the client signed them.
    @param signature The client's hot key's, `r | s | v`, of EIP-712 data.
    @return The bytes that count now and did not before; 0 also when the receipt shows that its signer has violated.
    """
    assert msg.sender == staticcall INodeRegistry(registry).hot_key(server), "rewards: not the hot key"
    assert epoch == block.timestamp // epoch_s, "rewards: not the current epoch"
    assert server != client, "rewards: own receipt"
    signed: uint256 = 0
    violated: uint256 = 0
    signed, violated = words._unpack_halves(self.signed_words[client][epoch])
    assert violated == 0, "rewards: signer has violated"
    signer: address = self._signer(self._digest(server, client, epoch, total), signature)
    # The zero address is the answer to nonsense, and the hot key of an operator that does not exist.
    assert (
        signer != empty(address) and signer == staticcall INodeRegistry(registry).hot_key(client)
    ), "rewards: receipt not signed"
    last: uint256 = 0
    counted: uint256 = 0
    last, counted = words._unpack_halves(self.pair_words[server][client][epoch])
    assert total > last, "rewards: nothing new"
    fresh: uint256 = total - last
    served: uint256 = 0
    served_counted: uint256 = 0
    served, served_counted = words._unpack_halves(self.served_words[server][epoch])
    link: uint256 = self._link(server, epoch)
    # `served` is below 2^128, and so is `fresh` where it is within the link: the sum cannot wrap.
    assert fresh <= link and served + fresh <= link, "rewards: beyond the server's link"
    served += fresh
    signed += fresh
    link = self._link(client, epoch)
    if signed > link:
        self.signed_words[client][epoch] = words._pack_halves(signed, 1)
        self.pair_words[server][client][epoch] = words._pack_halves(total, 0)
        self.served_words[server][epoch] = words._pack_halves(served, served_counted - counted)
        self.total_bytes[epoch] -= counted
        log ReceiptVoided(server=server, client=client, epoch=epoch, total=total, taken=counted)
        extcall INodeRegistry(registry).slash_stake(client, VIOLATION_BPS)
        if total > link:
            # The pair alone is beyond the link: whoever redeems that cannot have sent it.
            extcall INodeRegistry(registry).slash_stake(server, VIOLATION_BPS)
        return 0
    # INVARIANT bytes: counted of a pair <= PAIR_BYTES, of a server <= SERVER_BYTES; total_bytes is the servers' sum.
    more: uint256 = min(min(total, words.PAIR_BYTES) - min(last, words.PAIR_BYTES), words.SERVER_BYTES - served_counted)
    self.signed_words[client][epoch] = words._pack_halves(signed, 0)
    self.pair_words[server][client][epoch] = words._pack_halves(total, counted + more)
    self.served_words[server][epoch] = words._pack_halves(served, served_counted + more)
    self.total_bytes[epoch] += more
    log ReceiptRedeemed(server=server, client=client, epoch=epoch, total=total, counted=more)
    return more


@external
def claim(operator: uint256, epoch: uint256, jobs: DynArray[uint256, LIST_LIMIT]) -> uint256:
    """
    @notice Pays the operator's owner for what it computed for these jobs in an epoch that is over, and its uptime and
            bandwidth as far as these jobs' fees have room.
    @return The reward.
    """
    self._check_claimable(epoch)
    budget: uint256 = self._budget(epoch)
    total: words.Weighed = words._unpack_weighed(self.totals[epoch])
    compute_budget: uint256 = words._part(budget, words.COMPUTE_BPS)
    extra: uint256 = 0
    paid: uint256 = 0
    extra, paid = words._unpack_halves(self.earned_words[operator][epoch])
    extra_due: uint256 = self._extra(operator, epoch, budget) - extra
    amount: uint256 = 0
    for job: uint256 in jobs:
        share: words.Weighed = words._unpack_weighed(self.share_words[operator][epoch][job])
        # INVARIANT rewards: what a job adds to all that its operator is paid is at most 7,000 bps of its fee.
        room: uint256 = words._part(share.amount, words.WORKER_CAP_BPS)
        computed: uint256 = min(words._shared(compute_budget, share.weight, total.weight), room)
        filled: uint256 = min(extra_due, room - computed)
        extra_due -= filled
        extra += filled
        amount += computed + filled
        self.share_words[operator][epoch][job] = 0
    self._spend(epoch, amount)
    self.earned_words[operator][epoch] = words._pack_halves(extra, paid + amount)
    log RewardClaimed(operator=operator, epoch=epoch, amount=amount)
    self._push(staticcall INodeRegistry(registry).owner_of(operator), amount)
    return amount


@external
def claim_verification(auditor: uint256, job: uint256, epoch: uint256) -> uint256:
    """
    @notice Pays the auditor's owner its part of what the job's fees allow for verification in an epoch that is over.
    @return The reward.
    """
    self._check_claimable(epoch)
    amount: uint256 = self._granted(words.VERIFICATION, auditor, job, epoch)
    self._spend(epoch, amount)
    extra: uint256 = 0
    paid: uint256 = 0
    extra, paid = words._unpack_halves(self.earned_words[auditor][epoch])
    self.earned_words[auditor][epoch] = words._pack_halves(extra, paid + amount)
    log VerificationClaimed(auditor=auditor, epoch=epoch, job=job, amount=amount)
    self._push(staticcall INodeRegistry(registry).owner_of(auditor), amount)
    return amount


@external
def claim_data(contributor: address, job: uint256, epoch: uint256) -> uint256:
    """
    @notice Pays the contributor its part of what the job's fees allow for data in an epoch that is over.
    @return The reward.
    """
    self._check_claimable(epoch)
    amount: uint256 = self._granted(words.DATA, convert(contributor, uint256), job, epoch)
    self._spend(epoch, amount)
    log DataClaimed(contributor=contributor, epoch=epoch, job=job, amount=amount)
    self._push(contributor, amount)
    return amount


@external
def recycle(epoch: uint256) -> uint256:
    """
    @notice Returns to the pool what the budget of an expired epoch did not pay.
    @return What came back.
    """
    assert block.timestamp // epoch_s > epoch + CLAIM_EPOCHS, "rewards: claims still open"
    budget: uint256 = 0
    paid: uint256 = 0
    budget, paid = words._unpack_halves(self.budgets[epoch])
    assert budget > paid, "rewards: nothing to recycle"
    self.budgets[epoch] = words._pack_halves(paid, paid)
    self.pool += budget - paid
    log BudgetRecycled(epoch=epoch, amount=budget - paid)
    return budget - paid


@external
@view
def epochs(epoch: uint256) -> Epoch:
    """
    @notice An epoch's totals; the budget is 0 until its first claim.
    """
    total: words.Weighed = words._unpack_weighed(self.totals[epoch])
    budget: uint256 = 0
    paid: uint256 = 0
    budget, paid = words._unpack_halves(self.budgets[epoch])
    return Epoch(weight=total.weight, fees=total.amount, budget=budget, paid=paid)


@external
@view
def shares(operator: uint256, epoch: uint256, job: uint256) -> Share:
    """
    @notice What an operator computed for a job in an epoch and has not claimed yet.
    """
    share: words.Weighed = words._unpack_weighed(self.share_words[operator][epoch][job])
    return Share(weight=share.weight, fees=share.amount)


@external
@view
def job_fees(job: uint256) -> JobFees:
    """
    @notice The fees recorded for a job, and what verification and data called of them.
    """
    verification: uint256 = 0
    data: uint256 = 0
    verification, data = words._unpack_halves(self.called_of[job])
    return JobFees(fees=self.fees_of[job], verification=verification, data=data)


@external
@view
def called(epoch: uint256) -> Called:
    """
    @notice What verification and data called into an epoch, over all jobs.
    """
    verification: uint256 = 0
    data: uint256 = 0
    verification, data = words._unpack_halves(self.called_words[epoch])
    return Called(verification=verification, data=data)


@external
@view
def calls(flow: uint256, job: uint256, epoch: uint256) -> Call:
    """
    @notice What a job called into an epoch for a flow (3 verification, 4 data), and the weights that divide it.
    """
    item: words.Weighed = words._unpack_weighed(self.call_words[flow][job][epoch])
    return Call(called=item.amount, weight=item.weight)


@external
@view
def earned(operator: uint256, epoch: uint256) -> Earned:
    """
    @notice What an operator claimed of an epoch: for uptime and bandwidth, and in all.
    """
    extra: uint256 = 0
    paid: uint256 = 0
    extra, paid = words._unpack_halves(self.earned_words[operator][epoch])
    return Earned(extra=extra, paid=paid)


@external
@view
def served(server: uint256, epoch: uint256) -> Traffic:
    """
    @notice Bytes that a server redeemed receipts for in an epoch, and those of them that count.
    """
    return self._bytes(self.served_words[server][epoch])


@external
@view
def pairs(server: uint256, client: uint256, epoch: uint256) -> Traffic:
    """
    @notice The last receipt of a pair in an epoch, and what counts of it.
    """
    return self._bytes(self.pair_words[server][client][epoch])


@external
@view
def signed(client: uint256, epoch: uint256) -> Signed:
    """
    @notice Bytes that a client signed for in an epoch, and whether they were more than its link carries.
    """
    total: uint256 = 0
    violated: uint256 = 0
    total, violated = words._unpack_halves(self.signed_words[client][epoch])
    return Signed(total=total, violated=violated != 0)


@external
@view
def return_bps(operator: uint256, epoch: uint256) -> uint256:
    """
    @notice What an operator claimed of an epoch, annualised over its stake, in basis points.
    """
    stake: uint256 = staticcall INodeRegistry(registry).stake_of(operator)
    if stake == 0:
        return 0
    extra: uint256 = 0
    paid: uint256 = 0
    extra, paid = words._unpack_halves(self.earned_words[operator][epoch])
    return paid * BPS * (YEAR_S // epoch_s) // stake


@internal
def _call(flow: uint256, who: uint256, job: uint256, weight: uint256, most: uint256) -> uint256:
    """
    @notice Adds a weight to the current epoch, and calls what is left of the job's allowance into it.
    @return What was called now.
    """
    epoch: uint256 = block.timestamp // epoch_s
    verification: uint256 = 0
    data: uint256 = 0
    verification, data = words._unpack_halves(self.called_of[job])
    verification_total: uint256 = 0
    data_total: uint256 = 0
    verification_total, data_total = words._unpack_halves(self.called_words[epoch])
    # INVARIANT rewards: what a flow called of a job never exceeds its part of the job's fees, which only grow.
    fresh: uint256 = 0
    if flow == words.VERIFICATION:
        fresh = words._part(self.fees_of[job], words.VERIFICATION_CAP_BPS) - verification
        verification += fresh
        verification_total += fresh
    else:
        fresh = words._part(self.fees_of[job], words.DATA_CAP_BPS) - data
        data += fresh
        data_total += fresh
    self.called_of[job] = words._pack_halves(verification, data)
    self.called_words[epoch] = words._pack_halves(verification_total, data_total)
    self.call_words[flow][job][epoch] = self._added(self.call_words[flow][job][epoch], most, fresh)
    self.works[flow][who][job][epoch] += weight
    return fresh


@internal
def _granted(flow: uint256, who: uint256, job: uint256, epoch: uint256) -> uint256:
    """
    @notice Takes a weight, and gives what it earned.
    """
    verification_total: uint256 = 0
    data_total: uint256 = 0
    verification_total, data_total = words._unpack_halves(self.called_words[epoch])
    total: uint256 = verification_total
    bps: uint256 = words.VERIFICATION_BPS
    if flow == words.DATA:
        total = data_total
        bps = words.DATA_BPS
    item: words.Weighed = words._unpack_weighed(self.call_words[flow][job][epoch])
    # INVARIANT rewards: the grants of an epoch sum to at most the flow's budget, those of a job to at most what it called.
    granted: uint256 = words._shared(min(words._part(self._budget(epoch), bps), total), item.amount, total)
    weight: uint256 = self.works[flow][who][job][epoch]
    self.works[flow][who][job][epoch] = 0
    return words._shared(granted, weight, item.weight)


@internal
@view
def _extra(operator: uint256, epoch: uint256, budget: uint256) -> uint256:
    """
    @notice What uptime and bandwidth of an epoch earned an operator, before any cap. Fixed once the epoch is over.
    """
    beats: uint256 = bits._popcount(staticcall INodeRegistry(registry).beats(operator, epoch))
    uptime: uint256 = words._shared(
        words._part(budget, words.UPTIME_BPS), beats, staticcall INodeRegistry(registry).total_beats(epoch)
    )
    return uptime + words._shared(
        words._part(budget, words.BANDWIDTH_BPS),
        self.served_words[operator][epoch] & bits.U128,
        self.total_bytes[epoch],
    )


@internal
@view
def _link(operator: uint256, epoch: uint256) -> uint256:
    """
    @notice The bytes that an operator's link carries in an epoch.
    """
    return words._link_bytes((staticcall Promises(registry).promised(operator, epoch)).tier, epoch_s)


@internal
@view
def _check_claimable(epoch: uint256):
    now: uint256 = block.timestamp // epoch_s
    assert now > epoch, "rewards: epoch not over"
    assert now - epoch <= CLAIM_EPOCHS, "rewards: epoch expired"


@internal
@view
def _reserved() -> uint256:
    """
    @return What the budgets still to be fixed may take of the pool: of this epoch, and of those whose claims are open.
    """
    now: uint256 = block.timestamp // epoch_s
    reserved: uint256 = 0
    for back: uint256 in range(CLAIM_EPOCHS + 1):
        epoch: uint256 = now - back
        if self.budgets[epoch] == 0 and (self.totals[epoch] != 0 or self.called_words[epoch] != 0):
            reserved += emission_per_epoch
    return reserved


@internal
@view
def _budget(epoch: uint256) -> uint256:
    """
    @notice What an epoch pays at most: fixed at its first claim.
    """
    budget: uint256 = self.budgets[epoch] >> 128
    if budget == 0:
        return min(emission_per_epoch, self.pool)
    return budget


@internal
def _spend(epoch: uint256, amount: uint256):
    """
    @notice Takes a reward from the epoch's budget, which the first one takes from the pool.
    """
    assert amount > 0, "rewards: nothing to claim"
    budget: uint256 = 0
    paid: uint256 = 0
    budget, paid = words._unpack_halves(self.budgets[epoch])
    # A budget of zero was never fixed: an epoch without one has paid nothing.
    if budget == 0:
        budget = min(emission_per_epoch, self.pool)
        self.pool -= budget
    # INVARIANT rewards: paid <= budget <= emission_per_epoch, and nothing is paid twice.
    self.budgets[epoch] = words._pack_halves(budget, paid + amount)


@internal
def _push(to: address, amount: uint256):
    assert extcall IERC20(zen).transfer(to, amount, default_return_value=True), "rewards: transfer failed"


@internal
@view
def _digest(server: uint256, client: uint256, epoch: uint256, total: uint256) -> bytes32:
    """
    @notice What a client's hot key signs.
    """
    domain: bytes32 = keccak256(abi_encode(DOMAIN_TYPE_HASH, NAME_HASH, VERSION_HASH, chain.id, self))
    receipt: bytes32 = keccak256(abi_encode(RECEIPT_TYPE_HASH, server, client, epoch, total))
    return keccak256(concat(b"\x19\x01", domain, receipt))


@internal
@pure
def _signer(digest: bytes32, signature: Bytes[65]) -> address:
    """
    @notice Who signed; the zero address when the signature is none. Totals only grow, so a second form of one is no use.
    """
    if len(signature) != 65:
        return empty(address)
    r: bytes32 = convert(slice(signature, 0, 32), bytes32)
    s: bytes32 = convert(slice(signature, 32, 32), bytes32)
    return ecrecover(digest, convert(slice(signature, 64, 1), uint256), r, s)


@internal
@pure
def _added(word: uint256, weight: uint256, amount: uint256) -> uint256:
    # A record is at most 2^96 * 16,384 * 3 < 2^112 of weight and 2^95 of fee: the widths leave room for 2^17 records of the
    # greatest fee in one epoch, more than blocks have gas for. The conversions of `_pack_weighed` revert beyond.
    item: words.Weighed = words._unpack_weighed(word)
    return words._pack_weighed(words.Weighed(weight=item.weight + weight, amount=item.amount + amount))


@internal
@pure
def _bytes(word: uint256) -> Traffic:
    total: uint256 = 0
    counted: uint256 = 0
    total, counted = words._unpack_halves(word)
    return Traffic(total=total, counted=counted)
