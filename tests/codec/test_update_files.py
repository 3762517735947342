"""A compressed update between its author, those who read it, and those who judge it."""

from __future__ import annotations

import io
from typing import Any, cast

import numpy as np
import pytest

from node import tasks
from node.disputes.computation import tensor_in
from node.disputes.rounds import Aggregation
from node.errors import BadInputs
from node.inputs import bundles
from node.inputs.job_files import fetch_inputs
from node.inputs.updates import get_update
from repops.commitments import state_root, tensor_root, tensor_roots
from tests.support.small_job import SmallJob, publish
from zoo_compute import codec
from zoo_compute.codec import files
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.training.rounds import RESIDUAL


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    made = publish(tmp_path_factory.mktemp("job"), sparse=True, carry_rounds=2)
    for slot in range(3):
        made.train(slot)
    made.commit(7, [0, 1, 2])
    return made


def parts_of(job: SmallJob) -> UpdateLayout:
    return UpdateLayout.of(job.programs.graph, job.manifest)


def test_a_round_of_compressed_updates__is_fetched_combined_and_verified(job: SmallJob) -> None:
    fetched = tasks.run_fetching(job.base | job.bundles[0] | {"timeout_s": 5}, job.store)
    assert fetched["slots"] == [0, 1, 2]
    assert job.verify(1)["agrees"]
    assert job.aggregate()["mask"] == "0x7"


def test_what_is_sent__is_small_and_lacks_what_is_kept(job: SmallJob) -> None:
    sent, parts = job.sent(1), parts_of(job)
    assert set(sent.state) == set(job.programs.graph.exchanged)
    assert len(parts.kept) == len(sent.state)
    size = len(job.store.read(job.reports[1]["update"], max_bytes=2**20))
    assert size < sum(array.nbytes for array in sent.state.values()) / 20


def test_the_author__has_the_whole_under_the_root(job: SmallJob) -> None:
    whole = files.whole(job.store, job.sent(1), parts_of(job), timeout_s=5)
    assert state_root(whole).hex() == job.reports[1]["update_root"]
    assert any(whole[RESIDUAL + name].any() for name in job.programs.graph.exchanged)


def test_a_job__is_known_from_its_files_as_from_its_program(job: SmallJob) -> None:
    assert UpdateLayout.of_job(job.store, job.base["manifest"], timeout_s=5) == parts_of(job)


def changed(job: SmallJob, **changes: object) -> bundles.SlotResult:
    """Slot 1's result, with a file whose head is another."""
    parts = parts_of(job)
    data = job.store.read(job.reports[1]["update"], max_bytes=2**20)
    head, state = codec.unpack(io.BytesIO(data), parts.shapes, parts.hashes)
    header = codec.FileHeader(**{**head.__dict__, **changes})
    return bundles.result_of(job.reports[1] | {"update": job.store.add(codec.encode(state, header))})


def test_a_file_with_another_hash_or_none__is_not_what_was_committed(job: SmallJob) -> None:
    count = parts_of(job).hashes
    assert count > 1
    for hashes, why in (((bytes(32),) * count, "its root is"), ((), "0 hashes")):
        with pytest.raises(BadInputs, match=why):
            get_update(job.store, changed(job, hashes=hashes), job.manifest, job.programs.graph)


def test_a_file_with_another_note__is_as_good_to_others(job: SmallJob) -> None:
    received = get_update(job.store, changed(job, note=b"nowhere"), job.manifest, job.programs.graph)
    assert received.tree.root.hex() == job.reports[1]["update_root"]


def test_a_nan_of_any_bits__is_read_as_it_is_committed(job: SmallJob) -> None:
    parts = UpdateLayout({"a": (3,)})
    odd = np.array([0xFF800001, 0x80000000, 5], np.uint32).view(np.float32)
    read = files.get(job.store, job.store.add(codec.encode({"a": odd})), parts, timeout_s=5)
    assert read.state["a"].view(np.uint32).tolist() == [0x7FC00000, 0x80000000, 5]
    assert read.tree.root == state_root({"a": odd})


def test_evidence_of_an_update__leads_to_its_root_past_what_is_kept(job: SmallJob) -> None:
    inputs, received = fetch_inputs(job.store, job.base), job.sent(1)
    whole = files.whole(job.store, job.sent(1), parts_of(job), timeout_s=5)
    sent = {1: received.state}
    combined = Aggregation(inputs.manifest, inputs.programs.graph, inputs.checkpoint, sent, trees={1: received.tree})
    for name in sent[1]:
        words, place = combined._word(1, name, 0), tensor_in(tensor_roots(whole), name)
        assert (words.index, tuple(words.path)) == (place.index, tuple(place.path))
        assert tensor_root(sent[1][name]) == place.root


def test_a_streamed_update__has_the_same_tensors_in_any_order_and_reads_the_file_once_in_order(job: SmallJob) -> None:
    parts, cid = parts_of(job), str(job.reports[1]["update"])
    opened: list[str] = []

    class Counting:
        def open(self, cid: str, **options: Any) -> Any:
            opened.append(cid)
            return job.store.open(cid, **options)

    whole = files.get(job.store, cid, parts, timeout_s=5)
    streamed = files.get_streamed(cast(Any, Counting()), cid, parts, timeout_s=5)
    assert streamed.tree.root == whole.tree.root
    assert len(opened) == 1, "for the root"
    names = list(streamed.state)
    assert names == list(whole.state)
    assert len(names) > 2
    for name in names:
        assert streamed.state[name] is streamed.state[name], "held until the next"
        np.testing.assert_array_equal(streamed.state[name], whole.state[name])
    assert len(opened) == 2
    np.testing.assert_array_equal(streamed.state[names[0]], whole.state[names[0]])
    assert len(opened) == 3, "it cannot go back"
    with pytest.raises(KeyError):
        streamed.state["no such tensor"]
