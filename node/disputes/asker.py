"""The asker: one honest challenger of a claim, who shares its exploration with everybody else.

What it computed itself and the public picture say all; it keeps nothing, so it can be restarted, and replaced, at any time.
It goes down to the first difference alone: whatever others asked elsewhere, one path convicts, and what was explored of that
path by anybody is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from node.disputes.known_tree import KnownTree
from node.disputes.proofs import Proofs
from node.disputes.trees import Trees
from repops.commitments import segment_leaf, state_root_of
from repops.merkle import Tree as HashTree
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence
from zoo_compute.disputes.exploration import Call, Exploration, Opened, values
from zoo_compute.spec import clocks
from zoo_compute.spec.descents import ELEMENT_PLACE, STATE_PLACE, Ask, ElementAsk
from zoo_compute.spec.disputed_claims import RESULT, claim_key, unit_of
from zoo_compute.spec.exploration import (
    LEAF_BYTES,
    Tree,
    TreePosition,
    child_id,
    id_below,
    path_id,
    root_position,
    segment_id,
    segments_position,
)
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Kind, Phase, Result, Work
from zoo_compute.spec.params import WORD_BYTES
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS


class Wait(NamedTuple):
    """The other side has to act; from the second after `until` on its silence convicts."""

    until: int


@dataclass(frozen=True)
class Disputed:
    """What is disputed of a claim. kind: which program; slot: 0 of an aggregation.

    result: of the slot, with its path, and `segments` the states' roots at the segments' ends: as the bundle shows them. Without a
    bundle both are asked for.
    """

    job: int
    claim: Claim
    kind: Kind
    slot: int
    work: Work
    result: Result | None = None
    segments: Hashes = ()

    @property
    def key(self) -> bytes:
        return claim_key(self.job, self.claim)

    def path(self, kind: int) -> bytes:
        return path_id(self.key, self.slot, kind)


class Asker:
    """trees: of what it computed of the claim itself."""

    def __init__(self, trees: Trees, disputed: Disputed) -> None:
        self.trees, self.disputed = trees, disputed
        self.proofs = Proofs(trees, disputed.claim)
        work = disputed.work
        self._shape = Frame(job=disputed.job, inner_steps=work.inner_steps, segment_steps=work.segment_steps)

    def next(self, picture: Exploration, now: int) -> Call | Wait | None:
        """What to send now; None where nothing is false, or the claim is resolved.

        Silence convicts on its own path first: elsewhere it would burn half of what its own heavy asks prepaid.
        """
        if picture.end is not None:
            return None
        step = self._step(picture)
        silent = [each for each in picture.open_asks if clocks.is_expired(each.record.clocks, now)]
        if isinstance(step, Opened):
            return self._expire(picture, step) if step in silent else Wait(step.due)
        return self._expire(picture, silent[0]) if silent and step is None else step

    def _expire(self, picture: Exploration, node: Opened) -> Call:
        return picture.expire(self.disputed.job, self.disputed.claim, node)

    def _step(self, picture: Exploration) -> Call | Opened | None:
        """On its path: an open ask of it, which the other side has to answer."""
        if self.disputed.kind == Kind.AGGREGATION:
            return self._single_step(picture, Result())
        result = self.disputed.result
        if result is None:
            bundle = picture.nodes.get(self.disputed.path(RESULT))
            if bundle is None:
                return self._ask_claim(picture, RESULT, Result(), TreePosition(Tree.RESULT))
            if not bundle.is_answered:
                return bundle
            result = bundle.answer.result
        if self.disputed.kind == Kind.UPDATE:
            return self._single_step(picture, result)
        return self._training(picture, result)

    # --- where paths begin

    def _single_step(self, picture: Exploration, result: Result) -> Call | Opened | None:
        """An update, or an aggregation."""
        kind = self.disputed.kind
        theirs = result.update_root if kind == Kind.UPDATE else self.disputed.claim.root
        if state_root_of(self.trees.computation.after(0)) == theirs:
            return None
        node = picture.nodes.get(self.disputed.path(kind))
        if node is None:
            return self._ask_claim(picture, kind, result, TreePosition(Tree.NODES), is_heavy=True)
        return self._below(picture, node)

    def _training(self, picture: Exploration, result: Result) -> Call | Opened | None:
        mine = self.trees.tree(self._shape, Phase.SEGMENTS)
        root = self.disputed.path(Kind.TRAINING)
        if mine.root == result.segment_root:
            return self._end(picture, result)
        revealed = self._bundled_segments(result)
        if revealed is None:
            if root in picture.nodes:
                return self._below(picture, picture.nodes[root])
            position = segments_position(self._shape.inner_steps, self._shape.segment_steps)
            return self._ask_claim(picture, Kind.TRAINING, result, position)
        index = next(at for at in range(revealed.width) if revealed.tree.node(0, at) != mine.node(0, at))
        node = picture.nodes.get(segment_id(unit_of(root), index))
        return self._below(picture, node) if node else self._ask_segment(picture, result, revealed, index)

    def _end(self, picture: Exploration, result: Result) -> Call | None:
        """The segments are right. Evidence is judged at any node of their tree; the root is the cheapest to ask for. A trial names no end."""
        if self.disputed.job == TRIALS or result.end_root == self.trees.states(self._shape, Phase.SEGMENTS)[-1]:
            return None
        about = (self.disputed.slot, Kind.TRAINING, Tree.SEGMENTS)
        for node in picture.nodes.values():
            at = node.position
            if (node.frame.slot, node.frame.kind, at.tree) == about and not at.is_beyond:
                return self._judge(picture, node, None, self.proofs.end(node.frame))
        return self._ask_claim(
            picture,
            Kind.TRAINING,
            result,
            segments_position(self._shape.inner_steps, self._shape.segment_steps),
        )

    def _bundled_segments(self, result: Result) -> _Segments | None:
        """What the bundle shows, if it is what the result commits to."""
        if not self.disputed.segments:
            return None
        steps = self.trees.steps(self._shape, Phase.SEGMENTS)
        if len(steps) != len(self.disputed.segments):
            return None
        leaves = [segment_leaf(*each) for each in zip(steps, self.disputed.segments, strict=True)]
        tree = HashTree(leaves)
        return _Segments(tree, len(leaves)) if tree.root == result.segment_root else None

    def _ask_segment(self, picture: Exploration, result: Result, revealed: _Segments, index: int) -> Call:
        states, path = self.disputed.segments, revealed.tree.path(index)
        before, siblings = (states[index - 1], revealed.tree.path(index - 1)) if index else (EMPTY, ())
        position = segments_position(self._shape.inner_steps, self._shape.segment_steps, index)
        sides = (before, states[index], list(siblings))
        return self._ask_claim(
            picture, Kind.TRAINING, result, position, is_heavy=position.is_heavy, revealed=(index, sides, list(path))
        )

    def _ask_claim(
        self,
        picture: Exploration,
        kind: int,
        result: Result,
        position: TreePosition,
        *,
        is_heavy: bool = False,
        revealed: tuple[int, tuple[bytes, bytes, list[bytes]], list[bytes]] = (0, (EMPTY, EMPTY, []), []),
    ) -> Call:
        disputed, work = self.disputed, self.disputed.work
        plain_work = (list(work.programs), *values(work)[1:])
        plain_result = (result.segment_root, result.end_root, result.update_root, list(result.path))
        place = (disputed.job, values(disputed.claim), int(kind), disputed.slot)
        id = disputed.path(kind)
        if revealed[2]:
            id = segment_id(unit_of(id), revealed[0])
        args = (*place, plain_work, plain_result, *revealed)
        return Call("ask_claim", args, picture.prepaid(position), is_heavy, id)

    # --- the way down

    def _below(self, picture: Exploration, node: Opened) -> Call | Opened | None:
        """At a node on the path of the first difference."""
        if not node.is_answered:
            return node
        frame, at = node.frame, node.position
        if at.tree == Tree.ELEMENTS:
            proof = self.proofs.tensor(frame)
            if proof is not None:
                return self._judge(picture, node, None, proof)
        if at.shows_words:
            return self._word(picture, node)
        phase = Phase(at.tree)
        mine = self.trees.tree(frame, phase).below(at.height, at.index, at.span)
        place = next(
            (place for place, pair in enumerate(zip(node.revealed, mine, strict=True)) if pair[0] != pair[1]), None
        )
        if place is None:
            return self._state(picture, node)
        position, _, _ = node.child(place)
        if position.tree == Tree.STATE and position.height == 0 and not position.is_beyond:
            return self._judge(picture, node, place, self.proofs.entry(frame, position.index))
        id = id_below(node.id, node.record.origin.unit, position, place)
        if id in picture.nodes:
            return self._below(picture, picture.nodes[id])
        return picture.ask(node, place)

    def _state(self, picture: Exploration, node: Opened) -> Call | Opened | None:
        """All children are right: of a whole trace, the state after it may not be."""
        frame = node.frame
        if node.position.tree != Tree.NODES or node.record.root != frame.trace_root:
            return None
        if state_root_of(self.trees.computation.after(frame.step)) == frame.after:
            return None
        id = child_id(node.id, STATE_PLACE)
        if id in picture.nodes:
            return self._below(picture, picture.nodes[id])
        program = self.trees.program.opened
        return picture.ask_stage(node, Ask.STATE, program, root_position(Tree.STATE, program.state_count))

    def _word(self, picture: Exploration, node: Opened) -> Call | Opened | None:
        """Among shown words: evidence, or the parts of an element that has several."""
        frame, at = node.frame, node.position
        phase, first = Phase(at.tree), at.index << at.height
        mine = self.trees.words(frame, phase)[LEAF_BYTES * first :]
        differs = (n for n in range(0, len(node.words), WORD_BYTES) if node.words[n : n + 4] != mine[n : n + 4])
        byte = next(differs, None)
        if byte is None:
            return None
        place, number = byte // LEAF_BYTES, (LEAF_BYTES * first + byte) // WORD_BYTES
        if at.tree == Tree.ELEMENTS and self.proofs.has_parts(frame):
            id = child_id(node.id, ELEMENT_PLACE | number)
            if id in picture.nodes:
                return self._below(picture, picture.nodes[id])
            position, leaf, path = node.child(place)
            asked = ElementAsk(self.trees.program.descriptor(frame.node), number, leaf, path)
            return picture.ask_stage(node, Ask.PARTS, asked, replace(position, tree=Tree.ELEMENT))
        leaf_bytes = node.words[LEAF_BYTES * place : LEAF_BYTES * (place + 1)]

        def seen(phase: Phase, way: int) -> KnownTree:
            return KnownTree(self.trees.tree(frame, phase), picture.revealed_in(node.id, Tree(phase)), way)

        return self._judge(picture, node, place, self.proofs.word(frame, phase, number, leaf_bytes, seen))

    def _judge(self, picture: Exploration, node: Opened, place: int | None, proof: Evidence) -> Call:
        disputed = self.disputed
        return picture.judge(disputed.job, disputed.claim, node, place, proof.KIND, evidence.encode(proof))


@dataclass(frozen=True)
class _Segments:
    tree: HashTree
    width: int


def explored_first(places: Iterable[Disputed], picture: Exploration) -> list[Disputed]:
    """Of several places in which one claim is false: where somebody asked already comes first, so that it is used. One convicts."""
    explored = {(node.frame.kind, node.frame.slot) for node in picture.nodes.values()}
    return sorted(places, key=lambda each: (int(each.kind), each.slot) not in explored)
