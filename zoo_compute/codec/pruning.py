"""Rebuilds a state's Merkle tree from a part of its tensors; hashes replace the others.

The tensors that are not sent are some runs in the order of names, as are all names with a common prefix. The largest subtrees
that contain nothing else cover them: of each run at most two of each height.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from repops.commitments import sorted_names, state_leaf, state_leaves
from repops.merkle import NODE, PADDING, Tree, sha256

Node = tuple[int, int]  # height, and number among those of this height


def prune(roots: Mapping[str, bytes], hidden: Collection[str]) -> tuple[bytes, ...]:
    """The hashes that replace `hidden`. roots: the root of every tensor of the state."""
    tree = Tree(state_leaves(roots))
    return tuple(tree.node(*node) for node in cover(roots, hidden))


class PrunedTree:
    """The tree of a state, from the roots of its visible tensors, the names of the hidden ones, and the hashes that replace them."""

    def __init__(self, roots: Mapping[str, bytes], hidden: Collection[str], hashes: Sequence[bytes]) -> None:
        self._names, self._hidden = _ascending([*roots, *hidden]), frozenset(hidden)
        self._nodes = dict(zip(cover(self._names, hidden), hashes, strict=True))
        for at, name in enumerate(self._names):
            if name in roots:
                self._nodes[0, at] = state_leaf(name, roots[name])
        self._padding = [PADDING]
        while len(self._names) > 1 << self._height:
            self._grow()

    @property
    def _height(self) -> int:
        return len(self._padding) - 1

    def _grow(self) -> None:
        """The next level: every pair with a known node. Nothing is known below a replacing hash."""
        height = self._height
        for at in range(0, -(-len(self._names) >> height), 2):
            left = self._nodes.get((height, at))
            if left is not None:
                right = self._nodes.get((height, at + 1), self._padding[-1])
                self._nodes.setdefault((height + 1, at // 2), sha256(NODE + left + right))
        self._padding.append(sha256(NODE + 2 * self._padding[-1]))

    @property
    def root(self) -> bytes:
        return self._nodes.get((self._height, 0), PADDING)

    def hashes(self, hidden: Collection[str]) -> tuple[bytes, ...]:
        """Those that replace `hidden`, as `prune` gives them; what is hidden here too is among it."""
        return tuple(self._nodes[node] for node in cover(self._names, hidden))

    def path(self, name: str) -> tuple[int, tuple[bytes, ...]]:
        """The index of a visible tensor's leaf, and its siblings from the leaves upwards."""
        at = self._names.index(name)
        return at, self._siblings(at)

    def place(self, number: int) -> tuple[str, tuple[bytes, ...]] | None:
        """As places of a state are numbered (`repops.chunks`): the tensor's name, empty for padding, and the path from its leaf. None if
        that is hidden.
        """
        at = number % (1 << self._height)
        if at < len(self._names) and self._names[at] in self._hidden:
            return None
        return self._names[at] if at < len(self._names) else "", self._siblings(at)

    def _siblings(self, at: int) -> tuple[bytes, ...]:
        siblings = [(height, (at >> height) ^ 1) for height in range(self._height)]
        return tuple(self._nodes.get(node, self._padding[node[0]]) for node in siblings)


def cover(names: Iterable[str], hidden: Collection[str]) -> list[Node]:
    """The subtrees that contain exactly `hidden`, by height and then in order. Raises ValueError if `hidden` has other names."""
    hidden_names = set(hidden)
    is_hidden = [name in hidden_names for name in _ascending(names)]
    if sum(is_hidden) != len(hidden_names):
        raise ValueError("what is hidden of a state are some of its names")
    edges = [at for at, (one, other) in enumerate(pairwise([False, *is_hidden, False])) if one != other]
    return sorted(node for first, end in zip(edges[::2], edges[1::2], strict=True) for node in _subtrees(first, end))


def _ascending(names: Iterable[str]) -> list[str]:
    return sorted_names(dict.fromkeys(names))


def _subtrees(first: int, end: int) -> Iterator[Node]:
    height = 0
    while first < end:
        if first & 1:
            yield height, first
            first += 1
        if end & 1:
            end -= 1
            yield height, end
        first, end, height = first >> 1, end >> 1, height + 1
