"""The words under the last two trees of a dispute: a tensor's leaves, and the parts of one element. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repops.backend import part_words
from repops.commitments import Array, canonical
from repops.graph import F32, Graph
from repops.merkle import sha256
from repops.recipes import canonical as canonical_word
from zoo_compute.spec.params import WORD_BYTES, WORDS_A_LEAF

LEAF_BYTES = WORD_BYTES * WORDS_A_LEAF


def words_of_parts(graph: Graph, node: int, element: int, tensors: Mapping[int, Array]) -> Array:
    """The word of each part of an element (int32), the last one as it is committed. tensors: of the nodes that `node` reads."""
    made = graph.nodes[node]
    words = part_words(
        made, element, [canonical(tensors[view.node]).reshape(-1).view(np.uint32) for view in made.operands]
    )
    if made.dtype == F32:
        words[-1] = canonical_word(int(words[-1]))
    return words.view(np.int32)


def leaf_hashes(data: bytes) -> list[bytes]:
    """The hashes of the leaves of words: 512 bytes each, the last one what is left."""
    return [sha256(b"\x00" + data[at : at + LEAF_BYTES]) for at in range(0, len(data), LEAF_BYTES)]
