"""The shares of a model that several aggregators combine: which tensors each has, and the root over all of them.

An aggregator's share is some of the exchanged tensors, whole, and beside them what lies between in the order of names. A checkpoint
that several aggregators made has the root over their shares' states (docs/protocol/commitment-bytes.md); the first one, which the
manifest names, has the root of one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from repops.commitments import Array, sorted_names, state_leaves, state_root_of
from repops.merkle import merkle_proof
from zoo_compute.formats.manifest import JobError
from zoo_compute.spec.merkle import root_of_shares

Names = frozenset[str]


def cut(sizes: Mapping[str, int], exchanged: Sequence[str], aggregators: int) -> tuple[Names, ...]:
    """A module's tensors in runs of the order of names, one for each aggregator, so that the largest run's exchanged elements are few.

    sizes: elements by name. Each run has at least one of `exchanged`. Raises JobError if there are fewer of these than aggregators.
    """
    if len(exchanged) < aggregators:
        raise JobError(
            f"aggregation.aggregators: {aggregators} share {len(exchanged)} tensors that training changes",
            hint=f"use at most {len(exchanged)}: an aggregator has whole tensors",
        )
    ordered = sorted_names(dict.fromkeys(exchanged))
    low, high = max(sizes[name] for name in ordered), sum(sizes[name] for name in ordered)
    while low < high:
        most = (low + high) // 2
        low, high = (low, most) if len(_runs(ordered, sizes, most)) <= aggregators else (most + 1, high)
    runs = _runs(ordered, sizes, low)
    while len(runs) < aggregators:  # fewer runs than aggregators were as good: halve the longest ones
        at = max(range(len(runs)), key=lambda number: (len(runs[number]), -number))
        runs[at : at + 1] = [runs[at][: len(runs[at]) // 2], runs[at][len(runs[at]) // 2 :]]
    firsts = [run[0].encode() for run in runs]
    bounds = [b"", *firsts[1:], None]
    return tuple(
        frozenset(n for n in sizes if n.encode() >= first and (after is None or n.encode() < after))
        for first, after in pairwise(bounds)
        if first is not None
    )


def _runs(ordered: Sequence[str], sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """As few runs as possible of at most so many elements each."""
    runs, room = list[list[str]](), 0
    for name in ordered:
        if not runs or sizes[name] > room:
            runs.append([])
            room = most
        runs[-1].append(name)
        room -= sizes[name]
    return runs


@dataclass(frozen=True)
class SharedCheckpoint(Mapping[str, Array]):
    """A checkpoint that several aggregators made: the state of each one's share."""

    shares: tuple[Mapping[str, Array], ...]

    def __getitem__(self, name: str) -> Array:
        for share in self.shares:
            if name in share:
                return share[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted_names({name: None for share in self.shares for name in share}))

    def __len__(self) -> int:
        return sum(map(len, self.shares))


@dataclass(frozen=True)
class SharedRoots(Mapping[str, bytes]):
    """The roots of its tensors."""

    shares: tuple[Mapping[str, bytes], ...]

    def __getitem__(self, name: str) -> bytes:
        return next((share[name] for share in self.shares if name in share), b"") or _missing(name)

    def __iter__(self) -> Iterator[str]:
        return (name for share in self.shares for name in share)

    def __len__(self) -> int:
        return sum(map(len, self.shares))

    @property
    def root(self) -> bytes:
        """The root of the checkpoint."""
        return root_of_shares([state_root_of(share) for share in self.shares])

    def path(self, name: str) -> tuple[int, tuple[bytes, ...]]:
        """The index of a tensor's leaf in the path's tree, and its siblings from the leaves upwards."""
        own = next(number for number, share in enumerate(self.shares) if name in share)
        at = sorted_names(self.shares[own]).index(name)
        path = merkle_proof(state_leaves(self.shares[own]), at)
        roots = [state_root_of(share) for share in self.shares]
        if own:
            at |= 1 << len(path)
            path.append(root_of_shares(roots[:own]))
        return at, (*path, *roots[own + 1 :])


def _missing(name: str) -> bytes:
    raise KeyError(name)
