"""Right moves of an exploration over a computation made up from hashes, and what a caller keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from tests.support.explorations.hashed_computation import HashedComputation, Tree, words_tree
from tests.support.lockstep.stage import evidence_of
from zoo_compute.spec.descents import (
    Answer,
    BeginAnswer,
    ElementAsk,
    NodeAnswer,
    PartsAnswer,
    ResultAnswer,
    SegmentAnswer,
    StepAnswer,
    step_of,
)
from zoo_compute.spec.disputed_claims import RESULT, Explorations, Place, claim_key, fee_of
from zoo_compute.spec.exploration import WORD_LEVELS, Node, Status, TreePosition, segments_position
from zoo_compute.spec.exploration import Tree as In
from zoo_compute.spec.frames import (
    EMPTY,
    Frame,
    Hashes,
    Kind,
    Phase,
    Position,
    Result,
    States,
    Steps,
    Trace,
    Work,
    height_of,
)
from zoo_compute.spec.state import Claim

LEAF = 512
NO_STATES = States(EMPTY, EMPTY, ())


def tree_of(side: HashedComputation, node: Node, frame: Frame) -> Tree:
    """The one that the node is in."""
    tree = node.position.tree
    if tree == In.ELEMENT:
        return words_tree(side.data(frame, frame.node))
    return side.tree(frame, Phase(tree))


def children_of(side: HashedComputation, node: Node, frame: Frame) -> Hashes:
    """What one answer shows; of shown words, the leaves."""
    at = node.position
    span = at.height if at.shows_words else at.span
    level = tree_of(side, node, frame).levels[at.height - span]
    return tuple(level[at.index << span : (at.index + 1) << span])


class Court(Protocol):
    """Where the calls are made. claims: by name; sides: of each of their slots."""

    job: int
    work: Work
    base_fee: int
    claims: Mapping[str, Claim]
    sides: Mapping[tuple[str, int], HashedComputation]

    @property
    def explorations(self) -> Explorations: ...

    def call(self, function: str, sender: str, *args: Any, value: int = 0) -> Any: ...

    def hot_of(self, name: str) -> str: ...


class Explorer:
    """Plays both sides. by_id: records, status and frames."""

    def __init__(self, court: Court) -> None:
        self.court = court
        self.known: dict[bytes, tuple[str, Node, Status, Frame]] = {}

    # --- asks

    def first_args(self, name: str, kind: int, slot: int, leaf: int | None = None) -> tuple[Any, ...]:
        court = self.court
        claim, result, states, path = court.claims[name], Result(), NO_STATES, ()
        if not claim.is_aggregation:
            first = claim.scope >> 16
            leaves = Tree(tuple(court.sides[name, first + at].leaf() for at in range(claim.count)))
            side = court.sides[name, slot]
            result = replace(side.result, path=leaves.path(slot - first))
            if leaf is not None:
                tree = side.segments
                before = max(leaf - 1, 0)
                roots = [side.state(side.step_of(each)).root for each in (before, leaf)]
                states, path = States(roots[0], roots[1], tree.path(before)), tree.path(leaf)
        return (court.job, claim, int(kind), slot, court.work, result, leaf or 0, states, path)

    def first(
        self, name: str, kind: int = Kind.TRAINING, slot: int = 4, leaf: int | None = None, by: str = "dave"
    ) -> bytes:
        args = self.first_args(name, kind, slot, leaf)
        work = args[4]
        position = TreePosition(In.NODES if kind != RESULT else In.RESULT)
        if kind == Kind.TRAINING:
            position = segments_position(work.inner_steps, work.segment_steps, leaf)
        id, node, frame = self.court.call("ask_claim", by, *args, value=self.fee(name, position))
        return self._keep(name, id, node, Status.ASKED, frame)

    def ask_args(self, above: bytes, place: int) -> tuple[Any, ...]:
        _, node, _, frame = self.known[above]
        children = children_of(self.side(above), node, frame)
        return (above, node, place, children[place], Tree(children).path(place))

    def ask(self, above: bytes, place: int, by: str = "dave") -> bytes:
        name, node, _, frame = self.known[above]
        args = self.ask_args(above, place)
        below = node.position.below(node.root, *args[2:])
        id, asked = self.court.call("ask", by, *args, value=self.fee(name, below))
        return self._keep(name, id, asked, Status.ASKED, frame)

    def ask_state(self, above: bytes, by: str = "dave") -> bytes:
        name, node, _, frame = self.known[above]
        program = self.side(above).programs[Kind(frame.kind)].opened
        height = height_of(program.state_count)
        value = self.fee(name, TreePosition(In.STATE, height)) if height else 0
        id, asked, frame = self.court.call("ask_stage", by, above, node, 1, frame, program, value=value)
        return self._keep(name, id, asked, Status.ASKED if height else Status.ANSWERED, frame)

    def element_args(self, above: bytes, element: int) -> tuple[Any, ...]:
        _, node, _, frame = self.known[above]
        leaves, at = Tree(children_of(self.side(above), node, frame)), element // 128
        place = at - (node.position.index << node.position.height)
        descriptor = self.side(above).programs[Kind(frame.kind)].descriptor(frame.node)
        place = min(max(place, 0), len(leaves.leaves) - 1)
        return (above, node, 2, frame, ElementAsk(descriptor, element, leaves.leaves[place], leaves.path(place)))

    def ask_parts(self, above: bytes, element: int, by: str = "dave") -> bytes:
        name = self.known[above][0]
        value = self.fee(name, TreePosition(In.ELEMENT))
        id, asked, frame = self.court.call("ask_stage", by, *self.element_args(above, element), value=value)
        return self._keep(name, id, asked, Status.ASKED, frame)

    def fee(self, name: str, position: TreePosition) -> int:
        word = self.court.explorations.claims.get(claim_key(self.court.job, self.court.claims[name]))
        return fee_of(position, (word.open if word else 0) + 1, self.court.base_fee)

    # --- answers

    def side(self, id: bytes) -> HashedComputation:
        name, _, _, frame = self.known[id]
        return self.court.sides[name, frame.slot]

    def answer_args(self, id: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """The answer of the honest side; None where there is none."""
        _, node, _, frame = self.known[id]
        side, at = self.side(id), node.position
        if at.shows_words:
            return "answer_words", (id, node, self.words(id))
        if at.height:
            return "answer", (id, node, children_of(side, node, frame))
        kind, data = self.stage(id)
        return "answer_stage", (id, node, int(kind), frame, data)

    def words(self, id: bytes) -> bytes:
        _, node, _, frame = self.known[id]
        side, at = self.side(id), node.position
        data = side.part_data(frame) if at.tree == In.PARTS else side.data(frame, frame.node)
        size = LEAF << at.height
        return data[at.index * size : (at.index + 1) * size]

    def stage(self, id: bytes) -> tuple[Answer, Any]:
        name, node, _, frame = self.known[id]
        side, at = self.side(id), node.position
        if at.tree == In.RESULT:
            return Answer.RESULT, ResultAnswer(self.court.claims[name], self.first_args(name, 0, frame.slot)[5])
        if at == TreePosition(In.NODES):
            return Answer.TRACE, self._trace(side, frame)
        if at.tree == In.NODES:
            return Answer.NODE, self._node(side, frame, at.index)
        if at.tree == In.ELEMENT:
            return Answer.PARTS, self._parts(side, frame, at.index)
        if at.index == 0:
            state = side.state(0)
            height = state.height
            children = Tree(state.leaves).children(height, 0)
            return Answer.BEGIN, BeginAnswer(state.root, side.program.opened, children)
        first, last = (step_of(frame, at.tree, leaf) for leaf in (at.index - 1, at.index))
        tree = tree_of(side, node, frame)
        states = States(side.state(first).root, side.state(last).root, tree.path(at.index - 1))
        if last == first + 1:
            return Answer.STEP, StepAnswer(states, self._trace(side, Frame(kind=frame.kind, step=first)))
        steps = side.steps(first)
        paths = steps.path(0), steps.path(last - first)
        return Answer.SEGMENT, SegmentAnswer(states, Steps(steps.root, *paths, steps.children(steps.height, 0)))

    def _trace(self, side: HashedComputation, frame: Frame) -> Trace:
        tree = side.trace(frame)
        return Trace(tree.root, side.programs[Kind(frame.kind)].opened, tree.children(tree.height, 0))

    def _node(self, side: HashedComputation, frame: Frame, node: int) -> NodeAnswer:
        program, data = side.programs[Kind(frame.kind)], side.data(frame, node)
        tree = words_tree(data)
        shows_words = tree.height <= WORD_LEVELS
        children = () if shows_words else first_children(In.ELEMENTS, tree)
        path = program.nodes.path(node)
        return NodeAnswer(
            program.descriptor(node), program.opened, path, tree.root, children, data if shows_words else b""
        )

    def _parts(self, side: HashedComputation, frame: Frame, leaf: int) -> PartsAnswer:
        element = side.data(frame, frame.node)[leaf * LEAF : (leaf + 1) * LEAF]
        data = side.part_data(frame)
        tree, last = words_tree(data), (frame.parts - 1) // 128
        shows_words = tree.height <= WORD_LEVELS
        children = () if shows_words else first_children(In.PARTS, tree)
        return PartsAnswer(
            element, tree.root, data[last * LEAF :], tree.path(last), children, data if shows_words else b""
        )

    def answer(self, id: bytes, by: str = "") -> bytes:
        """By the operator's hot key, if nobody else is named; returns the same id."""
        name, _, _, frame = self.known[id]
        made = self.answer_args(id)
        assert made, "nothing answers this"
        function, args = made
        answered = self.court.call(function, by or self.court.hot_of(name), *args)
        node, frame = answered if function == "answer_stage" else (answered, frame)
        return self._keep(name, id, node, Status.ANSWERED, frame)

    def _keep(self, name: str, id: bytes, node: Node, status: Status, frame: Frame) -> bytes:
        self.known[id] = name, node, status, frame
        return id

    # --- whole ways

    def down(self, id: bytes, leaf: int, by: str = "dave") -> bytes:
        """Answers and asks until the node of this leaf is asked for; of words, until the leaf is shown."""
        while True:
            _, node, status, _ = self.known[id]
            if status == Status.ASKED:
                self.answer(id)
                _, node, _, _ = self.known[id]
            if node.position.shows_words:
                return id
            at = node.position
            id = self.ask(id, leaf >> (at.height - at.span) & ((1 << at.span) - 1), by)
            if self.known[id][1].position.height == 0 and not self.known[id][1].position.shows_words:
                return id

    def place(self, id: bytes, child: int | None = None) -> Place:
        _, node, status, frame = self.known[id]
        if child is None:
            return Place(id, node, status)
        children = children_of(self.side(id), node, frame)
        return Place(id, node, status, True, child, children[child], Tree(children).path(child))

    def judge_args(self, id: bytes, child: int | None = None, kind: int = 8) -> tuple[Any, ...]:
        """With what the double takes for evidence."""
        name, node, status, frame = self.known[id]
        place = self.place(id, child)
        at, root = node.position, node.root
        if child is not None:
            at, root = at.below(root, child, place.child, place.path), place.child
        is_open = status == Status.ANSWERED and node.position.shows_words and at.height == 0
        position = Position(int(at.tree), at.height, at.index, root, root if is_open else EMPTY)
        return (self.court.job, self.court.claims[name], frame, place, kind, evidence_of(kind, frame, position))

    def convict(self, id: bytes, child: int | None = None, by: str = "dave") -> None:
        self.court.call("judge", by, *self.judge_args(id, child))


def first_children(tree: In, words: Tree) -> Hashes:
    """Of the root of a tree of words that is not shown at once."""
    span = TreePosition(tree, words.height).span
    return tuple(words.levels[words.height - span])
