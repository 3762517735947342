"""Memory of values: offsets, lifetimes, and which items must wait for earlier ones.

A value is alive from the first item that writes it to the last that reads it; then its place in the arena is free. Two
items may run concurrently unless one writes memory that the other reads or writes.
"""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from repops.commitments import Array
from repops.plan.ir import Item

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Arena:
    """Zeroed memory of the process, in huge pages where the system has them."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, max(size, ALIGNMENT))
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self.words: npt.NDArray[np.uint32] = np.frombuffer(self._map, np.uint32, len(self._map) // 4)
        self.address = self.words.ctypes.data

    def array(self, offset: int, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return self.words[offset // 4 : offset // 4 + count].view(dtype).reshape(shape)


class FreeList:
    """The holes below `top`, by offset."""

    def __init__(self) -> None:
        self.holes: list[tuple[int, int]] = []
        self.top = 0

    def take(self, size: int) -> int:
        """The smallest hole that fits, else new memory at the end."""
        fitting = [hole for hole in self.holes if hole[1] >= size]
        if fitting:
            offset, room = min(fitting, key=lambda hole: (hole[1], hole[0]))
            self.holes.remove((offset, room))
            if room > size:
                bisect.insort(self.holes, (offset + size, room - size))
            return offset
        offset = self.top
        if self.holes and sum(self.holes[-1]) == self.top:
            offset = self.holes.pop()[0]
        self.top = offset + size
        return offset

    def release(self, offset: int, size: int) -> None:
        at = bisect.bisect(self.holes, (offset, size))
        if at < len(self.holes) and self.holes[at][0] == offset + size:
            size += self.holes.pop(at)[1]
        if at and sum(self.holes[at - 1]) == offset:
            before = self.holes.pop(at - 1)
            offset, size = before[0], before[1] + size
        bisect.insort(self.holes, (offset, size))


def place(
    items: Sequence[Item], sizes: Callable[[int], int], pinned: Iterable[int], kept: Iterable[int]
) -> tuple[dict[int, int], int]:
    """(node -> offset in the arena, bytes of the arena). pinned: nodes that live elsewhere. kept: alive to the end."""
    elsewhere, forever = set(pinned), set(kept)
    last: dict[int, int] = {}
    for at, item in enumerate(items):
        for node in (*item.reads(), *item.writes()):
            last[node] = at
    ending: dict[int, list[int]] = {}
    for node, at in last.items():
        if node not in forever:
            ending.setdefault(at, []).append(node)
    free, offsets = FreeList(), {}
    for at, item in enumerate(items):
        for node in item.writes():
            if node not in offsets and node not in elsewhere:
                offsets[node] = free.take(rounded(sizes(node)))
        for node in ending.get(at, ()):
            if node in offsets:
                free.release(offsets[node], rounded(sizes(node)))
    return offsets, free.top


Span = tuple[int, int]


def barriers(items: Sequence[Item], span: Callable[[int], Span]) -> list[bool]:
    """For each item, whether it must wait for all earlier items. span: (first, end) of a node's memory."""
    out: list[bool] = []
    read: set[Span] = set()
    written: set[Span] = set()
    for item in items:
        reads, writes = {span(n) for n in item.reads()}, {span(n) for n in item.writes()}
        waits = _touch(writes, read | written) or _touch(reads, written)
        if waits:
            read, written = set(), set()
        read |= reads
        written |= writes
        out.append(waits)
    return out


def _touch(some: set[Span], others: set[Span]) -> bool:
    return not some.isdisjoint(others) or any(a[0] < b[1] and b[0] < a[1] for a in some for b in others)
