"""Answers and asks that lead from one tree of a claim into the next (docs/protocol/openings.md). `Descent.vy` is its twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from hashlib import sha256

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle
from zoo_compute.spec.exploration import (
    LEAF_BYTES,
    SHOWN_LEVELS,
    Node,
    Tree,
    TreePosition,
    abi_words,
    require_children,
    require_words,
    root_position,
)
from zoo_compute.spec.games import (
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
from zoo_compute.spec.params import MAX_GAME_COUNT, WORD_BYTES, WORDS_A_LEAF
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim

HERE = "openings: not here"


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
    node: Node, frame: Frame, given: ElementAsk, part_count: Callable[[bytes, int], int]
) -> tuple[Stage, int]:
    """An element that comes about in several parts."""
    require_frame(node, frame)
    at = node.position
    require(at.tree == Tree.ELEMENTS and at.is_shown, HERE)
    require(keccak(given.descriptor) == frame.descriptor, "openings: other descriptor")
    leaf = given.element // WORDS_A_LEAF
    is_there = (
        given.element < at.count
        and leaf >> at.height == at.index
        and len(given.path) == at.height
        and merkle.climb(given.leaf, leaf, given.path) == node.root
    )
    require(is_there, "openings: no such element")
    parts = part_count(given.descriptor, given.element)
    require(parts > 1, "openings: one part")
    require(parts < MAX_GAME_COUNT, "openings: too many elements")
    frame = replace(frame, element=given.element, parts=parts)
    position = TreePosition(Tree.ELEMENT, 0, leaf, at.count)
    return Stage(frame, position, given.leaf), ELEMENT_PLACE | given.element


# --- answers that a hash determines


def answered_begin(node: Node, frame: Frame, given: BeginAnswer) -> Stage:
    """To the entries of the state at step 0."""
    require_frame(node, frame)
    require(_is_leaf(node, Tree.SEGMENTS) and node.position.index == 0, HERE)
    require(merkle.segment_leaf(0, given.root) == node.root, "openings: states do not match")
    _require_program(frame, given.program)
    frame = replace(frame, after=given.root, is_begin=1)
    return _entered(Tree.STATE, given.root, given.program.state_count, frame, given.children)


def answered_node(node: Node, frame: Frame, given: NodeAnswer) -> Stage:
    """To the elements of a node's tensor."""
    require_frame(node, frame)
    at = node.position
    require(_is_leaf(node, Tree.NODES) and at.index < at.count, HERE)
    _require_program(frame, given.program)
    leaf = sha256(b"\x05" + given.descriptor).digest()
    is_node = len(given.path) == height_of(at.count) and (
        merkle.climb(leaf, at.index, given.path) == given.program.nodes
    )
    require(is_node, "openings: other descriptor")
    head, count = head_of(given.descriptor)
    tensor = merkle.tensor_root(head, given.elements_root)
    traced = sha256(b"\x08" + at.index.to_bytes(4, "little") + tensor).digest()
    require(traced == node.root, "openings: tensor does not match")
    frame = replace(
        frame,
        node=at.index,
        descriptor=bytes(keccak(given.descriptor)),
        tensor_root=tensor,
        elements_root=given.elements_root,
    )
    return _entered_words(Tree.ELEMENTS, given.elements_root, count, frame, given.children, given.words)


def answered_result(node: Node, frame: Frame, given: ResultAnswer) -> Stage:
    """A slot's result leaf; nothing is asked below."""
    require_frame(node, frame)
    require(node.position.tree == Tree.RESULT, HERE)
    claim, result = given.claim, given.result
    require(claim_hash(claim) == frame.claim, "openings: other claim")
    roots = result.segment_root, result.end_root, result.update_root
    leaf = merkle.result_root(frame.slot, claim.start_root, *roots)
    is_result = merkle.climb(leaf, frame.slot - (claim.scope >> 16), result.path) == node.root
    require(is_result, "openings: result does not match")
    return Stage(frame, node.position, node.root)


# --- answers that commit to something new


def answered_segment(node: Node, frame: Frame, given: SegmentAnswer) -> Stage:
    """To the states of the steps in one segment."""
    require_frame(node, frame)
    at = node.position
    require(_is_leaf(node, Tree.SEGMENTS) and 0 < at.index < at.count, HERE)
    frame = _between(node, frame, given.states)
    first, last = (step_of(frame, Tree.SEGMENTS, leaf) for leaf in (at.index - 1, at.index))
    require(last - first > 1, "openings: one step")
    height, steps = height_of(last - first + 1), given.steps
    for root, number, leaf_at, path in (
        (frame.before, first, 0, steps.first_path),
        (frame.after, last, last - first, steps.last_path),
    ):
        leaf = merkle.segment_leaf(number, root)
        is_step = len(path) == height and merkle.climb(leaf, leaf_at, path) == steps.root
        require(is_step, "openings: steps do not match")
    frame = replace(frame, tree_root=steps.root, first_step=first)
    return _entered(Tree.STEPS, steps.root, last - first + 1, frame, steps.children)


def answered_step(node: Node, frame: Frame, given: StepAnswer) -> Stage:
    """To the nodes of one step."""
    require_frame(node, frame)
    at = node.position
    is_here = _is_leaf(node, Tree.SEGMENTS) or _is_leaf(node, Tree.STEPS)
    require(is_here and 0 < at.index < at.count, HERE)
    step = step_of(frame, at.tree, at.index - 1)
    require(step_of(frame, at.tree, at.index) == step + 1, "openings: several steps")
    return _traced(replace(_between(node, frame, given.states), step=step), given.trace)


def answered_trace(node: Node, frame: Frame, trace: Trace) -> Stage:
    """To the nodes of an update or an aggregation."""
    require_frame(node, frame)
    require(node.position == TreePosition(Tree.NODES), HERE)
    return _traced(frame, trace)


def answered_parts(node: Node, frame: Frame, given: PartsAnswer) -> Stage:
    """To the results of an element's parts, the last of which is the element."""
    require_frame(node, frame)
    require(node.position.tree == Tree.ELEMENT, HERE)
    require(sha256(b"\x00" + given.leaf).digest() == node.root, "openings: bytes do not match")
    last = frame.parts - 1
    at = last // WORDS_A_LEAF
    if height_of(at + 1) > SHOWN_LEVELS:
        is_last = (
            len(given.path) == height_of(at + 1)
            and len(given.last) == WORD_BYTES * frame.parts - LEAF_BYTES * at
            and merkle.climb(sha256(b"\x00" + given.last).digest(), at, given.path) == given.root
        )
        require(is_last, "openings: parts do not match")
        word = _word_of(given.last, last)
    else:
        require(len(given.words) == WORD_BYTES * frame.parts, "openings: bytes do not match")
        word = given.words[-WORD_BYTES:]
    require(word == _word_of(given.leaf, frame.element), "openings: parts do not match")
    frame = replace(frame, parts_root=given.root)
    return _entered_words(Tree.PARTS, given.root, frame.parts, frame, given.children, given.words)


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
    require(are_states, "openings: states do not match")
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
    require(count < MAX_GAME_COUNT, "openings: too many elements")
    position = root_position(tree, count)
    if not position.is_shown:
        return _entered(tree, root, count, frame, children)
    require_words(position, root, words)
    return Stage(frame, position, root)


def _is_leaf(node: Node, tree: Tree) -> bool:
    return node.position.tree == tree and node.position.height == 0


def require_frame(node: Node, frame: Frame) -> None:
    require(frame_hash(frame) == node.frame, "openings: other frame")


def _require_program(frame: Frame, program: Program) -> None:
    require(program.root == frame.program_root, "openings: other program")


def _word_of(leaf: bytes, number: int) -> bytes:
    at = WORD_BYTES * (number % WORDS_A_LEAF)
    return leaf[at : at + WORD_BYTES]
