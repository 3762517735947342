"""A state's root from a part of its tensors: hashes stand for a run of the others.

The tensors that are not sent lie side by side in the order of names, as all do that share a prefix. The largest subtrees
that hold nothing else cover them: two of each height at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from repops.commitments import sorted_names, state_leaf, state_leaves
from repops.merkle import NODE, PADDING, Tree, sha256

Node = tuple[int, int]  # height, and number among those of this height


def prune(roots: Mapping[str, bytes], hidden: Collection[str]) -> tuple[bytes, ...]:
    """The hashes in the place of `hidden`. roots: of every tensor of the state."""
    tree = Tree(state_leaves(roots))
    return tuple(tree.node(*node) for node in cover(roots, hidden))


def root_with(roots: Mapping[str, bytes], hidden: Collection[str], hashes: Sequence[bytes]) -> bytes:
    """The root of a state, from the roots of what is shown, the names of what is not, and the hashes in its place."""
    names = sorted_names(dict.fromkeys([*roots, *hidden]))
    nodes = dict(zip(cover(names, hidden), hashes, strict=True))
    for at, name in enumerate(names):
        if name in roots:
            nodes[0, at] = state_leaf(name, roots[name])
    padding = PADDING
    height = 0
    while len(names) > 1 << height:
        for at in range(0, -(-len(names) >> height), 2):
            pair = [nodes.get((height, each)) for each in (at, at + 1)]
            if pair[0] is not None:
                nodes.setdefault((height + 1, at // 2), sha256(NODE + pair[0] + (pair[1] or padding)))
        padding = sha256(NODE + padding + padding)
        height += 1
    return nodes.get((height, 0), PADDING)


def cover(names: Collection[str], hidden: Collection[str]) -> list[Node]:
    """The subtrees that hold `hidden` and nothing else, by height. Raises ValueError where those are no run of the names."""
    held = set(hidden)
    places = [at for at, name in enumerate(sorted_names(dict.fromkeys(names))) if name in held]
    if len(places) != len(held) or (places and places[-1] - places[0] + 1 != len(places)):
        raise ValueError("what is hidden of a state is a run of its names")
    return list(_subtrees(places[0], places[-1] + 1)) if places else []


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
