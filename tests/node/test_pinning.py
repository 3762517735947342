"""What workers pin for a round, and that it goes with the round's tag alone."""

from __future__ import annotations

from pathlib import Path

from node import tasks
from node.compute import cache
from tests.support.small_job import SmallJob, publish
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.store import BlockStore, Gateway


def of_three(folder: Path) -> SmallJob:
    job = publish(folder, sparse=True, carry_rounds=2)
    for slot in range(3):
        job.train(slot)
    job.commit(7, [0, 2])
    job.commit(9, [1])
    return job


def test_what_a_round_needs__has_its_tag__and_the_next_checkpoint_that_of_the_round_it_starts(tmp_path: Path):
    job = of_three(tmp_path)
    own = job.store.pins() & {job.base["manifest"], job.manifest.program.cid, job.manifest.data.cid}
    own |= {job.manifest.state.cid, job.manifest.heldout.cid, job.manifest.data.pieces}
    made = job.aggregate()
    cache.flush()
    updates = set(made["updates"].values())
    assert all(job.store.is_pinned(update, tag=round_tag(1, 0)) for update in updates)
    assert all(job.store.is_pinned(made[name], tag=round_tag(1, 1)) for name in ("pointer", "state"))
    assert job.store.tags() == {round_tag(1, 0), round_tag(1, 1), job_tag(1)}
    for round_ in (0, 1):
        assert job.store.release_tags(round_tag(1, round_)) > 0
    private = {report["private"] for report in job.reports.values()}
    gone = updates | private | {made["pointer"], made["state"]}
    assert not any(job.store.has(cid) for cid in gone)
    assert job.store.pins() == own | {bundle["bundle"] for bundle in job.bundles}, "of residuals too nothing is left"
    assert job.store.collect_garbage() == 0


def test_what_others_made__is_kept_as_long__by_who_combines_or_checks_it(tmp_path: Path):
    job = of_three(tmp_path)
    commit = job.bundles[0]

    def fetch(store: BlockStore) -> None:
        tasks.run_fetching(job.base | commit | {"timeout_s": 9}, store)

    def verify(store: BlockStore) -> None:
        assert tasks.run_verification(job.base | commit | {"slot": 0}, store)["agrees"]

    with Gateway(job.store) as gateway:
        for ask in (fetch, verify):
            store = BlockStore(tmp_path / ask.__name__, [gateway.url])
            ask(store)
            for cid in (job.reports[0]["update"], commit["bundle"]):
                assert store.is_pinned(cid, tag=round_tag(1, 0))
                assert not store.is_pinned(cid, tag="")


def test_a_job_s_own_files__have_its_tag__and_go_with_it(tmp_path: Path):
    job = of_three(tmp_path)
    with Gateway(job.store) as gateway:
        store = BlockStore(tmp_path / "prepared", [gateway.url])
        tasks.prepare(job.base, store)
    own = {job.base["manifest"], job.manifest.program.cid, job.manifest.data.cid, job.manifest.state.cid}
    own.add(job.manifest.data.pieces)
    assert store.pins() == own, "p20_disk: also where it is never bid for"
    assert store.tags() == {job_tag(1)}
    assert store.release_tags(job_tag(1)) > 0
    assert not any(store.has(cid) for cid in own)
    assert store.collect_garbage() == 0


def test_the_checkpoint_that_a_round_starts_from__is_kept_for_that_round_by_who_trains_on_it(tmp_path: Path):
    job = of_three(tmp_path)
    made = job.aggregate()
    job.base |= {"round": 1, "checkpoint": made["pointer"], "start_root": made["root"]}
    with Gateway(job.store) as gateway:
        store = BlockStore(tmp_path / "trainer", [gateway.url])
        store.pin(made["state"])  # for another job, say
        tasks.prepare(job.base, store)
    assert all(store.is_pinned(made[name], tag=round_tag(1, 1)) for name in ("pointer", "state"))
    store.release_tags(round_tag(1, 1))
    assert store.is_pinned(made["state"])
    assert not store.has(made["pointer"])
