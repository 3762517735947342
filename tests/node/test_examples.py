"""A job's examples: of a job with custodians a worker downloads those of its slot-rounds, else all; custodians check all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from node import tasks
from node.errors import BadInputs
from node.inputs.examples import StoredExamples
from node.inputs.job_files import fetch_inputs
from repops.commitments import state_root
from repops.files import state_bytes
from repops.pieces import PIECE_BYTES, piece_roots
from tests.support.small_job import SmallJob, publish
from zoo_compute.formats.manifest import DataFile
from zoo_compute.formats.tags import job_tag
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.errors import ContentMissing, StoreError

A_PIECE = PIECE_BYTES // 68  # examples of 17 tokens
SLOTS = 2_000  # of 20 examples a round: a slot's next round is two pieces behind
TOKENS = np.random.default_rng(0).integers(0, 64, (8 * A_PIECE, 17), dtype=np.int32)


def with_tokens(job: SmallJob, *, custodians: int, changed: tuple[int, ...] = ()) -> SmallJob:
    """The same job on eight pieces of examples. changed: examples whose bytes in the file are not those that the roots are of."""
    data = {"tokens": TOKENS}
    content = {"tokens": TOKENS.copy()}
    content["tokens"][list(changed)] ^= 1
    pieces = job.store.add(piece_roots(data))
    file = DataFile(job.store.add(state_bytes(content)), state_root(data).hex(), len(TOKENS), pieces)
    manifest = replace(job.manifest, data=file, redundancy=custodians or 1, slots=SLOTS)
    base = job.base | {"manifest": job.store.add(manifest.to_bytes()), "data_root": file.root}
    return replace(
        job, manifest=manifest, base={n: value for n, value in base.items() if n not in ("work_root", "terms")}
    )


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path / "submitter")


@pytest.fixture
def gateway(job: SmallJob) -> Iterator[Gateway]:
    with Gateway(job.store) as gateway:
        yield gateway


def of_worker(folder: Path, gateway: Gateway) -> BlockStore:
    return BlockStore(folder / "worker", [gateway.url])


def open_examples(job: SmallJob, store: BlockStore) -> StoredExamples:
    return StoredExamples(store, job.manifest, job.programs.graph)


def join_ahead() -> None:
    for thread in threading.enumerate():
        if thread.name == "examples-ahead":
            thread.join(30)


def test_of_a_job_with_custodians__a_worker_downloads_its_own_examples__and_those_of_its_next_round(
    job: SmallJob, gateway: Gateway, tmp_path: Path
) -> None:
    job, store = with_tokens(job, custodians=3), of_worker(tmp_path, gateway)
    report = tasks.run_shard(job.base | {"slot": 1}, store)
    join_ahead()
    assert report["update_root"] == tasks.run_shard(job.base | {"slot": 1}, job.store)["update_root"]
    assert not store.has(job.manifest.data.cid)
    alone = BlockStore(tmp_path / "worker")  # nobody to ask
    mine = open_examples(job, alone)
    for round_ in (0, 1):
        mine.fetch_round(round_, 1)
    with pytest.raises(ContentMissing):
        mine.fetch(5 * A_PIECE, 1)


def test_what_is_fetched_is_a_piece_and_no_more(job: SmallJob, gateway: Gateway, tmp_path: Path) -> None:
    job, store = with_tokens(job, custodians=3), of_worker(tmp_path, gateway)
    examples = open_examples(job, store)
    before = store.stored_bytes()
    examples.fetch(3 * A_PIECE + 9, 12)
    assert store.stored_bytes() - before <= 1.3 * PIECE_BYTES  # blocks at its two ends, and a node above them
    assert (examples["tokens"][np.arange(3 * A_PIECE + 9, 3 * A_PIECE + 21)] == TOKENS[3 * A_PIECE + 9 :][:12]).all()


def test_examples_behind_the_last_are_the_first(job: SmallJob, gateway: Gateway, tmp_path: Path) -> None:
    job, store = with_tokens(job, custodians=3), of_worker(tmp_path, gateway)
    open_examples(job, store).fetch(len(TOKENS) - 5, 10)
    alone = open_examples(job, BlockStore(tmp_path / "worker"))
    alone.fetch(0, 5)
    alone.fetch(len(TOKENS) - 5, 5)
    with pytest.raises(StoreError):
        alone.fetch(4 * A_PIECE, 1)


@pytest.mark.parametrize("custodians", [0, 3])
def test_who_holds_the_data__has_all_of_it__pinned(
    job: SmallJob, gateway: Gateway, tmp_path: Path, custodians: int
) -> None:
    """A worker where the job has no custodians, and a custodian."""
    job, store = with_tokens(job, custodians=custodians), of_worker(tmp_path, gateway)
    if custodians:
        tasks.run_holding(job.base, store)
    else:
        fetch_inputs(store, job.base)
    assert store.is_pinned(job.manifest.data.cid, tag=job_tag(1))
    assert store.is_pinned(job.manifest.data.pieces, tag=job_tag(1))


def test_false_data__are_refused_by_custodians__and_by_who_would_train_on_them(
    job: SmallJob, gateway: Gateway, tmp_path: Path
) -> None:
    job, store = with_tokens(job, custodians=3, changed=(4 * A_PIECE,)), of_worker(tmp_path, gateway)
    for _ in range(2):
        with pytest.raises(BadInputs, match=r"data .*: 'tokens': bytes .* are not those of its root"):
            tasks.run_holding(job.base, store)
        assert not store.has_pin(job.manifest.data.cid)
    examples = open_examples(job, store)
    examples.fetch(0, 9)
    with pytest.raises(BadInputs, match="are not those of its root"):
        examples.fetch(4 * A_PIECE, 1)
    with pytest.raises(BadInputs, match="are not those of its root"):
        examples["tokens"][4 * A_PIECE]


def test_roots_of_other_pieces_are_refused(job: SmallJob) -> None:
    job = with_tokens(job, custodians=3)
    other = job.store.add(piece_roots({"tokens": TOKENS ^ 1}))
    manifest = replace(job.manifest, data=replace(job.manifest.data, pieces=other))
    with pytest.raises(BadInputs, match="the roots of its pieces do not make the manifest's root"):
        StoredExamples(job.store, manifest, job.programs.graph)


def test_a_count_that_no_node_takes__is_refused_before_anything_is_fetched(job: SmallJob, tmp_path: Path) -> None:
    manifest = replace(job.manifest, data=replace(job.manifest.data, examples=2**40))
    with pytest.raises(
        BadInputs, match=r"the data may have [\d,]+ bytes, more than the 68,719,476,736 this node takes"
    ):
        StoredExamples(BlockStore(tmp_path / "empty"), manifest, job.programs.graph)


def test_what_cannot_be_fetched_ahead__stops_nothing(
    job: SmallJob, gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "zoo.worker")
    job, store = with_tokens(job, custodians=3), of_worker(tmp_path, gateway)
    examples = open_examples(job, store)
    store.set_peers([])
    examples.fetch_ahead(1, 2)
    examples.fetch_ahead(job.manifest.rounds, 0)  # there is no such round
    join_ahead()
    (said,) = [each.getMessage() for each in caplog.records if each.name == "zoo.worker"]
    assert said.startswith("examples of round 1, slot 2: ")
