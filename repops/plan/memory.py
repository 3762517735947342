"""Memory of values: offsets, lifetimes, and which items must wait for earlier ones.

A value is alive from the first item that writes it to the last that reads it; then its place in the arena is free. Two
items may run concurrently unless one writes memory that the other reads or writes.
"""

from __future__ import annotations

import bisect
import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from repops.commitments import Array
from repops.plan.ir import Item

MOST_TIGHT = 10_000  # values: time grows with their square
ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Arena:
    """Zeroed memory of the process, in huge pages where the system has them.

    folder: it lies in a file there, which has no name, so that nothing is left of it; the system may write its pages out and give
    their memory to others. Raises OSError if the disk is too full.
    """

    def __init__(self, size: int, folder: Path | None = None) -> None:
        size = max(size, ALIGNMENT)
        if folder is not None:
            with tempfile.TemporaryFile(dir=folder) as file:
                _allocate(file.fileno(), size, folder)
                self._map = mmap.mmap(file.fileno(), size)
        else:
            self._map = mmap.mmap(-1, size)
        if folder is None and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self.words: npt.NDArray[np.uint32] = np.frombuffer(self._map, np.uint32, len(self._map) // 4)
        self.address = self.words.ctypes.data

    def discard(self) -> None:
        """Give the memory back to the system; it is zeros again when it is next used."""
        if hasattr(mmap, "MADV_REMOVE"):
            with suppress(OSError):  # a system that cannot: the memory stays
                self._map.madvise(mmap.MADV_REMOVE)

    def array(self, offset: int, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return self.words[offset // 4 : offset // 4 + count].view(dtype).reshape(shape)


def _allocate(file: int, size: int, folder: Path) -> None:
    """All of the file's blocks now: a full disk would end the process when it writes to one later."""
    free = shutil.disk_usage(folder).free
    try:
        if free < size:
            raise OSError(errno.ENOSPC, "")
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.truncate(file, size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"the state needs {size:,} bytes in {folder}, where {free:,} are free"
        raise OSError(errno.ENOSPC, message) from error


class FreeList:
    """The holes below `top`. Takes time in proportion to the logarithm of their number, but for moving a list's words."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []  # (size, offset)
        self._size_at: dict[int, int] = {}  # offset -> size
        self._start_of: dict[int, int] = {}  # end -> offset

    def take(self, size: int) -> int:
        """The smallest hole that fits, the lowest of several, else new memory at the end."""
        at = bisect.bisect_left(self._by_size, (size, 0))
        if at < len(self._by_size):
            room, offset = self._by_size[at]
            self._remove(offset)
            if room > size:
                self._add(offset + size, room - size)
            return offset
        offset = self._start_of.get(self.top, self.top)
        if offset < self.top:
            self._remove(offset)
        self.top = offset + size
        return offset

    def release(self, offset: int, size: int) -> None:
        if offset + size in self._size_at:
            size += self._remove(offset + size)
        if offset in self._start_of:
            before = self._start_of[offset]
            size += self._remove(before)
            offset = before
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        bisect.insort(self._by_size, (size, offset))
        self._size_at[offset], self._start_of[offset + size] = size, offset

    def _remove(self, offset: int) -> int:
        """The size that the hole had."""
        size = self._size_at.pop(offset)
        del self._start_of[offset + size]
        del self._by_size[bisect.bisect_left(self._by_size, (size, offset))]
        return size


Placed = tuple[dict[int, int], int]  # node -> offset in the arena; bytes of the arena


def place(items: Sequence[Item], sizes: Callable[[int], int], pinned: Iterable[int], kept: Iterable[int]) -> Placed:
    """Each value where there is room when it is made. pinned: nodes that live elsewhere. kept: alive to the end."""
    elsewhere, lives = set(pinned), lives_of(items, kept)
    ending: dict[int, list[int]] = {}
    for node, (_, last) in lives.items():
        ending.setdefault(last, []).append(node)
    free, offsets = FreeList(), dict[int, int]()
    for at, item in enumerate(items):
        for node in item.writes():
            if node not in offsets and node not in elsewhere:
                offsets[node] = free.take(rounded(sizes(node)))
        for node in ending.get(at, ()):
            if node in offsets:
                free.release(offsets[node], rounded(sizes(node)))
    return offsets, free.top


def lives_of(items: Sequence[Item], kept: Iterable[int]) -> dict[int, tuple[int, int]]:
    """node -> the first and the last item that touch it; the last is none of the items for those that are kept."""
    lives: dict[int, tuple[int, int]] = {}
    for at, item in enumerate(items):
        for node in (*item.reads(), *item.writes()):
            lives[node] = lives.get(node, (at, at))[0], at
    return lives | {node: (lives[node][0], len(items)) for node in kept if node in lives}


def place_tightly(
    items: Sequence[Item], sizes: Callable[[int], int], pinned: Iterable[int], kept: Iterable[int]
) -> Placed:
    """As `place`, the largest values first, each in the lowest hole; whichever of the two needs less. Takes longer."""
    best = place(items, sizes, pinned, kept)
    if len(best[0]) > MOST_TIGHT:
        return best
    lives = lives_of(items, kept)
    order = sorted(best[0], key=lambda node: (-rounded(sizes(node)), lives[node]))
    first, last, start, end = (np.zeros(len(order), np.int64) for _ in range(4))
    for count, node in enumerate(order):
        born, dies = lives[node]
        meets = (first[:count] <= dies) & (last[:count] >= born)
        starts, ends = start[:count][meets], end[:count][meets]
        by_start = np.argsort(starts, kind="stable")
        taken = np.maximum.accumulate(np.concatenate(([0], ends[by_start])))  # all below is, where a hole may begin
        size = rounded(sizes(node))
        holes = np.flatnonzero(np.concatenate((starts[by_start], [np.iinfo(np.int64).max])) - taken >= size)
        first[count], last[count] = born, dies
        start[count] = taken[holes[0]]
        end[count] = start[count] + size
    top = int(end.max(initial=0))
    return (dict(zip(order, start.tolist(), strict=True)), top) if top < best[1] else best


Span = tuple[int, int]


class Spans:
    """Addresses, as disjoint spans in ascending order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, span: Span) -> None:
        first, last = self._touching(span)
        start, end = span
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        if start < end:
            self._starts[first:last], self._ends[first:last] = [start], [end]

    def touches(self, span: Span) -> bool:
        first, last = self._touching(span)
        return first < last

    def _touching(self, span: Span) -> tuple[int, int]:
        """Which of the spans have a word in common with this one: from, to."""
        first = bisect.bisect_right(self._ends, span[0])
        return first, max(first, bisect.bisect_left(self._starts, span[1]))


def barriers(items: Sequence[Item], span: Callable[[int], Span]) -> list[bool]:
    """For each item, whether it must wait for all earlier items. span: (first, end) of a node's memory."""
    out: list[bool] = []
    touched, written = Spans(), Spans()
    for item in items:
        reads, writes = {span(n) for n in item.reads()}, {span(n) for n in item.writes()}
        waits = any(map(touched.touches, writes)) or any(map(written.touches, reads))
        if waits:
            touched, written = Spans(), Spans()
        for each in reads | writes:
            touched.add(each)
        for each in writes:
            written.add(each)
        out.append(waits)
    return out
