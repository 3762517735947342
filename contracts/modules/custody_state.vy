# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage of Custody, and what its parts share
@license Apache-2.0
"""


from ..interfaces import INodeRegistry
from ..interfaces import ISettlementViews
from ..interfaces import ITaskViews
from . import custody_words as words
from . import numbers
from . import protocol_time


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
# job -> turn mod (depth + 1) -> seat -> the message that the signers of what its aggregator posted last there signed: a root and a pointer
checkpoints: reentrant(public(HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]]))
# operator -> stake that counts once it is old enough
notes: reentrant(public(HashMap[uint256, words.Note]))
# token -> operator -> what it has here and has not put up
funds: reentrant(public(HashMap[address, HashMap[uint256, uint256]]))
# token -> reserves that were lost, which nothing can spend
burned: reentrant(public(HashMap[address, uint256]))


event CommitteeChanged:
    job: indexed(uint256)
    version: uint256
    committee: DynArray[words.Member, words.MAX_CUSTODIANS]


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
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    availability = availability_
    bid_window_s = bid_window_s_
    exit_delay_s = exit_delay_s_
    answer_s = answer_s_
    draw_blocks = draw_blocks_


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
@view
def _record_at(job: uint256, progress: words.Progress, turn: uint256) -> words.Record:
    return words._unpack_record(self.record_words[job][self._place(progress, turn)])


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
