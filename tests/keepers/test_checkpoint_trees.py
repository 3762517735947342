"""The second opening of a checkpoint reads its own blocks, and proves the same as one that is built from the whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepers.services import checkpoint_trees
from keepers.services.checkpoint_trees import CheckpointTrees
from repops import commitments
from repops.chunks import GROUP_BYTES, ChunkTrees, chunk_of
from repops.files import state_bytes
from zoo_compute.store import BlockStore
from zoo_compute.store.errors import ContentMissing

WORDS = GROUP_BYTES // 4
STATE = {
    "bool": np.array([True, False, True]),
    "eight leaves": np.arange(WORDS, dtype=np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "large": np.arange(300_000, dtype=np.float32),
    "nan": np.full(5 * WORDS + 129, np.float32(np.nan)),
    "nine leaves": np.arange(WORDS + 1, dtype=np.int32),
    "scalar": np.array(7, np.int64),
}


@pytest.fixture(params=["native", "Python"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python":
        monkeypatch.setattr(commitments, "_native", lambda: None)


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path)


@pytest.mark.usefixtures("hashing")
@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_every_place_of_a_state__has_the_chunk_that_the_whole_state_gives(count: int) -> None:
    state = {name: STATE[name] for name in [*STATE][:count]}
    data = b"".join(commitments.canonical(state[name]).tobytes() for name in commitments.sorted_names(state))
    trees = ChunkTrees(state)
    for tensor in (*range(9), 2**32 - 1):
        for group in (0, 1, 2, 5, 6, 7, 291, 292, 293, 511, 2**40 - 1):
            place = trees.place(tensor, group)
            assert place.filled(data[place.start : place.end]) == chunk_of(state, tensor, group), (tensor, group)


def test_the_second_opening__reads_no_more_than_its_blocks(store: BlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cid, trees = store.add(state_bytes(STATE)), CheckpointTrees()
    assert trees.chunk(store, cid, 3, 100, timeout_s=1) == chunk_of(STATE, 3, 100)
    monkeypatch.setattr(checkpoint_trees, "ChunkTrees", None)
    monkeypatch.setattr(store, "read", None)
    read: list[Any] = []
    block = store._block
    monkeypatch.setattr(store, "_block", lambda cid, deadline: (read.append(cid), block(cid, deadline))[1])
    for tensor, group in ((3, 0), (3, 290), (4, 5), (7, 1)):
        read.clear()
        assert trees.chunk(store, cid, tensor, group, timeout_s=1) == chunk_of(STATE, tensor, group)
        assert len(read) <= 3, "the file's root, and one block or two of six"


def test_trees__are_kept_of_the_states_that_were_opened_last(store: BlockStore) -> None:
    states = [{"one": np.full(10 * WORDS, number, np.float32)} for number in range(4)]
    cids, trees = [store.add(state_bytes(state)) for state in states], CheckpointTrees(most_groups=2 * 16)
    for at in (0, 1, 0, 2):
        trees.chunk(store, cids[at], 0, 0, timeout_s=1)
    assert [*trees._trees] == [cids[0], cids[2]]
    large = store.add(state_bytes({"one": np.zeros(100 * WORDS, np.float32)}))
    trees.chunk(store, large, 0, 0, timeout_s=1)
    assert [*trees._trees] == [large], "more than may be kept in all: its next opening is the likeliest"


def test_a_block_that_is_gone__is_missed_although_the_tree_is_known(store: BlockStore) -> None:
    cid, trees = store.add(state_bytes(STATE)), CheckpointTrees()
    trees.chunk(store, cid, 3, 100, timeout_s=1)
    store.unpin(cid)
    store.collect_garbage()
    with pytest.raises(ContentMissing):
        trees.chunk(store, cid, 3, 100, timeout_s=1)
