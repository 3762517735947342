"""The other side's tree, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable

from repops.merkle import Tree
from zoo_compute.spec.frames import Hashes


class KnownTree:
    """The committer's tree as far as it is known, where a dispute went down to leaf `way`: what was revealed, else one's own.

    Everything left of `way` is the same in both, so every path of a leaf there can be made.
    """

    def __init__(self, mine: Tree, revealed: Iterable[Hashes], way: int) -> None:
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
