# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title ConsistencyProofs
@license Apache-2.0
@notice Says whether evidence shows that two places of a claim, or of a claim and what it rests on, are not equal and must be:
        the kinds 1 to 7 of docs/protocol/evidence.md.
@dev Programs, the job's data and an honest committer's trees are canonical: every hash begins with a tag of its kind, so a path
     that leads to a root leads there from the place that it is said to, and its length proves the tree's height.
"""


from .interfaces import IEvidence
from .interfaces import ISettlementViews
from .interfaces import ITaskViews
from .modules import bits
from .modules import claims
from .modules import consistency
from .modules import exploration as tree
from .modules import filled
from .modules import merkle
from .modules import openings


MAX_DATA: constant(uint256) = 45_056
# Kinds of evidence.
END: constant(uint256) = 1
BEGIN: constant(uint256) = 2
OUTPUT: constant(uint256) = 3
INPUT: constant(uint256) = 4
CONSTANT_NODE: constant(uint256) = 5
DATA: constant(uint256) = 6
UPDATE: constant(uint256) = 7
# Operators whose words are given, and the roles of an input; a state's entries that the optimiser keeps.
INPUT_CODE: constant(uint256) = 1
CONSTANT_CODE: constant(uint256) = 3
BATCH_ROLE: constant(uint256) = 1
OPTIMIZER: constant(uint256) = 2
I32: constant(uint256) = 1
# Which of a job's programs is disputed.
TRAINING_PROGRAM: constant(uint256) = 0
UPDATE_PROGRAM: constant(uint256) = 1
AGGREGATION_PROGRAM: constant(uint256) = 2
SEED: constant(Bytes[4]) = b"seed"
TOKENS: constant(Bytes[6]) = b"tokens"
INPUTS: constant(Bytes[6]) = b"inputs"
TARGETS: constant(Bytes[7]) = b"targets"
PRESENT: constant(Bytes[7]) = b"present"
# Of `updates/FIRST/`, which a tensor's name comes behind.
UPDATES_BYTES: constant(uint256) = 19
RESIDUAL: constant(Bytes[9]) = b"residual/"
RESIDUAL_BYTES: constant(uint256) = 9


tasks: immutable(address)
settlement: immutable(address)


@deploy
def __init__(tasks_: address, settlement_: address):
    """
    @param tasks_ Knows the jobs' manifests and data.
    @param settlement_ Knows the jobs' slots, and keeps the claims that were aggregated.
    """
    tasks = tasks_
    settlement = settlement_


@external
@view
def judge(
    evidence: uint256, frame: IEvidence.Frame, position: IEvidence.Position, data: Bytes[MAX_DATA]
) -> bool:
    """
    @notice As `Evidence` has it.
    """
    if evidence == END:
        self._end(frame, position, abi_decode(data, consistency.End))
    elif evidence == BEGIN:
        self._begin(frame, position, abi_decode(data, consistency.Begin))
    elif evidence == OUTPUT:
        self._output(frame, position, abi_decode(data, consistency.Output))
    elif evidence == INPUT:
        self._input(frame, position, abi_decode(data, consistency.Input))
    elif evidence == CONSTANT_NODE:
        self._constant(frame, position, abi_decode(data, consistency.ConstantNode))
    elif evidence == DATA:
        self._data(frame, position, abi_decode(data, consistency.Data))
    elif evidence == UPDATE:
        self._update(frame, position, abi_decode(data, consistency.Update))
    else:
        raise "evidence: unknown kind"
    return True


@internal
@pure
def _end(frame: IEvidence.Frame, position: IEvidence.Position, end: consistency.End):
    # A trial claims no end apart from its segments.
    self._check_here(position.phase == tree.SEGMENTS and frame.job != claims.TRIALS)
    segments: uint256 = (frame.inner_steps + frame.segment_steps - 1) // frame.segment_steps
    leaf: bytes32 = merkle._segment_leaf(frame.inner_steps, end.state)
    assert (
        len(end.path) == merkle._height_over(segments + 1)
        and merkle._climb(leaf, segments, end.path) == frame.segment_root
    ), "evidence: state does not match"
    self._check_false(end.state != frame.end_root)


@internal
@view
def _begin(frame: IEvidence.Frame, position: IEvidence.Position, begin: consistency.Begin):
    self._check_here(position.phase == tree.STATE and position.height == 0 and frame.is_begin == 1)
    consistency._check_entry(frame, begin.entry, position.index)
    name: Bytes[consistency.MAX_ENTRY] = consistency._name(begin.entry, consistency.STATE_NAME_AT)
    root: bytes32 = begin.tensor.root
    is_opened: bool = True
    source: bytes32 = frame.start_root
    if consistency._number(begin.entry.data, 0) == OPTIMIZER:
        is_opened = False
        if frame.carry > 1 and frame.round % frame.carry != 0 and name != SEED:
            is_opened, source = self._carried(frame, begin, name)
    if is_opened:
        consistency._check_tensor(source, name, begin.tensor)
    else:
        before: uint256 = consistency._number(begin.entry.data, 4)
        leaf: bytes32 = openings._descriptor_leaf(begin.descriptor)
        assert merkle._climb(leaf, before, begin.path) == begin.entry.program.nodes, "evidence: other descriptor"
        word: bytes4 = empty(bytes4)
        if name == SEED:
            # Of any other dtype it would have to be converted.
            assert consistency._number(begin.descriptor, openings.DTYPE_AT) == I32, "evidence: other descriptor"
            word = self._seed(frame)
        head: Bytes[merkle.MAX_HEAD] = b""
        count: uint256 = 0
        head, count = openings._head(begin.descriptor)
        root = merkle._tensor_root(head, filled._root(count, word))
    self._check_false(position.node != merkle._state_leaf(name, root))


@internal
@view
def _carried(
    frame: IEvidence.Frame, begin: consistency.Begin, name: Bytes[consistency.MAX_ENTRY]
) -> (bool, bytes32):
    """
    @notice Whether a private entry is carried over, and from which state: of the claim before, which is the aggregated one of the
            turn before that holds the slot, where its operator is the same.
    """
    assert claims._hash(begin.claim) == frame.claim, "evidence: other claim"
    # A round that is no restart is not the first, and neither is its turn.
    turn: uint256 = begin.claim.turn - 1
    kept: uint256 = convert(
        staticcall ISettlementViews(settlement).claims(frame.job, claims.AGGREGATION, turn), uint256
    )
    if kept == 0:
        return False, empty(bytes32)
    assert claims._is_of(kept, begin.aggregation), "evidence: other claim"
    # INVARIANT carry: a claim that carries state keeps its place, so what is kept there is not of a later turn.
    assert begin.aggregation.turn <= turn, "evidence: other claim"
    # What is kept there may be of an earlier turn; after a rollback the turn before did not aggregate the round before.
    if begin.aggregation.turn != turn or begin.aggregation.round + 1 != frame.round:
        return False, empty(bytes32)
    mask: uint256 = self._given(frame.job, begin.aggregation, begin.present)
    for each: consistency.Present in begin.present:
        if claims._covers(each.scope, frame.slot):
            if each.operator != begin.claim.operator:
                return False, empty(bytes32)
            self._check_result(begin.result, frame.slot, each)
            # What compression kept back of an update was committed to beside it.
            is_residual: bool = len(name) > RESIDUAL_BYTES and slice(name, 0, RESIDUAL_BYTES) == RESIDUAL
            return True, begin.result.update_root if is_residual else begin.result.end_root
    assert mask == begin.aggregation.scope, "evidence: claims missing"
    return False, empty(bytes32)


@internal
@view
def _seed(frame: IEvidence.Frame) -> bytes4:
    """
    @notice What a slot-round's random draws come from; a trial's, and a receipt's, from its round.
    """
    if not claims._is_of_job(frame.job):
        return convert(slice(convert(frame.round, bytes32), 0, 4), bytes4)
    manifest: bytes32 = (staticcall ITaskViews(tasks).jobs(frame.job)).manifest
    digest: bytes32 = sha256(
        concat(b"seed", manifest, merkle._little_endian(frame.round), merkle._little_endian(frame.slot))
    )
    return convert(slice(digest, 0, 4), bytes4)


@internal
@pure
def _output(frame: IEvidence.Frame, position: IEvidence.Position, output: consistency.Output):
    self._check_here(position.phase == tree.STATE and position.height == 0 and frame.is_begin == 0)
    consistency._check_entry(frame, output.entry, position.index)
    after: uint256 = consistency._number(output.entry.data, 8)
    assert (
        len(output.path) == merkle._height_over(openings._node_count(output.entry.program))
        and merkle._climb(openings._trace_leaf(after, output.root), after, output.path) == frame.trace_root
    ), "evidence: trace does not match"
    name: Bytes[consistency.MAX_ENTRY] = consistency._name(output.entry, consistency.STATE_NAME_AT)
    self._check_false(position.node != merkle._state_leaf(name, output.root))


@internal
@pure
def _input(frame: IEvidence.Frame, position: IEvidence.Position, given: consistency.Input):
    self._check_here(position.phase == tree.ELEMENTS)
    is_batch: bool = self._is_batch(frame, given.descriptor)
    self._check_here(not is_batch or frame.kind == UPDATE_PROGRAM)
    name: Bytes[consistency.MAX_ENTRY] = self._input_name(frame, given.descriptor, given.entry, is_batch)
    # What an update is given of private state is as the slot ended, like its batch.
    is_private: bool = (
        frame.kind == UPDATE_PROGRAM and not is_batch and consistency._number(given.entry.data, 0) == OPTIMIZER
    )
    source: bytes32 = frame.end_root if is_batch or is_private else frame.before
    consistency._check_tensor(source, name, given.tensor)
    self._check_false(given.tensor.root != frame.tensor_root)


@internal
@pure
def _constant(frame: IEvidence.Frame, position: IEvidence.Position, constant_: consistency.ConstantNode):
    self._check_here(position.phase == tree.ELEMENTS)
    consistency._check_descriptor(frame, constant_.descriptor)
    self._check_here(consistency._number(constant_.descriptor, 0) == CONSTANT_CODE)
    # Its attributes, which come last, are the root.
    root: bytes32 = extract32(constant_.descriptor, len(constant_.descriptor) - 32)
    self._check_false(root != frame.tensor_root)


@internal
@view
def _data(frame: IEvidence.Frame, position: IEvidence.Position, given: consistency.Data):
    self._check_here(frame.kind == TRAINING_PROGRAM)
    name: Bytes[consistency.MAX_ENTRY] = self._batch_name(frame, position, given.descriptor, given.entry)
    committed: bytes4 = consistency._shown(position, given.leaf, given.element)
    if not claims._is_of_job(frame.job):
        # All its batches are zeros.
        self._check_false(committed != empty(bytes4))
        return
    head: Bytes[merkle.MAX_HEAD] = b""
    count: uint256 = 0
    head, count = openings._head(given.descriptor)
    # A row of the batch, and of the data: all dimensions but the first.
    width: uint256 = count // frame.rows
    row: uint256 = given.element // width
    column: uint256 = given.element % width
    if given.is_tokens:
        # Inputs are all but the last of a row, targets all but the first.
        assert name == INPUTS or name == TARGETS, "evidence: other data"
        width += 1
        column += 1 if name == TARGETS else 0
        name = TOKENS
    examples: uint256 = consistency._extent(given.words.head, 0)
    stored: uint256 = 1
    for axis: uint256 in range(1, convert(slice(given.words.head, 1, 1), uint256), bound=openings.MAX_RANK):
        stored *= consistency._extent(given.words.head, axis)
    assert stored == width and slice(given.words.head, 0, 1) == slice(head, 0, 1), "evidence: other data"
    slots: uint256 = (staticcall ISettlementViews(settlement).runs(frame.job)).slots
    first: uint256 = ((frame.round * slots + frame.slot) * frame.inner_steps + frame.step) * frame.rows
    root: bytes32 = (staticcall ITaskViews(tasks).jobs(frame.job)).data_root
    word: bytes4 = consistency._word_of(root, name, given.words, (first + row) % examples * width + column)
    self._check_false(word != committed)


@internal
@view
def _update(frame: IEvidence.Frame, position: IEvidence.Position, given: consistency.Update):
    self._check_here(frame.kind == AGGREGATION_PROGRAM)
    name: Bytes[consistency.MAX_ENTRY] = self._batch_name(frame, position, given.descriptor, given.entry)
    committed: bytes4 = consistency._shown(position, given.leaf, given.element)
    assert claims._hash(given.claim) == frame.claim, "evidence: other claim"
    is_all: bool = self._given(frame.job, given.claim, given.present) == given.claim.scope
    word: bytes4 = empty(bytes4)
    if name == PRESENT:
        assert is_all, "evidence: claims missing"
        slots: uint256 = 0
        for each: consistency.Present in given.present:
            slots += each.scope & bits.U16
        word = consistency._float32(slots)
    else:
        # Every other batch of an aggregation is `updates/FIRST/NAME`: of each slot the tensor's words from FIRST on, as many as a row has.
        head: Bytes[merkle.MAX_HEAD] = b""
        count: uint256 = 0
        head, count = openings._head(given.descriptor)
        width: uint256 = count // consistency._number(given.descriptor, openings.EXTENTS_AT)
        slot: uint256 = given.element // width
        is_present: bool = False
        holder: consistency.Present = empty(consistency.Present)
        for each: consistency.Present in given.present:
            if claims._covers(each.scope, slot):
                is_present = True
                holder = each
        assert is_present or is_all, "evidence: claims missing"
        if is_present:
            self._check_result(given.result, slot, holder)
            tensor: Bytes[consistency.MAX_ENTRY] = slice(name, UPDATES_BYTES, len(name) - UPDATES_BYTES)
            number: uint256 = consistency._first(name) + given.element % width
            word = consistency._word_of(given.result.update_root, tensor, given.words, number)
    self._check_false(word != committed)


@internal
@view
def _given(
    job: uint256,
    aggregation: ISettlementViews.Claim,
    present: DynArray[consistency.Present, consistency.MAX_PRESENT],
) -> uint256:
    """
    @notice The mask of the seats whose claims of the aggregated turn are given, in ascending order: each is in the
            aggregation's mask, and its claim the one that Settlement keeps, whatever became of it.
    """
    mask: uint256 = 0
    for each: consistency.Present in present:
        assert aggregation.scope >> each.seat & 1 == 1 and mask >> each.seat == 0, "evidence: not a present seat"
        mask |= 1 << each.seat
        claim: ISettlementViews.Claim = aggregation
        claim.seat = each.seat
        claim.operator = each.operator
        claim.scope = each.scope
        claim.price = each.price
        claim.start_root = each.start_root
        claim.root = each.root
        assert claims._is_kept(settlement, job, claim), "evidence: other claim"
    return mask


@internal
@pure
def _check_result(result: openings.Result, slot: uint256, claim: consistency.Present):
    """
    @notice That a slot's result is what the claim that holds it has for it.
    """
    leaf: bytes32 = merkle._result_root(
        slot, claim.start_root, result.segment_root, result.end_root, result.update_root
    )
    assert claims._has_result(claim.root, claim.scope, slot, leaf, result.path), "evidence: result does not match"


@internal
@pure
def _is_batch(frame: IEvidence.Frame, descriptor: Bytes[openings.MAX_DESCRIPTOR]) -> bool:
    """
    @notice Whether an input is of the batch, else of the state. Its attributes, which come last, are role and position.
    """
    consistency._check_descriptor(frame, descriptor)
    self._check_here(consistency._number(descriptor, 0) == INPUT_CODE)
    return consistency._number(descriptor, len(descriptor) - 8) == BATCH_ROLE


@internal
@pure
def _input_name(
    frame: IEvidence.Frame, descriptor: Bytes[openings.MAX_DESCRIPTOR], entry: consistency.Entry, is_batch: bool
) -> Bytes[consistency.MAX_ENTRY]:
    """
    @notice The name of an input, from its entry. The state's entries come before the batch's.
    """
    number: uint256 = consistency._number(descriptor, len(descriptor) - 4)
    if is_batch:
        number += openings._state_count(entry.program)
    consistency._check_entry(frame, entry, number)
    return consistency._name(entry, consistency.BATCH_NAME_AT if is_batch else consistency.STATE_NAME_AT)


@internal
@pure
def _batch_name(
    frame: IEvidence.Frame,
    position: IEvidence.Position,
    descriptor: Bytes[openings.MAX_DESCRIPTOR],
    entry: consistency.Entry,
) -> Bytes[consistency.MAX_ENTRY]:
    """
    @notice The name of an input of the batch, a leaf of which is shown.
    """
    self._check_here(position.phase == tree.ELEMENTS and position.open_leaf != empty(bytes32))
    self._check_here(self._is_batch(frame, descriptor))
    return self._input_name(frame, descriptor, entry, True)


@internal
@pure
def _check_here(is_here: bool):
    assert is_here, "evidence: not here"


@internal
@pure
def _check_false(is_false: bool):
    assert is_false, "evidence: not false"
