"""Downloads of committed data: what is not served as committed is reported as withheld, with a chunk that is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from node.errors import BadInputs, TensorChunk, Withheld
from repops.chunks import chunk_at_byte
from repops.commitments import sorted_names
from repops.graph import Node
from zoo_compute.codec import BadUpdateFile
from zoo_compute.codec.files import UpdateLayout, cids_of
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.errors import BadCid, ContentMissing, ContentRefused, ContentTampered, StoreUnreachable

TIMEOUT_S = 120.0  # for one file

# Bytes that do not match the root are the same as bytes withheld (docs/design/decisions/0010-availability-is-asked-for.md).
UNAVAILABLE = (BadInputs, BadCid, ContentMissing, ContentRefused, ContentTampered, StoreUnreachable)


@contextmanager
def withheld_unless_fetched(place: Callable[[], TensorChunk | None] = lambda: None, share: int = 0) -> Iterator[None]:
    """Turn every failure to fetch or check a checkpoint into Withheld. share: of the aggregator that made what is fetched."""
    try:
        yield
    except UNAVAILABLE as error:
        raise Withheld(
            f"the checkpoint that the round starts from: {error}", {0: place()}, checkpoint=True, share=share
        ) from error


def missing_chunk(store: Store, cid: str, nodes: Mapping[str, Node]) -> TensorChunk | None:
    """The chunk with the first byte of a state's file that is not here; None if it is not known."""
    try:
        missing = store.first_missing_byte(cid) if isinstance(store, BlockStore) else None
    except BadCid:
        return None
    if missing is None:
        return None
    offset, size = missing
    header = size - sum(4 * math.prod(node.shape) for node in nodes.values())
    try:
        return (
            chunk_at_byte({name: node.shape for name, node in nodes.items()}, offset - header)
            if offset >= header
            else None
        )
    except ValueError:  # the file has another size than such a state's
        return None


def missing_update_chunk(store: Store, cid: str, parts: UpdateLayout) -> TensorChunk | None:
    """The first chunk of the first file of an update that is not here whole, since a file that is incomplete cannot be read at all."""
    if not isinstance(store, BlockStore):
        return None
    try:
        if store.first_missing_byte(cid) is not None:
            return (0, 0)
        if not parts.shares or not store.has(cid):
            return None
        cids = cids_of(store, cid, parts, timeout_s=TIMEOUT_S)[1]
        files = [file for file in parts.files(cids) if not store.has(file.cid)]
    except (BadCid, BadUpdateFile):
        return None
    names = sorted_names(dict.fromkeys([*parts.shapes, *parts.kept]))
    return (names.index(sorted_names(files[0].shapes)[0]), 0) if files else None


def root_from_hex(text: str) -> bytes:
    """A 32-byte root as requests carry it, with or without 0x. Raises BadInputs."""
    try:
        root = bytes.fromhex(text.removeprefix("0x"))
    except (ValueError, AttributeError) as error:
        raise BadInputs(f"expected a root in hex, got {text!r}") from error
    if len(root) != 32:
        raise BadInputs(f"expected a root of 32 bytes, got {text!r}")
    return root
