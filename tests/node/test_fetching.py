"""What others committed to: had, or told as withheld with a place that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node import tasks
from node.errors import Withheld
from node.inputs.fetching import missing_chunk, missing_update_chunk
from repops.files import state_bytes
from repops.graph import F32, Node
from tests.support.small_job import SmallJob, publish
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.store import BlockStore, cid_of
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.unixfs import CHUNK


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    made = publish(tmp_path)
    for slot in range(2):
        made.train(slot)
    return made


def fetch(job: SmallJob, commit: dict[str, Any]) -> dict[str, Any]:
    return tasks.run_fetching(job.base | commit | {"timeout_s": 5}, job.store)


def lose(job: SmallJob, cid: str) -> None:
    job.store.unpin(cid)
    job.store.collect_garbage()


def test_what_is_served_as_committed__is_fetched(job: SmallJob) -> None:
    assert fetch(job, job.commit(7, [0, 1]))["slots"] == [0, 1]


def test_an_update_that_nobody_serves__is_withheld_and_the_others_are_not(job: SmallJob) -> None:
    commit = job.commit(7, [0, 1])
    lose(job, job.reports[1]["update"])
    with pytest.raises(Withheld, match="slots \\[1\\]") as withheld:
        fetch(job, commit)
    assert withheld.value.to_dict() == {"checkpoint": False, "share": 0, "places": [[1, None]]}


def test_other_bytes_than_those_committed__are_the_same_as_none(job: SmallJob) -> None:
    job.reports[0]["update"] = job.reports[1]["update"]
    with pytest.raises(Withheld) as withheld:
        fetch(job, job.commit(7, [0, 1]))
    assert withheld.value.chunks == {0: None}
    commit = job.commit(7, [0, 1])
    for change in ({"bundle": job.store.add(b"junk")}, {"bundle": raw_cid(b"\7" * 32)}, {"root": "11" * 32}):
        with pytest.raises(Withheld) as withheld:
            fetch(job, commit | change)
        assert withheld.value.chunks == {0: None, 1: None}


def test_a_checkpoint_that_nobody_serves__is_withheld(job: SmallJob) -> None:
    job.train(2)
    made = job.advance()
    lose(job, made["state"])
    with pytest.raises(Withheld) as withheld:
        job.train(0)
    assert withheld.value.to_dict() == {"checkpoint": True, "share": 0, "places": [[0, None]]}


def test_of_a_file_that_is_here_in_part__the_place_of_the_first_missing_byte_is_told(tmp_path: Path) -> None:
    """Its second block begins in the second tensor."""
    state = {"a": np.zeros((400, 128), np.float32), "b": np.arange(30_000, dtype=np.float32)}
    nodes = {name: Node("state", F32, array.shape) for name, array in state.items()}
    data, store = state_bytes(state), BlockStore(tmp_path / "store")
    cid, parts = store.add(data), UpdateLayout({name: array.shape for name, array in state.items()})
    assert missing_chunk(store, cid, nodes) is None
    assert missing_update_chunk(store, cid, parts) is None
    lost = cid_of(data[CHUNK : 2 * CHUNK])
    [block] = (tmp_path / "store" / "blocks").rglob(lost)
    block.unlink()
    assert missing_update_chunk(store, cid, parts) == (0, 0), "a packed file is of no use in part"
    header = len(data) - 4 * (400 * 128 + 30_000)
    assert missing_chunk(store, cid, nodes) == (1, (CHUNK - header - 4 * 400 * 128) // 4096)
    [block] = (tmp_path / "store" / "blocks").rglob(cid)
    block.unlink()
    assert missing_chunk(store, cid, nodes) is None, "of a file whose root is not here nothing is known"
    assert missing_chunk(store, "no cid", nodes) is None
    assert missing_update_chunk(store, cid, parts) is None
    assert missing_update_chunk(store, "no cid", parts) is None
