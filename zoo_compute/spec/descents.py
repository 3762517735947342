"""Answers and asks that lead from one tree of a claim into the next (docs/protocol/referee.md). `Descent.vy` is its twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from hashlib import sha256

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle
from zoo_compute.spec.exploration import (
    LEAF_BYTES,
    WORD_LEVELS,
    Node,
    Tree,
    TreePosition,
    abi_words,
    require_children,
    require_words,
    root_position,
)
from zoo_compute.spec.frames import (
    EMPTY,
    Frame,
    Hashes,
    Program,
    Result,
    States,
    Steps,
    Trace,
    claim_hash,
    head_of,
    height_of,
)
from zoo_compute.spec.params import MAX_COUNT, WORD_BYTES, WORDS_A_LEAF
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim

HERE = "referee: not here"


class Answer(IntEnum):
    """From SEGMENT on the committer chooses what it commits to."""

    BEGIN = 1
    NODE = 2
    RESULT = 3
    SEGMENT = 4
    STEP = 5
    TRACE = 6
    PARTS = 7


class Ask(IntEnum):
    STATE = 1
    PARTS = 2


STATE_PLACE = 1 << 64
ELEMENT_PLACE = 1 << 65


@dataclass(frozen=True, slots=True)
class Stage:
    """Where an ask or an answer leads: what is fixed by then, the position, and the hash that is committed there."""

    frame: Frame
    position: TreePosition
    root: bytes


@dataclass(frozen=True, slots=True)
class BeginAnswer:
    root: bytes
    program: Program
    children: Hashes


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """words: where the tensor's leaves are shown together, else children."""

    descriptor: bytes
    program: Program
    path: Hashes
    elements_root: bytes
    children: Hashes
    words: bytes


@dataclass(frozen=True, slots=True)
class ResultAnswer:
    claim: Claim
    result: Result


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """states: not read where the ask showed them."""

    states: States
    steps: Steps


@dataclass(frozen=True, slots=True)
class StepAnswer:
    states: States
    trace: Trace


@dataclass(frozen=True, slots=True)
class PartsAnswer:
    """leaf: the element's; words: all results where they are shown together, else the last leaf of them with its path."""

    leaf: bytes
    root: bytes
    last: bytes
    path: Hashes
    children: Hashes
    words: bytes


@dataclass(frozen=True, slots=True)
class ElementAsk:
    """An element of shown words, under the leaf that it is in."""

    descriptor: bytes
    element: int
    leaf: bytes
    path: Hashes


def frame_hash(frame: Frame) -> bytes:
    return bytes(keccak(abi_words(*astuple(frame))))


# --- asks


def asked_state(node: Node, frame: Frame, program: Program) -> tuple[Stage, int]:
    """The trace is right, and the state after it is not what it ends in."""
    require_frame(node, frame)
    require(node.position.tree == Tree.NODES and node.root == frame.trace_root, HERE)
    _require_program(frame, program)
    return Stage(frame, root_position(Tree.STATE, program.state_count), frame.after), STATE_PLACE


def asked_parts(
    node: Node, frame: Frame, opening: ElementAsk, part_count: Callable[[bytes, int], int]
) -> tuple[Stage, int]:
    """An element that comes about in several parts."""
    require_frame(node, frame)
    at = node.position
    require(at.tree == Tree.ELEMENTS and at.shows_words, HERE)
    require(keccak(opening.descriptor) == frame.descriptor, "referee: other descriptor")
    leaf = opening.element // WORDS_A_LEAF
    is_there = (
        opening.element < at.count
        and leaf >> at.height == at.index
        and len(opening.path) == at.height
        and merkle.climb(opening.leaf, leaf, opening.path) == node.root
    )
    require(is_there, "referee: no such element")
    parts = part_count(opening.descriptor, opening.element)
    require(parts > 1, "referee: one part")
    require(parts < MAX_COUNT, "referee: too many elements")
    frame = replace(frame, element=opening.element, parts=parts)
    position = TreePosition(Tree.ELEMENT, 0, leaf, at.count)
    return Stage(frame, position, opening.leaf), ELEMENT_PLACE | opening.element


# --- answers that a hash determines


def answered_begin(node: Node, frame: Frame, opening: BeginAnswer) -> Stage:
    """To the entries of the state at step 0."""
    require_frame(node, frame)
    require(_is_leaf(node, Tree.SEGMENTS) and node.position.index == 0, HERE)
    require(merkle.segment_leaf(0, opening.root) == node.root, "referee: states do not match")
    _require_program(frame, opening.program)
    frame = replace(frame, after=opening.root, is_begin=1)
    return _entered(Tree.STATE, opening.root, opening.program.state_count, frame, opening.children)


def answered_node(node: Node, frame: Frame, opening: NodeAnswer) -> Stage:
    """To the elements of a node's tensor."""
    require_frame(node, frame)
    at = node.position
    require(_is_leaf(node, Tree.NODES) and at.index < at.count, HERE)
    _require_program(frame, opening.program)
    leaf = sha256(b"\x05" + opening.descriptor).digest()
    is_node = len(opening.path) == height_of(at.count) and (
        merkle.climb(leaf, at.index, opening.path) == opening.program.nodes
    )
    require(is_node, "referee: other descriptor")
    head, count = head_of(opening.descriptor)
    tensor = merkle.tensor_root(head, opening.elements_root)
    traced = sha256(b"\x08" + at.index.to_bytes(4, "little") + tensor).digest()
    require(traced == node.root, "referee: tensor does not match")
    frame = replace(
        frame,
        node=at.index,
        descriptor=bytes(keccak(opening.descriptor)),
        tensor_root=tensor,
        elements_root=opening.elements_root,
    )
    return _entered_words(Tree.ELEMENTS, opening.elements_root, count, frame, opening.children, opening.words)


def answered_result(node: Node, frame: Frame, opening: ResultAnswer) -> Stage:
    """A slot's result leaf; nothing is asked below."""
    require_frame(node, frame)
    require(node.position.tree == Tree.RESULT, HERE)
    claim, result = opening.claim, opening.result
    require(claim_hash(claim) == frame.claim, "referee: other claim")
    roots = result.segment_root, result.end_root, result.update_root
    leaf = merkle.result_root(frame.slot, claim.start_root, *roots)
    require(claim.has_result(frame.slot, leaf, result.path), "referee: result does not match")
    return Stage(frame, node.position, node.root)


# --- answers that commit to something new


def answered_segment(node: Node, frame: Frame, opening: SegmentAnswer) -> Stage:
    """To the states of the steps in one segment."""
    require_frame(node, frame)
    at = node.position
    require(_is_leaf(node, Tree.SEGMENTS) and 0 < at.index < at.count, HERE)
    frame = _between(node, frame, opening.states)
    first, last = (step_of(frame, Tree.SEGMENTS, leaf) for leaf in (at.index - 1, at.index))
    require(last - first > 1, "referee: one step")
    height, steps = height_of(last - first + 1), opening.steps
    for root, number, leaf_at, path in (
        (frame.before, first, 0, steps.first_path),
        (frame.after, last, last - first, steps.last_path),
    ):
        leaf = merkle.segment_leaf(number, root)
        is_step = len(path) == height and merkle.climb(leaf, leaf_at, path) == steps.root
        require(is_step, "referee: steps do not match")
    frame = replace(frame, tree_root=steps.root, first_step=first)
    return _entered(Tree.STEPS, steps.root, last - first + 1, frame, steps.children)


def answered_step(node: Node, frame: Frame, opening: StepAnswer) -> Stage:
    """To the nodes of one step."""
    require_frame(node, frame)
    at = node.position
    is_here = _is_leaf(node, Tree.SEGMENTS) or _is_leaf(node, Tree.STEPS)
    require(is_here and 0 < at.index < at.count, HERE)
    step = step_of(frame, at.tree, at.index - 1)
    require(step_of(frame, at.tree, at.index) == step + 1, "referee: several steps")
    return _traced(replace(_between(node, frame, opening.states), step=step), opening.trace)


def answered_trace(node: Node, frame: Frame, trace: Trace) -> Stage:
    """To the nodes of an update or an aggregation."""
    require_frame(node, frame)
    require(node.position == TreePosition(Tree.NODES), HERE)
    return _traced(frame, trace)


def answered_parts(node: Node, frame: Frame, opening: PartsAnswer) -> Stage:
    """To the results of an element's parts, the last of which is the element."""
    require_frame(node, frame)
    require(node.position.tree == Tree.ELEMENT, HERE)
    require(sha256(b"\x00" + opening.leaf).digest() == node.root, "referee: bytes do not match")
    last = frame.parts - 1
    at = last // WORDS_A_LEAF
    if height_of(at + 1) > WORD_LEVELS:
        is_last = (
            len(opening.path) == height_of(at + 1)
            and len(opening.last) == WORD_BYTES * frame.parts - LEAF_BYTES * at
            and merkle.climb(sha256(b"\x00" + opening.last).digest(), at, opening.path) == opening.root
        )
        require(is_last, "referee: parts do not match")
        word = _word_of(opening.last, last)
    else:
        require(len(opening.words) == WORD_BYTES * frame.parts, "referee: bytes do not match")
        word = opening.words[-WORD_BYTES:]
    require(word == _word_of(opening.leaf, frame.element), "referee: parts do not match")
    frame = replace(frame, parts_root=opening.root)
    return _entered_words(Tree.PARTS, opening.root, frame.parts, frame, opening.children, opening.words)


# --- within


def step_of(frame: Frame, tree: Tree, leaf: int) -> int:
    """The step of a leaf of a tree of states."""
    return frame.first_step + leaf if tree == Tree.STEPS else min(leaf * frame.segment_steps, frame.inner_steps)


def _between(node: Node, frame: Frame, states: States) -> Frame:
    """With the states of the leaf and of the one before it, unless the first ask showed them."""
    at = node.position
    if at.tree == Tree.SEGMENTS and frame.after != EMPTY:
        return frame
    before = merkle.segment_leaf(step_of(frame, at.tree, at.index - 1), states.before)
    are_states = (
        merkle.segment_leaf(step_of(frame, at.tree, at.index), states.after) == node.root
        and len(states.path) == at.height_of_tree
        and merkle.climb(before, at.index - 1, states.path) == frame.tree_root
    )
    require(are_states, "referee: states do not match")
    return replace(frame, before=states.before, after=states.after)


def _traced(frame: Frame, trace: Trace) -> Stage:
    _require_program(frame, trace.program)
    frame = replace(frame, trace_root=trace.root)
    return _entered(Tree.NODES, trace.root, trace.program.node_count, frame, trace.children)


def _entered(tree: Tree, root: bytes, count: int, frame: Frame, children: Hashes) -> Stage:
    position = root_position(tree, count)
    require_children(position, root, children)
    return Stage(frame, position, root)


def _entered_words(tree: Tree, root: bytes, count: int, frame: Frame, children: Hashes, words: bytes) -> Stage:
    require(count < MAX_COUNT, "referee: too many elements")
    position = root_position(tree, count)
    if not position.shows_words:
        return _entered(tree, root, count, frame, children)
    require_words(position, root, words)
    return Stage(frame, position, root)


def _is_leaf(node: Node, tree: Tree) -> bool:
    return node.position.tree == tree and node.position.height == 0


def require_frame(node: Node, frame: Frame) -> None:
    require(frame_hash(frame) == node.frame, "referee: other frame")


def _require_program(frame: Frame, program: Program) -> None:
    require(program.root == frame.program_root, "referee: other program")


def _word_of(leaf: bytes, number: int) -> bytes:
    at = WORD_BYTES * (number % WORDS_A_LEAF)
    return leaf[at : at + WORD_BYTES]
