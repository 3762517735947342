"""A state's tree, from a part of its tensors and the hashes in the place of the others."""

from __future__ import annotations

import hashlib

import pytest

from repops.commitments import state_leaves, state_root_of
from repops.merkle import Tree
from zoo_compute.codec.pruning import PrunedTree, prune


def roots_of(count: int) -> dict[str, bytes]:
    return {f"n{at:02}": hashlib.sha256(bytes([at])).digest() for at in range(count)}


def kept_roots(roots: dict[str, bytes], hidden: list[str]) -> dict[str, bytes]:
    return {name: root for name, root in roots.items() if name not in hidden}


@pytest.mark.parametrize("count", [*range(1, 18), 33])
def test_every_run_of_every_state__leaves_root_and_paths_as_they_are(count: int) -> None:
    roots = roots_of(count)
    whole = Tree(state_leaves(roots))
    for first in range(count):
        for end in range(first, count + 1):
            hidden = sorted(roots)[first:end]
            hashes = prune(roots, hidden)
            tree = PrunedTree(kept_roots(roots, hidden), hidden, hashes)
            assert tree.root == state_root_of(roots)
            assert len(hashes) <= 2 * count.bit_length(), "of each height two at most"
            for at, name in enumerate(sorted(roots)):
                assert name in hidden or tree.path(name) == (at, whole.path(at))


def test_a_hash_or_a_tensor_that_is_another__makes_another_root() -> None:
    roots = roots_of(11)
    hidden = sorted(roots)[3:9]
    hashes, kept = prune(roots, hidden), kept_roots(roots, hidden)
    for at in range(len(hashes)):
        changed = [*hashes[:at], bytes(32), *hashes[at + 1 :]]
        assert PrunedTree(kept, hidden, changed).root != state_root_of(roots)
    for name in kept:
        assert PrunedTree(kept | {name: bytes(32)}, hidden, hashes).root != state_root_of(roots)
    with pytest.raises(ValueError, match="zip"):
        PrunedTree(kept, hidden, hashes[1:])


def test_a_state_without_tensors__has_the_root_of_none() -> None:
    assert PrunedTree({}, [], ()).root == state_root_of({})


@pytest.mark.parametrize("count", [5, 8, 11])
def test_any_names__may_be_hidden(count: int) -> None:
    roots = roots_of(count)
    whole = PrunedTree(roots, [], ())
    for bits in range(1 << count):
        hidden = [name for at, name in enumerate(sorted(roots)) if bits >> at & 1]
        hashes = prune(roots, hidden)
        tree = PrunedTree(kept_roots(roots, hidden), hidden, hashes)
        assert tree.root == state_root_of(roots)
        assert whole.hashes(hidden) == hashes
        assert tree.hashes(hidden) == hashes


def test_names_of_another_state__are_refused() -> None:
    with pytest.raises(ValueError, match="some of its names"):
        prune(roots_of(5), ["n09"])
