# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Serving
@license Apache-2.0
@notice Seats of operators that answer requests off chain, and the receipts that they sign for answers: whoever has a receipt can have it
        judged as a claim, and the seat's lock is behind it for a window.
@dev A receipt says which program, from which start, ended where. It is admitted as a claim like Settlement's, of no job and of one
     slot: the Referee reads and reports it as it does there. What an answer costs, and whether it is to the question that was
     asked, is between client and operator: a client pays for no receipt of another program, start or nonce than its own.
"""


from ethereum.ercs import IERC20
from .interfaces import IDisputes
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .modules import claims as claim_words
from .modules import merkle
from .modules import numbers
from .modules import openings
from .modules import outcomes
from .modules import protocol_time


implements: IDisputes


MAX_STEPS: constant(uint256) = 65_536
# Times that a receipt's steps can be run again in its window.
RE_EXECUTIONS: constant(uint256) = 3
MAX_URL: constant(uint256) = 128
# Status of an admitted receipt that was neither convicted nor is pending.
VOID: constant(uint256) = 4

# EIP-712
DOMAIN_TYPE_HASH: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME_HASH: constant(bytes32) = keccak256("Zoo Serving")
VERSION_HASH: constant(bytes32) = keccak256("1")
RECEIPT_TYPE_HASH: constant(bytes32) = keccak256(
    "Receipt(uint256 seat,bytes32 program,uint256 steps,bytes32 start,bytes32 nonce,bytes32 segments,bytes32 end,uint256 issued)"
)


zen: public(immutable(address))
registry: public(immutable(address))
# Seconds after it was issued in which a receipt can be admitted, after its admission in which it can be disputed, and after a seat was
# left in which its receipts still count.
receipt_window_s: public(immutable(uint256))
# Seconds in which the steps of a receipt are run again: what the clocks of a dispute follow from.
receipt_s: public(immutable(uint256))
deployer: public(immutable(address))


struct Seat:
    operator: uint256
    # Signs its receipts, for as long as there is the seat.
    signer: address
    # ZEN behind its receipts; 0 once one was convicted.
    lock: uint256
    # 0 until it is left.
    left_at: uint256
    # Admitted receipts that can still be judged.
    pending: uint256


# What an operator asks, and where.
struct Offer:
    # The digest in the CID of the file that says what is served.
    service: bytes32
    # For 1,000 tokens, in the token's smallest unit.
    price: uint256
    token: address
    url: String[MAX_URL]


struct Receipt:
    seat: uint256
    # The program root of one step.
    program: bytes32
    steps: uint256
    # The state root of what the program starts from: the model, and what was asked.
    start: bytes32
    # The client's: with what is above it, where random draws come from.
    nonce: bytes32
    # The root over the states before the first step and after the last one; the latter.
    segments: bytes32
    end: bytes32
    # When it was signed, in the protocol's time.
    issued: uint256


# Of a receipt that was admitted.
struct Admitted:
    # 1 pending, 3 convicted, 4 void: neither.
    status: uint256
    is_disputed: bool
    work_root: bytes32
    # The last second at which it can be disputed.
    deadline: uint256


# Judges disputes; set once by `wire`.
referee: public(address)
# Seats are numbered 1..seat_count.
seat_count: public(uint256)
seats: public(HashMap[uint256, Seat])
# claim hash -> its receipt
admitted: public(HashMap[bytes32, Admitted])
# claim hash -> of the lock that its conviction took, what is kept for whoever found that it is false
finder_shares: public(HashMap[bytes32, uint256])
# ZEN that nobody can spend any more.
burned: public(uint256)


event ServingSeatTaken:
    seat: indexed(uint256)
    operator: indexed(uint256)
    signer: address
    lock: uint256


event Offered:
    seat: indexed(uint256)
    service: indexed(bytes32)
    offer: Offer


event ServingSeatLeft:
    seat: indexed(uint256)
    # The last second of its receipts.
    until: uint256


event ServingLockReleased:
    seat: indexed(uint256)
    amount: uint256


event ReceiptAdmitted:
    seat: indexed(uint256)
    operator: indexed(uint256)
    claim: ISettlementViews.Claim
    receipt: Receipt
    deadline: uint256


event ReceiptDisputeOpened:
    seat: indexed(uint256)


event ReceiptDisputeClosed:
    seat: indexed(uint256)
    outcome: uint256


event ReceiptConvicted:
    seat: indexed(uint256)
    operator: indexed(uint256)
    slashed: uint256


event ReceiptFinderRewarded:
    seat: indexed(uint256)
    finder: indexed(address)
    amount: uint256


event ReceiptDropped:
    seat: indexed(uint256)


@deploy
def __init__(zen_: address, registry_: address, min_window_s_: uint256, receipt_s_: uint256):
    """
    @param zen_ The token of the locks.
    @param registry_ Knows the operators.
    @param min_window_s_ The least challenge window.
    @param receipt_s_ Seconds in which a receipt's steps are run again.
    """
    zen = zen_
    registry = registry_
    receipt_s = receipt_s_
    receipt_window_s = max(min_window_s_, RE_EXECUTIONS * receipt_s_)
    deployer = msg.sender


@external
def wire(referee_: address):
    """
    @notice Names the referee, once.
    """
    assert msg.sender == deployer, "serving: not the deployer"
    assert self.referee == empty(address), "serving: already wired"
    self.referee = referee_


@external
def take(operator: uint256, signer: address, lock: uint256, offer: Offer) -> uint256:
    """
    @notice Takes a seat, with the caller's ZEN as its lock.
    @param operator One of the caller's.
    @param signer Signs the seat's receipts. Nobody can change it: receipts of before stay what they are.
    @return The seat's number.
    """
    assert msg.sender == staticcall INodeRegistry(registry).owner_of(operator), "serving: not the owner"
    # The zero address is the answer to a signature that is none.
    assert signer != empty(address), "serving: zero signer"
    assert lock > 0, "serving: zero lock"
    seat: uint256 = self.seat_count + 1
    self.seat_count = seat
    self.seats[seat] = Seat(operator=operator, signer=signer, lock=lock, left_at=0, pending=0)
    log ServingSeatTaken(seat=seat, operator=operator, signer=signer, lock=lock)
    log Offered(seat=seat, service=offer.service, offer=offer)
    assert extcall IERC20(zen).transferFrom(
        msg.sender, self, lock, default_return_value=True
    ), "serving: transfer failed"
    return seat


@external
def offer(seat: uint256, changed: Offer):
    """
    @notice Changes what a seat offers. What was asked before is answered and paid as it was.
    """
    self._check_operator(seat)
    assert self.seats[seat].left_at == 0, "serving: seat left"
    log Offered(seat=seat, service=changed.service, offer=changed)


@external
def leave(seat: uint256):
    """
    @notice Ends a seat. Clients have a window to see it: so long its receipts count.
    """
    self._check_operator(seat)
    assert self.seats[seat].left_at == 0, "serving: seat left"
    now: uint256 = protocol_time._now(registry)
    self.seats[seat].left_at = now
    log ServingSeatLeft(seat=seat, until=now + receipt_window_s)


@external
def release(seat: uint256):
    """
    @notice Sends the lock of a seat that was left to the operator's owner, once no receipt of it can be judged any more.
    """
    place: Seat = self.seats[seat]
    assert place.left_at != 0, "serving: seat not left"
    # INVARIANT locks: a receipt that a client could take is admitted before its seat's lock is gone.
    assert (
        protocol_time._now(registry) > place.left_at + 2 * receipt_window_s and place.pending == 0
    ), "serving: receipts open"
    assert place.lock > 0, "serving: nothing locked"
    self.seats[seat].lock = 0
    log ServingLockReleased(seat=seat, amount=place.lock)
    self._send(staticcall INodeRegistry(registry).owner_of(place.operator), place.lock)


@external
def admit(receipt: Receipt, signature: Bytes[65]) -> bytes32:
    """
    @notice Makes a receipt a claim: it can be disputed for a window.
    @param signature The seat's signer's, `r | s | v`, of EIP-712 data.
    @return The claim's hash.
    """
    place: Seat = self.seats[receipt.seat]
    assert place.operator != 0, "serving: no such seat"
    assert receipt.steps > 0 and receipt.steps <= MAX_STEPS, "serving: steps out of range"
    now: uint256 = protocol_time._now(registry)
    assert receipt.issued <= now, "serving: not issued yet"
    assert now <= receipt.issued + receipt_window_s, "serving: window closed"
    assert place.left_at == 0 or receipt.issued <= place.left_at + receipt_window_s, "serving: seat left"
    assert self._signer(self._digest(receipt), signature) == place.signer, "serving: receipt not signed"
    claim: ISettlementViews.Claim = self._claim(place.operator, receipt)
    hash: bytes32 = claim_words._hash(claim)
    # INVARIANT receipts: a claim is admitted once. Whoever admits it before others gives them a window from then on.
    assert self.admitted[hash].status == 0, "serving: already admitted"
    deadline: uint256 = now + receipt_window_s
    self.admitted[hash] = Admitted(
        status=claim_words.PENDING, is_disputed=False, work_root=self._work_root(receipt), deadline=deadline
    )
    self.seats[receipt.seat].pending = place.pending + 1
    log ReceiptAdmitted(
        seat=receipt.seat, operator=place.operator, claim=claim, receipt=receipt, deadline=deadline
    )
    return hash


@external
def drop(claim: ISettlementViews.Claim):
    """
    @notice Ends what waits for an admitted receipt that nobody asked about in its window.
    """
    hash: bytes32 = self._pending(claim)
    assert not self.admitted[hash].is_disputed, "serving: in dispute"
    assert protocol_time._now(registry) > self.admitted[hash].deadline, "serving: window open"
    self._end(claim.turn, hash, VOID)
    log ReceiptDropped(seat=claim.turn)


@external
def open_dispute(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice The first ask about an admitted receipt.
    @param job That of receipts.
    """
    self._check_referee()
    self.admitted[self._pending(claim)].is_disputed = True
    log ReceiptDisputeOpened(seat=claim.turn)


@external
def close_dispute(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, used_s: uint256, burned: uint256):
    """
    @notice The dispute of a receipt is over. A conviction takes the seat's lock.
    @param job That of receipts.
    @param outcome 1 final, 2 judged, 3 silent, 4 silent and exhausted, 5 void by age.
    @param used_s Not read: no claim here is paid.
    @param burned Not read: asks about receipts prepay no tokens.
    """
    self._check_referee()
    hash: bytes32 = claim_words._hash(claim)
    if self.admitted[hash].status != claim_words.PENDING:
        return
    seat: uint256 = claim.turn
    log ReceiptDisputeClosed(seat=seat, outcome=outcome)
    if outcome == outcomes.FINAL or outcome == outcomes.AGED:
        self._end(seat, hash, VOID)
        return
    self._end(seat, hash, claim_words.CONVICTED)
    lock: uint256 = self.seats[seat].lock
    self.seats[seat].lock = 0
    # INVARIANT shares: whoever shows its own fault loses more than it is sent. Nobody earns by silence.
    share: uint256 = lock * numbers.FINDER_BPS // numbers.BPS if outcome == outcomes.JUDGED else 0
    self.finder_shares[hash] = share
    self.burned += lock - share
    log ReceiptConvicted(seat=seat, operator=claim.operator, slashed=lock)


@external
def reward_finder(job: uint256, claim: ISettlementViews.Claim, finder: address):
    """
    @notice What is kept of a judged receipt's lock is sent to whoever found that it is false; without a finder it burns.
    @param job That of receipts.
    """
    self._check_referee()
    hash: bytes32 = claim_words._hash(claim)
    amount: uint256 = self.finder_shares[hash]
    if amount == 0:
        return
    self.finder_shares[hash] = 0
    log ReceiptFinderRewarded(seat=claim.turn, finder=finder, amount=amount)
    if finder == empty(address):
        self.burned += amount
    else:
        self._send(finder, amount)


@external
@view
def dispute_terms(job: uint256, claim: ISettlementViews.Claim) -> IDisputes.Terms:
    """
    @notice What a pending receipt's clocks and prices follow from.
    @param job That of receipts.
    """
    kept: Admitted = self.admitted[self._pending(claim)]
    return IDisputes.Terms(work_root=kept.work_root, reexecute_s=receipt_s, slots=1, deadline=kept.deadline)


@external
@view
def claim_deadline(job: uint256, turn: uint256) -> uint256:
    """
    @notice 0: a receipt's terms have its deadline, from its admission on.
    @param job That of receipts.
    @param turn A seat.
    """
    return 0


@external
@view
def digest(receipt: Receipt) -> bytes32:
    """
    @notice What a seat's signer signs.
    """
    return self._digest(receipt)


@internal
@view
def _check_operator(seat: uint256):
    operator: uint256 = self.seats[seat].operator
    # The zero address owns no seat that does not exist.
    assert operator != 0 and (
        msg.sender == staticcall INodeRegistry(registry).owner_of(operator)
        or msg.sender == staticcall INodeRegistry(registry).hot_key(operator)
    ), "serving: not the operator"


@internal
@view
def _check_referee():
    assert msg.sender == self.referee, "serving: not the referee"


@internal
@view
def _pending(claim: ISettlementViews.Claim) -> bytes32:
    """
    @return The hash of an admitted claim that is pending.
    """
    hash: bytes32 = claim_words._hash(claim)
    assert self.admitted[hash].status == claim_words.PENDING, "serving: unknown receipt"
    return hash


@internal
def _end(seat: uint256, hash: bytes32, status: uint256):
    self.admitted[hash].status = status
    self.seats[seat].pending -= 1


@internal
def _send(to: address, amount: uint256):
    assert extcall IERC20(zen).transfer(to, amount, default_return_value=True), "serving: transfer failed"


@internal
@pure
def _claim(operator: uint256, receipt: Receipt) -> ISettlementViews.Claim:
    """
    @notice A receipt as a claim of slot 0, at which nothing is paid, whose turn is its seat and whose round is its question.
    """
    # INVARIANT questions: the round names all that the answer follows from. So no true receipt takes the place of a false one, and
    # nobody who answers chooses what its draws come from.
    question: bytes32 = keccak256(abi_encode(receipt.program, receipt.steps, receipt.start, receipt.nonce))
    return ISettlementViews.Claim(
        turn=receipt.seat,
        round=convert(question, uint256),
        seat=0,
        operator=operator,
        scope=1,
        price=0,
        start_root=receipt.start,
        root=merkle._result_root(0, receipt.start, receipt.segments, receipt.end, empty(bytes32)),
    )


@internal
@pure
def _work_root(receipt: Receipt) -> bytes32:
    """
    @notice What it is judged by: one program, and one segment of all steps.
    """
    return openings._work_root(
        openings.Work(
            programs=[receipt.program, empty(bytes32), empty(bytes32)],
            inner_steps=receipt.steps,
            segment_steps=receipt.steps,
            # Of a batch of zeros nobody asks which row is which example.
            rows=0,
            carry=1,
        )
    )


@internal
@view
def _digest(receipt: Receipt) -> bytes32:
    domain: bytes32 = keccak256(abi_encode(DOMAIN_TYPE_HASH, NAME_HASH, VERSION_HASH, chain.id, self))
    return keccak256(concat(b"\x19\x01", domain, keccak256(abi_encode(RECEIPT_TYPE_HASH, receipt))))


@internal
@pure
def _signer(digest: bytes32, signature: Bytes[65]) -> address:
    """
    @notice Who signed; the zero address when the signature is none.
    """
    if len(signature) != 65:
        return empty(address)
    r: bytes32 = convert(slice(signature, 0, 32), bytes32)
    s: bytes32 = convert(slice(signature, 32, 32), bytes32)
    return ecrecover(digest, convert(slice(signature, 64, 1), uint256), r, s)
