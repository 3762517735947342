"""The committer's side of a game: the move that is due, from what it computed."""

from __future__ import annotations

from dataclasses import replace

from node.disputes.moves import Move
from node.disputes.trees import Trees
from zoo_compute.spec.frames import (
    Awaits,
    Frame,
    Game,
    NodeOpening,
    PartsOpening,
    Phase,
    States,
    Steps,
    Trace,
)
from zoo_compute.spec.params import WORDS_A_LEAF


class Defender:
    """Answers for a claim whose computation is `trees.computation`. Keeps nothing: a game's record says all."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    def answer(self, game: Game) -> Move | None:
        """The committer's move; None where it is not its turn, or at a leaf that the tree has not."""
        frame, phase = game.frame, game.phase
        if game.awaits == Awaits.REVEAL:
            return Move("reveal", (self.trees.children(frame, phase, game.height, game.index),))
        if game.awaits == Awaits.TRACE:
            return Move("open_trace", (frame, self._trace(frame)))
        if game.awaits == Awaits.PARTS:
            return Move("open_parts", (frame, self._parts(game)))
        if game.awaits != Awaits.OPEN or game.is_beyond:
            return None
        if phase == Phase.NODES:
            return Move("open_node", (frame, self._node(game)))
        if phase in (Phase.SEGMENTS, Phase.STEPS):
            return self._begin(frame) if game.index == 0 else self._states(game)
        return Move("open_leaf", (self.trees.leaf(frame, phase, game.index),))

    def _begin(self, frame: Frame) -> Move:
        begun = replace(frame, is_begin=1)
        root = self.trees.tree(begun, Phase.STATE).root
        return Move("open_begin", (frame, root, self.trees.program.opened, self._top(begun, Phase.STATE)))

    def _states(self, game: Game) -> Move:
        """Of a segment, or of one step."""
        frame, phase, at = game.frame, game.phase, game.index
        first, last = self.trees.steps(frame, phase)[at - 1 : at + 1]
        before, after = self.trees.states(frame, phase)[at - 1 : at + 1]
        states = States(before, after, self.trees.tree(frame, phase).path(at - 1))
        if last - first == 1:
            return Move("open_step", (frame, states, self._trace(replace(frame, step=first))))
        inside = replace(frame, first_step=first)
        tree = self.trees.tree(inside, Phase.STEPS)
        paths = (tree.path(0), tree.path(last - first))
        return Move("open_segment", (frame, states, Steps(tree.root, *paths, self._top(inside, Phase.STEPS))))

    def _trace(self, frame: Frame) -> Trace:
        root = self.trees.tree(frame, Phase.NODES).root
        return Trace(root, self.trees.program.opened, self._top(frame, Phase.NODES))

    def _node(self, game: Game) -> NodeOpening:
        program, node = self.trees.program, game.index
        frame = replace(game.frame, node=node)
        root = self.trees.tree(frame, Phase.ELEMENTS).root
        children, leaf = self._words(frame, Phase.ELEMENTS)
        return NodeOpening(program.descriptor(node), program.opened, program.nodes.path(node), root, children, leaf)

    def _parts(self, game: Game) -> PartsOpening:
        frame = game.frame
        tree, last = self.trees.tree(frame, Phase.PARTS), (frame.parts - 1) // WORDS_A_LEAF
        return PartsOpening(
            leaf=self.trees.leaf(frame, Phase.ELEMENTS, game.index),
            root=tree.root,
            last=self.trees.leaf(frame, Phase.PARTS, last),
            path=tree.path(last),
            children=self._words(frame, Phase.PARTS)[0],
        )

    def _words(self, frame: Frame, phase: Phase) -> tuple[tuple[bytes, ...], bytes]:
        """The children of the root, or of a tree of one leaf its bytes."""
        if self.trees.tree(frame, phase).height:
            return self._top(frame, phase), b""
        return (), self.trees.leaf(frame, phase, 0)

    def _top(self, frame: Frame, phase: Phase) -> tuple[bytes, ...]:
        return self.trees.children(frame, phase, self.trees.tree(frame, phase).height, 0)
