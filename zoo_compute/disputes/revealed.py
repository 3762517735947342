"""A dispute game's two sides, and the tree nodes and leaves that their moves have revealed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zoo_compute.spec.frames import Frame, Hashes, Phase, phase_of

COMMITTER, CHALLENGER = "committer", "challenger"


@dataclass(frozen=True)
class RevealedState:
    """For each tree, the children revealed on the way down from its root, and the revealed leaf of words."""

    phase: Phase = Phase.SEGMENTS
    children: Mapping[Phase, tuple[Hashes, ...]] = field(default_factory=dict)
    leaves: Mapping[Phase, bytes] = field(default_factory=dict)

    def apply_event(
        self, *, frame: Frame | None = None, is_disputed: bool = False, children: Hashes = (), leaf: bytes = b""
    ) -> RevealedState:
        """The state after a move, from its events in any order: FrameFixed, StateDisputed, NodeRevealed, LeafShown."""
        phase = phase_of(frame) if frame else Phase.STATE if is_disputed else self.phase
        entered = replace(self, phase=phase)
        if children:
            entered = entered.with_children(children)
        return entered.with_leaf(leaf) if leaf else entered

    def with_children(self, children: Hashes) -> RevealedState:
        above = self.children.get(self.phase, ())
        return replace(self, children={**self.children, self.phase: (*above, children)})

    def with_leaf(self, leaf: bytes) -> RevealedState:
        return replace(self, leaves={**self.leaves, self.phase: leaf})

    @property
    def last(self) -> Hashes:
        """The children of the game's current node."""
        return self.children[self.phase][-1]
