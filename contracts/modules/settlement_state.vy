# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What Settlement keeps of a job
@license Apache-2.0
@notice The contracts it calls, all of its storage, and who may call which function. Every other module of Settlement reads
        and writes a job by the functions here.
"""


from ..interfaces import INodeRegistry
from ..interfaces import ITaskRegistry
from . import bits
from . import numbers
from . import protocol_time
from . import settlement_words as words


# Seats of slots are numbered 0..127; the aggregators' are the next numbers.
MAX_SEATS: constant(uint256) = 128
AGGREGATION: constant(uint256) = MAX_SEATS


deployer: immutable(address)
registry: public(immutable(address))
tasks: public(immutable(address))
auction: public(immutable(address))
locks: public(immutable(address))
rewards: immutable(address)
zen: immutable(address)
ready_window_s: public(immutable(uint256))
min_window_s: public(immutable(uint256))
# Seconds of its own clock that the author of a disputed aggregation may use with its whole pay, and with any.
pay_fades_from_s: immutable(uint256)
pay_gone_at_s: immutable(uint256)


# The contracts deployed after this one; set once by `wire`.
referee: public(address)
availability: public(address)
custody: public(address)
# job -> what its terms fix, and its state
stages: HashMap[uint256, uint256]
# job -> its newest turn
turns: HashMap[uint256, uint256]
# job -> aggregators' clock, number of seats, closed turns with pending claims; of the open turn what custodians said, who posted
aggregator_state: HashMap[uint256, uint256]
# job -> token (160) | flops of a slot-round (96)
payment_terms: HashMap[uint256, uint256]
# job -> turn mod (depth + 1) -> the state that a turn starts from
start_roots: HashMap[uint256, HashMap[uint256, bytes32]]
# job -> turn mod depth -> when each of its last turns closed, and whose claims of it are pending
closed_turns: HashMap[uint256, HashMap[uint256, uint256]]
# job -> seat -> operator, slots, price, since when it is vacant
holdings: HashMap[uint256, HashMap[uint256, uint256]]
# job -> seat -> clocks
seat_timing: HashMap[uint256, HashMap[uint256, uint256]]
# job -> operator -> the first turn after its last conviction (24), claims from turns before are void | its parked claims that are
#                    neither paid, convicted nor void (40)
records: public(HashMap[uint256, HashMap[uint256, uint256]])
# job -> seat -> turn mod (depth + 1) -> the newest claim; of one that `finalise` paid it still says pending: its turn's record does not
claim_words: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# job -> claim_hash -> status of a claim that was parked: what became of its dispute
parked: public(HashMap[uint256, HashMap[bytes32, uint256]])
# job -> what parked claims may still be paid
parked_money: HashMap[uint256, uint256]
# job -> turn -> the deadline of claims that were parked: their turn's record is used again
parked_deadlines: HashMap[uint256, HashMap[uint256, uint256]]


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    auction_: address,
    locks_: address,
    rewards_: address,
    zen_: address,
    ready_window_s_: uint256,
    min_window_s_: uint256,
    pay_fades_from_s_: uint256,
    pay_gone_at_s_: uint256,
):
    deployer = msg.sender
    registry = registry_
    tasks = tasks_
    auction = auction_
    locks = locks_
    rewards = rewards_
    zen = zen_
    ready_window_s = ready_window_s_
    min_window_s = min_window_s_
    pay_fades_from_s = pay_fades_from_s_
    pay_gone_at_s = pay_gone_at_s_


@external
def wire(referee_: address, availability_: address, custody_: address):
    """
    @notice Names who judges disputes, who asks for data, and who records what custodians hold, once.
    """
    if msg.sender != deployer:
        self._refuse("settlement: not the deployer")
    if self.availability != empty(address):
        self._refuse("settlement: already wired")
    self.referee = referee_
    self.availability = availability_
    self.custody = custody_


@internal
@pure
def _refuse(reason: String[40]):
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
def _schedule(job: uint256) -> ITaskRegistry.Schedule:
    return staticcall ITaskRegistry(tasks).schedules(job)


@internal
@view
def _stage(job: uint256) -> words.Stage:
    return words._unpack_stage(self.stages[job])


@internal
@view
def _turn(job: uint256) -> words.Turn:
    return words._unpack_turn(self.turns[job])


@internal
def _set_turn(job: uint256, turn: words.Turn):
    self.turns[job] = words._pack_turn(turn)


@internal
@view
def _aggregator(job: uint256) -> words.AggregatorState:
    return words._unpack_aggregator(self.aggregator_state[job])


@internal
@view
def _seats(job: uint256) -> uint256:
    """
    @return How many seats of slots were awarded or split off.
    """
    return self.aggregator_state[job] & bits.U8


@internal
def _set_aggregator(job: uint256, aggregator: words.AggregatorState):
    self.aggregator_state[job] = words._pack_aggregator(aggregator)


@internal
@view
def _holding(job: uint256, seat: uint256) -> words.Holding:
    return words._unpack_holding(self.holdings[job][seat])


@internal
def _set_holding(job: uint256, seat: uint256, holding: words.Holding):
    self.holdings[job][seat] = words._pack_holding(holding)


@internal
@view
def _timing(job: uint256, seat: uint256) -> words.SeatTiming:
    return words._unpack_timing(self.seat_timing[job][seat])


@internal
def _set_timing(job: uint256, seat: uint256, timing: words.SeatTiming):
    self.seat_timing[job][seat] = words._pack_timing(timing)


@internal
@view
def _void_before(job: uint256, operator: uint256) -> uint256:
    """
    @return The first turn after the operator's last conviction.
    """
    return self.records[job][operator] & bits.U24


@internal
@view
def _awarded(job: uint256) -> words.Stage:
    stage: words.Stage = self._stage(job)
    if stage.state != numbers.AWARDED:
        self._refuse("settlement: not awarded")
    return stage


@internal
@view
def _running(job: uint256) -> words.Stage:
    stage: words.Stage = words._unpack_stage(self.stages[job])
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
    if not is_running:
        self._refuse("settlement: not running")


@internal
@view
def _check_sender(contract_: address):
    if msg.sender != contract_:
        self._refuse("settlement: not a protocol contract")


@internal
@view
def _check_hot(operator: uint256):
    if msg.sender != staticcall INodeRegistry(registry).hot_key(operator):
        self._refuse("settlement: not the hot key")


@internal
@pure
def _place(depth: uint256, turn: uint256) -> uint256:
    """
    @return Where in the ring the claims of a turn are kept: those of the turn before a pending claim's are there still.
    """
    # The depth is at most 64.
    return turn % unsafe_add(depth, 1)


@internal
@view
def _start_root(job: uint256, depth: uint256, turn: uint256) -> bytes32:
    return self.start_roots[job][self._place(depth, turn)]


@internal
@view
def _newest(job: uint256) -> uint256:
    """
    @return The job's newest turn.
    """
    return self.turns[job] >> 184 & bits.U24


@internal
@view
def _depth(job: uint256) -> uint256:
    return self.stages[job] >> 192 & bits.U8


@internal
@pure
def _has_custodians(policy: uint256) -> bool:
    return policy >> numbers.CUSTODIANS_AT != 0


@internal
@view
def _closed_turn(job: uint256, depth: uint256, turn: uint256) -> uint256:
    """
    @return The record in the turn's place: of the newest closed turn that has it.
    """
    return self.closed_turns[job][turn % depth]


@internal
@view
def _is_rolled_back(job: uint256, turn: uint256) -> bool:
    return self.stages[job] >> (words.ROLLED_BACK_AT + turn % self._depth(job)) & 1 != 0


@internal
@view
def _pending(job: uint256, turn: uint256) -> uint256:
    """
    @return The seats whose claims of a turn are neither paid, convicted nor void; all bits of a turn that may have more.
    """
    newest: uint256 = self._newest(job)
    if turn >= newest:
        return max_value(uint256)
    depth: uint256 = self._depth(job)
    if turn + depth < newest:
        return 0
    return self._closed_turn(job, depth, turn) >> words.PENDING_AT


@internal
@view
def _is_pending(job: uint256, turn: uint256, seat: uint256) -> bool:
    return self._pending(job, turn) >> seat & 1 == 1


@internal
def _settle(job: uint256, turn: uint256, seat: uint256):
    """
    @dev One claim of a closed turn is no longer pending.
    """
    # INVARIANT pending: a closed turn has a bit for each claim that is neither paid, convicted nor void; a job counts the turns that
    # have one.
    place: uint256 = turn % self._depth(job)
    # The caller knows that the claim is pending. In an open turn it reverts: its place has a turn of which nothing is.
    record: uint256 = self.closed_turns[job][place] - (1 << (words.PENDING_AT + seat))
    self.closed_turns[job][place] = record
    if record <= bits.U40:
        self.aggregator_state[job] -= words.ONE_PENDING_TURN


@internal
@view
def _claim_deadline(job: uint256, turn: uint256) -> uint256:
    """
    @return The last second at which a pending claim of the turn can be challenged: a window after the turn's close.
    """
    newest: uint256 = self._newest(job)
    if turn >= newest:
        return max_value(uint256)
    depth: uint256 = self._depth(job)
    if turn + depth < newest:
        return self.parked_deadlines[job][turn]
    return (self._closed_turn(job, depth, turn) & bits.U40) + (self.stages[job] >> 48 & bits.U32)


@internal
@view
def _token(job: uint256) -> address:
    return convert(self.payment_terms[job] >> 96, address)


@internal
def _advance(job: uint256, state: uint256):
    self.stages[job] = (self.stages[job] & (1 << words.STATE_AT) - 1) | state << words.STATE_AT
    extcall ITaskRegistry(tasks).advance(job, state)
