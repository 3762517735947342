"""A game's moves, and what the committer's have shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from repops.merkle import Tree
from zoo_compute.spec.games import Frame, Hashes, Phase, phase_of


class Move(NamedTuple):
    """A function of the referee, and its arguments after the game's number, as records of the specification."""

    name: str
    args: tuple[Any, ...]


ENTERED = {
    "open_segment": Phase.STEPS,
    "open_step": Phase.NODES,
    "open_trace": Phase.NODES,
    "open_begin": Phase.STATE,
    "dispute_state": Phase.STATE,
    "open_node": Phase.ELEMENTS,
    "open_parts": Phase.PARTS,
}


@dataclass(frozen=True)
class Shown:
    """Tree by tree the children that were revealed on the way down, and the leaf of words that was shown.

    From the chain: `told` with the events of each transaction of the game, in order. From the moves themselves: `of`.
    """

    phase: Phase = Phase.SEGMENTS
    children: Mapping[Phase, tuple[Hashes, ...]] = field(default_factory=dict)
    leaves: Mapping[Phase, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, moves: Iterable[Move]) -> Shown:
        """From all moves of a game, in order."""
        shown = cls()
        for move in moves:
            shown = shown.then(move)
        return shown

    def then(self, move: Move) -> Shown:
        name, args = move
        if name in ENTERED:
            children = args[-1] if name == "open_begin" else getattr(args[-1], "children", ())
            leaf = getattr(args[-1], {"open_node": "leaf", "open_parts": "last"}.get(name, ""), b"")
            entered = replace(self, phase=ENTERED[name])
            return entered.revealed(children) if children else entered.showed(leaf)
        if name == "reveal":
            return self.revealed(args[0])
        return self.showed(args[0]) if name == "open_leaf" else self

    def told(
        self, *, frame: Frame | None = None, is_disputed: bool = False, children: Hashes = (), leaf: bytes = b""
    ) -> Shown:
        """After a move, from its events: FrameFixed, StateDisputed, NodeRevealed, LeafShown, in whatever order."""
        phase = phase_of(frame) if frame else Phase.STATE if is_disputed else self.phase
        entered = replace(self, phase=phase)
        if children:
            entered = entered.revealed(children)
        return entered.showed(leaf) if leaf else entered

    def revealed(self, children: Hashes) -> Shown:
        above = self.children.get(self.phase, ())
        return replace(self, children={**self.children, self.phase: (*above, children)})

    def showed(self, leaf: bytes) -> Shown:
        return replace(self, leaves={**self.leaves, self.phase: leaf})

    @property
    def last(self) -> Hashes:
        """The children of the node where the game stands."""
        return self.children[self.phase][-1]


class Seen:
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
