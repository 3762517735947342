"""A slot's update in the store: a public file of the exchanged tensors, and a private file of its operator.

Both are under `update_root`. What is kept, the residuals of compression, no other party computes with; but a demand may name any
place of an update, and whoever answers it has both files: its author, and in a job with custodians these. The first names the second,
so that nothing else has to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

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
from zoo_compute.store.interface import Store
from zoo_compute.store.multiformats import Cid
from zoo_compute.training.rounds import RESIDUAL


@dataclass(frozen=True)
class UpdateLayout:
    """The tensors of a job's updates. shapes: of those sent; kept: names of those not sent; chunk: of the compression.

    signs: the compression, of a job that sends signs of random elements.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kept: tuple[str, ...] = ()
    chunk: int = MOST_CHUNK
    signs: Compression | None = None

    @classmethod
    def of(cls, step: Graph, compression: Compression) -> UpdateLayout:
        nodes = {entry.name: step.nodes[entry.before] for entry in step.state}
        kept = [RESIDUAL + name for name in step.exchanged if compression.is_lossy and RESIDUAL + name in nodes]
        shapes = {name: nodes[name].shape for name in step.exchanged}
        return cls(shapes, tuple(kept), compression.chunk, compression if compression.sends_signs else None)

    @classmethod
    def of_job(cls, store: Store, manifest: str, *, timeout_s: float) -> UpdateLayout:
        """Read it from the job's files in the store. manifest: its CID."""
        contents = Manifest.from_bytes(store.read(manifest, max_bytes=MAX_MANIFEST_BYTES, timeout_s=timeout_s))
        program = store.read(contents.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=timeout_s)
        return cls.of(encoding.decode(program), contents.compression)

    @property
    def hashes(self) -> int:
        """How many hashes replace the tensors that are not sent."""
        return len(cover([*self.shapes, *self.kept], self.kept))

    @property
    def private_bytes(self) -> int:
        """The most bytes of the private file."""
        return 2**20 + 4 * sum(math.prod(self.shapes[name.removeprefix(RESIDUAL)]) for name in self.kept)


@dataclass(frozen=True)
class ReceivedUpdate:
    """The public part of an update. note: the CID of the private part, as the author says; anything, if it lies."""

    state: Mapping[str, Array]
    tree: PrunedTree
    note: bytes = b""

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
    hashes, note = tuple[bytes, ...](), b""
    if parts.kept:
        hashes = prune(tensor_roots(update, threads=threads), parts.kept)
        note = Cid.parse(
            store.add(dag.stream_of(state_pieces({name: update[name] for name in parts.kept})), tag=tag)
        ).binary
    sent = ((name, canonical(update[name])) for name in sorted_names(parts.shapes))
    head = codec.FileHeader(parts.chunk, hashes, note)
    return store.add(dag.stream_of(codec.encode_tensors(sent, head, parts.signs)), tag=tag)


def get(store: Store, cid: str, parts: UpdateLayout, *, timeout_s: float, threads: int = 1) -> ReceivedUpdate:
    """Read the public part of an update; the caller compares its root. Raises BadUpdateFile and the store's errors."""
    with _opened(store, cid, parts, timeout_s) as (head, tensors):
        state = dict(tensors)
    return ReceivedUpdate(state, PrunedTree(tensor_roots(state, threads=threads), parts.kept, head.hashes), head.note)


def get_streamed(store: Store, cid: str, parts: UpdateLayout, *, timeout_s: float, threads: int = 1) -> ReceivedUpdate:
    """As `get`, with one tensor in memory at a time: the file is read now for its root, and again for its values."""
    with _opened(store, cid, parts, timeout_s) as (head, tensors):
        roots, shapes = roots_and_shapes(tensors, threads=threads)
    state = TensorStream(lambda: _tensors(store, cid, parts, timeout_s), shapes)
    return ReceivedUpdate(state, PrunedTree(roots, parts.kept, head.hashes), head.note)


def whole(store: Store, update: ReceivedUpdate, parts: UpdateLayout, *, timeout_s: float) -> dict[str, Array]:
    """An update with its private part; the caller compares its root. Raises BadCid, FileRefused and the store's errors."""
    if not parts.kept:
        return dict(update.state)
    kept = store.read(update.private, max_bytes=parts.private_bytes, timeout_s=timeout_s)
    return {**update.state, **parse_state(kept)}


@contextmanager
def _opened(
    store: Store, cid: str, parts: UpdateLayout, timeout_s: float
) -> Iterator[tuple[codec.FileHeader, Iterator[tuple[str, Array]]]]:
    """The header of a file, and its tensors as they are read."""
    most = codec.max_file_bytes(parts.shapes, parts.hashes)
    with store.open(cid, timeout_s=timeout_s, max_bytes=most) as stream:
        head = codec.read_head(stream, parts.hashes)
        tensors = codec.decode_tensors(stream, parts.shapes, head.chunk, parts.signs)
        yield head, ((name, canonical(array)) for name, array in tensors)


def _tensors(store: Store, cid: str, parts: UpdateLayout, timeout_s: float) -> Iterator[tuple[str, Array]]:
    with _opened(store, cid, parts, timeout_s) as (_, tensors):
        yield from tensors
