"""Updates of a job with several aggregators: a file for each share, that its aggregator reads and checks without the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from node import tasks
from node.errors import BadInputs, Withheld
from node.inputs import bundles
from node.inputs.fetching import missing_update_chunk
from node.inputs.job_files import fetch_inputs
from node.inputs.updates import get_update
from repops.commitments import sorted_names
from tests.support.small_job import SmallJob, publish
from zoo_compute.codec import files
from zoo_compute.codec.files import CID_BYTES, INDEX, UpdateLayout
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.store import BlockStore
from zoo_compute.training.rounds import checkpoint_nodes
from zoo_compute.training.work_root import work_of

SHARES = 3


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    """Three slots of round 0, with what compression keeps back."""
    made = publish(tmp_path_factory.mktemp("job"), sparse=True, carry_rounds=2)
    rule = Aggregation("mean", aggregators=SHARES)
    made.manifest = replace(made.manifest, aggregation=rule, redundancy=3)
    work_root = work_of(made.manifest, made.programs.graph).root.hex()
    made.base |= {"manifest": made.store.add(made.manifest.to_bytes()), "work_root": work_root}
    for slot in range(3):
        made.train(slot)
    made.commit(7, [0, 1, 2])
    return made


def parts_of(job: SmallJob) -> UpdateLayout:
    return UpdateLayout.of(job.programs.graph, job.manifest)


def entry_of(job: SmallJob, slot: int, **changes: str) -> bundles.SlotResult:
    return bundles.result_of(job.reports[slot] | changes)


def bytes_of(store: BlockStore, cids: list[str]) -> int:
    return sum(len(store.read(cid, max_bytes=2**24)) for cid in cids)


def partly(job: SmallJob, folder: Path, left_out: int) -> BlockStore:
    """A store with the job's files, where slot 1's update lacks one share's file."""
    index, cids = files.cids_of(job.store, job.reports[1]["update"], parts_of(job), timeout_s=5)
    assert index is not None
    other = BlockStore(folder / "partly")
    shares = [cid for at, cid in enumerate(cids) if at != left_out]
    base = [job.base["manifest"], job.manifest.program.cid, job.bundles[0]["bundle"]]
    for cid in [*base, job.reports[1]["update"], *shares]:
        other.add(job.store.read(cid, max_bytes=2**24))
    return other


def test_a_share__is_read_and_checked_without_the_others(job: SmallJob, tmp_path: Path) -> None:
    whole, parts = job.sent(1), parts_of(job)
    for share, names in enumerate(parts.shares):
        others = next(at for at in range(SHARES) if at != share)
        for streamed in (False, True):
            store = partly(job, tmp_path / f"{share}{streamed}", others)
            read = get_update(store, entry_of(job, 1), job.manifest, job.programs.graph, share=share, streamed=streamed)
            assert set(read.state) == names
            assert all((read.state[name] == whole.state[name]).all() for name in names)
            assert read.tree.path(min(names)) == whole.tree.path(min(names))
            assert (read.tree.root, read.note) == (whole.tree.root, whole.note)


def test_an_aggregator__needs_its_share_of_the_bytes(job: SmallJob) -> None:
    _, cids = files.cids_of(job.store, job.reports[1]["update"], parts_of(job), timeout_s=5)
    received = get_update(job.store, entry_of(job, 1), job.manifest, job.programs.graph, share=0)
    assert received.cids == (cids[0],)
    assert bytes_of(job.store, [cids[0]]) < 0.7 * bytes_of(job.store, cids)


def test_shares_of_a_round__are_fetched_and_combined_to_what_one_aggregator_makes(job: SmallJob) -> None:
    request = job.base | {"bundles": job.bundles}
    fetched = tasks.run_fetching(job.base | job.bundles[0] | {"timeout_s": 5, "shares": [0, 2]}, job.store)
    assert fetched["slots"] == [0, 1, 2]
    posted = [tasks.run_aggregation(request | {"share": share}, job.store) for share in range(SHARES)]
    for share, made in enumerate(posted):
        asked = request | {"share": share, "root": made["root"], "operator": 9}
        assert tasks.run_aggregation_check(asked, job.store)["agrees"], share
    ahead = tasks.run_precompute(request, job.store)
    assert [(each["root"], each["pointer"]) for each in ahead["shares"]] == [
        (each["root"], each["pointer"]) for each in posted
    ]
    assert ahead["root"] == root_of_shares([bytes.fromhex(each["root"]) for each in posted]).hex()


def test_an_aggregator__needs_its_share_of_the_checkpoint_before(job: SmallJob, tmp_path: Path) -> None:
    posted = [tasks.run_aggregation(job.base | {"bundles": job.bundles, "share": n}, job.store) for n in range(SHARES)]
    root = root_of_shares([bytes.fromhex(each["root"]) for each in posted]).hex()
    pointers = [each["pointer"] for each in posted]
    request = job.base | {"round": 1, "checkpoint": pointers, "start_root": root}
    store, manifest = BlockStore(tmp_path / "own"), job.manifest
    for cid in (job.base["manifest"], manifest.program.cid, manifest.data.cid, *pointers, posted[1]["state"]):
        store.add(job.store.read(cid, max_bytes=2**24))
    own = fetch_inputs(store, request, share=1).checkpoint
    whole = fetch_inputs(job.store, request).checkpoint
    assert set(own) == set(checkpoint_nodes(job.programs.graph, manifest.aggregation_spec, 1))
    assert all((own[name] == whole[name]).all() for name in own)
    with pytest.raises(Withheld, match="starts from"):
        fetch_inputs(store, request, share=0)


def test_a_share_that_is_not_served__is_named_by_its_first_chunk(job: SmallJob, tmp_path: Path) -> None:
    parts = parts_of(job)
    names = sorted_names([*parts.shapes, *parts.kept])
    for share in range(SHARES):
        store = partly(job, tmp_path / str(share), share)
        missing = missing_update_chunk(store, job.reports[1]["update"], parts)
        assert missing == (names.index(min(parts.shares[share])), 0)
    assert missing_update_chunk(job.store, job.reports[1]["update"], parts) is None
    asked = job.base | job.bundles[0] | {"timeout_s": 1, "shares": [SHARES - 1]}
    with pytest.raises(Withheld) as refused:
        tasks.run_fetching(asked, store)
    assert refused.value.chunks[1] == missing


def test_files_whose_hashes_fit_only_the_whole__are_refused_by_whoever_reads_it(job: SmallJob) -> None:
    """Else a custodian would sign for what an aggregator cannot check."""
    parts, cid = parts_of(job), job.reports[1]["update"]
    data = job.store.read(cid, max_bytes=2**20)
    _, cids = files.cids_of(job.store, cid, parts, timeout_s=5)
    file = bytearray(job.store.read(cids[1], max_bytes=2**24))
    file[7] ^= 1  # in its first hash
    other = job.store.add(bytes(file))
    head = data[: len(data) - SHARES * CID_BYTES]
    binary = [files.Cid.parse(each).binary for each in (cids[0], other, cids[2])]
    changed = entry_of(job, 1, update=job.store.add(head + b"".join(binary)))
    with pytest.raises(BadInputs, match="its hashes are not those"):
        get_update(job.store, changed, job.manifest, job.programs.graph)
    with pytest.raises(BadInputs, match="its root is"):
        get_update(job.store, changed, job.manifest, job.programs.graph, share=1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"ZU" + data[2:], f"expected {INDEX.hex()}"),
        (lambda data: data[:-1], "bytes of CIDs"),
        (lambda data: data + bytes(CID_BYTES), "bytes of CIDs|more than"),
        (lambda data: data[:-CID_BYTES] + bytes(CID_BYTES), "not a CID"),
        (lambda data: data[:9], "ends within"),
    ],
)
def test_a_list_that_is_none__is_refused(job: SmallJob, change: object, why: str) -> None:
    data = job.store.read(job.reports[1]["update"], max_bytes=2**20)
    changed = entry_of(job, 1, update=job.store.add(change(data)))  # type: ignore[operator]
    with pytest.raises(Exception, match=why):
        get_update(job.store, changed, job.manifest, job.programs.graph)
