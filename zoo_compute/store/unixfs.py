"""The file layout of `ipfs add --cid-version=1 --raw-leaves`; no other layout is accepted.

A file is cut in chunks of 256 KiB (raw blocks, the leaves); up to 174 of them hang under a dag-pb node with UnixFS
data, up to 174 of those under the next, until one block is left: the root. A file of one chunk is its own root.

Because the layout follows from the size alone, one file has one CID, and a reader checks every node against the size
that its parent promised: depth, number of links, and sizes of a hostile DAG are refused at the first node that lies.
Sources: https://specs.ipfs.tech/unixfs/ and https://ipld.io/specs/codecs/dag-pb/spec/.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from zoo_compute.store.errors import ContentRefused
from zoo_compute.store.multiformats import DAG_PB, RAW, Cid

CHUNK = 256 * 1024  # bytes in a leaf
WIDTH = 174  # links in a node
MAX_BLOCK = 2 * 1024 * 1024  # bytes; the limit of all IPFS peers. Our largest block has 256 KiB.
MAX_CONTENT = 64 * 1024**3  # bytes the largest file to fetch, unless the caller sets a lower limit


@dataclass(frozen=True)
class Link:
    """A promise of a subtree.

    size: bytes of file below; total: bytes of all blocks below, as in dag-pb's Tsize; depth: 0 for a leaf.
    """

    cid: Cid
    size: int
    total: int
    depth: int = 0


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_node(links: Iterable[Link]) -> bytes:
    """The dag-pb block of an inner node: first the links, then the UnixFS data, in the order of the specification."""
    links = list(links)
    unixfs = b"\x08\x02\x18" + varint(sum(link.size for link in links))
    unixfs += b"".join(b"\x20" + varint(link.size) for link in links)
    out = bytearray()
    for link in links:
        body = b"\x0a\x24" + link.cid.binary + b"\x12\x00\x18" + varint(link.total)
        out += b"\x12" + varint(len(body)) + body
    return bytes(out + b"\x0a" + varint(len(unixfs)) + unixfs)


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """Chunks of 256 KiB (the last may be shorter), even if reads return less. An empty stream is one empty chunk."""
    first = True
    while True:
        chunk = stream.read(CHUNK)
        while 0 < len(chunk) < CHUNK and (more := stream.read(CHUNK - len(chunk))):
            chunk += more
        if chunk or first:
            yield chunk
        if len(chunk) < CHUNK:
            return
        first = False


class DagBuilder:
    """Builds the DAG of a file while its chunks arrive. Keeps at most 174 links per level, never the blocks."""

    def __init__(self, put: Callable[[Cid, bytes], None] = lambda cid, block: None) -> None:
        self._put = put
        self._levels: list[list[Link]] = [[]]

    def push(self, chunk: bytes) -> None:
        cid = Cid.of_block(RAW, chunk)
        self._put(cid, chunk)
        self._hang(0, Link(cid, len(chunk), len(chunk)))

    def finish(self) -> Link:
        """The root. At least one chunk must have been pushed (an empty one for an empty file)."""
        level = 0
        while level < len(self._levels) - 1 or len(self._levels[level]) > 1:
            if self._levels[level]:
                self._close(level)
            level += 1
        return self._levels[level][0]

    def _hang(self, level: int, link: Link) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(link)
        if len(self._levels[level]) == WIDTH:
            self._close(level)

    def _close(self, level: int) -> None:
        links, self._levels[level] = self._levels[level], []
        block = encode_node(links)
        cid = Cid.of_block(DAG_PB, block)
        self._put(cid, block)
        size, total = sum(link.size for link in links), len(block) + sum(link.total for link in links)
        self._hang(level + 1, Link(cid, size, total, level + 1))


def build(chunks: Iterable[bytes], put: Callable[[Cid, bytes], None] = lambda cid, block: None) -> Link:
    builder = DagBuilder(put)
    for chunk in chunks:
        builder.push(chunk)
    return builder.finish()


def capacity(depth: int) -> int:
    """File bytes in a full subtree of this depth; a leaf has depth 0."""
    return int(CHUNK * WIDTH**depth)


def root_link(cid: Cid, block: bytes) -> Link:
    """The size that the root block states; `links_of` checks it later. Raises ContentRefused."""
    if cid.codec == RAW:
        if len(block) > CHUNK:
            raise _refuse(cid, f"its only block has {len(block)} bytes, more than {CHUNK}")
        return Link(cid, len(block), len(block))
    links = parse_node(cid, block)
    size = sum(link.size for link in links)
    if size <= CHUNK:
        raise _refuse(cid, f"{size} bytes fit in one block, without a node above it")
    depth = 1
    while capacity(depth) < size:
        depth += 1
    return Link(cid, size, len(block) + sum(link.total for link in links), depth)


def links_of(promise: Link, block: bytes) -> list[Link]:
    """The children of the node that `promise` announced. Raises ContentRefused if its size asks for others.

    INVARIANT layout: a DAG accepted here is the DAG that `build` makes of its bytes    tests/store/test_unixfs.py
    """
    links = parse_node(promise.cid, block)
    depth = promise.depth - 1
    full, rest = divmod(promise.size, capacity(depth))
    expected = [capacity(depth)] * min(full, WIDTH + 1) + [rest] * (rest > 0)
    if [link.size for link in links] != expected:
        raise _refuse(promise.cid, f"its {len(links)} links do not split {promise.size} bytes as ipfs add does")
    if len(block) + sum(link.total for link in links) != promise.total:
        raise _refuse(promise.cid, "its total size is not the one announced")
    for link in links:
        if link.cid.codec != (DAG_PB if depth else RAW) or (depth == 0 and link.total != link.size):
            raise _refuse(promise.cid, f"link {link.cid} is of the wrong kind")
    return [replace(link, depth=depth) for link in links]


def parse_node(cid: Cid, block: bytes) -> list[Link]:
    """The links (depths unset) of an inner node in canonical form; else ContentRefused."""
    try:
        links = _parse(block)
    except (ValueError, IndexError) as error:
        raise _refuse(cid, f"not a dag-pb node of a file ({error})") from None
    if encode_node(links) != block:
        raise _refuse(cid, "not in canonical form")
    return links


def _parse(block: bytes) -> list[Link]:
    """The inverse of `encode_node`. It need not be strict, because the caller compares the re-encoding."""
    children: list[tuple[Cid, int]] = []
    at = 0
    while at < len(block) and block[at] == 0x12:
        length, at = _varint(block, at + 1)
        body, at = block[at : at + length], at + length
        children.append((Cid.from_binary(body[2:38]), _varint(body, 41)[0]))
        if len(children) > WIDTH:
            raise ValueError(f"more than {WIDTH} links")
    _, at = _varint(block, at + 1)
    _, at = _varint(block, at + 3)
    sizes: list[int] = []
    while at < len(block) and len(sizes) <= WIDTH:
        size, at = _varint(block, at + 1)
        sizes.append(size)
    if len(sizes) != len(children) or not children:
        raise ValueError(f"{len(children)} links but {len(sizes)} sizes")
    return [Link(cid, size, total) for (cid, total), size in zip(children, sizes, strict=True)]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > 56:
            raise ValueError("number too long")
    return number | data[at] << shift, at + 1


def _refuse(cid: Cid, why: str) -> ContentRefused:
    return ContentRefused(
        f"{cid} is not a file as `ipfs add --cid-version=1 --raw-leaves` lays it out: {why}; add the file again"
    )
