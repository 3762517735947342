"""A slot's update in the store: a public file of the exchanged tensors, and a private file of its operator.

Both are under `update_root`. What is kept, the residuals of compression, no other party computes with; but a demand may name any
place of an update, and whoever answers it has both files: its author, and in a job with custodians these. The first names the second,
so that nothing else has to.

Where several aggregators divide the model, the public file is a list of files, one for each share, in which hashes replace all other
tensors: an aggregator reads its own, and checks it against `update_root`. The list's bytes:

    "ZS" 0x01 | head of a file with the private file's hashes and note | the CIDs of the shares' files, 36 bytes each
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from repops import encoding
from repops.chunks import Chunk, chunk_below
from repops.commitments import Array, canonical, sorted_names, tensor_roots
from repops.files import TensorStream, parse_state, roots_and_shapes, state_pieces
from repops.graph import Graph
from zoo_compute import codec
from zoo_compute.codec.layout import MOST_CHUNK
from zoo_compute.codec.pruning import PrunedTree, cover, prune
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Compression, Manifest
from zoo_compute.store import dag
from zoo_compute.store.errors import BadCid
from zoo_compute.store.interface import Store
from zoo_compute.store.multiformats import Cid
from zoo_compute.training.rounds import RESIDUAL, shares_of

INDEX = b"ZS\x01"
CID_BYTES = 36  # of the version 1 with SHA-256


@dataclass(frozen=True)
class UpdateLayout:
    """The tensors of a job's updates. shapes: of those sent; kept: names of those not sent; chunk: of the compression.

    signs: the compression, of a job that sends signs of random elements. shares: the names of those sent by aggregator, if there are several.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kept: tuple[str, ...] = ()
    chunk: int = MOST_CHUNK
    signs: Compression | None = None
    shares: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, step: Graph, manifest: Manifest) -> UpdateLayout:
        compression, nodes = manifest.compression, {entry.name: step.nodes[entry.before] for entry in step.state}
        kept = [RESIDUAL + name for name in step.exchanged if compression.is_lossy and RESIDUAL + name in nodes]
        shapes = {name: nodes[name].shape for name in step.exchanged}
        signs, shares = compression if compression.sends_signs else None, tuple[frozenset[str], ...]()
        if manifest.aggregators > 1:
            shares = tuple(own & shapes.keys() for own in shares_of(step, manifest.aggregation_spec))
        return cls(shapes, tuple(kept), compression.chunk, signs, shares)

    @classmethod
    def of_job(cls, store: Store, manifest: str, *, timeout_s: float) -> UpdateLayout:
        """Read it from the job's files in the store. manifest: its CID."""
        contents = Manifest.from_bytes(store.read(manifest, max_bytes=MAX_MANIFEST_BYTES, timeout_s=timeout_s))
        program = store.read(contents.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=timeout_s)
        return cls.of(encoding.decode(program), contents)

    @property
    def hashes(self) -> int:
        """How many hashes replace the tensors that are not sent."""
        return len(cover([*self.shapes, *self.kept], self.kept))

    @property
    def private_bytes(self) -> int:
        """The most bytes of the private file."""
        return 2**20 + 4 * sum(math.prod(self.shapes[name.removeprefix(RESIDUAL)]) for name in self.kept)

    def files(self, cids: Sequence[str], share: int | None = None) -> list[ShareFile]:
        """The files of an update, or of one share of it, in the order of the tensors' names."""
        if not self.shares:
            return [ShareFile(cid, self.shapes, self.kept) for cid in cids]
        names = [*self.shapes, *self.kept]
        return [
            ShareFile(
                cid, {n: self.shapes[n] for n in self.shapes if n in own}, tuple(n for n in names if n not in own)
            )
            for at, (cid, own) in enumerate(zip(cids, self.shares, strict=True))
            if share in (None, at)
        ]


@dataclass(frozen=True)
class ShareFile:
    """A public file of an update. shapes: of its tensors; hidden: the names of all others."""

    cid: str
    shapes: Mapping[str, tuple[int, ...]]
    hidden: tuple[str, ...]

    @property
    def hashes(self) -> int:
        return len(cover([*self.shapes, *self.hidden], self.hidden))


@dataclass(frozen=True)
class ReceivedUpdate:
    """The public part of an update, or one share of it. note: the CID of the private part, as the author says; anything, if it lies.
    cids: of the files that were read.
    """

    state: Mapping[str, Array]
    tree: PrunedTree
    note: bytes = b""
    cids: tuple[str, ...] = ()

    @property
    def private(self) -> str:
        """The CID of the private part. Raises BadCid."""
        return Cid.from_binary(self.note).text

    def chunk(self, tensor: int, group: int) -> Chunk | None:
        """The chunk at this place of the whole update, as `repops.chunks.chunk_of`; None if it is in the private part."""
        place = self.tree.place(tensor)
        if place is None:
            return None
        name, path = place
        return chunk_below(name, self.state[name], path, group) if name else Chunk(b"", b"", path, b"", ())


def put(store: Store, update: Mapping[str, Array], parts: UpdateLayout, *, threads: int = 1, tag: str = "") -> str:
    """Store and pin an update; returns the CID of the public file."""
    roots = tensor_roots(update, threads=threads) if parts.kept or parts.shares else {}
    head = codec.FileHeader(parts.chunk)
    if parts.kept:
        kept = store.add(dag.stream_of(state_pieces({name: update[name] for name in parts.kept})), tag=tag)
        head = replace(head, hashes=prune(roots, parts.kept), note=Cid.parse(kept).binary)
    if not parts.shares:
        return _put_file(store, update, parts.shapes, head, parts.signs, tag)
    cids = []
    for file in parts.files([""] * len(parts.shares)):
        own = codec.FileHeader(parts.chunk, prune(roots, file.hidden))
        cids.append(_put_file(store, update, file.shapes, own, parts.signs, tag))
    return store.add(INDEX + head.to_bytes() + b"".join(Cid.parse(cid).binary for cid in cids), tag=tag)


def _put_file(
    store: Store,
    update: Mapping[str, Array],
    names: Iterable[str],
    head: codec.FileHeader,
    signs: Compression | None,
    tag: str,
) -> str:
    sent = ((name, canonical(update[name])) for name in sorted_names(dict.fromkeys(names)))
    return store.add(dag.stream_of(codec.encode_tensors(sent, head, signs)), tag=tag)


def cids_of(
    store: Store, cid: str, parts: UpdateLayout, *, timeout_s: float
) -> tuple[codec.FileHeader | None, list[str]]:
    """The public files of an update, and the list's head if there is a list. Raises BadUpdateFile and the store's errors."""
    if not parts.shares:
        return None, [cid]
    count = len(parts.shares)
    most = len(INDEX) + codec.max_file_bytes({}, parts.hashes) + CID_BYTES * count
    stream = io.BytesIO(store.read(cid, max_bytes=most, timeout_s=timeout_s))
    if stream.read(len(INDEX)) != INDEX:
        raise codec.BadUpdateFile(f"update list: expected {INDEX.hex()} at its beginning")
    head, rest = codec.read_head(stream, parts.hashes), stream.read()
    if len(rest) != CID_BYTES * count:
        raise codec.BadUpdateFile(f"update list: {len(rest)} bytes of CIDs, expected {count} of {CID_BYTES}")
    try:
        return head, [Cid.from_binary(rest[at : at + CID_BYTES]).text for at in range(0, len(rest), CID_BYTES)]
    except BadCid as error:
        raise codec.BadUpdateFile(f"update list: {error}") from error


def get(
    store: Store, cid: str, parts: UpdateLayout, *, share: int | None = None, timeout_s: float, threads: int = 1
) -> ReceivedUpdate:
    """Read the public part of an update; the caller compares its root. share: one aggregator's part of it alone.

    Raises BadUpdateFile and the store's errors.
    """
    state = dict[str, Array]()

    def read(tensors: Iterator[tuple[str, Array]]) -> dict[str, bytes]:
        own = dict(tensors)
        state.update(own)
        return tensor_roots(own, threads=threads)

    tree, note, files = _checked(store, cid, parts, share, timeout_s, read)
    return ReceivedUpdate(state, tree, note, tuple(file.cid for file in files))


def get_streamed(
    store: Store, cid: str, parts: UpdateLayout, *, share: int | None = None, timeout_s: float, threads: int = 1
) -> ReceivedUpdate:
    """As `get`, with one tensor in memory at a time: the file is read now for its root, and again for its values."""
    shapes = dict[str, Array]()

    def read(tensors: Iterator[tuple[str, Array]]) -> dict[str, bytes]:
        roots, own = roots_and_shapes(tensors, threads=threads)
        shapes.update(own)
        return roots

    tree, note, files = _checked(store, cid, parts, share, timeout_s, read)
    state = TensorStream(lambda: _tensors(store, files, parts, timeout_s), shapes)
    return ReceivedUpdate(state, tree, note, tuple(file.cid for file in files))


def _checked(
    store: Store,
    cid: str,
    parts: UpdateLayout,
    share: int | None,
    timeout_s: float,
    read: Callable[[Iterator[tuple[str, Array]]], Mapping[str, bytes]],
) -> tuple[PrunedTree, bytes, list[ShareFile]]:
    """The tree over all that was read, the note, and the files. read: takes a file's tensors and gives their roots."""
    index, cids = cids_of(store, cid, parts, timeout_s=timeout_s)
    files, roots, heads = parts.files(cids, share), dict[str, bytes](), list[codec.FileHeader]()
    for file in files:
        with _opened(store, file, parts, timeout_s) as (head, tensors):
            roots |= read(tensors)
            heads.append(head)
    if len(files) == 1:
        return PrunedTree(roots, files[0].hidden, heads[0].hashes), (index or heads[0]).note, files
    assert index, "several files are in a list"
    tree = PrunedTree(roots, parts.kept, index.hashes)
    for file, head in zip(files, heads, strict=True):
        if head.hashes != tree.hashes(file.hidden):  # whoever reads this file alone would find another root
            raise codec.BadUpdateFile(f"update file {file.cid}: its hashes are not those of the other shares' tensors")
    return tree, index.note, files


def whole(store: Store, update: ReceivedUpdate, parts: UpdateLayout, *, timeout_s: float) -> dict[str, Array]:
    """An update with its private part; the caller compares its root. Raises BadCid, FileRefused and the store's errors."""
    if not parts.kept:
        return dict(update.state)
    kept = store.read(update.private, max_bytes=parts.private_bytes, timeout_s=timeout_s)
    return {**update.state, **parse_state(kept)}


@contextmanager
def _opened(
    store: Store, file: ShareFile, parts: UpdateLayout, timeout_s: float
) -> Iterator[tuple[codec.FileHeader, Iterator[tuple[str, Array]]]]:
    """The header of a file, and its tensors as they are read."""
    most = codec.max_file_bytes(file.shapes, file.hashes)
    with store.open(file.cid, timeout_s=timeout_s, max_bytes=most) as stream:
        head = codec.read_head(stream, file.hashes)
        tensors = codec.decode_tensors(stream, file.shapes, head.chunk, parts.signs)
        yield head, ((name, canonical(array)) for name, array in tensors)


def _tensors(
    store: Store, files: Sequence[ShareFile], parts: UpdateLayout, timeout_s: float
) -> Iterator[tuple[str, Array]]:
    for file in files:
        with _opened(store, file, parts, timeout_s) as (_, tensors):
            yield from tensors
