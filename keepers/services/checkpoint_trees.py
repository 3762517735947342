"""The hashes of checkpoints that were opened: the next opening of one reads its own few blocks, and not the whole file again."""

from __future__ import annotations

from repops.chunks import Chunk, ChunkTrees, chunk_of
from repops.files import parse_state
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.unixfs import MAX_CONTENT

MOST_GROUPS = 2**19  # of 4 KiB: of 2 GiB of states, about 80 MB of hashes


class CheckpointTrees:
    """Of one process. The trees of the states that were opened last are kept, up to most_groups; those of the last one in any case."""

    def __init__(self, most_groups: int = MOST_GROUPS) -> None:
        self._most_groups = most_groups
        # By CID, with the size of the file's header; the oldest first.
        self._trees: dict[str, tuple[ChunkTrees, int]] = {}

    def chunk(self, store: Store, cid: str, tensor: int, group: int, *, timeout_s: float) -> Chunk:
        """As `repops.chunks.chunk_of`, of the state in a file. Raises the store's errors, FileRefused."""
        known = self._trees.pop(cid, None)
        if known is None:
            data = store.read(cid, max_bytes=MAX_CONTENT, timeout_s=timeout_s)
            state = parse_state(data)
            if not isinstance(store, BlockStore):
                return chunk_of(state, tensor, group)
            trees = ChunkTrees(state)
            known = trees, len(data) - trees.bytes
        self._trees[cid] = known
        while len(self._trees) > 1 and sum(trees.groups for trees, _ in self._trees.values()) > self._most_groups:
            del self._trees[next(iter(self._trees))]
        trees, header = known
        place = trees.place(tensor, group)
        assert isinstance(store, BlockStore), "only of these trees are kept"
        return place.filled(store.read_part(cid, header + place.start, header + place.end, timeout_s=timeout_s))
