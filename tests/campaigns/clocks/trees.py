"""All small trees that a dispute can explore, up to the order of siblings.

A tree is nested tuples: (false, heavy, children). The top is the claim, whose children are the first asks. A lie is a
line of false places from the claim to a leaf; there may be several.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement

Tree = tuple[int, int, tuple["Tree", ...]]


def shapes(places: int) -> list[Tree]:
    """Every tree of exactly so many places, all true."""
    return [(0, 0, children) for children in _forests(places - 1, places)]


def _forests(places: int, largest: int) -> Iterator[tuple[Tree, ...]]:
    """Every set of trees with so many places in sum, none of more than `largest`."""
    if places == 0:
        yield ()
    for size in range(1, min(places, largest) + 1):
        trees = shapes(size)
        for number in range(1, places // size + 1):
            for same in combinations_with_replacement(trees, number):
                for rest in _forests(places - number * size, size - 1):
                    yield tuple(sorted((*rest, *same)))


def claims(places: int) -> list[Tree]:
    """Every claim about which one to `places` places can be asked."""
    return [shape for number in range(1, places + 1) for shape in shapes(number + 1)]


def height(tree: Tree) -> int:
    return 1 + max((height(child) for child in tree[2]), default=0)


def with_heavy(tree: Tree, levels: Iterable[int], level: int = 0) -> Tree:
    """The same tree, where asks for places of these levels are heavy; first asks are level 1."""
    levels = frozenset(levels)
    return (tree[0], int(level in levels), tuple(sorted(with_heavy(child, levels, level + 1) for child in tree[2])))


def with_lies(tree: Tree) -> Iterator[Tree]:
    """Every choice of which places are false, where the top is: a false place with children has a false child."""
    seen: set[Tree] = set()
    for lied in _falsified(tree):
        if lied not in seen:
            seen.add(lied)
            yield lied


def _falsified(tree: Tree) -> Iterator[Tree]:
    _, heavy, children = tree
    if not children:
        yield (1, heavy, ())
        return
    for number in range(1, 1 << len(children)):
        choices = [list(_falsified(c)) if number >> i & 1 else [c] for i, c in enumerate(children)]
        for chosen in _product(choices):
            yield (1, heavy, tuple(sorted(chosen)))


def _product(choices: list[list[Tree]]) -> Iterator[tuple[Tree, ...]]:
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for rest in _product(choices[1:]):
            yield (first, *rest)


def level_sizes(tree: Tree) -> list[int]:
    """How many places each level has, from the first asks down."""
    sizes: list[int] = []
    level = list(tree[2])
    while level:
        sizes.append(len(level))
        level = [child for place in level for child in place[2]]
    return sizes
