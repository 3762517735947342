# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Descent
@license Apache-2.0
@notice Checks an answer that leads from one tree of a claim into the next, and says where it leads.
@dev docs/protocol/referee.md. Keeps nothing: the Referee sends the node that was asked, and whoever answers the frame behind it.
"""


from .interfaces import IDescent
from .interfaces import IEvidence
from .interfaces import IOpExecutor
from .interfaces import ISettlementViews
from .modules import claims
from .modules import exploration as tree
from .modules import merkle
from .modules import openings


# Kinds of answers that lead into another tree. From SEGMENT on the committer chooses what it commits to.
BEGIN: constant(uint256) = 1
NODE: constant(uint256) = 2
RESULT: constant(uint256) = 3
SEGMENT: constant(uint256) = 4
STEP: constant(uint256) = 5
TRACE: constant(uint256) = 6
PARTS: constant(uint256) = 7
# Kinds of asks that lead into another tree.
STATE_ASKED: constant(uint256) = 1
PARTS_ASKED: constant(uint256) = 2
# Places below a node that are none of its children.
STATE_PLACE: constant(uint256) = 1 << 64
ELEMENT_PLACE: constant(uint256) = 1 << 65
MAX_ANSWER: constant(uint256) = 7_616
MAX_ASK: constant(uint256) = 3_712


struct Begin:
    root: bytes32
    program: openings.Program
    children: DynArray[bytes32, openings.CHILDREN]


# `words` where the tensor's leaves are shown together, else `children`.
struct Node:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    program: openings.Program
    path: DynArray[bytes32, merkle.MAX_DEPTH]
    elements_root: bytes32
    children: DynArray[bytes32, openings.CHILDREN]
    words: Bytes[tree.MAX_WORDS]


struct Result:
    claim: ISettlementViews.Claim
    result: openings.Result


# `states` is not read where the ask showed them.
struct Segment:
    states: openings.States
    steps: openings.Steps


struct Step:
    states: openings.States
    trace: openings.Trace


# The element's leaf; all results where they are shown together, else the last leaf of them with its path.
struct Parts:
    leaf: Bytes[merkle.LEAF_BYTES]
    root: bytes32
    last: Bytes[merkle.LEAF_BYTES]
    path: DynArray[bytes32, merkle.MAX_DEPTH]
    children: DynArray[bytes32, openings.CHILDREN]
    words: Bytes[tree.MAX_WORDS]


# An element of shown words, under the leaf that it is in.
struct Element:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    element: uint256
    leaf: bytes32
    path: DynArray[bytes32, tree.SHOWN_LEVELS]


executor: immutable(address)


@deploy
def __init__(executor_: address):
    """
    @param executor_ Says in how many parts an element comes about.
    """
    executor = executor_


@external
@view
def answered(
    kind: uint256, node: IDescent.Stage, frame: IEvidence.Frame, data: Bytes[MAX_ANSWER]
) -> IDescent.Stage:
    """
    @notice Where an answer leads, or a revert with what does not match.
    @param kind Which kind of answer.
    @param node That was asked.
    @param frame Whose hash the node has.
    @param data The ABI encoding of this kind's struct.
    """
    self._check_frame(node, frame)
    if kind == BEGIN:
        return self._begin(node, frame, abi_decode(data, Begin))
    if kind == NODE:
        return self._node(node, frame, abi_decode(data, Node))
    if kind == RESULT:
        self._check_result(node, frame, abi_decode(data, Result))
        return node
    if kind == SEGMENT:
        return self._segment(node, frame, abi_decode(data, Segment))
    if kind == STEP:
        return self._step(node, frame, abi_decode(data, Step))
    if kind == TRACE:
        self._check_here(node.position == tree.NODES)
        return self._traced(frame, abi_decode(data, openings.Trace))
    self._check_here(kind == PARTS)
    return self._parts(node, frame, abi_decode(data, Parts))


@external
@view
def asked(
    kind: uint256, node: IDescent.Stage, frame: IEvidence.Frame, data: Bytes[MAX_ASK]
) -> (IDescent.Stage, uint256):
    """
    @notice Where an ask leads that is about no child of an answered node, and under which place.
    """
    self._check_frame(node, frame)
    if kind == STATE_ASKED:
        # The trace is right, and the state after it is not what it ends in. No subtree has the hash of the whole.
        self._check_here(tree._phase(node.position) == tree.NODES and node.root == frame.trace_root)
        program: openings.Program = abi_decode(data, openings.Program)
        self._check_program(frame, program)
        position: uint256 = tree._root_position(tree.STATE, openings._state_count(program))
        # Entries of a state have no answer: a state of one entry is judged at the trace.
        return IDescent.Stage(frame=node.frame, position=position, root=frame.after), STATE_PLACE
    self._check_here(kind == PARTS_ASKED)
    return self._element(node, frame, abi_decode(data, Element))


@internal
@view
def _element(
    node: IDescent.Stage, frame: IEvidence.Frame, given: Element
) -> (IDescent.Stage, uint256):
    self._check_here(tree._phase(node.position) == tree.ELEMENTS and tree._is_shown(node.position))
    assert keccak256(given.descriptor) == frame.descriptor, "referee: other descriptor"
    height: uint256 = tree._height(node.position)
    number: uint256 = given.element // openings.WORDS_A_LEAF
    count: uint256 = tree._count(node.position)
    assert (
        given.element < count
        and number >> height == tree._index(node.position)
        and len(given.path) == height
        and merkle._climb(given.leaf, number, given.path) == node.root
    ), "referee: no such element"
    parts: uint256 = staticcall IOpExecutor(executor).part_count(given.descriptor, given.element)
    assert parts > 1, "referee: one part"
    self._check_count(parts)
    fixed: IEvidence.Frame = frame
    fixed.element = given.element
    fixed.parts = parts
    return (
        IDescent.Stage(
            frame=self._hash(fixed), position=tree._position(tree.ELEMENT, 0, number, count), root=given.leaf
        ),
        ELEMENT_PLACE | given.element,
    )


@internal
@pure
def _begin(node: IDescent.Stage, frame: IEvidence.Frame, given: Begin) -> IDescent.Stage:
    """
    @notice To the tensors of the state at step 0.
    """
    self._check_here(self._is_leaf(node, tree.SEGMENTS) and tree._index(node.position) == 0)
    assert merkle._segment_leaf(0, given.root) == node.root, "referee: states do not match"
    self._check_program(frame, given.program)
    fixed: IEvidence.Frame = frame
    fixed.after = given.root
    fixed.is_begin = 1
    return self._entered(tree.STATE, given.root, openings._state_count(given.program), fixed, given.children)


@internal
@pure
def _node(node: IDescent.Stage, frame: IEvidence.Frame, given: Node) -> IDescent.Stage:
    """
    @notice From a node of the program to the elements of its tensor.
    """
    count: uint256 = tree._count(node.position)
    index: uint256 = tree._index(node.position)
    self._check_here(self._is_leaf(node, tree.NODES) and index < count)
    self._check_program(frame, given.program)
    assert (
        len(given.path) == merkle._height_over(count)
        and merkle._climb(openings._descriptor_leaf(given.descriptor), index, given.path) == given.program.nodes
    ), "referee: other descriptor"
    head: Bytes[merkle.MAX_HEAD] = b""
    elements: uint256 = 0
    head, elements = openings._head(given.descriptor)
    fixed: IEvidence.Frame = frame
    fixed.tensor_root = merkle._tensor_root(head, given.elements_root)
    assert openings._trace_leaf(index, fixed.tensor_root) == node.root, "referee: tensor does not match"
    fixed.node = index
    fixed.descriptor = keccak256(given.descriptor)
    fixed.elements_root = given.elements_root
    return self._entered_words(tree.ELEMENTS, given.elements_root, elements, fixed, given.children, given.words)


@internal
@pure
def _check_result(node: IDescent.Stage, frame: IEvidence.Frame, given: Result):
    """
    @notice What a slot's result leaf is made of; nothing is asked below.
    """
    self._check_here(node.position == tree.RESULT)
    claim: ISettlementViews.Claim = given.claim
    assert claims._hash(claim) == frame.claim, "referee: other claim"
    leaf: bytes32 = merkle._result_root(
        frame.slot,
        claim.start_root,
        given.result.segment_root,
        given.result.end_root,
        given.result.update_root,
    )
    assert claims._has_result(
        node.root, claim.scope, frame.slot, leaf, given.result.path
    ), "referee: result does not match"


@internal
@pure
def _segment(node: IDescent.Stage, frame: IEvidence.Frame, given: Segment) -> IDescent.Stage:
    """
    @notice From a segment's end to the states of the steps in it.
    """
    index: uint256 = tree._index(node.position)
    self._check_here(
        self._is_leaf(node, tree.SEGMENTS) and index > 0 and index < tree._count(node.position)
    )
    fixed: IEvidence.Frame = self._between(node, frame, given.states)
    first: uint256 = self._step_of(frame, tree.SEGMENTS, index - 1)
    last: uint256 = self._step_of(frame, tree.SEGMENTS, index)
    count: uint256 = last - first
    assert count > 1, "referee: one step"
    height: uint256 = merkle._height_over(count + 1)
    assert (
        len(given.steps.first_path) == height
        and len(given.steps.last_path) == height
        and merkle._climb(merkle._segment_leaf(first, fixed.before), 0, given.steps.first_path) == given.steps.root
        and merkle._climb(merkle._segment_leaf(last, fixed.after), count, given.steps.last_path) == given.steps.root
    ), "referee: steps do not match"
    fixed.tree_root = given.steps.root
    fixed.first_step = first
    return self._entered(tree.STEPS, given.steps.root, count + 1, fixed, given.steps.children)


@internal
@pure
def _step(node: IDescent.Stage, frame: IEvidence.Frame, given: Step) -> IDescent.Stage:
    """
    @notice From the end of a step to the nodes of its program; from SEGMENTS, where a segment has one step.
    """
    phase: uint256 = tree._phase(node.position)
    index: uint256 = tree._index(node.position)
    self._check_here(
        (self._is_leaf(node, tree.SEGMENTS) or self._is_leaf(node, tree.STEPS))
        and index > 0
        and index < tree._count(node.position)
    )
    step: uint256 = self._step_of(frame, phase, index - 1)
    assert self._step_of(frame, phase, index) == step + 1, "referee: several steps"
    fixed: IEvidence.Frame = self._between(node, frame, given.states)
    fixed.step = step
    return self._traced(fixed, given.trace)


@internal
@pure
def _traced(frame: IEvidence.Frame, trace: openings.Trace) -> IDescent.Stage:
    self._check_program(frame, trace.program)
    fixed: IEvidence.Frame = frame
    fixed.trace_root = trace.root
    return self._entered(tree.NODES, trace.root, openings._node_count(trace.program), fixed, trace.children)


@internal
@pure
def _parts(node: IDescent.Stage, frame: IEvidence.Frame, given: Parts) -> IDescent.Stage:
    """
    @notice From an element to the results of its parts, the last of which is the element.
    """
    self._check_here(tree._phase(node.position) == tree.ELEMENT)
    assert merkle._leaf(given.leaf) == node.root, "referee: bytes do not match"
    last: uint256 = frame.parts - 1
    at: uint256 = last // openings.WORDS_A_LEAF
    height: uint256 = merkle._height_over(at + 1)
    word: Bytes[openings.WORD_BYTES] = b""
    if height > tree.SHOWN_LEVELS:
        assert (
            len(given.path) == height
            and len(given.last) == openings.WORD_BYTES * (frame.parts - at * openings.WORDS_A_LEAF)
            and merkle._climb(merkle._leaf(given.last), at, given.path) == given.root
        ), "referee: parts do not match"
        word = openings._word(given.last, last)
    else:
        # All of them are shown, the last one among them.
        assert len(given.words) == openings.WORD_BYTES * frame.parts, "referee: bytes do not match"
        word = slice(given.words, openings.WORD_BYTES * last, openings.WORD_BYTES)
    assert word == openings._word(given.leaf, frame.element), "referee: parts do not match"
    fixed: IEvidence.Frame = frame
    fixed.parts_root = given.root
    return self._entered_words(tree.PARTS, given.root, frame.parts, fixed, given.children, given.words)


@internal
@pure
def _between(node: IDescent.Stage, frame: IEvidence.Frame, states: openings.States) -> IEvidence.Frame:
    """
    @notice The states of the leaf that was asked and of the one before it, unless the first ask showed them.
    """
    phase: uint256 = tree._phase(node.position)
    if phase == tree.SEGMENTS and frame.after != empty(bytes32):
        return frame
    index: uint256 = tree._index(node.position)
    before: bytes32 = merkle._segment_leaf(self._step_of(frame, phase, index - 1), states.before)
    assert (
        merkle._segment_leaf(self._step_of(frame, phase, index), states.after) == node.root
        and len(states.path) == merkle._height_over(tree._count(node.position))
        and merkle._climb(before, index - 1, states.path) == frame.tree_root
    ), "referee: states do not match"
    fixed: IEvidence.Frame = frame
    fixed.before = states.before
    fixed.after = states.after
    return fixed


@internal
@pure
def _step_of(frame: IEvidence.Frame, phase: uint256, leaf: uint256) -> uint256:
    """
    @notice The step of a leaf of a tree of states.
    """
    if phase == tree.STEPS:
        return frame.first_step + leaf
    return min(leaf * frame.segment_steps, frame.inner_steps)


@internal
@pure
def _entered(
    phase: uint256,
    root: bytes32,
    count: uint256,
    frame: IEvidence.Frame,
    children: DynArray[bytes32, openings.CHILDREN],
) -> IDescent.Stage:
    """
    @notice At the root of a tree, whose children are shown.
    """
    position: uint256 = tree._root_position(phase, count)
    tree._check_children(position, root, children)
    return IDescent.Stage(frame=self._hash(frame), position=position, root=root)


@internal
@pure
def _entered_words(
    phase: uint256,
    root: bytes32,
    count: uint256,
    frame: IEvidence.Frame,
    children: DynArray[bytes32, openings.CHILDREN],
    words: Bytes[tree.MAX_WORDS],
) -> IDescent.Stage:
    self._check_count(count)
    position: uint256 = tree._root_position(phase, count)
    if not tree._is_shown(position):
        return self._entered(phase, root, count, frame, children)
    tree._check_words(position, root, words)
    return IDescent.Stage(frame=self._hash(frame), position=position, root=root)


@internal
@pure
def _is_leaf(node: IDescent.Stage, phase: uint256) -> bool:
    return node.position & 65_535 == phase


@internal
@pure
def _check_here(is_here: bool):
    assert is_here, "referee: not here"


@internal
@pure
def _check_count(count: uint256):
    assert count < tree.MAX_COUNT, "referee: too many elements"


@internal
@pure
def _check_program(frame: IEvidence.Frame, program: openings.Program):
    assert openings._program_root(program) == frame.program_root, "referee: other program"


@internal
@pure
def _check_frame(node: IDescent.Stage, frame: IEvidence.Frame):
    assert self._hash(frame) == node.frame, "referee: other frame"


@internal
@pure
def _hash(frame: IEvidence.Frame) -> bytes32:
    return keccak256(abi_encode(frame))
