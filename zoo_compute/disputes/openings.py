"""Openings of a claim's data for `Availability.answer`, built from the files that the claim's operator stores."""

from __future__ import annotations

from repops.chunks import Chunk
from repops.merkle import merkle_proof
from zoo_compute.formats.bundles import Bundle
from zoo_compute.spec.watching import Opening


def checkpoint_opening(chunk: Chunk) -> Opening:
    """This chunk of an aggregation's state."""
    return _opening(chunk)


def update_opening(bundle: Bundle, slot: int, chunk: Chunk) -> Opening:
    """This chunk of a slot's update, under the root of the bundle's results. Raises StopIteration if the bundle has no such slot."""
    result = bundle.result(slot)
    path = merkle_proof([each.root for each in bundle.results], bundle.results.index(result))
    return _opening(chunk, result.segment_root, result.end_root, tuple(path))


def _opening(
    chunk: Chunk, segment_root: bytes = bytes(32), end_root: bytes = bytes(32), path: tuple[bytes, ...] = ()
) -> Opening:
    ways = (chunk.name, chunk.head, chunk.state_path, chunk.chunk, chunk.tensor_path)
    return Opening(segment_root, end_root, path, *ways)
