"""A game's moves, and what the committer's show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from repops.merkle import Tree
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.games import Hashes, Phase


class Move(NamedTuple):
    """A function of the referee, and its arguments after the game's number, as records of the specification."""

    name: str
    args: tuple[Any, ...]


PHASE_ENTERED_BY = {
    "open_segment": Phase.STEPS,
    "open_step": Phase.NODES,
    "open_trace": Phase.NODES,
    "open_begin": Phase.STATE,
    "dispute_state": Phase.STATE,
    "open_node": Phase.ELEMENTS,
    "open_parts": Phase.PARTS,
}


def with_move(revealed: RevealedState, move: Move) -> RevealedState:
    """The state after a move, from the move itself: as `RevealedState` has it from the events."""
    name, args = move
    if name in PHASE_ENTERED_BY:
        children = args[-1] if name == "open_begin" else getattr(args[-1], "children", ())
        leaf = getattr(args[-1], {"open_node": "leaf", "open_parts": "last"}.get(name, ""), b"")
        entered = replace(revealed, phase=PHASE_ENTERED_BY[name])
        return entered.with_children(children) if children else entered.with_leaf(leaf)
    if name == "reveal":
        return revealed.with_children(args[0])
    return revealed.with_leaf(args[0]) if name == "open_leaf" else revealed


class KnownTree:
    """The committer's tree as far as it is known, where the game went down to leaf `way`: what was revealed, else one's own.

    Everything left of `way` is the same in both, so every path of a leaf there can be made.
    """

    def __init__(self, mine: Tree, revealed: tuple[Hashes, ...], way: int) -> None:
        self._mine = mine
        self._known: dict[tuple[int, int], bytes] = {}
        height = mine.height
        for children in revealed:
            below = Tree(children)
            for level in range(below.height + 1):
                at = height - below.height + level
                first = (way >> height) << (height - at)
                self._known |= {(at, first + n): below.node(level, n) for n in range(1 << (height - at))}
            height -= below.height

    @property
    def height(self) -> int:
        return self._mine.height

    def node(self, height: int, index: int) -> bytes:
        return self._known.get((height, index)) or self._mine.node(height, index)

    def path(self, leaf: int) -> Hashes:
        return tuple(self.node(height, (leaf >> height) ^ 1) for height in range(self.height))
