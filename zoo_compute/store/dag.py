"""Reads a file from its blocks, from any source.

`fetch` gives one block, already hashed against its CID, or raises. The layout is checked on the way (see `unixfs`), so the
work is bounded by the size that the root admits to, and that is compared with the caller's bound before anything else.
"""

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from zoo_compute.store import unixfs
from zoo_compute.store.errors import ContentRefused
from zoo_compute.store.interface import Source
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.unixfs import Link

Fetch = Callable[[Cid], bytes]
T = TypeVar("T")
R = TypeVar("R")


def root_of(cid: Cid, fetch: Fetch, max_bytes: int = unixfs.MAX_CONTENT) -> Link:
    root = unixfs.root_link(cid, fetch(cid))
    if root.size > max_bytes:
        raise ContentRefused(f"{cid} has {root.size} bytes, more than the {max_bytes} allowed here")
    return root


def walk(link: Link, fetch: Fetch) -> Iterator[Link]:
    """Every node of the DAG, parents first, leaves in the order of the file. Leaves are not fetched."""
    yield link
    if link.depth:
        for child in unixfs.links_of(link, fetch(link.cid)):
            yield from walk(child, fetch)


def leaves(root: Link, fetch: Fetch) -> Iterator[Link]:
    return (link for link in walk(root, fetch) if link.depth == 0)


def leaves_between(link: Link, fetch: Fetch, start: int, end: int, at: int = 0) -> Iterator[tuple[int, Link]]:
    """The leaves that have the file's bytes from `start` to `end`, each with its first byte's number. at: the link's own first byte.

    Fetches the nodes above them, and no others.
    """
    if not link.depth:
        yield at, link
        return
    for child in unixfs.links_of(link, fetch(link.cid)):
        if at >= end:
            return
        if start < at + child.size:
            yield from leaves_between(child, fetch, start, end, at)
        at += child.size


def read_part(root: Link, fetch: Fetch, start: int, end: int, width: int) -> bytes:
    """The file's bytes from `start` to `end`, fewer where it ends. width: blocks fetched at a time."""

    def part(place: tuple[int, Link]) -> bytes:
        at, leaf = place
        return fetch_chunk(leaf, fetch)[max(0, start - at) : max(0, end - at)]

    return b"".join(prefetch(part, leaves_between(root, fetch, start, end), width))


def fetch_chunk(leaf: Link, fetch: Fetch) -> bytes:
    block = fetch(leaf.cid)
    if len(block) != leaf.size:
        raise ContentRefused(f"{leaf.cid} has {len(block)} bytes but its file says {leaf.size}; add the file again")
    return block


def prefetch(function: Callable[[T], R], items: Iterable[T], width: int) -> Iterator[R]:
    """Like `map`, in order, with `width` threads that work ahead of the reader, by at most `width` results."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(width) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == width:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class ChunkStream(io.RawIOBase):
    """A readable stream over an iterator of byte strings; not seekable."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self._failed: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = self._next()
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _next(self) -> bytes | None:
        """Every read after a failure raises it again, so that a broken stream never looks like a finished one."""
        if self._failed is not None:
            raise self._failed
        try:
            return next(self._chunks, None)
        except Exception as error:
            self._failed = error
            raise


def stream_of(chunks: Iterator[bytes]) -> BinaryIO:
    return io.BufferedReader(ChunkStream(chunks), unixfs.CHUNK)


def open_source(source: Source) -> AbstractContextManager[BinaryIO]:
    """A stream over a file, bytes or another stream, which stays open."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source)
    if isinstance(source, Path):
        return source.open("rb")
    if not hasattr(source, "read"):
        raise TypeError(f"cannot add a {type(source).__name__}; pass a pathlib.Path, bytes or a binary stream")
    return nullcontext(source)
