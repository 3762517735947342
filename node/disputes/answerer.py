"""The answerer: answers the open asks of a claim, its operator's or, where a hash determines the answer, anybody's.

Nothing is sent that the contract would refuse: every answer is checked against what was asked, so of a false claim, whose
committed hashes lie elsewhere, a stranger sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from node.disputes.element_words import LEAF_BYTES
from node.disputes.trees import Trees
from node.inputs.fetching import UNAVAILABLE
from zoo_compute.disputes.exploration import Call, Exploration, Opened, stage_of, values
from zoo_compute.disputes.roles import AUTHORS, FALSE
from zoo_compute.disputes.stage_data import encode_stage
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.descents import (
    Answer,
    BeginAnswer,
    NodeAnswer,
    PartsAnswer,
    ResultAnswer,
    SegmentAnswer,
    StepAnswer,
)
from zoo_compute.spec.exploration import (
    WORD_LEVELS,
    Tree,
    TreePosition,
    require_children,
    require_words,
    root_position,
)
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Phase, Result, States, Steps, Trace
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim

NO_STATES = States(EMPTY, EMPTY, ())
Answered = tuple[Answer, object]


class Answerer:
    """trees_of: by kind and slot; result_of: by slot, with its path. is_author: with the operator's hot key.

    unanswered: why, by the id of an ask to which there was no answer; failed: whether one of them could not be computed.
    """

    def __init__(
        self,
        claim: Claim,
        trees_of: Callable[[int, int], Trees],
        preset: ClockPreset,
        *,
        result_of: Callable[[int], Result | None] = lambda slot: None,
        is_author: bool,
    ) -> None:
        self.claim, self.preset, self.is_author = claim, preset, is_author
        self._trees_of, self._result_of = trees_of, result_of
        self.unanswered: dict[bytes, str] = {}
        self.failed = False

    def calls(
        self, picture: Exploration, now: int, skipped: Collection[bytes] = (), failing: Collection[bytes] = ()
    ) -> Iterator[Call]:
        """What can be answered now, the ask whose clock ends first at the front. Each is computed when it is taken.

        skipped: ids of asks that are left alone. failing: of those that could not be computed: they are tried again where nothing
        else is to be answered, as what they need may take long to arrive.
        """
        if picture.end is not None:
            return
        asked = [node for node in picture.open_asks if node.id not in skipped]
        asked = [node for node in asked if clocks.may_answer(node.record.clocks, now, self.is_author, self.preset)]
        made = False
        for node in asked:
            if node.id not in failing:
                call = self._contained(node)
                if call is not None:
                    made = True
                    yield call
        for node in [] if made else asked:
            if node.id in failing:
                call = self._contained(node)
                if call is not None:
                    yield call

    def _contained(self, node: Opened) -> Call | None:
        """The answer to one ask. What cannot be computed keeps no other ask waiting."""
        try:
            return self.answer(node)
        except UNAVAILABLE as error:
            self.unanswered[node.id] = f"{type(error).__name__}: {error}"
            self.failed = True
            return None

    def answer(self, node: Opened) -> Call | None:
        """Of one ask; None where there is none, or none that this account may give."""
        record, at = node.record, node.position
        try:
            if at.shows_words:
                data = self._bytes_of(node.frame, at)
                require_words(at, record.root, data)
                return Call("answer_words", (node.id, record.record, data), id=node.id)
            if at.height > 0:
                children = self._tree_below(node.frame, at)
                require_children(at, record.root, children)
                return Call("answer", (node.id, record.record, list(children)), id=node.id)
            led = self._stage(node)
            if led is None or (led[0] >= Answer.SEGMENT and not self.is_author):
                is_whole = at.tree == Tree.RESULT or at == TreePosition(Tree.NODES)
                self.unanswered[node.id] = FALSE if self.is_author or (at.is_beyond and not is_whole) else AUTHORS
                return None
            stage_of(led[0], node, led[1])
        except Refused:
            self.unanswered[node.id] = FALSE
            return None
        args = (node.id, record.record, int(led[0]), values(node.frame), encode_stage(led[1]))
        return Call("answer_stage", args, id=node.id)

    def _trees(self, frame: Frame) -> Trees:
        return self._trees_of(frame.kind, frame.slot)

    def _tree_below(self, frame: Frame, at: TreePosition) -> Hashes:
        return self._trees(frame).tree(frame, Phase(at.tree)).below(at.height, at.index, at.span)

    def _bytes_of(self, frame: Frame, at: TreePosition) -> bytes:
        size = LEAF_BYTES << at.height
        return self._trees(frame).words(frame, Phase(at.tree))[at.index * size : (at.index + 1) * size]

    # --- from tree to tree

    def _stage(self, node: Opened) -> Answered | None:
        frame, at = node.frame, node.position
        if at.tree == Tree.RESULT:
            result = self._result_of(frame.slot)
            return (Answer.RESULT, ResultAnswer(self.claim, result)) if result else None
        if at == TreePosition(Tree.NODES):
            return self._new(Answer.TRACE, lambda: self._trace(frame))
        if at.is_beyond:
            return None
        if at.tree == Tree.NODES:
            return Answer.NODE, self._node(frame, at.index)
        if at.tree == Tree.ELEMENT:
            return self._new(Answer.PARTS, lambda: self._parts(frame, at.index))
        if at.tree not in (Tree.SEGMENTS, Tree.STEPS):
            return None
        if at.index == 0:
            return (Answer.BEGIN, self._begin(frame)) if at.tree == Tree.SEGMENTS else None
        return self._states(frame, at)

    def _new(self, kind: Answer, make: Callable[[], object]) -> Answered | None:
        """What commits to something new takes a re-execution, which a stranger is spared."""
        return (kind, make()) if self.is_author else None

    def _begin(self, frame: Frame) -> BeginAnswer:
        trees, begun = self._trees(frame), replace(frame, is_begin=1)
        root = trees.tree(begun, Phase.STATE).root
        return BeginAnswer(root, trees.program.opened, self._top(begun, Tree.STATE, len(trees.computation.graph.state)))

    def _states(self, frame: Frame, at: TreePosition) -> Answered | None:
        """Of a segment, or of one step."""
        if not self.is_author:
            return None
        trees, phase = self._trees(frame), Phase(at.tree)
        first, last = trees.steps(frame, phase)[at.index - 1 : at.index + 1]
        is_known = at.tree == Tree.SEGMENTS and frame.after != EMPTY
        states = NO_STATES if is_known else self._sides(trees, frame, at)
        if last - first == 1:
            return Answer.STEP, StepAnswer(states, self._trace(replace(frame, step=first)))
        inside = replace(frame, first_step=first)
        tree = trees.tree(inside, Phase.STEPS)
        top = self._top(inside, Tree.STEPS, last - first + 1)
        return Answer.SEGMENT, SegmentAnswer(states, Steps(tree.root, tree.path(0), tree.path(last - first), top))

    def _sides(self, trees: Trees, frame: Frame, at: TreePosition) -> States:
        before, after = trees.states(frame, Phase(at.tree))[at.index - 1 : at.index + 1]
        return States(before, after, trees.tree(frame, Phase(at.tree)).path(at.index - 1))

    def _trace(self, frame: Frame) -> Trace:
        trees = self._trees(frame)
        program = trees.program.opened
        return Trace(trees.tree(frame, Phase.NODES).root, program, self._top(frame, Tree.NODES, program.node_count))

    def _node(self, frame: Frame, number: int) -> NodeAnswer:
        trees = self._trees(frame)
        program, inside = trees.program, replace(frame, node=number)
        root = trees.tree(inside, Phase.ELEMENTS).root
        revealed = self._words(inside, Tree.ELEMENTS, trees.computation.graph.nodes[number].elements)
        return NodeAnswer(program.descriptor(number), program.opened, program.nodes.path(number), root, *revealed)

    def _parts(self, frame: Frame, leaf: int) -> PartsAnswer:
        trees = self._trees(frame)
        tree, last = trees.tree(frame, Phase.PARTS), (frame.parts - 1) // WORDS_A_LEAF
        is_tall = tree.height > WORD_LEVELS
        return PartsAnswer(
            trees.leaf(frame, Phase.ELEMENTS, leaf),
            tree.root,
            trees.leaf(frame, Phase.PARTS, last) if is_tall else b"",
            tree.path(last) if is_tall else (),
            *self._words(frame, Tree.PARTS, frame.parts),
        )

    def _words(self, frame: Frame, tree: Tree, count: int) -> tuple[Hashes, bytes]:
        """Of a tree of words from its root: children, or all its words."""
        position = root_position(tree, count)
        return (
            ((), self._bytes_of(frame, position)) if position.shows_words else (self._tree_below(frame, position), b"")
        )

    def _top(self, frame: Frame, tree: Tree, count: int) -> Hashes:
        return self._tree_below(frame, root_position(tree, count))
